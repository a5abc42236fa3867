"""Where a broker listens, and what it tells clients to connect to.

A client asks any broker for the address of the leader and connects there. So the advertised address must be right from
where the client stands, or nothing works though the first connection did: an address that nobody can connect to
(0.0.0.0) is refused here instead.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.errors import ConfigError
from ottla.core.hosts import LOOPBACK, Address, parse_address
from ottla.replication.state import Endpoint

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig

_LOOPBACK_6 = "::1"
WILDCARDS = ("0.0.0.0", "::")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SUPPORTED = ("PLAINTEXT",)

_URI = re.compile(r"([^:/]+)://(.*)")


class Listener(NamedTuple):
    """One socket that the broker listens on. `host` is never empty; both ports may be 0 until it is bound."""

    name: str
    security_protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int

    def bound(self, port: int) -> "Listener":
        """The same listener, now that the kernel has said which port it is."""
        return self._replace(port=port, advertised_port=self.advertised_port or port)

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    @property
    def advertised(self) -> Address:
        return Address(self.advertised_host, self.advertised_port)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.name, self.security_protocol, self.advertised_host, self.advertised_port)


def listeners_of(config: "BrokerConfig", default_host: str = LOOPBACK) -> tuple[Listener, ...]:
    """The listeners that the settings describe, those of controllers left out. Raises ConfigError.

    `default_host` is where to listen if they do not say."""
    protocols = _protocols(config.listener_security_protocol_map)
    controllers = {name.upper() for name in config.controller_listener_names}
    advertised = _named("advertised.listeners", config.advertised_listeners)
    found = []
    for name, address in _addresses(config, default_host).items():
        if name not in controllers:
            found.append(_listener(name, address, protocols, advertised.get(name)))
    if not found:
        raise ConfigError("listeners has none for clients: all of them are in controller.listener.names")
    if strangers := advertised.keys() - controllers - {listener.name for listener in found}:
        raise ConfigError(f"advertised.listeners has {min(strangers)}, which is not among listeners")
    _check_apart(found)
    inter_broker_listener(config, found)
    return tuple(found)


def _addresses(config: "BrokerConfig", default_host: str) -> dict[str, Address]:
    """Where to listen, by name. `host.name` and `port` are what Kafka had before it had listeners."""
    if config.listeners is not type(config).listeners.default:  # the same said aloud counts as said
        return _named("listeners", config.listeners)
    return {"PLAINTEXT": Address(config.host_name or default_host, config.port)}


async def host_towards(address: Address) -> str:
    """Our own address as it is seen from there: the one to listen on if nobody said which. Nothing is sent."""

    def ask() -> str:
        for family, kind, _, _, place in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_DGRAM
        ):
            with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                probe.connect(place)
                host = str(probe.getsockname()[0])
                return LOOPBACK if host == _LOOPBACK_6 else host  # where clients look for it first
        return LOOPBACK

    try:
        return await asyncio.to_thread(ask)
    except OSError:  # no such name: whoever connects there will say so
        return LOOPBACK


def inter_broker_listener(config: "BrokerConfig", listeners: Sequence[Listener]) -> Listener:
    """The listener over which other brokers come."""
    name = config.inter_broker_listener_name
    if name is None:
        return listeners[0]
    for listener in listeners:
        if listener.name == name.upper():
            return listener
    raise ConfigError(f"inter.broker.listener.name is {name}, which is not among listeners")


def _named(key: str, uris: Iterable[str]) -> dict[str, Address]:
    """Addresses by the name of their listener, which Kafka writes in capitals."""
    found: dict[str, Address] = {}
    for uri in uris:
        match = _URI.fullmatch(uri.strip())
        if match is None:
            raise ConfigError(f"{key} has {uri!r}, but must be like PLAINTEXT://127.0.0.1:9092")
        name = match[1].upper()
        if name in found:
            raise ConfigError(f"{key} has two listeners called {name}: give each a name of its own")
        found[name] = parse_address(match[2], f"the address of {name} in {key}")
    return found


def _protocols(pairs: Iterable[str]) -> dict[str, str]:
    protocols = {name: name for name in PROTOCOLS}
    for pair in pairs:
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map has {pair!r}, but must be NAME:PROTOCOL with one of "
                f"{', '.join(PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def _listener(name: str, address: Address, protocols: dict[str, str], advertised: Address | None) -> Listener:
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"listeners has {name}, but listener.security.protocol.map does not say what it speaks"
        )
    if protocol not in SUPPORTED:
        raise ConfigError(f"the listener {name} speaks {protocol}, but only PLAINTEXT is supported so far")
    host = _bind_host(address.host)
    if advertised is None:
        if host in WILDCARDS:
            raise ConfigError(_advice(name, Address(host, address.port)))
        return Listener(name, protocol, host, address.port, host, address.port)
    if _bind_host(advertised.host) in WILDCARDS:
        raise ConfigError(
            f"advertised.listeners has {name}://{advertised}, but no client can connect to that: "
            "name an address at which this machine is reached"
        )
    port = advertised.port or address.port
    return Listener(name, protocol, host, address.port, advertised.host, port)


def _bind_host(host: str) -> str:
    # "localhost" is often ::1 first, where nobody would listen; and two sockets on port 0 would get two ports.
    return {"": "0.0.0.0", "localhost": LOOPBACK}.get(host.lower(), host)


def _advice(name: str, address: Address) -> str:
    return (
        f"the listener {name} is on {address}, which stands for every interface of this machine, but clients must be "
        f"told one address to come back to: say which with --advertise HOST, or with "
        f"advertised.listeners={name}://HOST:{address.port}"
    )


def _check_apart(listeners: Iterable[Listener]) -> None:
    taken: dict[Address, str] = {}
    for listener in listeners:
        other = taken.setdefault(listener.address, listener.name)
        if other != listener.name and listener.port:
            raise ConfigError(f"the listeners {other} and {listener.name} are both on {listener.address}")
