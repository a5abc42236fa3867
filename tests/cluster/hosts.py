"""Hosts of their own on one machine: network namespaces that hang on a bridge, cables that can be cut.

A `Network` makes a bridge in the namespace of the tests, where the clients live, and a namespace with an address for
each host. What it made it takes away again, also after failures, and its names hold the process id: two runs at once do
not meet. Packets are dropped where they arrive, so whoever sends one is told nothing, as in a network that is broken.
"""

import contextlib
import ipaddress
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence

import pytest

PACKAGES = {"ip": "iproute2", "iptables": "iptables", "tc": "iproute2"}
TOOL_SECONDS_MAX = 300
_PREFIX = "ottla"


def run(*command: str) -> str:
    """Run a tool to its end; what it said. Raises RuntimeError, with what it said, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def ensure() -> None:
    """Skip the test where hosts cannot be made; install the tools where they can be."""
    if os.geteuid() != 0:
        pytest.skip("hosts of their own need root: network namespaces")
    missing = sorted({package for tool, package in PACKAGES.items() if shutil.which(tool) is None})
    if missing and shutil.which("apt-get") is not None:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            run("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing)
    if any(shutil.which(tool) is None for tool in PACKAGES):
        pytest.skip(f"hosts of their own need {' and '.join(missing)}")
    probe = f"{_PREFIX}-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", probe)
        run("ip", "netns", "exec", probe, "iptables", "-w", "-L", "-n")
    except RuntimeError as error:
        pytest.skip(f"hosts of their own are not permitted here: {error}")
    finally:
        subprocess.run(["ip", "netns", "delete", probe], capture_output=True)


class Host:
    """A namespace with one address. `command` is what runs a program there."""

    def __init__(self, name: str, namespace: str, address: str, cable: str) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self._cable = cable
        """The end of its cable that hangs on the bridge."""

    def command(self, *program: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *program]

    def unplug(self) -> None:
        """Nothing comes in or goes out, to nobody. Its own end of the cable stays up: it is told nothing."""
        run("ip", "link", "set", self._cable, "down")

    def ignore(self, senders: Iterable["Host"]) -> None:
        """What these send does not arrive here any more."""
        addresses = ",".join(sender.address for sender in senders)
        run(*self.command("iptables", "-w", "-A", "INPUT", "-s", addresses, "-j", "DROP"))

    def slow_down(self, rate: str) -> None:
        """What is sent to this host comes at this rate, such as `1mbit`."""
        shape = ("tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
        run("tc", "qdisc", "replace", "dev", self._cable, "root", *shape)

    def heal(self) -> None:
        """Everything arrives again, as fast as it can."""
        run("ip", "link", "set", self._cable, "up")
        run(*self.command("iptables", "-w", "-F", "INPUT"))
        subprocess.run(["tc", "qdisc", "delete", "dev", self._cable, "root"], capture_output=True)


def cut(some: Sequence[Host], others: Sequence[Host]) -> None:
    """Nothing of what these send each other arrives. Among themselves they are as before."""
    for hosts, senders in ((some, others), (others, some)):
        for host in hosts:
            host.ignore(senders)


class Network:
    """The bridge, and the hosts on it."""

    def __init__(self) -> None:
        number = os.getpid()
        self._tag = f"{number:x}"
        self._bridge = f"ot{self._tag}"
        self._subnet = ipaddress.ip_network(f"10.{64 + number // 256 % 64}.{number % 256}.0/24")
        self.hosts: list[Host] = []

    @property
    def gateway(self) -> str:
        """Where the tests live."""
        return str(self._subnet[1])

    def __enter__(self) -> "Network":
        run("ip", "link", "add", self._bridge, "type", "bridge")
        try:
            run("ip", "address", "add", f"{self.gateway}/24", "dev", self._bridge)
            run("ip", "link", "set", self._bridge, "up")
        except BaseException:
            self.close()
            raise
        return self

    def add(self, name: str) -> Host:
        """A new host, with its cable plugged in."""
        number = len(self.hosts) + 1
        namespace, cable = f"{_PREFIX}-{self._tag}-{name}", f"{self._bridge}.{number}"
        host = Host(name, namespace, str(self._subnet[10 + number]), cable)
        self.hosts.append(host)
        run("ip", "netns", "add", namespace)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "link", "set", cable, "master", self._bridge, "up")
        run(*host.command("ip", "link", "set", "lo", "up"))
        run(*host.command("ip", "address", "add", f"{host.address}/24", "dev", "eth0"))
        run(*host.command("ip", "link", "set", "eth0", "up"))
        return host

    def heal(self) -> None:
        for host in self.hosts:
            host.heal()

    def close(self) -> None:
        """Whatever runs in the hosts must have ended, or its namespace stays as long as it does."""
        for number, host in enumerate(self.hosts, 1):
            subprocess.run(["ip", "link", "delete", f"{self._bridge}.{number}"], capture_output=True)
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True)
        self.hosts.clear()
        subprocess.run(["ip", "link", "delete", self._bridge], capture_output=True)

    def __exit__(self, *_: object) -> None:
        self.close()
