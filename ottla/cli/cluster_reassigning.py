"""What `ottla cluster reassign` does: a plan becomes moves, moves become words.

A plan is made from what the cluster looks like at that time, and the same plan is shown and executed. Throttles are set
before the first replica is copied, and removed only when nothing moves any more in the whole cluster.
"""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import cluster_throttles
from ottla.cli.cluster_moving import Waiting, alter, copied, settled, sizes_of
from ottla.cli.cluster_plan import Assignment, Planned, changes, current, drained, read, written
from ottla.cli.cluster_spread import spread
from ottla.cli.cluster_state import Moves, Snapshot, moves, snapshot
from ottla.cli.remote import PARTLY, Cluster, Failed, cluster
from ottla.cli.tables import document, is_for_people, say, show
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.cluster_reassign import Options

FILE_BYTES_MAX = 64 * 1024 * 1024
_PLAN = ["topic", "partition", "now", "then", "adds", "removes"]
_STATE = ["topic", "partition", "replicas", "state"]
_MOVES = ["topic", "partition", "replicas", "adding", "removing", "copied_bytes", "total_bytes"]
MOVING, DONE, OTHER, FAILED = "moving", "done", "other replicas", "failed"


class Reassigning:
    """One call of the command."""

    def __init__(self, options: "Options") -> None:
        self._options = options
        self.has_begun = False
        """Is there something that goes on when we do not wait any more?"""

    # --- the plan -----------------------------------------------------------------------------------------------

    def _wanted(self, seen: Snapshot, now: Assignment) -> Assignment:
        options = self._options
        if options.file is not None:
            return self._from_file()
        if options.replicas is not None:
            assert options.partition is not None, "checked with the other options"
            return {TopicPartition(options.topics[0], options.partition): options.replicas}
        for topic in options.topics:
            seen.of_topic(topic)
        topics = set(options.topics) or {place.topic for place in now}
        seen.check_alive(options.to or ())
        if options.drain is not None:
            onto = options.to or [id for id in sorted(seen.nodes) if id != options.drain]
            return drained(now, topics, seen.nodes, options.drain, onto)
        assert options.to is not None, "checked with the other options"
        return spread(now, topics, seen.nodes, options.to)

    def _from_file(self) -> Assignment:
        file = self._options.file
        assert file is not None, "only called where there is one"
        where = "stdin" if file.name == "<stdin>" else file.name
        try:
            text = file.read(FILE_BYTES_MAX + 1)
        except UnicodeDecodeError:
            raise click.UsageError(f"{where} is not a text in UTF-8") from None
        if len(text) > FILE_BYTES_MAX:
            raise click.UsageError(f"{where} is larger than {FILE_BYTES_MAX} bytes: cut it into pieces")
        return read(text, where)

    async def show_plan(self, asked: Cluster) -> int:
        seen, going = await snapshot(asked), await moves(asked)
        planned = self._planned(seen, going)
        if self._options.as_json:
            document(
                {"is_dry_run": True, **self._told(planned), "partitions": [each.row() for each in planned]}
            )
        elif planned:
            show([each.row() for each in planned], _PLAN)
            if is_for_people():
                click.echo(f"{_sum(planned)}; --execute does it")
        else:
            click.echo("nothing to move: every partition is where it is to be")
        return 0

    def _planned(self, seen: Snapshot, going: Moves) -> list[Planned]:
        return changes(seen, going, self._wanted(seen, current(seen, going)))

    def _told(self, planned: Sequence[Planned]) -> dict[str, Any]:
        return {
            "plan": written({each.place: each.then for each in planned}),
            "rollback": written({each.place: each.now for each in planned}),
            "throttle": self._options.throttle,
        }

    # --- doing it -----------------------------------------------------------------------------------------------

    async def execute(self, addresses: Sequence[Address]) -> int:
        options = self._options
        async with cluster(addresses, int(options.timeout * 1000)) as asked:
            seen, going = await snapshot(asked), await moves(asked)
            if going and not options.additional:
                raise Failed(
                    f"{_partitions(len(going))} on the move already: wait for them with --verify --wait, or say "
                    "--additional"
                )
            planned = self._planned(seen, going)
            self._save(planned)
            if options.throttle is not None and planned:
                await cluster_throttles.throttle(asked, planned, options.throttle)
            faults = await self._begin(asked, planned)
        good = [each for each in planned if faults[each.place] is None]
        self.has_begun = bool(good)
        if not options.wait or not good:
            return self._outcome(planned, faults, dict.fromkeys((each.place for each in good), MOVING))

        async def then(asked: Cluster) -> int:
            seen = await settled(asked, {each.place: each.then for each in good}, options.timeout)
            states = {each.place: _state(each, seen, {}) for each in good}
            return self._outcome(planned, faults, states, await self._unthrottle(asked, seen, planned))

        return await Waiting([each.place for each in good], options.timeout).follow(addresses, then)

    async def _begin(self, asked: Cluster, planned: Sequence[Planned]) -> dict[TopicPartition, str | None]:
        return await alter(asked, {each.place: each.then for each in planned})

    def _save(self, planned: Sequence[Planned]) -> None:
        if self._options.save is not None:
            with open(self._options.save, "x", encoding="utf-8") as file:
                json.dump(written({each.place: each.now for each in planned}), file)

    async def _unthrottle(self, asked: Cluster, seen: Snapshot, planned: Iterable[Planned] | None) -> bool:
        """Remove throttles, if nothing moves any more. Returns whether there were some."""
        if self._options.preserve_throttles or await moves(asked):
            return False
        if planned is None:
            topics = {place.topic for place in seen.partitions}
        else:
            topics = {each.place.topic for each in planned}
        return bool(await cluster_throttles.remove(asked, topics))

    def _outcome(
        self,
        planned: Sequence[Planned],
        faults: dict[TopicPartition, str | None],
        states: dict[TopicPartition, str],
        removed: bool = False,
    ) -> int:
        rows = [{**each.row(), "state": states.get(each.place, FAILED)} for each in planned]
        failures = [f"{place.topic}:{place.partition}: {fault}" for place, fault in faults.items() if fault]
        failures += [
            f"{each.place.topic}:{each.place.partition} has other replicas: somebody else moved it too"
            for each in planned
            if states.get(each.place) == OTHER
        ]
        if self._options.as_json:
            told = {"is_dry_run": False, **self._told(planned), "throttles_removed": removed}
            document({**told, "partitions": rows, "failures": failures})
        elif not rows:
            click.echo("nothing to move: every partition is where it is to be")
        else:
            show(rows, ["topic", "partition", "now", "then", "state"])
        return _complain(failures, len(rows))

    # --- moves that are under way -------------------------------------------------------------------------------

    async def _chosen(self, asked: Cluster, seen: Snapshot) -> Moves:
        """The moves that are meant: all, those of the file, or those of the topics."""
        going = await moves(asked)
        options = self._options
        if options.file is not None:
            named = self._from_file()
            return {place: move for place, move in going.items() if place in named}
        for topic in options.topics:
            seen.of_topic(topic)
        return {
            place: move
            for place, move in going.items()
            if place.topic in (options.topics or (place.topic,))
            and options.partition in (None, place.partition)
        }

    async def list_moves(self, asked: Cluster) -> int:
        seen = await snapshot(asked)
        going = await self._chosen(asked, seen)
        sizes = await sizes_of(asked, going) if going else {}
        rows = []
        for place, move in sorted(going.items()):
            leader = seen.partitions[place].leader if place in seen.partitions else -1
            done, whole = copied(move, leader, place, sizes)
            row = {"topic": place.topic, "partition": place.partition, "replicas": list(move.target)}
            row |= {"adding": list(move.adding), "removing": list(move.removing)}
            rows.append({**row, "copied_bytes": done, "total_bytes": whole})
        if self._options.as_json:
            document({"partitions": rows})
        elif rows:
            show(rows, _MOVES)
        else:
            click.echo("nothing moves")
        return 0

    async def cancel(self, asked: Cluster) -> int:
        seen = await snapshot(asked)
        going = await self._chosen(asked, seen)
        faults = await alter(asked, dict.fromkeys(going))
        removed = await self._unthrottle(asked, seen, None)
        failures = [f"{place.topic}:{place.partition}: {fault}" for place, fault in faults.items() if fault]
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "replicas": list(move.before),
                "state": FAILED if faults[place] else "cancelled",
            }
            for place, move in sorted(going.items())
        ]
        if self._options.as_json:
            document({"partitions": rows, "failures": failures, "throttles_removed": removed})
        elif rows:
            show(rows, _STATE)
        else:
            click.echo("nothing moves")
        return _complain(failures, len(rows))

    # --- is it over? --------------------------------------------------------------------------------------------

    async def verify_at_the_end(self, addresses: Sequence[Address]) -> int:
        self.has_begun = True
        return await Waiting(None, self._options.timeout).follow(addresses, self.verify)

    async def verify(self, asked: Cluster) -> int:
        seen, going = await snapshot(asked), await moves(asked)
        if self._options.has_source:
            wanted = self._wanted(seen, current(seen, going))
            planned = [
                Planned(place, seen.one(place).replicas, then) for place, then in sorted(wanted.items())
            ]
            seen = await settled(asked, {} if going else wanted)
        else:
            planned = [Planned(place, move.before, move.target) for place, move in sorted(going.items())]
        removed = await self._unthrottle(asked, seen, planned if self._options.has_source else None)
        states = {each.place: _state(each, seen, going) for each in planned}
        rows = [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "replicas": list(each.then),
                "state": states[each.place],
            }
            for each in planned
        ]
        if self._options.as_json:
            document({"is_over": not going, "partitions": rows, "throttles_removed": removed})
        elif rows:
            show(rows, _STATE)
        else:
            click.echo("nothing moves")
        if removed and not self._options.as_json:
            say("throttles were removed")
        return 0 if all(state == DONE for state in states.values()) else PARTLY


def _state(planned: Planned, seen: Snapshot, going: Moves) -> str:
    if planned.place in going:
        return MOVING
    found = seen.partitions.get(planned.place)
    return DONE if found is not None and found.replicas == planned.then else OTHER


def _sum(planned: Sequence[Planned]) -> str:
    copies = sum(len(each.adds) for each in planned)
    return f"{_partitions(len(planned))} moved, {copies} replica{' is' if copies == 1 else 's are'} copied"


def _partitions(count: int) -> str:
    return f"{count} partition{' is' if count == 1 else 's are'}"


def _complain(failures: Sequence[str], count: int) -> int:
    for each in failures:
        say(each)
    return 0 if not failures else 1 if len(failures) >= count else PARTLY
