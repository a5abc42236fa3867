"""`ottla config set` and `unset` change settings, and say what they were and are."""

from ottla.client.errors import NetworkError
from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_each_setting_is_shown_before_and_after(ottla, topic):
    ran = ottla("config", "set", "topic", topic, "retention.ms=1d", "segment.bytes=64MiB", "--json")
    assert ran.json["dry_run"] is False
    assert ran.json["changes"] == [
        {
            "key": "retention.ms",
            "operation": "set",
            "before": "604800000",
            "sent": "86400000",
            "after": "86400000",
        },
        {
            "key": "segment.bytes",
            "operation": "set",
            "before": "1073741824",
            "sent": "67108864",
            "after": "67108864",
        },
    ]
    (row,) = ottla("config", "unset", "topic", topic, "retention.ms").rows
    assert (row["before"], row["operation"], row["after"]) == ("86400000", "unset", "604800000")


def test_lists_grow_and_shrink(ottla, topic):
    ottla("config", "set", "topic", topic, "--append", "cleanup.policy=compact")
    assert ottla("config", "get", "topic", topic, "cleanup.policy").rows[0]["value"] == "delete,compact"
    ottla("config", "set", "topic", topic, "--subtract", "cleanup.policy=delete")
    assert ottla("config", "get", "topic", topic, "cleanup.policy").rows[0]["value"] == "compact"


def test_a_dry_run_changes_nothing(ottla, topic):
    ran = ottla("config", "set", "topic", topic, "retention.ms=1d", "--dry-run")
    assert ran.rows == [
        {"key": "retention.ms", "operation": "set", "before": "604800000", "sent": "86400000"}
    ]
    assert ottla("config", "get", "topic", topic).rows == []
    assert ottla("config", "unset", "topic", topic, "retention.ms", "--dry-run", "--json").json["dry_run"]
    assert ottla("config", "set", "topic", topic, "retention.ms=abc", "--dry-run").code == 1


def test_what_is_for_all_brokers_is_called_so(ottla):
    told = ottla("config", "set", "broker-default", "log.cleaner.threads=1", "--json").json
    assert (told["entity"], told["name"]) == ("broker-default", None)
    assert ottla("config", "unset", "broker-default", "log.cleaner.threads").code == 0


def test_what_the_broker_refuses_is_one_sentence(ottla, topic):
    ran = ottla("config", "set", "topic", topic, "retention.ms=soon")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "retention.ms" in ran.err
    assert ottla("config", "set", "topic", "nowhere", "retention.ms=1").code == 4


def test_command_lines_that_change_nothing_are_refused(ottla, topic):
    for words in (
        ["set", "topic", topic],
        ["set", "topic", topic, "retention.ms"],
        ["set", "topic", topic, "retention.ms=1x"],
        ["unset", "topic", topic],
        ["unset", "topic", topic, "retention.ms=1"],
    ):
        assert ottla("config", *words).code == 2


def test_a_setting_is_changed_once(ottla, topic):
    for words in (["retention.ms=1d", "retention.ms=2d"], ["--append", "x=a", "--append", "x=b"]):
        ran = ottla("config", "set", "topic", topic, *words)
        assert (ran.code, "is changed twice" in ran.err) == (2, True)


def test_a_setting_that_is_not_there_is_not_unset(ottla, topic):
    ran = ottla("config", "unset", "topic", topic, "retention.mss")
    assert (ran.code, ran.out, "did you mean 'retention.ms'" in ran.err) == (4, "", True)


def test_a_number_without_end_is_left_to_the_broker(ottla, topic):
    ran = ottla("config", "set", "topic", topic, f"retention.ms={'9' * 5000}d")
    assert (ran.code, "a bug" in ran.err) == (1, False)


def test_a_change_that_was_made_is_not_said_to_have_failed(ottla, topic, monkeypatch):
    answers = iter([{}])

    async def once(*_):
        for found in answers:
            return found
        raise NetworkError("cannot connect")

    monkeypatch.setattr("ottla.cli.config_change.entries_of", once)
    ran = ottla("config", "set", "topic", topic, "retention.ms=1d")
    assert (ran.code, "it is changed, but nobody tells how it looks now" in ran.err) == (6, True)
    assert ottla("config", "get", "topic", topic, "retention.ms").rows[0]["value"] == "86400000"
