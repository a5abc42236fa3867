"""Transcripts of the life of a group of the consumer protocol: what was asked, what was answered, what was written.

A transcript is a text file. A block is a command and, below a line of dashes, what came of it: the answer, the records,
and the state of the group when it is another than before. After every block a second shard is read from the log, and
must know the same. With OTTLA_REWRITE=1 the files are written anew: then read the diff.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer_member import MemberState, partitions_of
from ottla.protocol.messages import coordinator_records as records
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from ottla.replication.machine import Entry
from tests.scenarios import datadriven
from tests.unit.groups.consumer_hosting import NOWHERE, Places, World, assigned, places
from tests.unit.groups.hosting import GroupSettings, asker
from tests.unit.groups.shard_hosting import assert_replay_agrees

TRANSCRIPTS = Path(__file__).parent / "transcripts" / "consumer"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000}


class Words(datadriven.Words):
    """A command, and what its words stand for."""

    def places(self, name: str) -> Places | None:
        """`owns=orders-0,orders-1`, `owns=nothing`."""
        text = self.flags.get(name)
        if text is None:
            return None
        return NOWHERE if text == "nothing" else places(text.replace(",", " "))

    def names(self, name: str) -> list[str] | None:
        text = self.flags.get(name)
        return None if text is None else [word for word in text.split(",") if word]


def shown(owned: Places) -> str:
    return " ".join(map(str, sorted(owned))) or "nothing"


class Script:
    """One group, and the commands that its members and the world around it understand."""

    def __init__(self) -> None:
        self.world = World()
        self.ids: dict[str, str] = {}
        self.epochs: dict[str, int] = {}
        self.instances: dict[str, str] = {}
        self.state = "no group"
        self.verbs: dict[str, Callable[[Words], Iterator[str]]] = {
            "setting": self.setting,
            "topic": self.topic,
            "delete-topic": self.delete_topic,
            "join": self.join,
            "beat": self.beat,
            "leave": self.leave,
            "pass": self.let_pass,
            "take-over": self.take_over,
            "commit": self.commit,
            "describe": self.describe,
            "classic-group": self.classic_group,
            "classic-join": self.classic_join,
            "classic-sync": self.classic_sync,
            "classic-beat": self.classic_beat,
            "classic-leave": self.classic_leave,
        }

    def run(self, line: str) -> str:
        written = len(self.world.log)
        words = Words(line)
        try:
            said = list(self.verbs[words.verb](words))
        except KafkaError as error:
            said = [error.code.name]
        for record in self.world.log[written:]:
            assert isinstance(record[0], Entry)
            said.append(f"wrote {self.entry(record[0])}")
        if self.group_state() != self.state:
            self.state = self.group_state()
            said.append(f"the group: {self.state}")
        assert_replay_agrees(self.world)
        return "\n".join(said) or "nothing"

    def group_state(self) -> str:
        group = self.world.shard._groups.get("g")
        if isinstance(group, ConsumerGroup):
            return f"{group.state_name} in epoch {group.state.epoch}"
        return (
            "no group" if group is None else f"classic, {group.state_name} in generation {group.generation}"
        )

    def name(self, member_id: str) -> str:
        return next((name for name, one in self.ids.items() if one == member_id), member_id)

    def entry(self, entry: Entry) -> str:
        key, value = entry
        if isinstance(key, records.GroupMetadataKey):
            ids = "" if value is None else ", ".join(self.name(one.member_id) for one in value.members)
            return (
                "classic group: tombstone"
                if value is None
                else f"classic group: generation {value.generation}, members {ids}"
            )
        kind = type(key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        whose = getattr(key, "member_id", getattr(key, "regular_expression", ""))
        return f"{kind} {self.name(whose)}".rstrip() + ": " + self.value(value)

    def value(self, value: Any) -> str:
        match value:
            case None:
                return "tombstone"
            case records.ConsumerGroupMetadataValue():
                return f"epoch {value.epoch}"
            case records.ConsumerGroupTargetAssignmentMetadataValue():
                return f"epoch {value.assignment_epoch}"
            case records.ConsumerGroupMemberMetadataValue():
                regex = f" and {value.subscribed_topic_regex}" if value.subscribed_topic_regex else ""
                static = f", as {value.instance_id}" if value.instance_id else ""
                kind = ", classic" if value.classic_member_metadata is not None else ""
                return f"reads {', '.join(value.subscribed_topic_names) or 'no names'}{regex}{static}{kind}"
            case records.ConsumerGroupTargetAssignmentMemberValue():
                return shown(self.world.named(value.topic_partitions))
            case records.ConsumerGroupRegularExpressionValue():
                return ", ".join(value.topics) or "nothing"
            case records.ConsumerGroupCurrentMemberAssignmentValue():
                pending = partitions_of(value.partitions_pending_revocation)
                return (
                    f"epoch {value.member_epoch}, {MemberState(value.state).name},"
                    f" has {shown(self.world.named(value.assigned_partitions))}"
                    + (f", must revoke {sum(map(len, pending.values()))}" if pending else "")
                )
        raise AssertionError(value)

    # --- the world ---

    def setting(self, words: Words) -> Iterator[str]:
        for name, value in words.flags.items():
            field = {"policy": "group_consumer_migration_policy", "size": "group_consumer_max_size"}[name]
            kind = type(getattr(GroupSettings(), field))
            setattr(self.world.settings, field, kind(value))
        yield "ok"

    def topic(self, words: Words) -> Iterator[str]:
        self.world.make_topic(words.rest[0], int(words.rest[1]))
        yield "ok"

    def delete_topic(self, words: Words) -> Iterator[str]:
        self.world.delete_topic(words.rest[0])
        yield "ok"

    def let_pass(self, words: Words) -> Iterator[str]:
        number, unit = re.fullmatch(r"(\d+)([a-z]+)", words.rest[0]).groups()  # type: ignore[union-attr]  # or it fails
        self.world.advance(int(number) * UNITS[unit])
        yield "ok"

    def take_over(self, words: Words) -> Iterator[str]:
        self.world.take_over()
        yield "another shard read the log"

    # --- members of the consumer protocol ---

    def told(self, name: str, reply: ConsumerGroupHeartbeatResponse) -> Iterator[str]:
        self.epochs[name] = reply.member_epoch
        given = self.world.told(reply)
        yield f"epoch {reply.member_epoch}" + ("" if given is None else f", has {shown(given)}")

    def about(self, words: Words, name: str) -> dict[str, Any]:
        about: dict[str, Any] = {"instance_id": self.instances.get(name)}
        if "regex" in words.flags:
            about["subscribed_topic_regex"] = words.flags["regex"].strip("'")
        if "assignor" in words.flags:
            about["server_assignor"] = words.flags["assignor"]
        return about

    def join(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        self.ids[name] = name
        if "as" in words.flags:
            self.instances[name] = words.flags["as"]
        topics = words.names("topics")
        topics = ["orders"] if topics is None and "regex" not in words.flags else topics
        given = {"rebalance_timeout_ms": int(words.flags.get("revokes", 60_000))}
        reply = self.world.join(self.ids[name], topics, **given, **self.about(words, name))
        yield from self.told(name, reply)

    def beat(self, words: Words) -> Iterator[str]:
        """A heartbeat in the last epoch that the member was told, or in any other."""
        name = words.rest[0]
        about = self.about(words, name)
        if "topics" in words.flags:
            about["subscribed_topic_names"] = words.names("topics")
        epoch = int(words.flags.get("epoch", self.epochs.get(name, 0)))
        reply = self.world.beat(self.ids[name], epoch, words.places("owns"), **about)
        if "reply" in words.flags:
            yield f"epoch {reply.member_epoch} (the reply is lost)"
        else:
            yield from self.told(name, reply)

    def leave(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        epoch = -2 if words.rest[1:] == ["for-a-while"] else -1
        reply = self.world.go(self.ids[name], epoch, self.instances.get(name))
        yield f"epoch {reply.member_epoch}"

    def commit(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        epoch = int(words.flags.get("epoch", self.epochs.get(name, -1)))
        member_id, version = self.ids.get(name, name), int(words.flags.get("version", 9))
        group = self.world.shard._groups.get("g")
        assert group is not None
        group.check_commit(member_id, epoch, None, asker(version), self.world.now, is_txn=False)
        yield "may commit"

    def describe(self, words: Words) -> Iterator[str]:
        group = self.world.shard.describe_consumer("g")
        yield f"{group.group_state}, epoch {group.group_epoch}/{group.assignment_epoch}, {group.assignor_name}"
        for member in group.members:
            has = self.world.named(member.assignment.topic_partitions)
            shall = self.world.named(member.target_assignment.topic_partitions)
            kind = {0: "classic", 1: "consumer"}[member.member_type]
            yield (
                f"{self.name(member.member_id)}: {kind}, epoch {member.member_epoch}, has {shown(has)},"
                f" shall have {shown(shall)}"
            )

    # --- members of the classic protocol ---

    def classic_group(self, words: Words) -> Iterator[str]:
        """`classic-group m=orders-0 n=orders-1`: stable, with these assignments."""
        owned = [words.places(name) or NOWHERE for name in words.flags]
        for name, member_id in zip(words.flags, self.world.classic_group_of(*owned), strict=True):
            self.ids[name] = member_id
            self.epochs[name] = 1
        yield "stable"

    def classic_join(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        given: dict[str, Any] = {"owns": words.places("owns") or NOWHERE}
        if "as" in words.flags:
            given["instance"] = words.flags["as"]
        if "protocols" in words.flags:
            given["protocols"] = words.names("protocols")
        slip = self.world.classic_join(self.ids.get(name, ""), words.names("topics") or ["orders"], **given)
        if slip.is_waiting:
            yield "waits"
            return
        reply = slip.reply
        if isinstance(reply, KafkaError):
            raise reply
        self.ids.setdefault(name, reply.member_id)
        if reply.error_code:
            yield ErrorCode(reply.error_code).name
            return
        self.epochs[name] = reply.generation_id
        yield f"generation {reply.generation_id}, {reply.protocol_name}"

    def classic_sync(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        slip = self.world.classic_sync(self.ids[name], int(words.flags.get("generation", self.epochs[name])))
        if isinstance(slip.reply, KafkaError):
            raise slip.reply
        yield f"has {shown(assigned(slip.reply.assignment))}"

    def classic_beat(self, words: Words) -> Iterator[str]:
        name = words.rest[0]
        generation = int(words.flags.get("generation", self.epochs[name]))
        code = self.world.classic_beat(self.ids[name], generation)
        yield "ok" if code == 0 else ErrorCode(code).name

    def classic_leave(self, words: Words) -> Iterator[str]:
        (code,) = self.world.classic_leave((self.ids[words.rest[0]], None))
        yield "ok" if code == 0 else ErrorCode(code).name


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    script = Script()
    datadriven.check(path, lambda words: iter(script.run(words.line).splitlines()))
