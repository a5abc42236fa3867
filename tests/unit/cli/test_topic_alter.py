"""`ottla topic alter` shows each setting before and after."""

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_settings_are_set_and_unset_and_shown(ottla, topic):
    ran = ottla("topic", "alter", topic, "--set", "retention.ms=1d", "--set", "cleanup.policy=compact")
    assert ran.code == 0
    rows = {row["key"]: row for row in ran.rows}
    assert (rows["retention.ms"]["before"], rows["retention.ms"]["after"]) == ("604800000", "86400000")
    assert rows["cleanup.policy"]["after"] == "compact"
    (row,) = ottla("topic", "alter", topic, "--unset", "retention.ms", "--json").json["changes"]
    assert row == {
        "key": "retention.ms",
        "operation": "unset",
        "before": "86400000",
        "sent": None,
        "after": "604800000",
    }


def test_a_dry_run_changes_nothing(ottla, topic):
    found = ottla("topic", "alter", topic, "--set", "retention.ms=1s", "--dry-run", "--json").json
    assert (found["entity"], found["name"], found["dry_run"]) == ("topic", topic, True)
    assert (found["changes"][0]["sent"], found["changes"][0]["after"]) == ("1000", None)
    (row,) = ottla("topic", "alter", topic, "--set", "retention.ms=2s", "--json").json["changes"]
    assert row["before"] == "604800000"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "nothing is to be changed: name a setting"),
        (("--set", "retention.ms=1s", "--unset", "retention.ms"), 2, "retention.ms is changed twice"),
        (("--set", "retention.ms"), 2, "write key=value"),
        (("--set", "retention.ms=1MiB"), 2, "the unit must be one of"),
        (("--set", "retention.ms=soon"), 1, "retention.ms"),
        (("--set", "no.such=1"), 1, "no.such is not a known setting"),
    ],
)
def test_what_cannot_be_is_said(ottla, topic, words, code, sentence):
    ran = ottla("topic", "alter", topic, *words)
    assert (ran.code, ran.out) == (code, "")
    assert sentence in ran.err


def test_a_topic_that_is_not_there_is_not_made(ottla, topic):
    ran = ottla("topic", "alter", f"{topic}x", "--set", "retention.ms=1s")
    assert ran.code == 4
    assert ran.err.startswith(f"ottla: there is no topic '{topic}x'; did you mean '{topic}'")
    ran = ottla("topic", "alter", "a b", "--set", "retention.ms=1s")
    assert ran.code == 4
    assert "there is no topic 'a b', and cannot be: the name contains" in ran.err
