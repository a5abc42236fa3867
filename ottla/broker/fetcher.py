"""A follower's connection to one leader: ask for what is missing, write what comes, ask again.

A fetcher talks to one leader, in one fetch session, with one request under way: so there is one question about each
partition under way, and an answer belongs to it. `Partition.answer` decides what becomes of the log. A topic that wants
its records on the disk before they are acknowledged (flush.messages=1) gets that here too: the next question, which
tells the leader what we have, waits for the sync.

What goes wrong with one partition delays that one alone, and longer every time, up to replica.fetch.backoff.ms.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.follower_offsets import leader_ranges
from ottla.broker.follower_session import Asked, FollowerSession, Place
from ottla.broker.peers import Peers
from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.network.peer import Peer
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.replication.exchange import FetchAnswer, FetchQuestion
from ottla.replication.following import Outcome
from ottla.replication.partition import Partition
from ottla.replication.throttle import RateLimit, ThrottledReplicas, may_ask, throttled_replicas
from ottla.storage.epochs import EpochEnd

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 20
"""Before something is tried again. Orders reach leader and follower at different moments, mostly a little apart."""
_THROTTLED_MS = 100
_APPLIED_AT_A_TIME = 8
"""Answers that are written before requests get their turn."""
_GRACE_S = 0.01
"""For an answer that may be on its way, before its connection is dropped to ask about a new partition. Twice as long
every time until one arrives: a long one takes its time, and partitions may keep coming."""


class _Followed:
    """A partition that is fetched, and what is in the way of that."""

    __slots__ = ("failures", "leader_epoch", "partition", "paused_until_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.failures = 0
        self.paused_until_ms = 0

    @property
    def place(self) -> Place:
        return self.partition.topic_id, self.partition.topic_partition.partition

    @property
    def throttled(self) -> ThrottledReplicas:
        return throttled_replicas(self.partition.config.follower_replication_throttled_replicas)


class Fetcher:
    """Fetches some of the partitions that one broker leads. Ends by itself when none is left."""

    def __init__(self, broker: "Broker", peers: Peers, limit: RateLimit, leader: int, index: int) -> None:
        self.key = leader, index
        self.on_idle: Callable[[Fetcher], object] = lambda fetcher: None
        """Called when nothing is left to fetch: it ends then."""
        self._leader = leader
        self._broker = broker
        self._peers = peers
        self._limit = limit
        self._followed: dict[Place, _Followed] = {}
        self._due: set[Place] = set()
        """Whose question is to be asked anew."""
        self._session = FollowerSession()
        self._news = asyncio.Event()
        self._has_new = False
        """Has a partition come that no request speaks of yet?"""
        self._on_new: Callable[[], object] | None = None
        """To be called then, by whoever waits for an answer."""
        self._failures = 0
        self._drops = 0
        """Connections that were dropped for new partitions, one after the other."""
        self._was_refused = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetch from broker {leader}")

    # --- what to fetch ------------------------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Fetch this one too. A new leader epoch means to start afresh: whatever was wrong may be well now."""
        followed = _Followed(partition)
        known = self._followed.get(followed.place)
        if known is None or known.partition is not partition or known.leader_epoch != partition.leader_epoch:
            self._followed[followed.place] = followed
            self._due.add(followed.place)
            self._has_new = True
            self._news.set()
            if self._on_new is not None:
                self._on_new()

    def remove(self, partition: Partition) -> None:
        place = partition.topic_id, partition.topic_partition.partition
        self._followed.pop(place, None)
        self._due.discard(place)
        self._session.forget(place)
        self._news.set()

    def partitions(self) -> list[Partition]:
        return [followed.partition for followed in self._followed.values()]

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._followed:
                await self._fetch_or_wait()
            self.on_idle(self)
        finally:
            self._peers.drop(self)

    async def _fetch_or_wait(self) -> None:
        try:
            await self._ask_anew()
            if len(self._session):
                await self._fetch()
                self._failures = 0
                return
        except (OttlaError, OSError) as error:
            self._session.start_over()
            self._peers.drop(self)
            self._failures += 1
            logger.info("cannot fetch from broker %d: %s", self._leader, error)
            await self._sleep(self._pause_ms(self._failures))
            return
        except Exception:
            logger.exception("a failure of ours: fetching from broker %d starts over", self._leader)
            self._session.start_over()
            self._failures += 1
            await self._sleep(self._pause_ms(self._failures))
            return
        await self._sleep(self._wait_ms())

    async def _sleep(self, ms: int) -> None:
        """Until there is something new to do, at most so long."""
        self._news.clear()
        timer = asyncio.get_running_loop().call_later(ms / 1000, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def _wait_ms(self) -> int:
        """Until the first partition may be asked for again."""
        now_ms = self._broker.clock.monotonic_ms()
        pauses = (self._followed[place].paused_until_ms - now_ms for place in self._due)
        return max(1, min(pauses, default=self._broker.config.replica_fetch_backoff_ms or 1))

    def _pause_ms(self, failures: int) -> int:
        longest: int = self._broker.config.replica_fetch_backoff_ms
        return max(1, min(longest, _FIRST_PAUSE_MS << min(failures - 1, 10)))

    # --- asking -------------------------------------------------------------------------------------------------

    async def _ask_anew(self) -> None:
        """Renew the questions of partitions whose log has changed, or whose pause is over."""
        now_ms = self._broker.clock.monotonic_ms()
        self._has_new = False
        self._hold_throttled(now_ms)
        ready = [place for place in sorted(self._due) if self._followed[place].paused_until_ms <= now_ms]
        synced = await self._sync(ready)
        for place in ready:
            followed = self._followed.get(place)
            if followed is None or place not in synced:
                continue
            self._due.discard(place)
            partition = followed.partition
            question = partition.question()
            if question is None:
                self._session.forget(place)
            else:
                bytes_max = self._broker.config.replica_fetch_max_bytes
                self._session.want(place, Asked(question, partition.high_watermark.value, bytes_max))

    def _hold_throttled(self, now_ms: int) -> None:
        """Over the rate, throttled partitions are left out (KIP-73)."""
        limit, us = self._limit, self._broker.node_id
        if limit.is_exceeded(now_ms):
            for place, followed in self._followed.items():
                is_caught_up = followed.partition.is_caught_up
                if not may_ask(limit, (place[1], us), followed.throttled, now_ms, is_caught_up=is_caught_up):
                    self._pause(place, followed, now_ms + _THROTTLED_MS)

    async def _sync(self, places: Iterable[Place]) -> set[Place]:
        """Those of which the leader may be told what we have: all, unless the disk refuses."""
        synced: set[Place] = set()
        waits = []
        for place in places:
            followed = self._followed[place]
            if followed.partition.log.is_flush_due(self._broker.clock.now_ms()):
                waits.append(self._sync_one(place, followed, synced))
            else:
                synced.add(place)
        if waits:
            await asyncio.gather(*waits)
        return synced

    async def _sync_one(self, place: Place, followed: _Followed, synced: set[Place]) -> None:
        log = followed.partition.log
        try:
            await self._broker.replicas.commit_of(log).reach(log.end_offset)
            synced.add(place)
        except KafkaError as error:
            self._failed(place, followed, error)

    async def _fetch(self) -> None:
        config = self._broker.config
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._broker.node_id, replica_epoch=self._broker.controller.broker_epoch
            ),
            max_wait_ms=0,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            topics=[],
        )
        pauses = self._wait_ms() if self._due else config.replica_fetch_wait_max_ms
        request.max_wait_ms = min(config.replica_fetch_wait_max_ms, pauses)
        peer = await self._peers.to(self._leader, self)
        response = await self._send(peer, self._session.fill(request))
        if response is None:
            return
        if self._session.answered(response):
            self._was_refused = False
            await self._apply(response)
            peer.recycle()  # what came is written
        elif self._was_refused:
            raise KafkaError.of(response.error_code, "the fetch session was refused again")
        else:
            self._was_refused = True  # to start over at once is fine, once

    async def _send(self, peer: Peer, request: FetchRequest) -> FetchResponse | None:
        """The answer; None if a partition has come meanwhile that is not to wait until a leader without news speaks."""
        answer = await peer.post(request, timeout_ms=self._timeout_ms + request.max_wait_ms)
        while not answer.done():
            if not self._has_new:  # one may have come while we were connecting
                await self._answered_or_new(answer)
            if self._has_new and not answer.done():
                await asyncio.wait((answer,), timeout=_GRACE_S * (1 << min(self._drops, 10)))
                if not answer.done():
                    self._drops += 1
                    self._peers.drop(self)
                    self._session.start_over()
                    return None
        self._drops = 0
        response: FetchResponse = answer.result()
        return response

    async def _answered_or_new(self, answer: "asyncio.Future[Any]") -> None:
        """Until there is an answer, or a partition has come. Every fetch waits here: so no task, and no event."""
        either: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(_: object = None) -> None:
            if not either.done():
                either.set_result(None)

        answer.add_done_callback(settle)
        self._on_new = settle
        try:
            await either
        finally:
            self._on_new = None
            answer.remove_done_callback(settle)

    # --- answers ------------------------------------------------------------------------------------------------

    async def _apply(self, response: FetchResponse) -> None:
        lost: list[tuple[Place, FetchQuestion]] = []
        for count, (place, answer) in enumerate(_answers(response), 1):
            followed, question = self._followed.get(place), self._session.asked(place)
            if followed is None or question is None:
                continue
            outcome = self._apply_one(place, followed, question, answer)
            if outcome is Outcome.OUT_OF_RANGE:
                lost.append((place, question))
            if count % _APPLIED_AT_A_TIME == 0:
                await asyncio.sleep(0)
        if lost:
            await self._find_ranges(lost)

    def _apply_one(
        self,
        place: Place,
        followed: _Followed,
        question: FetchQuestion,
        answer: FetchResponse.Topic.Partition,
    ) -> Outcome:
        """Write what came. A disk that fails takes its directory out of service, and with it our part in it."""
        told = _told(answer)
        try:
            outcome = followed.partition.answer(question, told, self._broker.clock.now_ms())
        except KafkaError as error:
            self._failed(place, followed, error)
            return Outcome.REFUSED
        if outcome is Outcome.REFUSED:
            self._failed(place, followed, KafkaError(told.error, "the leader refused"))
            return outcome
        if outcome in _CHANGE and followed.partition.question() == question:
            detail = f"{outcome.name} changes nothing"  # not to ask the same for ever without a pause
            self._failed(place, followed, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail))
            return outcome
        followed.failures = 0
        self._due.add(place)
        if outcome is Outcome.APPENDED:
            self._account(followed, len(told.records))
        return outcome

    def _account(self, followed: _Followed, size: int) -> None:
        self._broker.metrics.replication_bytes_in.labels().value += size
        partition = followed.partition.topic_partition.partition
        if followed.throttled and (partition, self._broker.node_id) in followed.throttled:
            self._limit.record(size, self._broker.clock.monotonic_ms())

    def _failed(self, place: Place, followed: _Followed, error: KafkaError) -> None:
        """Leave it alone for a while. Whether we still follow the right leader, the controller will say."""
        name = followed.partition.topic_partition
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._broker.replicas.note_failure(followed.partition)
        if self._followed.get(place) is not followed:
            return  # it went with its directory
        followed.failures += 1
        level = logging.INFO if error.code in _PASSING else logging.WARNING
        logger.log(level, "%s cannot be fetched from broker %d: %s", name, self._leader, error)
        self._pause(place, followed, self._broker.clock.monotonic_ms() + self._pause_ms(followed.failures))

    def _pause(self, place: Place, followed: _Followed, until_ms: int) -> None:
        followed.paused_until_ms = max(followed.paused_until_ms, until_ms)
        self._session.forget(place)
        self._due.add(place)

    async def _find_ranges(self, lost: list[tuple[Place, FetchQuestion]]) -> None:
        """The leader has nothing where our log ends: ask where its log begins and ends, and go there."""
        names = {
            place: self._followed[place].partition.topic_partition
            for place, _ in lost
            if place in self._followed
        }
        peer = await self._peers.to(self._leader, self)
        asked = {names[place]: question for place, question in lost if place in names}
        ranges = await leader_ranges(peer, self._broker.node_id, asked, self._timeout_ms)
        for place, question in lost:
            followed = self._followed.get(place)
            if followed is None or place not in names:  # it has gone, and may have come back
                continue
            found = ranges[names[place]]
            try:
                if isinstance(found, KafkaError):
                    raise found
                outcome = followed.partition.out_of_range(question, *found)
                logger.warning("%s was outside of its leader's log %s: %s", names[place], found, outcome.name)
                if outcome is Outcome.NOTHING:
                    raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "though it is in range")
            except KafkaError as error:
                self._failed(place, followed, error)
            else:
                self._due.add(place)

    @property
    def _timeout_ms(self) -> int:
        timeout: int = self._broker.config.replica_socket_timeout_ms
        return timeout


_CHANGE = {Outcome.TRUNCATED, Outcome.STALE}
_PASSING = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.STALE_BROKER_EPOCH,
}
"""What is heard while orders are under way."""


def _answers(response: FetchResponse) -> Iterator[tuple[Place, FetchResponse.Topic.Partition]]:
    for topic in response.responses:
        for answer in topic.partitions:
            yield (topic.topic_id, answer.partition_index), answer


def _told(answer: FetchResponse.Topic.Partition) -> FetchAnswer:
    parted = answer.diverging_epoch
    records: Any = answer.records
    return FetchAnswer(
        error=KafkaError.of(answer.error_code).code,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        diverging=None if parted is None else EpochEnd(parted.epoch, parted.end_offset),
        records=b"" if records is None else records,
    )
