"""Errors, declared once.

    OttlaError
    ├── KafkaError(code, detail)   an answer the protocol has a code for; the request's boundary turns it into that code
    ├── ProtocolError              the peer (or a file) broke the format; the connection is closed, the file reported
    └── ConfigError                a setting that cannot be; names the key

Failures of the outside world stay `OSError` and are handled by the owner of the resource. Our own bugs are `assert`s.
"""

import enum


class ErrorCode(enum.IntEnum):
    """Kafka's error codes: number, whether a client may retry, and what it means."""

    retriable: bool
    meaning: str

    def __new__(cls, code: int, retriable: bool, meaning: str) -> "ErrorCode":
        self = int.__new__(cls, code)
        self._value_, self.retriable, self.meaning = code, retriable, meaning
        return self

    NONE = 0, False, "No error."
    CORRUPT_MESSAGE = 2, True, "The batch failed its checksum, has an impossible size, or is otherwise damaged."
    MESSAGE_TOO_LARGE = 10, False, "The batch is larger than the broker accepts."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "The batch uses a codec that is not supported here."
    INVALID_RECORD = 87, False, "The batch contradicts itself or the rules of its topic."


class OttlaError(Exception):
    """Whatever Ottla raises on purpose."""


class KafkaError(OttlaError):
    """An answer the protocol has a code for. `detail` names the thing: it ends up in logs and error messages."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(f"{code.name}: {detail}" if detail else code.name)
        self.code = code
        self.detail = detail


class ProtocolError(OttlaError):
    """The peer, or the file, broke the format."""


class ConfigError(OttlaError):
    """A setting that cannot be: the message names the key."""
