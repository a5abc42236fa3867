"""What a reader of record bytes raises: one class, carrying the code a broker would answer with.

CORRUPT_MESSAGE                a checksum, a length or a compressed block is damaged
INVALID_RECORD                 the bytes are whole but contradict themselves
MESSAGE_TOO_LARGE              decompressing would pass the cap
UNSUPPORTED_COMPRESSION_TYPE   a codec nobody knows, or one the target format cannot carry
"""

from ottla.core.errors import ErrorCode, ProtocolError


class RecordError(ProtocolError):
    """Record bytes that cannot be what they claim to be."""

    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code
        self.detail = detail


def corrupt(detail: str) -> RecordError:
    """Damage: the bytes are not what was written."""
    return RecordError(ErrorCode.CORRUPT_MESSAGE, detail)


def invalid(detail: str) -> RecordError:
    """A lie: the bytes arrived as written, and contradict themselves."""
    return RecordError(ErrorCode.INVALID_RECORD, detail)


def too_large(detail: str) -> RecordError:
    """More bytes than the reader is willing to produce."""
    return RecordError(ErrorCode.MESSAGE_TOO_LARGE, detail)
