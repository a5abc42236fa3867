"""How long, as people write it."""

import click
import pytest

from ottla.cli.durations import seconds, seconds_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10", 10),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        (".5 s", 0.5),
        ("5m", 300),
        ("5min", 300),
        (" 2H ", 7200),
        ("7d", 604_800),
        ("1w", 604_800),
        ("0", 0),
    ],
)
def test_a_number_with_or_without_a_unit_is_a_duration(text, found):
    assert seconds_of(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "s", "-1", "5 parsecs", "1h30m", "1e3", "nan", "inf"])
def test_anything_else_gets_a_sentence(text):
    with pytest.raises(ValueError, match="is no duration: write 10, 250ms, 5m, 2h or 7d"):
        seconds_of(text)


def test_an_option_has_bounds():
    read = seconds(0.1, 60)
    assert read("1m") == 60
    with pytest.raises(click.BadParameter, match=r"2m is not between 0\.1 and 60 seconds"):
        read("2m")
    with pytest.raises(click.BadParameter, match="is no duration"):
        read("soon")
