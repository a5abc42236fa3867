"""How long a client is to be slowed down. Today never; quotas take this place.

A throttled client is answered at once, told for how long, and not read from until then (KIP-219).
"""

from typing import Protocol

from ottla.broker.call import Call


class Throttle(Protocol):
    def delay_ms(self, call: Call, request_bytes: int, response: object) -> int:
        """For how long nothing more is to be read from this client. 0 lets it go on."""
        ...


class NoThrottle:
    def delay_ms(self, call: Call, request_bytes: int, response: object) -> int:
        return 0
