"""Subscriptions by pattern: the coordinator matches topics, in time linear in their names."""

from collections.abc import Iterable

from ottla.core.patterns import compile_pattern


def check_pattern(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION unless the pattern can be used."""
    compile_pattern(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match from their first character to their last."""
    matches = compile_pattern(pattern).fullmatch
    return frozenset(name for name in names if matches(name))
