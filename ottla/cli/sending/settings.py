"""How the producer of a command is set: ours first, then what the session says, then what a command cannot do without.

Records go through as they are, many at a time, so nothing may look at single ones; and who sends more than there is
room for waits.
"""

from typing import Any

from ottla.cli.session import DEFAULT_TIMEOUT, session
from ottla.client.producer.config import ProducerConfig

_DELIVERY_SECONDS = 30.0
"""So long a record may take, through a broker's restart for instance, unless --timeout says otherwise."""
_REQUEST_SIZE_MAX = 100 << 20  # socket.request.max.bytes of brokers: they say what is too large, not we
_TRANSACTION_MS = 900_000  # transaction.max.timeout.ms of brokers: an input may take its time


def producer_settings(*, creates_topics: bool, compression: str | None) -> dict[str, Any]:
    """Raises ConfigError."""
    timeout = session().timeout
    request_ms = int((timeout or DEFAULT_TIMEOUT) * 1000)
    delivery_ms = int((timeout or _DELIVERY_SECONDS) * 1000)
    settings: dict[str, Any] = {
        "request.timeout.ms": request_ms,
        "socket.connection.setup.timeout.ms": request_ms,
        "delivery.timeout.ms": delivery_ms,
        "max.block.ms": delivery_ms + request_ms,
        "max.request.size": _REQUEST_SIZE_MAX,
        "transaction.timeout.ms": _TRANSACTION_MS,
        "allow.auto.create.topics": creates_topics,
    }
    settings |= session().settings(ProducerConfig)
    settings |= {"key.serializer": None, "value.serializer": None, "interceptors": ()}
    settings |= {"send.waits": False, "buffer.full": "block"}
    if compression is not None:
        settings["compression.type"] = compression
    return settings
