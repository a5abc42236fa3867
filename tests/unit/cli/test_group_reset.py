"""`ottla group reset` shows where a group would go on from, and lets it if that is what was meant."""

import itertools

import pytest

from tests.unit.cli.nouns import asked, broker, ottla, topic
from tests.unit.cli.states import now_ms

__all__ = ["asked", "broker", "ottla", "topic"]

_numbers = itertools.count()


@pytest.fixture
def group(asked, topic):
    """Ten records in partition 0, read up to 4; none in partition 1, and nothing committed there."""
    name = f"billing-{next(_numbers)}"
    asked.produce(topic, 10, timestamp=now_ms() - 7_200_000)
    asked.commit(name, topic, 4)
    return name


def offsets(ottla, group):
    (found,) = ottla("group", "describe", group, "--json").json["groups"]
    return {row["partition"]: row["committed_offset"] for row in found["partitions"]}


def rows(ran):
    return [tuple(row[name] for name in ("partition", "before", "after", "change")) for row in ran.rows]


def test_a_dry_run_shows_and_changes_nothing(ottla, group, topic):
    ran = ottla("group", "reset", group, "--topic", topic, "--to", "start")
    assert (ran.code, rows(ran)) == (0, [("0", "4", "0", "-4"), ("1", "-", "0", "-")])
    assert f"nothing was changed: --apply commits 2 offsets for group '{group}'" in ran.err
    assert offsets(ottla, group) == {0: 4}


def test_apply_does_it(ottla, group, topic):
    ran = ottla("group", "reset", group, "--topic", topic, "--to", "end", "--apply")
    assert (ran.code, rows(ran), ran.err) == (0, [("0", "4", "10", "6"), ("1", "-", "0", "-")], "")
    assert offsets(ottla, group) == {0: 10, 1: 0}


@pytest.mark.parametrize(
    ("place", "after"),
    [("start", 0), ("end", 10), ("7", 7), ("-3", 7), ("@-1h", 10), ("@-3h", 0), ("@2000-01-01T00:00", 0)],
)
def test_places_are_written_as_people_write_them(ottla, group, topic, place, after):
    ran = ottla("group", "reset", group, "--topic", f"{topic}:0", "--to", place, "--json")
    (row,) = ran.json["partitions"]
    assert row == {
        "topic": topic,
        "partition": 0,
        "before": 4,
        "after": after,
        "change": after - 4,
        "remark": None,
    }
    assert (ran.json["group"], ran.json["dry_run"], ran.json["failures"]) == (group, True, [])


@pytest.mark.parametrize(("count", "after"), [(3, 7), (-3, 1)])
def test_offsets_are_shifted(ottla, group, count, after):
    ran = ottla("group", "reset", group, "--all-topics", "--shift", str(count), "--apply")
    assert (ran.code, offsets(ottla, group)) == (0, {0: after})


def test_what_is_not_committed_cannot_be_shifted(ottla, group, topic):
    ran = ottla("group", "reset", group, "--topic", topic, "--shift", "1", "--apply")
    assert (ran.code, rows(ran)) == (3, [("0", "4", "5", "1")])
    assert f"{topic}:1 has no committed offset that could be shifted" in ran.err
    ran = ottla("group", "reset", group, "--topic", f"{topic}:1", "--shift", "1")
    assert (ran.code, ran.out) == (1, "")


@pytest.mark.parametrize(
    ("how", "after", "remark"),
    [
        (("--to", "99"), "10", "99 is not written yet: the log ends at 10"),
        (("--shift", "-99"), "2", "-95 is gone: the log starts at 2"),
        (("--to", "1"), "2", "1 is gone: the log starts at 2"),
    ],
)
def test_offsets_outside_of_the_log_become_its_ends_with_a_remark(ottla, group, topic, how, after, remark):
    assert ottla("topic", "delete-records", f"{topic}:0", "--before", "2", "--apply").code == 0
    (row,) = ottla("group", "reset", group, "--topic", f"{topic}:0", *how).rows
    assert (row["after"], row["remark"]) == (after, remark)


def test_what_is_exported_is_read_again(ottla, group, topic, tmp_path):
    ran = ottla("group", "reset", group, "--topic", topic, "--to-current", "--export")
    assert (ran.code, ran.out, ran.err) == (0, f"{topic},0,4\n", "")
    path = tmp_path / "offsets"
    for text in (ran.out, ottla("group", "reset", group, "--topic", topic, "--to-current", "--json").out):
        path.write_text(text)
        assert ottla("group", "reset", group, "--all-topics", "--to", "end", "--apply").code == 0
        back = ottla("group", "reset", group, "--from-file", str(path), "--apply")
        assert (back.code, rows(back), offsets(ottla, group)) == (0, [("0", "10", "4", "-6")], {0: 4})


def test_a_file_may_be_meant_for_some_topics_only(ottla, asked, group, topic, tmp_path):
    other = asked.create(f"{topic}-other")
    path = tmp_path / "offsets.csv"
    path.write_text(f"{topic},0,1\n{topic},1,0\n{other},0,0\n")
    ran = ottla("group", "reset", group, "--from-file", str(path), "--topic", f"{topic}:0")
    assert rows(ran) == [("0", "4", "1", "-3")]
    path.write_text(f"{other},0,0\n")
    ran = ottla("group", "reset", group, "--from-file", str(path), "--topic", topic)
    assert (ran.code, "the file has no offsets of what --topic names" in ran.err) == (1, True)
    path.write_text(f"{topic},7,1\n")
    ran = ottla("group", "reset", group, "--from-file", str(path))
    assert (ran.code, f"{topic} has no partition 7" in ran.err) == (4, True)


def test_a_group_with_members_is_refused_and_who_they_are_is_said(ottla, asked, topic):
    group = f"busy-{topic}"
    asked.join(group, topic, [0, 1])
    for words in ([], ["--apply"]):
        ran = ottla("group", "reset", group, "--topic", topic, "--to", "start", *words)
        assert (ran.code, ran.out) == (1, "")
        assert f"group '{group}' has 1 member (ottla at 127.0.0.1): stop them, then reset it" in ran.err
    modern = f"modern-{topic}"
    asked.join_consumers(modern, topic)
    assert ottla("group", "reset", modern, "--topic", topic, "--to", "start", "--apply").code == 1


def test_an_unknown_group_is_not_made_by_accident(ottla, group, topic):
    ran = ottla("group", "reset", f"{group}x", "--topic", topic, "--to", "start", "--apply")
    assert (ran.code, f"did you mean '{group}'" in ran.err) == (4, True)
    ran = ottla("group", "reset", "zzz", "--topic", topic, "--to", "start", "--apply")
    assert (ran.code, "there is no group 'zzz'; --create makes it" in ran.err) == (4, True)
    assert (
        ottla("group", "reset", f"new-{group}", "--topic", topic, "--to", "3", "--create", "--apply").code
        == 0
    )
    assert offsets(ottla, f"new-{group}") == {0: 3, 1: 0}


def test_a_group_without_offsets_has_no_topics(ottla, topic):
    ran = ottla("group", "reset", f"void-{topic}", "--all-topics", "--to", "start", "--create")
    assert (ran.code, "has committed nothing: say which topics, with --topic" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--topic", "t"], "say one of --to PLACE, --shift N, --to-current and --from-file FILE"),
        (["--topic", "t", "--to", "end", "--shift", "1"], "say one of --to PLACE"),
        (["--to", "end"], "which topics? say --topic TOPIC, --topic TOPIC:0,1 or --all-topics"),
        (["--to", "end", "--topic", "t", "--all-topics"], "name topics or say --all-topics"),
        (["--to", "nowhere", "--all-topics"], "'nowhere' is no place"),
        (["--to", "end", "--topic", "t:x"], "'t:x' names no partitions; write them as t:0,1"),
        (["--from-file", "/nowhere/at-all"], "/nowhere/at-all cannot be read: No such file or directory"),
        (["--to", "end", "--all-topics", "--export", "--json"], "--export prints CSV and --json prints JSON"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(ottla, words, sentence):
    ran = ottla("group", "reset", "g", *words)
    assert (ran.code, sentence in ran.err) == (2, True), ran.err


def test_a_topic_that_does_not_exist_is_said_to_be_unknown(ottla, group, topic):
    ran = ottla("group", "reset", group, "--topic", f"{topic}x", "--to", "start")
    assert (ran.code, f"did you mean '{topic}'" in ran.err) == (4, True)
