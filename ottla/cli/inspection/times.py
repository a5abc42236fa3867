"""Times as people write and read them."""

from datetime import UTC, datetime

import click


def as_time(timestamp_ms: int) -> str:
    """UTC, to the millisecond; the number itself where no calendar goes that far."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)


def time_of(text: str) -> int:
    """Milliseconds since 1970, or a time such as 2026-11-15T07:00 (UTC unless it says otherwise)."""
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no time; write milliseconds, or 2026-11-15T07:00") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
