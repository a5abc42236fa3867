"""Hosts of their own: who hears whom, and that nothing of them stays."""

import subprocess
import sys

import pytest

from tests.cluster import hosts
from tests.cluster.hosts import Host, Network, cut

ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), float(sys.argv[2])) as peer:
    peer.sendall(b"?")
    print(peer.recv(1 << 20, socket.MSG_WAITALL).decode()[:7])
"""
ANSWER = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    print("ready", flush=True)
    while True:
        peer, _ = server.accept()
        with peer:
            peer.recv(1)
            peer.sendall(b"welcome")
"""


@pytest.fixture
def network():
    hosts.ensure()
    with Network() as made:
        yield made


@pytest.fixture
def asked(network):
    """A host that answers whoever asks."""
    host = network.add("asked")
    program = host.command(sys.executable, "-c", ANSWER, host.address)
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield host
        process.kill()


def hears(asking: Host, asked: Host, patience: str = "60") -> bool:
    program = asking.command(sys.executable, "-c", ASK, asked.address, patience)
    return subprocess.run(program, capture_output=True, text=True).stdout == "welcome\n"


def test_hosts_hear_each_other_until_they_are_cut_off(network, asked):
    asking = network.add("asking")
    assert hears(asking, asked)
    cut([asking], [asked])
    assert not hears(asking, asked, "0.5")
    network.heal()
    assert hears(asking, asked)


def test_a_cut_is_between_those_it_names(network, asked):
    asking, other = network.add("asking"), network.add("other")
    cut([asking], [asked])
    assert hears(other, asked) and not hears(asking, asked, "0.5")


def test_a_host_that_ignores_another_is_not_answered_either(network, asked):
    asking = network.add("asking")
    asking.ignore([asked])
    assert not hears(asking, asked, "0.5")
    asking.heal()
    assert hears(asking, asked)


def test_a_host_that_is_unplugged_hears_nobody(network, asked):
    asking = network.add("asking")
    asked.unplug()
    assert not hears(asking, asked, "0.5")
    asked.heal()
    assert hears(asking, asked)


def test_a_slow_host_is_heard_nevertheless(network, asked):
    asking = network.add("asking")
    asked.slow_down("1mbit")
    assert hears(asking, asked)


def test_nothing_of_a_network_stays(network):
    host = network.add("alone")
    assert host.command()[-1] in hosts.run("ip", "netns", "list")
    network.close()
    assert host.command()[-1] not in hosts.run("ip", "netns", "list")
    assert network.gateway not in hosts.run("ip", "address")


def test_programs_run_where_their_host_is(network):
    host = network.add("alone")
    assert host.address in hosts.run(*host.command("ip", "address"))
    assert host.address not in hosts.run("ip", "address")
