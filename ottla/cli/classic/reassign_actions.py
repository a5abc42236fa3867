"""What `kafka-reassign-partitions` does: generate a plan, execute it, verify how far it is, cancel it, list moves."""

import asyncio
import random
from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any

from ottla.cli.classic import reassign_throttles as throttles
from ottla.cli.classic.java import Illegal, exception_text, message_of
from ottla.cli.classic.reassign_files import Dirs, Plan, Replicas, written
from ottla.cli.classic.reassign_state import (
    Moving,
    Where,
    current_dirs,
    dirs_of,
    moving,
    racks,
    replicas_of,
    replicas_of_topics,
)
from ottla.cli.dump.output import printable
from ottla.client.admin import log_dirs, partitions
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.errors import PartialFailure
from ottla.controller import placement
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

_PAUSE_SECONDS = 0.1
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
_NO_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment "
    "without rack information."
)


class Terse(Exception):
    """A failure that is said as it is, on stdout."""


# --- generate ---------------------------------------------------------------------------------------------------------


async def generate(admin: Any, topics: list[str], brokers: list[int], *, is_rack_aware: bool) -> None:
    current = await replicas_of_topics(admin, topics)
    living = {id: rack for id, rack in (await racks(admin)).items() if id in brokers}
    named = {id: rack for id, rack in living.items() if rack is not None}
    if is_rack_aware and named and len(named) < len(living):
        raise Illegal(_NO_RACKS)
    proposed: Replicas = {}
    for _, group in groupby(sorted(current), key=lambda each: each.topic):
        places = list(group)
        factor = len(current[places[0]])
        _check_factor(factor, len(living))
        found = placement.place(
            living,
            len(places),
            factor,
            start=random.randrange(len(living)),
            shift=random.randrange(len(living)),
            racks=named if is_rack_aware else {},
        )
        proposed |= dict(zip(places, found, strict=True))
    print(f"Current partition replica assignment\n{written(current, await current_dirs(admin, current))}\n")
    print(f"Proposed partition reassignment configuration\n{written(proposed, {})}")


def _check_factor(factor: int, broker_count: int) -> None:
    if not broker_count:
        raise Illegal("All brokers are currently fenced, or have all their log directories cordoned.")
    if factor > broker_count:
        raise Illegal(
            f"The target replication factor of {factor} cannot be reached because only {broker_count} broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        )


# --- execute ----------------------------------------------------------------------------------------------------------


async def execute(
    admin: Any,
    plan: Plan,
    *,
    additional: bool,
    throttle: int,
    dirs_throttle: int,
    timeout_ms: int,
    may_change_factor: bool,
) -> None:
    going = await moving(admin)
    if going and not additional:
        raise Terse(_EXISTING)
    living = await racks(admin)
    for id in (id for replicas in plan.parts.values() for id in replicas):
        if id not in living:
            raise Illegal(f"Unknown broker id {id}")
    current = await replicas_of(admin, plan.parts)
    print(f"Current partition replica assignment\n\n{written(current, await current_dirs(admin, current))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if throttle >= 0 or dirs_throttle >= 0:
        await _hold_back(admin, plan, going, current, throttle, dirs_throttle)
    faults = await _alter(admin, plan.parts, may_change_factor)
    if faults:
        told = "\n".join(f"{each}: {faults[each]}" for each in sorted(faults))
        raise Terse(f"Error reassigning partition(s):\n{told}")
    print(f"Successfully started partition reassignment{_s(plan.parts)} for {_joined(plan.parts)}")
    if plan.dirs:
        await _move_dirs(admin, plan.dirs, timeout_ms)


async def _hold_back(
    admin: Any, plan: Plan, going: Moving, current: Replicas, throttle: int, dirs_throttle: int
) -> None:
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if throttle >= 0:
        await throttles.limit_copies(admin, throttles.copies(going, plan.parts, current), throttle)
        print(f"The inter-broker throttle limit was set to {throttle} B/s")
    if dirs_throttle >= 0:
        await throttles.limit_dirs(admin, (each.broker_id for each in plan.dirs), dirs_throttle)
        print(f"The replica-alter-dir throttle limit was set to {dirs_throttle} B/s")


async def _alter(
    admin: Any, wanted: Mapping[TopicPartition, Any], may_change_factor: bool = True
) -> dict[TopicPartition, str]:
    """Begin moves, or cancel them with None. Returns what the controller has against some."""
    try:
        await partitions.alter_partition_reassignments(
            admin, wanted, allow_replication_factor_change=may_change_factor
        )
    except PartialFailure as failure:
        return {each: message_of(error, str(each)) for each, error in failure.errors.items()}
    return {}


async def _move_dirs(admin: Any, wanted: Dirs, timeout_ms: int) -> None:
    """A replica that is new on its broker can be told only when it is there: that is waited for."""
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    pending = dict(wanted)
    while True:
        for replica in await _begin_dirs(admin, pending):
            del pending[replica]
        if not pending:
            return
        if asyncio.get_running_loop().time() > deadline:
            named = ",".join(map(_replica, sorted(pending)))
            raise Terse(f"Timed out before log directory move{_s(pending)} could be started for {named}")
        await asyncio.sleep(_PAUSE_SECONDS)


async def _begin_dirs(admin: Any, wanted: Dirs) -> list[TopicPartitionReplica]:
    """Those that have begun. Raises Illegal for one that never will."""
    errors: Mapping[TopicPartitionReplica, KafkaError] = {}
    try:
        await log_dirs.alter_replica_log_dirs(admin, wanted)
    except PartialFailure as failure:
        errors = failure.errors
    begun = []
    for replica in sorted(wanted):
        error = errors.get(replica)
        if error is None:
            begun.append(replica)
            place = TopicPartition(replica.topic, replica.partition)
            print(
                f"Successfully started moving log directory to {wanted[replica]} for replica {place} with broker "
                f"{replica.broker_id} "
            )
        elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            raise Illegal(f"Failed to alter dir for {_replica(replica)}") from error
    return begun


# --- verify -----------------------------------------------------------------------------------------------------------


async def verify(admin: Any, plan: Plan, *, preserve_throttles: bool) -> None:
    going = await moving(admin)
    current = await replicas_of_topics(admin, {place.topic for place in plan.parts}, must_be=False)
    print("Status of partition reassignment:")
    for place in sorted(plan.parts):
        print(printable(_partition_state(place, place in going, current.get(place, ()), plan.parts[place])))
    wheres = await dirs_of(admin, plan.dirs) if plan.dirs else {}
    states = [_dir_state(each, wheres.get(each), plan.dirs[each]) for each in sorted(plan.dirs)]
    print("\n".join(text for text, _ in states))
    is_over = not any(place in going for place in plan.parts) and all(is_over for _, is_over in states)
    if is_over and not preserve_throttles:
        await throttles.clear(admin, plan.parts)


def _partition_state(
    place: TopicPartition, is_going: bool, now: Collection[int], wanted: Collection[int]
) -> str:
    if is_going:
        return f"Reassignment of partition {place} is still in progress."
    if tuple(now) == tuple(wanted):
        return f"Reassignment of partition {place} is completed."
    return (
        f"There is no active reassignment of partition {place}, but replica set is {','.join(map(str, now))} rather "
        f"than {','.join(map(str, wanted))}."
    )


def _dir_state(replica: TopicPartitionReplica, where: Where | None, wanted: str) -> tuple[str, bool]:
    """A sentence, and whether that is the end of it."""
    place = TopicPartition(replica.topic, replica.partition)
    on = f"on broker {replica.broker_id}"
    if where is None or where.current is None:
        return (
            f"Partition {place} is not found in any live log dir {on}. There is likely an offline log directory on "
            "the broker.",
            False,
        )
    if where.future == wanted:
        return f"Reassignment of replica {_replica(replica)} is still in progress.", False
    if where.future is not None:
        return f"Partition {place} {on} is being moved to log dir {where.future} instead of {wanted}.", False
    if where.current == wanted:
        return f"Reassignment of replica {_replica(replica)} completed successfully.", True
    return f"Partition {place} {on} is not being moved from log dir {where.current} to {wanted}.", True


# --- cancel, list -----------------------------------------------------------------------------------------------------


async def cancel(admin: Any, plan: Plan, *, preserve_throttles: bool, timeout_ms: int) -> None:
    going = await moving(admin, plan.parts)
    if going:
        faults = await _alter(admin, dict.fromkeys(going))
        if faults:
            told = "\n".join(f"{each}: {faults[each]}" for each in sorted(faults))
            raise Terse(f"Error cancelling partition reassignment{_s(faults)} for:\n{told}")
        print(f"Successfully cancelled partition reassignment{_s(going)} for: {_joined(going)}")
    else:
        print("None of the specified partition reassignments are active.")
    wheres = await dirs_of(admin, plan.dirs) if plan.dirs else {}
    back = {
        each: where.current
        for each, where in wheres.items()
        if each in plan.dirs and where.future is not None and where.current is not None
    }
    if back:
        await _move_dirs(admin, back, timeout_ms)
    else:
        print("None of the specified partition moves are active.", end="")  # Apache's tool ends no line here
    if not preserve_throttles:
        await throttles.clear(admin, plan.parts)


async def list_all(admin: Any) -> None:
    going = await moving(admin)
    if not going:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for place, each in going.items():
        told = f"{place}: replicas: {','.join(map(str, each.replicas))}."
        if each.adding_replicas:
            told += f" adding: {','.join(map(str, each.adding_replicas))}."
        if each.removing_replicas:
            told += f" removing: {','.join(map(str, each.removing_replicas))}."
        print(printable(told))


def _replica(replica: TopicPartitionReplica) -> str:
    return f"{replica.topic}-{replica.partition}-{replica.broker_id}"


def _joined(places: Collection[TopicPartition]) -> str:
    return ",".join(map(str, sorted(places)))


def _s(things: Collection[Any]) -> str:
    return "" if len(things) == 1 else "s"


def explain(error: Exception) -> str:
    """What a failure is called."""
    about = str(next(iter(error.errors), "")) if isinstance(error, PartialFailure) else ""
    return exception_text(error, about) if isinstance(error, KafkaError) else message_of(error)
