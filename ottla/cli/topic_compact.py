"""`ottla topic compact`: roll the active segments of topics, compact them now, and wait for it if asked to.

Exit codes: 0 done, or begun without --wait; 1 failed or refused, 2 usage, 3 some partitions failed, 4 no such topic or
partition, 5 not allowed, 6 no broker answers, 130 interrupted. Whoever stops waiting does not stop the compaction.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ottla.cli import completing
from ottla.cli.remote import (
    PARTLY,
    UNREACHABLE,
    Cluster,
    Failed,
    cluster,
    connection_options,
    failed,
    run,
    servers,
)
from ottla.cli.session import json_option
from ottla.cli.tables import document, is_for_people, say, show
from ottla.cli.topic_progress import CompactionProgress, size
from ottla.cli.topic_runs import Run, progress, runs_of, step
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.ids import topic_name_fault
from ottla.network.peer import PeerClosed, RequestTimedOut

INTERRUPTED = 130
_MS = 1000
_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between two looks: the first come soon, since most compactions are short."""
_PARTITIONS_SHOWN = 8
_BEGUN = ["topic", "partition", "state", "dirty_ratio"]
_DONE = [
    "topic",
    "partition",
    "bytes_before",
    "bytes_after",
    "saved_percent",
    "records_before",
    "records_after",
]


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="NAME...", shell_complete=completing.topics)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="N",
    type=click.IntRange(0, 2**31 - 1),
    help="Only this partition of each topic; repeatable.",
)
@click.option("--wait", is_flag=True, help="Wait until it is done, and show how far it is.")
@json_option
@connection_options
@click.pass_context
def compact(
    ctx: click.Context,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    wait: bool,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """Compact topics now: of each key only the newest record stays.

    The active segment is rolled, so that everything is compacted that consumers of committed records may read, unless
    it is younger than min.compaction.lag.ms. The topics must have cleanup.policy=compact.

    With --wait the end is waited for, and each partition shown with its bytes and records before and after. To stop
    waiting, with Ctrl-C, does not stop the compaction.

    --json: {"partitions": [{"topic", "partition", "state", "dirty_ratio"}], "failures": [SENTENCE]}; with --wait
    {"partitions": [{"topic", "partition", "bytes_before", "bytes_after", "saved_percent", "records_before",
    "records_after"}], "failures": [SENTENCE]}.
    """
    for name in topics:
        if fault := topic_name_fault(name):
            raise click.UsageError(f"{name!r} names no topic: the name {fault}", ctx)
    asked = Request(topics, sorted(set(partitions)), timeout, is_waited_for=wait)
    try:
        run(asked.follow(bootstrap_server))
    except KeyboardInterrupt:
        if any(each.status is not None for each in asked.runs):
            say("nobody waits any more, but the compaction goes on")
        return INTERRUPTED
    return _outcome(asked, as_json)


class Request:
    """What was asked for, and what became of it."""

    def __init__(
        self, topics: Sequence[str], partitions: Sequence[int], timeout: float, *, is_waited_for: bool
    ) -> None:
        self.topics, self.partitions, self.timeout = topics, partitions, timeout
        self.is_waited_for = is_waited_for
        self.runs: list[Run] = []
        self.unknown: list[Failed] = []
        """Topics without a single run."""

    async def follow(self, bootstrap_server: str) -> None:
        """Start all runs, and look at them until they are over, or until each has started if nobody waits."""
        addresses = servers(bootstrap_server)
        shown = CompactionProgress()
        try:
            while True:
                try:
                    async with cluster(addresses, int(self.timeout * _MS)) as asked:
                        if await self._follow(asked, shown):
                            return
                except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError, Failed) as error:
                    if not self.runs:
                        raise
                    self._suffer(failed(error))
                await asyncio.sleep(_PAUSES[-1])  # a broker that restarts is worth waiting for
        finally:
            shown.close()

    async def _follow(self, asked: Cluster, shown: CompactionProgress) -> bool:
        """Are all over? If not, these connections are of no use any more."""
        if not self.runs:
            self.runs, self.unknown = await runs_of(asked, self.topics, self.partitions, self.timeout)
        looks = 0
        while not all(self._is_enough(each) for each in self.runs):
            is_well = await step(asked, [each for each in self.runs if not self._is_enough(each)])
            if self.is_waited_for:
                shown.show(progress(self.runs))
            if not is_well:
                return False
            await asyncio.sleep(_PAUSES[min(looks, len(_PAUSES) - 1)])
            looks += 1
        return True

    def _is_enough(self, each: Run) -> bool:
        return each.is_over or (not self.is_waited_for and not each.must_start)

    def _suffer(self, why: Failed) -> None:
        now = asyncio.get_running_loop().time()
        for each in self.runs:
            if not self._is_enough(each):
                each.suffer(why, now, is_final=why.exit_code != UNREACHABLE)


# --- what came of it --------------------------------------------------------------------------------------------------


def _outcome(asked: Request, as_json: bool) -> int:
    good = [each for each in asked.runs if each.failure is None]
    failures = [*asked.unknown, *_failures(asked.runs)]
    if failures and not good:
        for each in failures[1:]:
            say(each.message)
        raise failures[0]
    rows = [_done(each) if asked.is_waited_for else _begun(each) for each in good]
    if as_json:
        document({"partitions": rows, "failures": [each.message for each in failures]})
    else:
        show(rows, _DONE if asked.is_waited_for else _BEGUN)
        if asked.is_waited_for and is_for_people():
            click.echo(_sum(good))
    for each in failures:
        say(each.message)
    return PARTLY if failures else 0


def _begun(each: Run) -> dict[str, Any]:
    assert each.status is not None, "its leader has answered"
    return {
        "topic": each.place.topic,
        "partition": each.place.partition,
        "state": each.status.state,
        "dirty_ratio": each.status.dirty_ratio,
    }


def _done(each: Run) -> dict[str, Any]:
    """Without numbers if there was nothing to compact."""
    outcome = each.outcome
    return {
        "topic": each.place.topic,
        "partition": each.place.partition,
        **dict.fromkeys(_DONE[2:]),
        **(
            {} if outcome is None else {**outcome._asdict(), "saved_percent": round(outcome.saved_percent, 1)}
        ),
    }


def _failures(runs: Iterable[Run]) -> list[Failed]:
    """One sentence for all partitions of a topic that failed alike."""
    alike: dict[tuple[str, str, int], list[int]] = {}
    for each in runs:
        if (why := each.failure) is not None:
            alike.setdefault((each.place.topic, why.message, why.exit_code), []).append(each.place.partition)
    return [
        Failed(f"{topic}:{_numbers(partitions)}: {message}", code)
        for (topic, message, code), partitions in alike.items()
    ]


def _numbers(partitions: Sequence[int]) -> str:
    named = ",".join(map(str, partitions[:_PARTITIONS_SHOWN]))
    more = len(partitions) - _PARTITIONS_SHOWN
    return f"{named} and {more} more" if more > 0 else named


def _sum(runs: Iterable[Run]) -> str:
    outcomes = [each.outcome for each in runs if each.outcome is not None]
    if not outcomes:
        return "there was nothing to compact"
    before = sum(each.bytes_before for each in outcomes)
    saved = before - sum(each.bytes_after for each in outcomes)
    percent = 100 * saved / before if before else 0.0
    return f"saved {size(saved)} of {size(before)} ({percent:.1f} %)"
