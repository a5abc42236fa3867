"""What a host's name or address says by itself, without asking anybody."""

import ipaddress
import re
from typing import NamedTuple

from ottla.core.errors import ConfigError

LOOPBACK = "127.0.0.1"

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%\w-]+)\]|([0-9A-Za-z._-]*)):([0-9]{1,5})", re.ASCII)
_HOST = re.compile(r"\[([0-9A-Fa-f:.%\w-]+)\]|([0-9A-Za-z._-]+)", re.ASCII)
_PORT_MAX = 65_535


class Address(NamedTuple):
    """A host and a port. Port 0 is "whichever is free", or "the one that is listened on"."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """`host:port`, `[::1]:port`, `:port` or a port, which is one of the loopback. `what` names it in a ConfigError."""
    text = text.strip()
    if text.isdecimal() and text.isascii():
        text = f"{LOOPBACK}:{text}"
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > _PORT_MAX:
        raise ConfigError(f"{what} is {text!r}, but must be host:port, with an IPv6 address as in [::1]:9092")
    return Address(match[1] or match[2] or "", int(match[3]))


def parse_host(text: str, what: str) -> Address:
    """`host` or `host:port`; without one, the port is 0."""
    if match := _HOST.fullmatch(text.strip()):
        return Address(match[1] or match[2], 0)
    return parse_address(text, what)


def is_loopback(host: str) -> bool:
    """Does it lead nowhere but to the machine that connects? Other names than `localhost` may be anybody's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
