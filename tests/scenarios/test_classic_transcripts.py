"""Transcripts of the life of classic groups: what members did, what they were told, what was written.

Members go by letters: `A` is a client, `A1` the first id that it was given. After every command the log is read by a
second group, which must know what the first one has settled.

    settings delay=3000 max=2             before anything else
    join A [id=none] [once=yes] [instance=i] [protocols=range:x,sticky:y] [session=ms] [rebalance=ms] [version=n]
    sync A [A=p0 B=p1] [generation=n]     the leader names who gets what
    beat A, commit A, leave A B, leave instance=i
    pass 3000                             milliseconds
    beating A B 60000                     time passes, and these send heartbeats
    restart                               another coordinator loads the group
    refuse NOT_ENOUGH_REPLICAS, accept    appends fail, and work again
    remove, describe
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_states import MOVES, ClassicState
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.protocol.messages.groups import JoinGroupResponse
from ottla.replication.machine import Decision, fail
from tests.scenarios.datadriven import Words, check
from tests.unit.groups.classics import Classics, VersionedSlip, hard_state
from tests.unit.groups.hosting import GroupSettings

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts" / "classic").glob("*.txt"))
SETTLED = (ClassicState.EMPTY, ClassicState.STABLE)


class Script:
    """One group, and the commands that it understands."""

    def __init__(self) -> None:
        self.classics = Classics()
        self.ids: dict[str, str] = {}
        """The newest id of each client."""
        self.names: dict[str, str] = {}
        """What the transcript calls an id."""
        self.instances: dict[str, str] = {}
        self.open: list[tuple[str, VersionedSlip]] = []
        self.moves: set[tuple[ClassicState, ClassicState]] = set()
        self.restarted_in: set[ClassicState] = set()
        self.has_lost_an_entry = False

    def run(self, words: Words) -> Iterator[str]:
        self.before, written = self.classics.group.state, len(self.classics.host.log)
        said = list(getattr(self, f"do_{words.verb}")(words) or ())
        yield from said
        yield from self.answered()
        for entry, _ in self.classics.host.log[written:]:
            yield "removed from the log" if entry.value is None else self.written(entry.value)
        after = self.classics.group.state
        if after is not self.before:
            self.moves.add((self.before, after))
            yield f"{self.before.value} -> {after.value}"
        if after in SETTLED and not self.has_lost_an_entry:
            assert hard_state(self.classics.replayed()) == hard_state(self.classics.group)

    # --- telling -------------------------------------------------------------------------------------------------

    def name(self, member_id: str | None) -> str:
        return self.names.get(member_id or "", member_id or "nobody")

    def learn(self, who: str, member_id: str) -> None:
        if member_id and member_id not in self.names:
            number = sum(name.startswith(who) for name in self.names.values()) + 1
            self.names[member_id] = f"{who}{number}"
        self.ids[who] = member_id

    def answered(self) -> Iterator[str]:
        for told, slip in self.open:
            if not slip.is_waiting:
                yield f"{told}: {self.shown(slip.reply)}"
        self.open = [(told, slip) for told, slip in self.open if slip.is_waiting]

    def shown(self, reply: Any) -> str:
        if isinstance(reply, KafkaError):
            return reply.code.name
        code = ErrorCode(reply.error_code)
        if isinstance(reply, JoinGroupResponse):
            if code is not ErrorCode.NONE:
                return f"{code.name}, as {self.name(reply.member_id)}"
            members = ", ".join(f"{self.name(one.member_id)}={_text(one.metadata)}" for one in reply.members)
            skip = ", skips the assignment" if reply.skip_assignment else ""
            return (
                f"{self.name(reply.member_id)} in generation {reply.generation_id} by {reply.protocol_name}, "
                f"{self.name(reply.leader)} leads{skip}" + (f" {members}" if members else "")
            )
        return f"gets {_text(reply.assignment)}" if code is ErrorCode.NONE else code.name

    def written(self, value: GroupMetadataValue) -> str:
        members = ", ".join(f"{self.name(one.member_id)}={_text(one.assignment)}" for one in value.members)
        leader = f" by {value.protocol}, {self.name(value.leader)} leads" if value.members else ""
        return f"wrote generation {value.generation}{leader}: {members or 'empty'}"

    # --- members -------------------------------------------------------------------------------------------------

    def do_join(self, words: Words) -> Iterator[str]:
        (who,) = words.rest
        flags = words.flags
        if "instance" in flags:
            self.instances[who] = flags["instance"]
        how: dict[str, Any] = {
            "version": words.number("version", 9),
            "instance": self.instances.get(who),
            "protocols": dict(_pair(one) for one in flags.get("protocols", "range:x").split(",")),
            "protocol_type": flags.get("type", "consumer"),
            "session": words.number("session", 10_000),
            "rebalance": words.number("rebalance", 60_000),
        }
        member_id = "" if flags.get("id") == "none" else self.ids.get(flags.get("id", who), "")
        known = set(self.classics.group.members)
        slip = self.classics.join(member_id, **how)
        if not slip.is_waiting and slip.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.learn(who, slip.reply.member_id)
            if flags.get("once") != "yes":
                slip = self.classics.join(self.ids[who], **how)
        for new in set(self.classics.group.members) - known:
            self.learn(who, new)
        self.open.append((f"{who} joins", slip))
        if slip.is_waiting:
            yield f"{who} waits"

    def do_sync(self, words: Words) -> Iterator[str]:
        (who,) = words.rest
        parts = {self.ids[one]: part.encode() for one, part in words.flags.items() if one in self.ids}
        slip = self.classics.sync(
            self.ids[who],
            words.number("generation", self.classics.group.generation),
            parts,
            instance=self.instances.get(who),
        )
        self.open.append((f"{who} syncs", slip))
        if slip.is_waiting:
            yield f"{who} waits"

    def do_beat(self, words: Words) -> Iterator[str]:
        for who in words.rest:
            generation = words.number("generation", self.classics.group.generation)
            yield f"{who}: {self.beat(who, generation).name}"

    def beat(self, who: str, generation: int) -> ErrorCode:
        return self.classics.heartbeat(self.ids[who], generation, self.instances.get(who))

    def do_commit(self, words: Words) -> Iterator[str]:
        who = words.rest[0] if words.rest else None
        generation = words.number("generation", self.classics.group.generation if who else -1)
        is_txn = words.flags.get("txn") == "yes"
        code = self.classics.commit(
            self.ids[who] if who else "", generation, self.instances.get(who or ""), is_txn=is_txn
        )
        yield f"{who or 'nobody'}: {code.name}"

    def do_leave(self, words: Words) -> Iterator[str]:
        leaving = [(self.ids[who], self.instances.get(who)) for who in words.rest]
        leaving += [("", words.flags["instance"])] if "instance" in words.flags else []
        reply = self.classics.leave(*leaving)
        for one in reply.members:
            yield f"{self.name(one.member_id or one.group_instance_id)}: {ErrorCode(one.error_code).name}"

    # --- the world -----------------------------------------------------------------------------------------------

    def do_settings(self, words: Words) -> Iterator[str]:
        settings = self.classics.settings
        settings.group_initial_rebalance_delay_ms = words.number("delay", 0)
        settings.group_max_size = words.number("max", GroupSettings.group_max_size)
        yield "ok"

    def do_pass(self, words: Words) -> None:
        self.classics.host.advance(int(words.rest[0]))

    def do_beating(self, words: Words) -> None:
        *beating, duration = words.rest
        for _ in range(int(duration) // 1_000):
            self.classics.host.advance(1_000)
            for who in beating:
                self.beat(who, self.classics.group.generation)

    def do_restart(self, words: Words) -> Iterator[str]:
        self.restarted_in.add(self.classics.group.state)
        waiting = self.classics.restart()
        gone = fail(waiting, KafkaError(ErrorCode.NOT_COORDINATOR))
        self.classics.host.carry_out(Decision(None, answers=gone))
        self.before = after = self.classics.group.state
        yield f"loaded: {after.value}, generation {self.classics.group.generation}"

    def do_refuse(self, words: Words) -> Iterator[str]:
        self.classics.host.refuse_with = KafkaError(ErrorCode[words.rest[0]])
        self.has_lost_an_entry = True
        yield "ok"

    def do_accept(self, words: Words) -> Iterator[str]:
        self.classics.host.refuse_with = None
        yield "ok"

    def do_remove(self, words: Words) -> None:
        self.classics.host.carry_out(Decision(None, self.classics.group.tombstones()))
        self.has_lost_an_entry = True

    def do_describe(self, words: Words) -> Iterator[str]:
        shown = self.classics.group.describe()
        yield f"{shown.group_state} {shown.protocol_type or '-'} {shown.protocol_data or '-'}"
        for one in shown.members:
            metadata, assignment = _text(one.member_metadata), _text(one.member_assignment)
            instance = f" ({one.group_instance_id})" if one.group_instance_id else ""
            yield f"{self.name(one.member_id)}{instance} metadata {metadata}, assignment {assignment}"


def _pair(protocol: str) -> tuple[str, bytes]:
    name, _, metadata = protocol.partition(":")
    return name, metadata.encode()


def _text(data: bytes) -> str:
    return bytes(data).decode() or "nothing"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path):
    check(path, Script().run)


def test_transcripts_make_every_move_of_the_table_and_restart_in_every_state():
    moves, restarted_in = set(), set()
    for path in TRANSCRIPTS:
        script = Script()
        check(path, script.run)
        moves |= script.moves
        restarted_in |= script.restarted_in
    # With nobody missing, a join phase is over in the moment in which it begins.
    at_once = {
        (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE),
        (ClassicState.STABLE, ClassicState.EMPTY),
    }
    at_once |= {(ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY)}
    assert moves - at_once == {(before, after) for before, afters in MOVES.items() for after in afters}
    assert restarted_in == set(ClassicState)
