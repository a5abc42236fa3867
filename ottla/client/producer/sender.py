"""Brings batches to the brokers that lead their partitions, and makes of the answers what is to be made of them.

One task looks what can leave: whenever a batch was begun or filled, an answer came, or a time has come. A request to a
broker carries at most one batch of a partition; several requests may be under way to each broker. Nothing waits in
here: a batch either goes, or stays in its queue until the next look.
"""

import asyncio
import logging
import time
from collections.abc import Iterable

from ottla.client.cluster import Cluster
from ottla.client.connections import DATA, translated, version_of
from ottla.client.deadline import backoff_ms
from ottla.client.errors import ClosedError, KafkaTimeoutError, NetworkError
from ottla.client.metadata import Node
from ottla.client.producer.accumulator import Accumulator, PartitionQueue
from ottla.client.producer.batch import Batch, Landed
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.identity import Gate
from ottla.client.producer.request import landed_of, produce_request
from ottla.client.producer.verdict import Verdict, is_number_free, is_refusal, judge
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed, RequestTimedOut
from ottla.protocol.messages.produce import ProduceRequest

logger = logging.getLogger(__name__)

_PARTIAL_IN_FLIGHT = 2
"""A batch that is not full leaves while fewer requests to its broker are under way. Beyond that it gathers: the more
there is to do, the larger batches become, and the fewer requests it takes."""
_LOOK_SECONDS_MAX = 1.0


class Line:
    """What is under way to one broker."""

    __slots__ = ("in_flight", "is_connecting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.is_connecting = False


class Sender:
    """Runs from `start` to `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        gate: Gate,
        look: asyncio.Event,
    ) -> None:
        self._cluster, self._config, self._accumulator = cluster, config, accumulator
        self.gate = gate
        self._look = look
        self._lines: dict[int, Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._main: asyncio.Task[None] | None = None
        self._metadata_wanted: set[str] = set()
        self._is_refreshing = False
        self._refreshed_at = time.monotonic()
        self._linger = config.linger_ms / 1000
        self.sent_requests = self.failed_records = self.retried_batches = 0

    def start(self) -> None:
        self._main = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Nothing leaves any more. Batches that are not done fail."""
        tasks = [each for each in (self._main, *self._tasks) if each is not None]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            # Also when whoever closes is interrupted: others may wait for these without a timeout.
            self._accumulator.close()
            self.fail_all(ClosedError("the producer was closed before the record was acknowledged"))

    def fail_all(self, error: Exception, *, waiting_only: bool = False) -> None:
        """Batches that are not done fail; those under way too, unless only those that wait are meant."""
        for queue in list(self._accumulator.queues.values()):
            with self._accumulator.lock:
                batches = list(queue.waiting)
                queue.waiting.clear()
                if not waiting_only:
                    batches += queue.in_flight
                    queue.in_flight.clear()
            for batch in batches:
                queue.gave_up(batch, is_number_free=False)
                self.failed_records += len(batch.rows)
                self._finish(batch, error)

    # --- the loop -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._look.clear()
            self._accumulator.slept()
            try:
                pause = self._send_what_is_due()
            except Exception:
                logger.exception("the sender stumbled, and goes on")
                pause = _LOOK_SECONDS_MAX
            alarm = loop.call_later(pause, self._look.set)
            try:
                await self._look.wait()
            finally:
                alarm.cancel()

    def _send_what_is_due(self) -> float:
        """Start the requests that can leave now; how long until there may be more without anybody saying so."""
        now = time.monotonic()
        self._keep_metadata_fresh(now)
        if (error := self.gate.take_error()) is not None:
            self.fail_all(error, waiting_only=True)
        while True:
            pause = _LOOK_SECONDS_MAX
            loads: dict[int, list[Batch]] = {}
            sizes: dict[int, int] = {}
            for queue in list(self._accumulator.queues.values()):
                if queue.waiting or queue.in_flight:
                    pause = min(pause, self._expire(queue, now))
                    if queue.waiting:
                        pause = min(pause, self._load(queue, now, loads, sizes))
            for node_id, batches in loads.items():
                self._send(self._cluster.metadata.brokers[node_id], batches)
            if not loads:
                return pause

    def _load(
        self, queue: PartitionQueue, now: float, loads: dict[int, list[Batch]], sizes: dict[int, int]
    ) -> float:
        """Put the next batch of a queue on its broker's load, if it can leave; else, how long until it may."""
        node = self._cluster.metadata.leader(queue.partition)
        if node is None:
            self._want_metadata(queue.partition.topic)
            return _LOOK_SECONDS_MAX
        line = self._lines.setdefault(node.node_id, Line())
        in_flight_max = self._config.max_in_flight_requests_per_connection
        if line.is_connecting or line.in_flight >= in_flight_max:
            return _LOOK_SECONDS_MAX
        if in_flight_max == 1 and queue.in_flight:
            return _LOOK_SECONDS_MAX  # it is under way to the former leader: nothing may overtake it
        size = sizes.get(node.node_id, 0)
        if size and size + queue.waiting[0].size > self._config.max_request_size:
            return 0.0
        if not self.gate.may_send(queue.partition):
            return _LOOK_SECONDS_MAX
        if queue.is_doubtful and queue.is_settled and queue.identity == self.gate.identity:
            self.gate.wants_renewal()
        is_free = line.in_flight < _PARTIAL_IN_FLIGHT

        def is_due(batch: Batch) -> bool:
            if self._accumulator.is_full_batch(batch) or self._accumulator.flushing:
                return True
            return now >= batch.created + self._linger and is_free

        with self._accumulator.lock:
            batch = queue.take(now, is_due, self.gate.identity)
        if batch is None:
            return self._until_due(queue, now)
        loads.setdefault(node.node_id, []).append(batch)
        sizes[node.node_id] = size + batch.size
        return 0.0 if queue.waiting else _LOOK_SECONDS_MAX

    def _until_due(self, queue: PartitionQueue, now: float) -> float:
        head = queue.next_up()
        assert head is not None, "only of a queue in which something waits"
        at = max(head.retry_at, head.created + self._linger)
        return at - now if at > now else _LOOK_SECONDS_MAX

    def _expire(self, queue: PartitionQueue, now: float) -> float:
        """Fail what has waited for too long; when the next would have."""
        # What waits was begun in this order, and there may be hundreds: none is older than the first.
        first = min(
            [each.expires for each in (*queue.in_flight, *queue.waiting[:1])], default=now + _LOOK_SECONDS_MAX
        )
        if first > now:
            return first - now
        late = [each for each in (*queue.in_flight, *queue.waiting) if each.expires <= now]
        for batch in late:
            is_in_flight = batch in queue.in_flight
            with self._accumulator.lock:
                (queue.in_flight if is_in_flight else queue.waiting).remove(batch)
                batch.is_closed = True
            queue.gave_up(batch, is_number_free=False)
            self._fail(batch, self._too_late(batch))
        left = [*queue.in_flight, *queue.waiting]
        return min((each.expires - now for each in left), default=_LOOK_SECONDS_MAX)

    def _too_late(self, batch: Batch) -> Exception:
        state = f"sent {batch.attempts} times" if batch.attempts else "not sent"
        known = self._cluster.metadata.leader(batch.partition)
        reason = "" if batch.why_again is None else f": {batch.why_again}"
        if known is None:
            reason = ": the partition has no leader"
        return KafkaTimeoutError(
            f"{len(batch.rows)} records for {batch.partition} were not acknowledged within "
            f"{self._config.delivery_timeout_ms} ms ({state}){reason}"
        )

    # --- requests -------------------------------------------------------------------------------------------------

    def _send(self, node: Node, batches: list[Batch]) -> None:
        line = self._lines[node.node_id]
        line.in_flight += 1
        # While a connection comes about, one request waits for it: others would overtake each other.
        line.is_connecting = self._cluster.connections.existing(node.address, DATA) is None
        for batch in batches:
            batch.attempts += 1
        task = asyncio.get_running_loop().create_task(self._deliver(node, line, batches))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, node: Node, line: Line, batches: list[Batch]) -> None:
        try:
            answers = await self._ask(node, line, batches)
        except KafkaError as error:
            answers = dict.fromkeys((each.partition for each in batches), error)
        except Exception as error:
            logger.exception("a request could not be made")
            bug = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the request could not be made: {error!r}")
            answers = dict.fromkeys((each.partition for each in batches), bug)
        finally:
            line.in_flight -= 1
            line.is_connecting = False
        try:
            for batch in batches:
                answer = answers.get(batch.partition)
                if answer is None:
                    answer = NetworkError(f"broker {node.node_id} did not answer for {batch.partition}")
                self._answered(batch, answer)
        finally:
            self._look.set()  # behind those who are told: one look is enough for what they send at once

    async def _ask(
        self, node: Node, line: Line, batches: list[Batch]
    ) -> "dict[TopicPartition, Landed | KafkaError]":
        """What the broker says of each batch. Raises KafkaError if it says nothing."""
        config, gate = self._config, self.gate
        try:
            peer = await self._cluster.connections.to(node.address, DATA)
        except KafkaError:
            for batch in batches:
                batch.refused += 1
            raise
        if line.is_connecting:
            line.is_connecting = False
            self._look.set()
        batches = [each for each in batches if each.outcome is None]
        if not batches:
            return {}  # given up while there was no connection: who was told so must not find them written
        version = version_of(peer, ProduceRequest)
        if (version_max := gate.version_max(peer)) is not None:
            version = min(version, version_max)
        request = produce_request(batches, config, gate.transactional_id, self._cluster.metadata, version)
        self.sent_requests += 1
        try:
            if config.acks == 0:
                await peer.send_oneway(request, version, timeout_ms=config.request_timeout_ms)
                return {batch.partition: Landed(-1) for batch in batches}
            answer = await peer.send(request, version, timeout_ms=config.request_timeout_ms)
        except RequestTimedOut as error:
            peer.abort()  # its answers come in order: nothing behind this one would be in time
            raise translated(error) from error
        except (PeerClosed, ProtocolError) as error:
            raise translated(error) from error
        return landed_of(answer, self._cluster.metadata)

    # --- answers --------------------------------------------------------------------------------------------------

    def _answered(self, batch: Batch, answer: Landed | KafkaError) -> None:
        queue = self._accumulator.queue(batch.partition)
        if batch not in queue.in_flight:
            return  # given up meanwhile
        code = answer.code if isinstance(answer, KafkaError) else ErrorCode.NONE
        verdict = judge(
            code,
            count=len(batch.rows),
            has_sequence=batch.has_sequence,
            is_first_unresolved=queue.is_first_unresolved(batch),
            is_transactional=self.gate.is_transactional,
            may_retry=batch.attempts <= self._config.retries,
            is_written_perhaps=batch.attempts - 1 > batch.refused,
        )
        with self._accumulator.lock:
            queue.in_flight.remove(batch)
        if verdict is Verdict.WRITTEN:
            queue.written(batch)
            self._finish(batch, answer if isinstance(answer, Landed) else Landed(-1))
            return
        assert isinstance(answer, KafkaError), "only errors are judged otherwise"
        if isinstance(answer, StaleMetadataError):
            self._want_metadata(batch.partition.topic)
        if verdict is Verdict.FAIL:
            queue.gave_up(batch, is_number_free=is_number_free(answer, batch.attempts))
            self._fail(batch, answer)
        elif verdict is Verdict.SPLIT:
            self._split(queue, batch)
        else:
            self._again(queue, batch, verdict, answer)

    def _again(self, queue: PartitionQueue, batch: Batch, verdict: Verdict, why: KafkaError) -> None:
        logger.debug("%r is sent again: %s", batch, why)
        self.retried_batches += 1
        batch.why_again = why
        batch.refused += is_refusal(why)
        if verdict is Verdict.RENUMBER:
            if why.code == ErrorCode.INVALID_PRODUCER_EPOCH:
                self.gate.id_is_taken()
            batch.renumber()
            queue.is_doubtful = True  # so that the next look makes us somebody else
        if verdict is Verdict.RETRY or batch.attempts > 1:
            config = self._config
            pause_ms = backoff_ms(config.retry_backoff_ms, config.retry_backoff_max_ms, batch.attempts - 1)
            batch.retry_at = time.monotonic() + pause_ms / 1000
        with self._accumulator.lock:
            queue.put_back(batch)

    def _split(self, queue: PartitionQueue, batch: Batch) -> None:
        halves = batch.halved()

        def both_done() -> None:
            if all(half.outcome is not None for half in halves):
                batch.finish(Landed(-1))

        for half in halves:
            half.when_done(both_done)
        with self._accumulator.lock:
            queue.put_back(*halves)

    def _fail(self, batch: Batch, error: Exception) -> None:
        self.failed_records += len(batch.rows)
        self._finish(batch, self.gate.failed(batch, error))

    def _finish(self, batch: Batch, outcome: Landed | Exception) -> None:
        self._accumulator.release([batch])
        batch.finish(outcome)

    # --- metadata -------------------------------------------------------------------------------------------------

    def _want_metadata(self, topic: str) -> None:
        if topic not in self._metadata_wanted:  # else every look would call for the next one
            self._metadata_wanted.add(topic)
            self._look.set()

    def _keep_metadata_fresh(self, now: float) -> None:
        if now - self._refreshed_at > self._config.metadata_max_age_ms / 1000:
            self._metadata_wanted.update(partition.topic for partition in self._accumulator.queues)
            self._refreshed_at = now
        if self._metadata_wanted and not self._is_refreshing:
            self._is_refreshing = True
            topics, self._metadata_wanted = self._metadata_wanted, set()
            task = asyncio.ensure_future(self._refresh(topics))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _refresh(self, topics: Iterable[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except KafkaError as error:
            logger.debug("no news of the cluster: %s", error)
        finally:
            # Not at once again: while there is no leader, every look would ask.
            await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            self._is_refreshing = False
            self._look.set()
