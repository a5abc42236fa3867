"""Transcripts of the life of committed offsets: what was asked, what was answered, what was written.

A transcript is a text file. A block is a command and, below a line of dashes, what came of it. After every block a
second shard is read from the log, and must know the same. With OTTLA_REWRITE=1 the files are written anew: read the
diff then.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.coordinator_records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
)
from ottla.replication.machine import Entry
from tests.scenarios import datadriven
from tests.unit.groups.hosting import asker
from tests.unit.groups.shard_hosting import ShardHost, assert_replay_agrees

TRANSCRIPTS = Path(__file__).parent / "transcripts" / "offsets"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Words(datadriven.Words):
    """A command, and what its words stand for."""

    def places(self) -> list[TopicPartition]:
        return [TopicPartition.parse(word) for word in self.rest[1:]]

    def offsets(self) -> dict[tuple[str, int], int]:
        pairs = (word.split("@") for word in self.rest[1:])
        return {tuple(TopicPartition.parse(place)): int(offset) for place, offset in pairs}


def named(code: int) -> str:
    return "ok" if code == 0 else ErrorCode(code).name


class Script:
    """One shard, and the commands that it understands. Members go by the names of the transcript."""

    def __init__(self) -> None:
        self.host = ShardHost()
        self.ids: dict[str, str] = {}
        self.verbs: dict[str, Callable[[Words], Iterator[str]]] = {
            "commit": self.commit,
            "txn-commit": self.txn_commit,
            "end": self.end,
            "fetch": self.fetch,
            "delete-offsets": self.delete_offsets,
            "delete-group": self.delete_group,
            "forget-topic": self.forget_topic,
            "pass": self.let_pass,
            "expire": self.expire,
            "list": self.list_groups,
            "describe": self.describe,
            "settle": self.settle,
            "rebalance": self.rebalance,
            "leave": self.leave,
            "take-over": self.take_over,
        }

    def run(self, line: str) -> str:
        written = len(self.host.log)
        words = Words(line)
        try:
            said = list(self.verbs[words.verb](words))
        except KafkaError as error:
            said = [f"error {error.code.name}"]
        for record in self.host.log[written:]:
            if isinstance(record[0], Entry):
                said.append(
                    self.shown(record[0]) + ("" if record[1] is None else f" (producer {record[1].id})")
                )
        assert_replay_agrees(self.host)
        return "\n".join(said) or "nothing"

    @staticmethod
    def shown(entry: Entry) -> str:
        key, value = entry
        if isinstance(key, OffsetCommitKey):
            what = "tombstone" if value is None else str(value.offset)
            return f"wrote {key.group} {key.topic}-{key.partition}: {what}"
        if isinstance(key, GroupMetadataKey):
            what = (
                "tombstone"
                if value is None
                else f"generation {value.generation}, {len(value.members)} members"
            )
            return f"wrote {key.group}: {what}"
        what = f"epoch {value.epoch}" if isinstance(key, ConsumerGroupMetadataKey) and value else "..."
        return f"wrote {key.group_id}: {type(key).__name__} {'tombstone' if value is None else what}"

    def member(self, words: Words) -> str:
        name = words.flags.get("member", "")
        return self.ids.get(name, name)

    def commit(self, words: Words) -> Iterator[str]:
        offsets = words.offsets()
        codes = self.host.commit(
            words.rest[0],
            offsets,
            member=self.member(words),
            generation=words.number("generation", -1),
            version=words.number("version", 8),
            metadata="x" * words.number("note", 0),
            retention_ms=words.number("retention", -1),
        )
        yield from (
            f"{topic}-{index} {named(code)}" for (topic, index), code in zip(offsets, codes, strict=True)
        )

    def txn_commit(self, words: Words) -> Iterator[str]:
        offsets = words.offsets()
        codes = self.host.txn_commit(
            words.rest[0],
            offsets,
            words.number("producer", 7),
            member=self.member(words),
            generation=words.number("generation", -1),
            metadata="x" * words.number("note", 0),
        )
        yield from (
            f"{topic}-{index} {named(code)}" for (topic, index), code in zip(offsets, codes, strict=True)
        )

    def end(self, words: Words) -> Iterator[str]:
        self.host.end(words.number("producer", 7), is_commit=words.rest == ["commit"])
        yield "marker"

    def fetch(self, words: Words) -> Iterator[str]:
        found = self.host.fetch(words.rest[0], *words.places(), is_stable=words.flags.get("stable") == "yes")
        for place, offset in found.items():
            yield f"{place} {offset if offset >= -1 else named(-offset)}"

    def delete_offsets(self, words: Words) -> Iterator[str]:
        codes = self.host.delete_offsets(words.rest[0], *words.places())
        yield from (f"{place} {named(code)}" for place, code in zip(words.places(), codes, strict=True))

    def delete_group(self, words: Words) -> Iterator[str]:
        self.host.delete_group(words.rest[0])
        yield "ok"

    def forget_topic(self, words: Words) -> Iterator[str]:
        self.host.forget(words.rest[0])
        yield "ok"

    def let_pass(self, words: Words) -> Iterator[str]:
        """Time, and whoever gives no sign of life meanwhile is taken for dead."""
        number, unit = re.fullmatch(r"(\d+)([a-z]+)", words.rest[0]).groups()  # type: ignore[union-attr]  # or it fails
        self.host.advance(int(number) * UNITS[unit])
        days, rest_ms = divmod(self.host.now.monotonic_ms, UNITS["d"])
        yield f"day {days}, second {rest_ms / UNITS['s']:g}"

    def expire(self, words: Words) -> Iterator[str]:
        self.host.expire()
        yield "ok"

    def list_groups(self, words: Words) -> Iterator[str]:
        states = [word for word in words.flags.get("states", "").split(",") if word]
        types = [word for word in words.flags.get("types", "").split(",") if word]
        for row in self.host.shard.list(states, types):
            yield f"{row.group_id}: {row.group_type} {row.group_state} {row.protocol_type!r}"

    def describe(self, words: Words) -> Iterator[str]:
        row = self.host.shard.describe(words.rest[0], asker(words.number("version", 6)))
        yield f"{named(row.error_code)} {row.group_state} {row.protocol_type!r} {len(row.members)} members"

    def settle(self, words: Words) -> Iterator[str]:
        """One member joins and syncs."""
        topics = words.flags.get("topics", "orders").split(",")
        kind = words.flags.get("type", "consumer")
        self.ids[words.flags["member"]] = self.host.settle(words.rest[0], topics, kind)
        yield f"{words.flags['member']} is the only member, subscribed to {', '.join(topics)}"

    def rebalance(self, words: Words) -> Iterator[str]:
        """The member joins again and does not sync yet."""
        slip = self.host.join(words.rest[0], self.member(words))
        yield f"generation {slip.reply.generation_id}"

    def leave(self, words: Words) -> Iterator[str]:
        reply = self.host.leave(words.rest[0], self.member(words))
        yield " ".join(named(member.error_code) for member in reply.members)

    def take_over(self, words: Words) -> Iterator[str]:
        self.host.take_over()
        yield "another shard read the log"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    script = Script()
    datadriven.check(path, lambda words: iter(script.run(words.line).splitlines()))
