"""`ottla config set` and `unset` change settings, and say what they were and are."""

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
