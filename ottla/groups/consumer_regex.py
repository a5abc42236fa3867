"""Subscriptions by pattern: the coordinator matches topics, in time linear in their names.

google-re2 is Kafka's engine, and an extra here: a broker without it refuses patterns and serves all else. Patterns come
from anybody who may join a group, so an engine that can be made to backtrack will not do.
"""

from collections.abc import Iterable
from typing import Any

from ottla.core.errors import ErrorCode, KafkaError

PATTERN_MEMORY_MAX = 1 << 20  # bytes that a compiled pattern may take; what needs more is refused


def check_pattern(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION unless the pattern can be used."""
    _compiled(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match from their first character to their last."""
    matches = _compiled(pattern).fullmatch
    return frozenset(name for name in names if matches(name))


def _compiled(pattern: str) -> Any:
    try:
        import re2  # type: ignore[import-untyped]  # it comes without types
    except ImportError:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "this broker cannot match patterns: it needs `pip install ottla[regex]`",
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"pattern {pattern!r:.200}: {reason}"
        ) from None
