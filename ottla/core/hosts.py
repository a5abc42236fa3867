"""What a host's name or address says by itself, without asking anybody."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Does it lead nowhere but to the machine that connects? Other names than `localhost` may be anybody's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
