"""Patterns that strangers send: matched in time linear in the text, whatever the pattern.

google-re2 is Kafka's engine, and an extra here: without it patterns are refused and all else is served. An engine that
can be made to backtrack will not do.
"""

from functools import lru_cache
from typing import Any

from ottla.core.errors import ErrorCode, KafkaError

PATTERN_BYTES_MAX = 4096
PROGRAM_BYTES_MAX = 32 * 1024
"""What a compiled pattern may take in memory, which bounds the time as well: a name costs up to its length times the
size of the program. With 32 KiB that is 2 ms at worst, with 1 MiB it was seconds. A choice of a hundred names fits."""


@lru_cache(maxsize=64)  # members of a group bring the same one, and it is matched again when topics change
def compile_pattern(pattern: str) -> Any:
    """Something that can `fullmatch` names. Raises INVALID_REGULAR_EXPRESSION if there is no such thing."""
    if len(pattern.encode(errors="replace")) > PATTERN_BYTES_MAX:
        raise _invalid(f"the pattern is longer than {PATTERN_BYTES_MAX} bytes")
    try:
        import re2  # type: ignore[import-untyped]  # it comes without types
    except ImportError:
        raise _invalid("this broker cannot match patterns: it needs `pip install ottla[regex]`") from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PROGRAM_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise _invalid(f"pattern {pattern!r:.200}: {reason}") from None


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail)
