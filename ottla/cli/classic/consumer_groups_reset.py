"""`kafka-consumer-groups --reset-offsets`: where groups would go on from, and with `--execute` shall.

Offsets outside of a log become its start or its end. Whatever a scenario says, only groups without members are reset.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.classic.consumer_groups_describe import EXECUTION, described, executing, listed
from ottla.cli.classic.consumer_groups_output import Column, print_error, print_table
from ottla.cli.classic.consumer_groups_targets import (
    SCENARIOS,
    Plan,
    duration_ms,
    number_of,
    one,
    read_plan,
    time_ms,
    topics_of,
    written_plan,
)
from ottla.cli.classic.java import Illegal, hash_ordered
from ottla.cli.classic.parser import Refused
from ottla.cli.dump.output import as_seen, printable
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.records import OffsetAndMetadata

Offsets = dict[TopicPartition, int]
_INACTIVE = ("Empty", "Dead")
_FULL = 0.75  # of a `HashMap` that is made from another one, with room to spare
_COLUMNS = (Column("GROUP", 15), Column("TOPIC", 15), Column("PARTITION", 10, False), Column("NEW-OFFSET", 0))


async def reset(admin: Any, options: argparse.Namespace) -> None:
    """All groups are planned before the first is reset: what makes no sense for one changes none."""
    numbers = {name: _first_number(options, name) for name in ("to-offset", "shift-by")}
    names = [each.group for each in await listed(admin)] if options.all_groups else options.group
    states = await _states(admin, names)
    plan: Plan = {}
    for group in hash_ordered(states, int(len(states) / _FULL) + 1):
        if states[group] in _INACTIVE:
            plan[group] = await _Planning(admin, options, group, numbers).offsets()
        else:
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive,"
                f" but the current state is {states[group]}."
            )
            plan[group] = {}
    if options.execute:
        await _execute(admin, plan, options)
    _print({group: plan[group] for group in hash_ordered(plan)}, options)


async def _execute(admin: Any, plan: Plan, options: argparse.Namespace) -> None:
    """If it fails for one, those that were reset before are shown all the same."""
    from ottla.client.admin.group_offsets import alter_group_offsets

    done: Plan = {}
    try:
        for group, planned in plan.items():
            if planned:
                await alter_group_offsets(admin, group, planned)
            done[group] = planned
    except KafkaError:
        if any(done.values()):
            _print(done, options)
        raise


def _first_number(options: argparse.Namespace, name: str) -> int | None:
    """The first of several counts, as in Apache's tool."""
    values = getattr(options, name.replace("-", "_"))
    return number_of(argparse.Namespace(**{name.replace("-", "_"): values[:1]}), name)


async def _states(admin: Any, groups: Sequence[str]) -> dict[str, str]:
    """A group that does not exist is dead, and may get offsets. Raises Illegal."""
    found = {}
    for group, each in (await described(admin, groups, EXECUTION)).items():
        if not isinstance(each, KafkaError):
            found[group] = each.state
        elif each.code == ErrorCode.GROUP_ID_NOT_FOUND:
            found[group] = "Dead"
        else:
            raise executing(each, f"group {group}")
    return found


def _print(plan: Plan, options: argparse.Namespace) -> None:
    if options.export:
        print(as_seen(written_plan(plan, len(options.group) == 1), sys.stdout))
        return
    widest = max([_COLUMNS[0].width, *(len(group) for group in plan)])
    rows = [
        (group, place.topic, place.partition, offset)
        for group, offsets in plan.items()
        for place, offset in offsets.items()
    ]
    print_table([Column("GROUP", widest), *_COLUMNS[1:]], rows)


# --- one group --------------------------------------------------------------------------------------------------------


class _Planning:
    """Where one group is to go on from."""

    def __init__(
        self, admin: Any, options: argparse.Namespace, group: str, numbers: Mapping[str, int | None]
    ) -> None:
        self._admin, self._options, self._group, self._numbers = admin, options, group, numbers

    async def offsets(self) -> Offsets:
        options = self._options
        if not options.from_file and not options.topic and not options.all_topics:
            raise Refused("One of the reset scopes should be defined: --all-topics, --topic.")
        places = await self._places()
        if options.from_file:
            return await self._from_file()
        if not any(getattr(options, name.replace("-", "_")) for name in SCENARIOS):
            names = ", ".join(f"[{name}]" for name in SCENARIOS)
            raise Refused(f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]")
        found = await self._scenario(places)
        return {place: found[place] for place in hash_ordered(found)}

    async def _places(self) -> list[TopicPartition]:
        """In the order of the command line, which is that of complaints."""
        from ottla.client.admin import topics as topic_calls

        options = self._options
        if options.all_topics:
            return hash_ordered(await self._committed(None))
        wanted = topics_of(options.topic)
        names = list(dict.fromkeys([*wanted.topics, *(each.topic for each in wanted.partitions)]))
        if not names:
            return []
        try:
            found = await topic_calls.describe_topics(self._admin, names)
        except KafkaError as error:
            raise _about_topics(error, bool(wanted.topics)) from error
        known = {name: [each.partition for each in topic.partitions] for name, topic in found.items()}
        _check_exist(wanted.partitions, known)
        all_of_them = [TopicPartition(name, each) for name in wanted.topics for each in sorted(known[name])]
        return list(dict.fromkeys([*wanted.partitions, *all_of_them]))

    async def _scenario(self, places: Sequence[TopicPartition]) -> Offsets:
        options = self._options
        if options.to_earliest:
            return await self._listed(places, _EARLIEST)
        if options.to_latest:
            return await self._listed(places, _LATEST)
        if options.to_current:
            return await self._current(places)
        if (offset := self._numbers["to-offset"]) is not None:
            return await self._clamped(dict.fromkeys(places, offset))
        if (count := self._numbers["shift-by"]) is not None:
            return await self._shifted(places, count)
        if options.to_datetime:
            return await self._by_time(places, time_ms(options.to_datetime[0]))
        now_ms = time.time_ns() // 1_000_000
        return await self._by_time(places, max(0, now_ms - duration_ms(options.by_duration[0])))

    async def _from_file(self) -> Offsets:
        path = one(self._options, "from-file")
        assert path is not None
        planned = read_plan(path, self._options.group).get(self._group)
        if planned is None:
            print_error(f"No reset plan for group {self._group} found")
            return {}
        await self._check_planned(planned)
        found = await self._clamped(planned)
        return {place: found[place] for place in hash_ordered(found)}

    async def _check_planned(self, planned: Iterable[TopicPartition]) -> None:
        from ottla.cli.outcomes import settled
        from ottla.client.admin import topics as topic_calls

        places = list(planned)
        found = await settled(topic_calls.describe_topics(self._admin, {each.topic for each in places}))
        known = {name: [each.partition for each in topic.partitions] for name, topic in found.done.items()}
        for each in places:
            if each.topic not in known:
                raise Illegal(
                    f"{EXECUTION}org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
                    " Failed to fetch metadata"
                    f" for partition {each} because metadata for topic `{each.topic}` could not be found"
                )
        _check_exist(places, known)

    # --- offsets that are known ---------------------------------------------------------------------------------------

    async def _committed(
        self, places: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, "OffsetAndMetadata | None"]:
        from ottla.client.admin.group_offsets import list_group_offsets

        try:
            return await list_group_offsets(self._admin, self._group, places)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise executing(error) from error

    async def _listed(self, places: Sequence[TopicPartition], at: int) -> Offsets:
        """-1 where there is no record of that time."""
        from ottla.client.admin.partitions import list_offsets

        if not places:
            return {}
        try:
            found = await list_offsets(self._admin, dict.fromkeys(places, at))
        except KafkaError as error:
            raise executing(error) from error
        return {place: each.offset for place, each in found.items()}

    async def _current(self, places: Sequence[TopicPartition]) -> Offsets:
        """What is committed; where nothing is, the end."""
        committed = await self._committed(places)
        known = {place: each.offset for place, each in committed.items() if each is not None}
        ends = await self._listed([each for each in places if each not in known], _LATEST)
        return {**known, **ends}

    async def _shifted(self, places: Sequence[TopicPartition], count: int) -> Offsets:
        committed = await self._committed(places)
        wanted = {}
        for place in places:
            current = committed.get(place)
            if current is None:
                raise Refused(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
            wanted[place] = current.offset + count
        return await self._clamped(wanted)

    async def _clamped(self, wanted: Offsets) -> Offsets:
        starts = await self._listed(list(wanted), _EARLIEST)
        ends = await self._listed(list(wanted), _LATEST)
        return {place: min(max(offset, starts[place]), ends[place]) for place, offset in wanted.items()}

    async def _by_time(self, places: Sequence[TopicPartition], at_ms: int) -> Offsets:
        found = await self._listed(places, at_ms)
        without = [place for place in hash_ordered(found) if found[place] < 0]
        for place in without:
            print(
                f"\nWarn: Partition {place.partition} from topic {printable(place.topic)} is empty."
                " Falling back to latest known offset."
            )
        return {**found, **await self._listed(without, _LATEST)}


_EARLIEST, _LATEST = -2, -1  # as `OffsetSpec` has them


def _about_topics(error: KafkaError, is_by_name: bool) -> Illegal | KafkaError:
    """Topics whose partitions are not named are asked for, the others are only looked up."""
    from ottla.cli.classic.java import first_of

    first = first_of(error)
    if first.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        plain = KafkaError(first.code)
        return plain if is_by_name else executing(plain)
    return error


def _check_exist(places: Iterable[TopicPartition], known: Mapping[str, Sequence[int]]) -> None:
    missing = [each for each in places if each.partition not in known[each.topic]]
    if missing:
        raise Illegal(f'The partitions "{",".join(map(str, missing))}" do not exist')
