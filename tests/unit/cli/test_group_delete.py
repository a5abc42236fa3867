"""`ottla group delete` says what would go, and asks before it goes."""

import itertools

import pytest

from ottla.client.errors import NetworkError
from ottla.core.errors import ErrorCode, KafkaError
from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]

_numbers = itertools.count()


@pytest.fixture
def group(asked, topic):
    name = f"billing-{next(_numbers)}"
    asked.produce(topic, 5)
    asked.commit(name, topic, 3)
    asked.commit(name, topic, 0, partition=1)
    return name


def names(ottla):
    return {row["group"] for row in ottla("group", "ls", "--json").json["groups"]}


def partitions(ottla, group):
    (found,) = ottla("group", "describe", group, "--json").json["groups"]
    return [row["partition"] for row in found["partitions"]]


def test_without_a_terminal_and_without_yes_nothing_goes(ottla, group):
    ran = ottla("group", "delete", group)
    assert ran.code == 2
    assert f"{group} would go: Empty, 2 offsets" in ran.err
    assert "this is not a terminal, so nobody can be asked: say --yes" in ran.err
    assert group in names(ottla)


def test_somebody_is_asked(ottla, group):
    ran = ottla("group", "delete", group, says="n\n")
    assert (ran.code, "Delete 1 group? [y/N]" in ran.err, group in names(ottla)) == (1, True, True)
    ran = ottla("group", "delete", group, says="y\n")
    assert (ran.code, group in names(ottla)) == (0, False)
    assert ran.rows == [
        {"group": group, "state": "Empty", "members": "0", "offsets": "2", "outcome": "deleted"}
    ]


def test_a_dry_run_only_shows(ottla, group):
    ran = ottla("group", "delete", group, "--dry-run")
    assert (ran.code, ran.rows[0]["offsets"]) == (0, "2")
    assert "nothing was deleted" in ran.err
    assert ottla("group", "delete", group, "--dry-run", "--json").json == {
        "dry_run": True,
        "groups": [{"group": group, "state": "Empty", "members": 0, "offsets": 2, "deleted": False}],
        "failures": [],
    }
    assert group in names(ottla)


def test_a_group_with_members_stays_and_the_others_go(ottla, asked, group, topic):
    busy = f"busy-{topic}"
    asked.join(busy, topic, [0])
    sentence = f"group '{busy}' has 1 member (ottla at 127.0.0.1): stop them, then delete it"
    ran = ottla("group", "delete", busy, group, "--yes")
    assert (ran.code, [row["group"] for row in ran.rows]) == (3, [group])
    assert sentence in ran.err
    ran = ottla("group", "delete", busy, "--yes")
    assert (ran.code, ran.out, sentence in ran.err) == (1, "", True)
    assert names(ottla) & {busy, group} == {busy}


def test_a_group_that_is_not_there_is_not_found(ottla, group):
    ran = ottla("group", "delete", f"{group}x", "--yes")
    assert (ran.code, f"did you mean '{group}'" in ran.err) == (4, True)
    ran = ottla("group", "delete", f"{group}x", group, "--yes")
    assert (ran.code, [row["group"] for row in ran.rows]) == (3, [group])
    assert ottla("group", "delete", f"{group}x", "--if-exists", "--yes").code == 0


def test_of_a_topic_only_the_offsets_go(ottla, asked, group, topic):
    other = asked.create(f"{topic}-other")
    asked.commit(group, other, 0)
    ran = ottla("group", "delete", group, "--topic", f"{topic}:1", says="y\n")
    assert f"{group} would forget offset 0 of {topic}:1" in ran.err
    assert ran.rows == [
        {"group": group, "topic": topic, "partition": "1", "offset": "0", "outcome": "deleted"}
    ]
    ran = ottla("group", "delete", group, "--topic", topic, "--yes", "--json")
    assert ran.json["offsets"] == [
        {"group": group, "topic": topic, "partition": 0, "offset": 3, "deleted": True}
    ]
    assert partitions(ottla, group) == [0], "those of the other topic"
    ran = ottla("group", "delete", group, "--topic", topic, "--yes")
    assert (ran.code, f"group '{group}' has committed nothing for {topic}" in ran.err) == (4, True)


def test_offsets_of_a_topic_that_members_subscribe_to_stay(ottla, asked, topic):
    group = f"busy-{topic}"
    member = asked.join(group, topic, [0])
    asked.commit(group, topic, 0, generation=1, member=member)
    ran = ottla("group", "delete", group, "--topic", topic, "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert f"{topic}:0: members of group '{group}' subscribe to {topic}: stop them first" in ran.err


def test_what_is_named_twice_goes_once_and_what_is_not_there_is_said(ottla, group, topic):
    ran = ottla("group", "delete", group, "--topic", topic, "--topic", f"{topic}:0", "--dry-run")
    assert (ran.code, [row["partition"] for row in ran.rows]) == (0, ["0", "1"])
    ran = ottla("group", "delete", group, "--topic", f"{topic}:1,7,8", "--dry-run")
    assert (ran.code, [row["partition"] for row in ran.rows]) == (3, ["1"])
    assert f"has committed nothing for {topic}:7, {topic}:8" in ran.err


def test_offsets_that_cannot_be_told_are_not_said_to_be_none(ottla, group, topic, monkeypatch):
    async def refuse(*_):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "nobody can tell")

    monkeypatch.setattr("ottla.cli.group_deleting.list_group_offsets", refuse)
    ran = ottla("group", "delete", group, "--topic", topic, "--yes")
    assert (ran.code, "nobody can tell" in ran.err, "nothing" in ran.err) == (1, True, False)


def test_where_nobody_answers_the_next_group_is_not_waited_for(ottla, asked, group, topic, monkeypatch):
    asks = []

    async def wait_in_vain(_, name):
        asks.append(name)
        raise NetworkError("cannot connect")

    asked.commit(f"{group}-too", topic, 1)
    monkeypatch.setattr("ottla.cli.group_deleting.list_group_offsets", wait_in_vain)
    ran = ottla("group", "delete", group, f"{group}-too", "--yes")
    assert (ran.code, len(asks), names(ottla) >= {group, f"{group}-too"}) == (6, 1, True)
