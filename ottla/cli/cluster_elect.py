"""`ottla cluster elect`: leadership back to the preferred replicas, or to anybody who lives where nobody leads.

The first loses nothing, and is done at once. The second, `--unclean`, loses what the new leader does not have: it says
first where that would be, and asks. Exit codes: 0 done or not needed, 1 failed or refused, 2 usage, 3 failed in some
partitions, 4 no such topic or partition, 5 not allowed, 6 no broker answers.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from ottla.cli.cluster_state import (
    NO_LEADER,
    Eligible,
    Partition,
    Snapshot,
    by_topic,
    eligible,
    fault_of,
    snapshot,
)
from ottla.cli.remote import PARTLY, Cluster, Failed, asking, check, connection_options, pieces
from ottla.cli.session import json_option
from ottla.cli.tables import document, is_for_people, say, show
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode, RetriableError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.topics import ElectLeadersRequest, ElectLeadersResponse

ELECTED, NOT_NEEDED, FAILED = "elected", "not needed", "failed"
_WOULD = ["topic", "partition", "leader", "replicas", "isr", "elr", "candidates"]
_DONE = ["topic", "partition", "leader_before", "leader", "outcome"]


class Result(NamedTuple):
    """What became of one partition."""

    place: TopicPartition
    outcome: str
    reason: str | None = None


@click.command()
@click.option("--topic", metavar="TOPIC", help="Only in this topic.")
@click.option(
    "--partition", metavar="N", type=click.IntRange(0, 2**31 - 1), help="Only in this one of the topic."
)
@click.option(
    "--unclean", is_flag=True, help="Where nobody leads, elect anybody who lives: records may be lost."
)
@click.option("--dry-run", is_flag=True, help="Only show where there would be an election.")
@click.option("--yes", is_flag=True, help="Do not ask before unclean elections.")
@json_option
@connection_options
@click.pass_context
def elect(
    ctx: click.Context,
    topic: str | None,
    partition: int | None,
    unclean: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """Elect leaders now: the preferred replica of each partition, which is the first in its list.

    After failures other replicas lead than those that should. This gives it back, without loss, where the preferred
    replica is in sync.

    With --unclean, partitions that nobody leads get any replica that is alive as their leader. What it does not have is
    lost. So the partitions are shown first, and somebody has to say yes.

    --json: {"type", "partitions": [{"topic", "partition", "leader_before", "leader", "outcome"}], "failures":
    [SENTENCE]}; with --dry-run {"type", "is_dry_run", "partitions": [{"topic", "partition", "leader", "replicas",
    "isr", "elr", "candidates"}]}.
    """
    if partition is not None and topic is None:
        raise click.UsageError("--partition goes with --topic", ctx)
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED

    async def work(asked: Cluster) -> int:
        election = Election(asked, kind, await snapshot(asked), as_json)
        meant = election.meant(topic, partition)
        wanted = [each for each in meant if election.is_needed(each)]
        if dry_run:
            return await election.show_plan(wanted)
        if unclean and wanted:
            await election.ask_first(wanted, yes)
        return await election.hold(wanted if unclean else None if topic is None else meant)

    return asking(bootstrap_server, timeout, work)


class Election:
    """One request for elections: where, who could win, and what came of it."""

    def __init__(self, asked: Cluster, kind: ElectionType, seen: Snapshot, as_json: bool) -> None:
        self._asked, self._kind, self._seen, self._as_json = asked, kind, seen, as_json

    def meant(self, topic: str | None, partition: int | None) -> list[Partition]:
        if topic is None:
            return list(self._seen.partitions.values())
        if partition is None:
            return self._seen.of_topic(topic)
        return [self._seen.one(TopicPartition(topic, partition))]

    def is_needed(self, each: Partition) -> bool:
        if self._kind is ElectionType.UNCLEAN:
            return each.leader == NO_LEADER
        return not each.is_led_as_preferred

    # --- before -------------------------------------------------------------------------------------------------

    async def show_plan(self, wanted: Sequence[Partition]) -> int:
        rows = await self._plan(wanted)
        if self._as_json:
            document({"type": self._kind.name.lower(), "is_dry_run": True, "partitions": rows})
        else:
            show(rows, _WOULD)
            if is_for_people():
                click.echo(self._sentence(wanted))
        return 0

    async def ask_first(self, wanted: Sequence[Partition], yes: bool) -> None:
        """Raises `Failed` unless somebody says yes."""
        if yes:
            return
        for row in await self._plan(wanted):
            alive = ", ".join(map(str, row["candidates"])) or "none"
            say(f"{row['topic']}:{row['partition']} has no leader; replicas alive: {alive}")
        try:
            is_wanted = click.confirm(f"{self._sentence(wanted)} Records may be lost. Elect?", err=True)
        except click.Abort:
            raise click.UsageError("nobody is there to ask; say --yes") from None
        if not is_wanted:
            raise Failed("nothing was done")

    async def _plan(self, wanted: Sequence[Partition]) -> list[dict[str, Any]]:
        """Where, and who could win."""
        leaderless = [each.topic for each in wanted if each.leader == NO_LEADER]
        may_lead = await eligible(self._asked, leaderless) if leaderless else {}
        nothing = Eligible((), ())
        return [
            {
                "topic": each.topic,
                "partition": each.number,
                "leader": _id(each.leader),
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "elr": list(may_lead.get(each.place, nothing).elr),
                "candidates": self._candidates(each),
            }
            for each in wanted
        ]

    def _candidates(self, each: Partition) -> list[int]:
        alive = [id for id in each.replicas if id in self._seen.nodes]
        if self._kind is ElectionType.UNCLEAN:
            return alive
        return [id for id in alive[:1] if id == each.replicas[0] and id in each.isr]

    def _sentence(self, wanted: Sequence[Partition]) -> str:
        if self._kind is ElectionType.UNCLEAN:
            return f"{_partitions(len(wanted))} without a leader."
        return f"{_partitions(len(wanted))} not led by the preferred replica."

    # --- and then -----------------------------------------------------------------------------------------------

    async def hold(self, wanted: Sequence[Partition] | None) -> int:
        """Elect there; None leaves it to the controller to say where it is needed."""
        results: list[Result] = []
        for some in [None] if wanted is None else pieces([each.place for each in wanted]):
            results += await self._elect(some)
        results.sort()
        leaders = await self._leaders([each.place for each in results if each.outcome == ELECTED])
        return self._outcome(results, leaders)

    async def _elect(self, places: Sequence[TopicPartition] | None) -> list[Result]:
        topics = None
        if places is not None:
            topics = by_topic(
                places,
                lambda name, some: ElectLeadersRequest.Topic(
                    topic=name, partitions=[each[1] for each in some]
                ),
            )
        request = ElectLeadersRequest(
            election_type=self._kind, topic_partitions=topics, timeout_ms=self._asked.timeout_ms
        )
        answer: ElectLeadersResponse = await self._asked.ask_controller(request, _look)
        return [
            _result(TopicPartition(topic.topic, row.partition_id), row.error_code, row.error_message)
            for topic in answer.replica_election_results
            for row in topic.partition_result
        ]

    async def _leaders(self, elected: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Who leads now, as soon as the broker that we ask has been told; as far as it was, if that takes too long."""
        found: dict[TopicPartition, int] = {}

        async def once() -> None:
            seen = await snapshot(self._asked)
            for place in elected:
                if place in seen.partitions:
                    found[place] = seen.partitions[place].leader
            before = {
                place: self._seen.partitions[place].leader
                for place in found
                if place in self._seen.partitions
            }
            if any(found[place] in (NO_LEADER, before.get(place)) for place in found):
                raise RetriableError(ErrorCode.LEADER_NOT_AVAILABLE, "the news have not come yet")

        with contextlib.suppress(RetriableError):
            await self._asked.patiently(once)
        return found

    def _outcome(self, results: Sequence[Result], leaders: dict[TopicPartition, int]) -> int:
        rows = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "leader_before": self._leader_before(place),
                "leader": _id(leaders[place]) if place in leaders else self._leader_before(place),
                "outcome": outcome,
            }
            for place, outcome, _ in results
        ]
        failures = [
            f"{each.place.topic}:{each.place.partition}: {each.reason}" for each in results if each.reason
        ]
        if self._as_json:
            document({"type": self._kind.name.lower(), "partitions": rows, "failures": failures})
        elif rows:
            show(rows, _DONE)
        else:
            click.echo("there was nothing to elect")
        for each in failures:
            say(each)
        return 0 if not failures else 1 if len(failures) == len(results) else PARTLY

    def _leader_before(self, place: TopicPartition) -> int | None:
        partition = self._seen.partitions.get(place)
        return None if partition is None else _id(partition.leader)


def _look(answer: ElectLeadersResponse) -> None:
    """Kafka says of every partition that it is not the controller."""
    for topic in answer.replica_election_results:
        for row in topic.partition_result:
            if row.error_code == ErrorCode.NOT_CONTROLLER:
                check(row.error_code, "the controller")


def _result(place: TopicPartition, code: int, message: str | None) -> Result:
    if code == ErrorCode.ELECTION_NOT_NEEDED:
        return Result(place, NOT_NEEDED)
    return Result(place, FAILED if code else ELECTED, fault_of(code, message))


def _id(leader: int) -> int | None:
    return None if leader == NO_LEADER else leader


def _partitions(count: int) -> str:
    return f"{count} partition{' is' if count == 1 else 's are'}"
