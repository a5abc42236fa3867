"""Compactions on demand, as they are asked for and followed: each partition at its leader, until it is clean.

A `Run` is one partition on its way, and decides from what its leader says whether it has arrived. A leader that is
silent, or leads no longer, is given as much time as one answer may take; whoever leads then is asked to start again,
since a broker that was restarted has forgotten what it was asked for. To start twice does no harm.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.cli.remote import FAILED, UNREACHABLE, Cluster, Failed, each_of, failed, pieces
from ottla.client.connections import DATA
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed
from ottla.protocol.messages.compaction import CompactTopicsRequest, CompactTopicsResponse

Status = CompactTopicsResponse.Topic.Partition
VERSION = 0
WAITING, PAUSED, IDLE, UNCLEANABLE = "waiting", "paused", "idle", "uncleanable"
UNDER_WAY = (WAITING, "mapping", "copying", PAUSED)
PHASES = (*UNDER_WAY, "done", "failed")
"""In the order in which people are told of them."""


class Outcome(NamedTuple):
    """What came of it."""

    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int

    def then(self, later: "Outcome") -> "Outcome":
        """Two cleanings of one log: the second has read again what the first had written."""
        saved_bytes = self.bytes_before - self.bytes_after
        saved_records = self.records_before - self.records_after
        return later._replace(
            bytes_before=later.bytes_before + saved_bytes, records_before=later.records_before + saved_records
        )

    @property
    def saved_percent(self) -> float:
        return 100 * (1 - self.bytes_after / self.bytes_before) if self.bytes_before > 0 else 0.0


class Run:
    """One partition on its way to be compact."""

    def __init__(self, place: TopicPartition, now: float, patience: float) -> None:
        self.place = place
        self.patience = patience
        self.phase = WAITING
        self.must_start = True
        self.leader = -1
        self.status: Status | None = None
        self.failure: Failed | None = None
        self.outcome: Outcome | None = None
        """None as long as nothing was cleaned, or nothing was there to clean."""
        self.done_bytes = self.total_bytes = 0
        self._heard = now
        self._runs, self._dirty = 0, -1
        self._goal: int | None = None

    @property
    def is_over(self) -> bool:
        return self.phase in ("done", "failed")

    @property
    def fraction(self) -> float:
        """How far it is, from 0 to 1, as well as is known."""
        if self.is_over:
            return 1.0
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 0.0

    def hear(self, told: Status, now: float) -> None:
        """What its leader says."""
        if told.error_code:
            error = KafkaError.of(told.error_code, told.error_message or "")
            self.suffer(failed(error), now, is_final=not isinstance(error, RetriableError))
            return
        self._heard, self.status = now, told
        if self.must_start:
            self.must_start, self._runs, self._dirty = False, told.runs, told.first_dirty_offset
            self._goal = told.end_offset if self._goal is None else self._goal
        elif told.runs > self._runs:
            self._runs = told.runs
            outcome = Outcome(told.bytes_before, told.bytes_after, told.records_before, told.records_after)
            self.outcome = outcome if self.outcome is None else self.outcome.then(outcome)
        if told.state in UNDER_WAY and not self._has_arrived(told):
            self.phase = told.state
            self.done_bytes, self.total_bytes = told.done_bytes, told.total_bytes
        else:
            self._end(told)

    def _has_arrived(self, told: Status) -> bool:
        """Is everything clean that was there at the start? Where much is written the leader may never be idle."""
        return self.outcome is not None and self._goal is not None and told.first_dirty_offset >= self._goal

    def _end(self, told: Status) -> None:
        """The leader does no more. Perhaps it has not come far enough, since not all keys fit into its memory."""
        if told.state == UNCLEANABLE or told.last_error:
            self._fail(Failed(told.last_error or "the cleaner has given it up"))
        elif self._goal is not None and self._dirty < told.first_dirty_offset < self._goal:
            self.must_start, self.phase = True, WAITING
        else:
            self.phase, self.done_bytes = "done", self.total_bytes

    def suffer(self, why: Failed, now: float, *, is_final: bool) -> None:
        """It was not answered for. That may be better soon, unless it is final or has lasted too long."""
        self.must_start, self.leader = True, -1
        if is_final or now - self._heard >= self.patience:
            self._fail(why)

    def _fail(self, why: Failed) -> None:
        self.phase, self.failure = "failed", why


# --- asking -----------------------------------------------------------------------------------------------------------


async def runs_of(
    cluster: Cluster, topics: Iterable[str], partitions: Sequence[int], patience: float
) -> tuple[list[Run], list[Failed]]:
    """A run for each partition of the topics, or for those named; and what does not exist, or may not be seen."""
    now = asyncio.get_running_loop().time()

    async def one(name: str) -> list[Run]:
        found = (await cluster.patiently(lambda: cluster.topics([name]))).get(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        runs = []
        for index in partitions or sorted(found.leaders):
            run = Run(TopicPartition(name, index), now, patience)
            if index not in found.leaders:
                missing = f"{name} has no partition {index}"
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing)
                run.suffer(failed(error), now, is_final=True)
            runs.append(run)
        return runs

    found = await each_of(dict.fromkeys(topics), one)
    good = [run for each in found.values() if not isinstance(each, Failed) for run in each]
    return good, [each for each in found.values() if isinstance(each, Failed)]


async def step(cluster: Cluster, runs: Iterable[Run]) -> bool:
    """Ask each leader once. False if one of them did not answer: then it takes new connections to ask again."""
    runs = [run for run in runs if not run.is_over]
    await _find_leaders(cluster, [run for run in runs if run.leader < 0])
    led: dict[tuple[int, bool], list[Run]] = {}
    for run in runs:
        if run.leader >= 0:
            led.setdefault((run.leader, run.must_start), []).append(run)
    asked = [(leader, start, tuple(some)) for (leader, start), all_ in led.items() for some in pieces(all_)]
    answers = await each_of(asked, lambda each: _ask(cluster, *each))
    now = asyncio.get_running_loop().time()
    for (_, _, some), answer in answers.items():
        for run in some:
            if isinstance(answer, Failed):
                run.suffer(answer, now, is_final=answer.exit_code != UNREACHABLE)
            elif (told := answer.get(run.place)) is None:
                run.suffer(Failed("its leader said nothing of it"), now, is_final=True)
            else:
                run.hear(told, now)
    return not any(isinstance(answer, Failed) for answer in answers.values())


async def _find_leaders(cluster: Cluster, runs: Sequence[Run]) -> None:
    now = asyncio.get_running_loop().time()
    leaders = await cluster.leaders(run.place for run in runs) if runs else {}
    leader_of = {place: leader for leader, places in leaders.items() for place in places}
    for run in runs:
        run.leader = leader_of[run.place]
        if run.leader < 0:
            run.suffer(Failed("nobody leads it, or it does not exist any more"), now, is_final=False)


async def _ask(
    cluster: Cluster, leader: int, start: bool, runs: Sequence[Run]
) -> dict[TopicPartition, Status]:
    by_topic: dict[str, list[int]] = {}
    for run in runs:
        by_topic.setdefault(run.place.topic, []).append(run.place.partition)
    request = CompactTopicsRequest(
        topics=[CompactTopicsRequest.Topic(name=name, partitions=at) for name, at in by_topic.items()],
        start=start,
    )
    peer = await cluster.broker(leader)
    try:
        answer: CompactTopicsResponse = await peer.send(request, VERSION)
    except ProtocolError:
        raise _foreign(leader, peer.address) from None
    except PeerClosed:
        is_known = any(run.status is not None for run in runs)
        if not is_known and await _is_foreign(cluster, leader, request):
            raise _foreign(leader, peer.address) from None
        raise
    found = {
        TopicPartition(topic.name, row.partition_index): row
        for topic in answer.topics
        for row in topic.partitions
    }
    if any(row.error_code == ErrorCode.UNSUPPORTED_VERSION for row in found.values()):
        raise _foreign(leader, peer.address)
    return found


async def _is_foreign(cluster: Cluster, leader: int, request: CompactTopicsRequest) -> bool:
    """Does that broker live, and hang up whenever it is asked this? So does Kafka with keys that it does not know."""
    address = cluster.brokers[leader]
    try:
        peer = await cluster.connections.to(address, DATA)
        await peer.send(request, VERSION, timeout_ms=cluster.timeout_ms)
    except PeerClosed:
        return True
    except (KafkaError, TimeoutError, ProtocolError):
        return False
    return False


def _foreign(leader: int, address: str) -> Failed:
    return Failed(
        f"broker {leader} at {address} cannot be asked to compact: it is not Ottla, or too old; "
        "it compacts by itself when min.cleanable.dirty.ratio is passed",
        FAILED,
    )


# --- how far they are -------------------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """The runs of one topic, added up."""

    topic: str
    fraction: float
    """From 0 to 1, each partition alike: how large those are that wait is not known."""
    done_bytes: int
    total_bytes: int
    phases: dict[str, int]
    """How many partitions are in which, in the order of `PHASES`."""

    def __str__(self) -> str:
        return ", ".join(f"{count} {phase}" for phase, count in self.phases.items())


def progress(runs: Iterable[Run]) -> list[Progress]:
    """One for each topic."""
    topics: dict[str, list[Run]] = {}
    for run in runs:
        topics.setdefault(run.place.topic, []).append(run)
    found = []
    for topic, each in topics.items():
        counts = Counter(run.phase for run in each)
        found.append(
            Progress(
                topic,
                sum(run.fraction for run in each) / len(each),
                sum(run.done_bytes for run in each),
                sum(run.total_bytes for run in each),
                {phase: counts[phase] for phase in PHASES if counts[phase]},
            )
        )
    return found
