"""Planning where a group goes on from, and committing it: what `ottla group reset` does.

A group that has members is left alone: its offsets are theirs to commit. Nothing is ever planned outside of a log.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from ottla.cli.group_offsets_file import written_offsets
from ottla.cli.outcomes import Settled, counted, finish, settled, unknown
from ottla.cli.remote import NOT_FOUND, Admin, Failed
from ottla.cli.session import session
from ottla.cli.tables import document, printable, say, show
from ottla.cli.targets import Bounds, Partitions, Target, bounds, places_of, resolved
from ottla.client.admin.group_offsets import alter_group_offsets, list_group_offsets
from ottla.client.admin.group_values import GroupDescription, GroupType
from ottla.client.admin.groups import describe_groups, list_groups
from ottla.core.ids import TopicPartition

_SHOWN = ["topic", "partition", "before", "after", "change", "remark"]
_OF_CONSUMERS = (GroupType.CLASSIC, GroupType.CONSUMER)
_NAMED_MAX = 3


class Move(NamedTuple):
    """What becomes of one partition. `after` is None where nothing is to be committed."""

    place: TopicPartition
    before: int | None
    after: int | None
    remark: str | None = None

    def row(self) -> dict[str, Any]:
        return {
            "topic": self.place.topic,
            "partition": self.place.partition,
            "before": self.before,
            "after": self.after,
            "change": None if self.before is None or self.after is None else self.after - self.before,
            "remark": self.remark,
        }


class Wanted(NamedTuple):
    """Where to: one of these is said."""

    to: Target | None
    shift: int | None
    is_current: bool
    offsets: Mapping[TopicPartition, int] | None


class Done(NamedTuple):
    """What became of the partitions, or would become; and why some are not among them."""

    moves: list[Move]
    failures: list[Failed]


class Reset:
    """One reset of one group. `run` does it, or plans it; `outcome` shows what came of it."""

    def __init__(
        self, group: str, wanted: Wanted, scope: Sequence[Partitions], creates: bool, applies: bool
    ) -> None:
        self._group, self._wanted, self._scope = group, wanted, scope
        self._creates, self._applies = creates, applies

    async def run(self, admin: Admin) -> Done:
        await _check_resettable(admin, self._group, self._creates)
        moves = await _plan(admin, self._group, self._wanted, self._scope)
        planned: dict[TopicPartition, Move] = moves.done
        if not self._applies:
            return Done(list(planned.values()), list(moves.failures.values()))
        commits = {place: each.after for place, each in planned.items() if each.after is not None}
        done = await settled(alter_group_offsets(admin, self._group, commits), commits)
        failures = [*moves.failures.values(), *done.failures.values()]
        return Done([each for place, each in planned.items() if place not in done.failures], failures)

    def outcome(self, done: Done, exports: bool, as_json: bool) -> int:
        rows = [each.row() for each in done.moves]
        offsets = {each.place: each.after for each in done.moves if each.after is not None}

        def show_all() -> None:
            if as_json:
                told = [why.message for why in done.failures]
                head = {"group": self._group, "dry_run": not self._applies}
                document({**head, "partitions": rows, "failures": told})
            elif exports:
                click.echo(written_offsets(offsets), nl=False)
            else:
                show(rows, _SHOWN)
                if not self._applies and not session().is_quiet:
                    count = counted(len(offsets), "offset")
                    say(f"nothing was changed: --apply commits {count} for group {self._group!r}")

        return finish(done.failures, is_some_done=bool(rows), show=show_all)


# --- may it be? -------------------------------------------------------------------------------------------------------


async def _check_resettable(admin: Admin, group: str, create: bool) -> None:
    """Raises `Failed` if there is no such group, or somebody is in it."""
    found = await settled(describe_groups(admin, [group]))
    for why in found.failures.values():
        if why.exit_code != NOT_FOUND:
            raise why
        if not create:
            missing = unknown("group", group, await list_groups(admin))
            raise Failed(
                f"{missing.message}{'' if '?' in missing.message else '; --create makes it'}", NOT_FOUND
            )
    for each in found.done.values():
        check_empty(each, "reset it")
        if each.type not in _OF_CONSUMERS:
            raise Failed(f"{group!r} is a {each.type.lower()} group: it has no offsets that could be reset")


def check_empty(group: GroupDescription, verb: str) -> None:
    """Raises `Failed` if the group has members, which says who they are and what to do."""
    if not group.members:
        return
    names = [f"{each.client_id} at {each.client_host.lstrip('/')}" for each in group.members[:_NAMED_MAX]]
    more = "" if len(group.members) <= _NAMED_MAX else ", ..."
    raise Failed(
        f"group {group.group_id!r} has {counted(len(group.members), 'member')}"
        f" ({printable(', '.join(names))}{more}): stop them, then {verb}"
    )


# --- where to ---------------------------------------------------------------------------------------------------------


async def _plan(admin: Admin, group: str, wanted: Wanted, scope: Sequence[Partitions]) -> Settled:
    """A `Move` for each partition that is meant."""
    committed = await settled(list_group_offsets(admin, group))
    before = {place: each.offset for place, each in committed.done.items() if each is not None}
    places = await _places(admin, wanted, scope, before)
    if not places and wanted.offsets is not None:
        raise Failed("the file has no offsets of what --topic names")
    if not places:
        raise Failed(f"group {group!r} has committed nothing: say which topics, with --topic")
    logs = await bounds(admin, places)
    found = await _after(admin, wanted, before, logs.done)
    moves = {
        place: _move(place, before.get(place), found.done[place], log)
        for place, log in logs.done.items()
        if place in found.done
    }
    return Settled(moves, {**committed.failures, **logs.failures, **found.failures})


async def _places(
    admin: Admin, wanted: Wanted, scope: Sequence[Partitions], before: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    if wanted.offsets is None:
        return await places_of(admin, scope) if scope else sorted(before)
    by_topic: dict[str, list[int]] = {}
    for place in wanted.offsets:
        by_topic.setdefault(place.topic, []).append(place.partition)
    named = await places_of(admin, [Partitions(topic, tuple(each)) for topic, each in by_topic.items()])
    meant = set(await places_of(admin, scope)) if scope else set(named)
    return [place for place in named if place in meant]


async def _after(
    admin: Admin, wanted: Wanted, before: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, Bounds]
) -> Settled:
    """The offset that is meant in each log, in it or not; None is that nothing is meant."""
    if wanted.offsets is not None:
        return Settled({place: wanted.offsets[place] for place in logs}, {})
    if wanted.to is not None:
        return Settled(dict(await resolved(admin, wanted.to, logs)), {})
    if wanted.is_current:
        return Settled({place: before.get(place) for place in logs}, {})
    assert wanted.shift is not None
    missing = {
        place: Failed(f"{place.topic}:{place.partition} has no committed offset that could be shifted")
        for place in logs
        if place not in before
    }
    return Settled({place: before[place] + wanted.shift for place in logs if place in before}, missing)


def _move(place: TopicPartition, before: int | None, after: int | None, log: Bounds) -> Move:
    """Never out of the log: a group that is told so starts where its consumers' auto.offset.reset says."""
    if after is None:
        return Move(place, before, None, "nothing is committed")
    if after < log.start:
        return Move(place, before, log.start, f"{after} is gone: the log starts at {log.start}")
    if after > log.end:
        return Move(place, before, log.end, f"{after} is not written yet: the log ends at {log.end}")
    return Move(place, before, after)
