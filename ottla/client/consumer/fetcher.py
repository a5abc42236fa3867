"""Fetching in the background: one request under way to each broker, for every partition that there is room for.

`fetch` looks what could be asked now, and asks; it is called when something has changed: an answer came, records were
handed out, a partition got a position. A broker is left alone while a partition of it is full (the application has
enough to do, and a request that waits for records of the others would hold it back), unless somebody waits.

What an answer says is judged in `answers.py`; errors that an application must see are kept for the next poll.
"""

import asyncio
import logging
from collections.abc import Callable

from ottla.client.cluster import Cluster
from ottla.client.connections import DATA, ask, version_of
from ottla.client.consumer.answers import Answers
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.session import IDS_SINCE, SESSION_ERRORS, FetchSession, Wanted, all_have_ids
from ottla.client.consumer.subscription import PartitionState, Subscription
from ottla.client.consumer.undelivered import Undelivered
from ottla.client.deadline import Backoff, Deadline
from ottla.client.metadata import PartitionInfo
from ottla.core.errors import ErrorCode, KafkaError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.fetch import FetchRequest

logger = logging.getLogger(__name__)

_MS = 1000
_GOODBYE_MS = 500
_ROOM_IN_TIME_MS = 5000  # beyond max_wait_ms: a broker that is busy may be late


class _Line:
    """What we have with one broker."""

    __slots__ = ("backoff", "not_before", "session", "task")

    def __init__(self, config: ConsumerConfig) -> None:
        self.session = FetchSession()
        self.task: asyncio.Task[None] | None = None
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.not_before = 0.0


class Fetcher:
    """Of one consumer. `wake` is called when there is something for a poll to look at; `refresh` asks for fresh
    metadata, `validate` for a check of positions whose leader has changed."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        undelivered: Undelivered,
        answers: Answers,
        *,
        wake: Callable[[], None],
        refresh: Callable[[], None],
        validate: Callable[[], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._undelivered, self._answers = undelivered, answers
        self._wake, self._refresh, self._validate = wake, refresh, validate
        self._lines: dict[int, _Line] = {}
        self._is_awaited = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """Not asked of the timer: uvloop's for what is due at once does not know."""
        self.error: Exception | None = None
        """No broker will ever talk to us."""

    # --- what to ask ----------------------------------------------------------------------------------------------

    def await_records(self, is_awaited: bool) -> None:
        """Whether somebody waits for records: then full partitions do not hold back others."""
        self._is_awaited = is_awaited
        if is_awaited:
            self.fetch()

    def fetch(self) -> None:
        """Ask every broker that may be asked now."""
        if self._is_closed:
            return
        now = asyncio.get_running_loop().time()
        wanted: dict[int, dict[TopicPartition, Wanted]] = {}
        held_back: set[int] = set()
        for partition, state in self._subscription.partitions.items():
            if not state.is_fetchable or partition in self._answers.errors:
                continue
            info = self._cluster.metadata.partition(partition)
            node_id = self._node_for(state, info, now)
            if node_id is None or info is None or not self._may_ask(node_id, state, now):
                continue
            if self._undelivered.is_full(state):
                held_back.add(node_id)
                continue
            position = self._undelivered.end(state)
            topic_id = self._cluster.metadata.topic_id(partition.topic)
            wanted.setdefault(node_id, {})[partition] = Wanted(
                position.offset, position.offset_epoch, info.leader_epoch, topic_id, state.life
            )
        for node_id, partitions in wanted.items():
            if self._is_awaited or node_id not in held_back:
                line = self._lines[node_id]
                line.task = asyncio.ensure_future(self._ask(node_id, line, partitions))

    def _node_for(self, state: PartitionState, info: PartitionInfo | None, now: float) -> int | None:
        """The broker to read from. None if it is not known, or if the position is to be checked first."""
        brokers = self._cluster.metadata.brokers
        if info is None or info.leader not in brokers:
            self._refresh()
            return None
        if info.leader_epoch != state.leader_epoch:
            assert state.position is not None, "it is fetchable"
            is_other = state.is_in_another(self._cluster.metadata.topic_id(info.topic))
            if state.position.offset_epoch >= 0 and info.leader_epoch >= 0 and not is_other:
                state.needs_validation = True
                self._validate()
                return None
            state.leader_epoch = info.leader_epoch
        if state.preferred_replica >= 0:
            if state.preferred_replica in brokers and now < state.preferred_until:
                return state.preferred_replica
            if state.preferred_replica not in brokers:
                # The leader knows more than we do, and sends us there again until we do too.
                self._refresh()
                state.retry_at = now + self._config.retry_backoff_ms / _MS
            state.preferred_replica = -1
        return info.leader

    def _may_ask(self, node_id: int, state: PartitionState, now: float) -> bool:
        line = self._lines.get(node_id)
        if line is None:
            line = self._lines[node_id] = _Line(self._config)
        if line.task is not None:
            return False
        later = max(line.not_before, state.retry_at)
        if later > now:
            self._fetch_at(later)
            return False
        return True

    def _fetch_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._timed_fetch)

    def _timed_fetch(self) -> None:
        self._timer = None
        self.fetch()

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask(self, node_id: int, line: _Line, wanted: dict[TopicPartition, Wanted]) -> None:
        try:
            await self._exchange(node_id, line, wanted)
            line.backoff.reset()
        except KafkaError as error:
            line.session.lose()
            level = logging.WARNING if line.backoff.is_fresh else logging.DEBUG
            line.not_before = asyncio.get_running_loop().time() + line.backoff.next_ms() / _MS
            for partition in wanted:
                if (state := self._subscription.partitions.get(partition)) is not None:
                    state.preferred_replica = -1
            if isinstance(error, RetriableError) or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                logger.log(level, "a fetch from broker %d failed: %s", node_id, error)
                self._refresh()
            else:
                self.error = error
        except Exception as error:  # nobody awaits this task: the next poll must hear of everything
            line.session.lose()
            line.not_before = asyncio.get_running_loop().time() + line.backoff.next_ms() / _MS
            self.error = error
        finally:
            line.task = None
        self.fetch()
        self._wake()

    async def _exchange(self, node_id: int, line: _Line, wanted: dict[TopicPartition, Wanted]) -> None:
        peer = await self._cluster.peer(node_id, DATA)
        version = version_of(peer, FetchRequest)
        if not all_have_ids(wanted.values()):
            version = min(version, IDS_SINCE - 1)
        request = line.session.request(wanted, version, self._config)
        is_new = line.session.is_new
        patience_ms = max(self._config.request_timeout_ms, self._config.fetch_max_wait_ms + _ROOM_IN_TIME_MS)
        answer = await ask(peer, request, timeout_ms=patience_ms, version=version)
        if line.session.accept(answer):
            for fetched in self._answers.read(answer, node_id, wanted, version):
                self._undelivered.add(fetched)
            peer.recycle()  # records were copied: nothing looks at the answer any more
        elif is_new or answer.error_code not in SESSION_ERRORS:
            # A session that is refused before it began will be refused again: not without a pause.
            raise KafkaError.of(answer.error_code, f"a fetch from broker {node_id}")

    # --- the end ------------------------------------------------------------------------------------------------------

    async def close(self, deadline: Deadline) -> None:
        """Stop, and tell brokers that they may forget us, if they listen."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        idle = {node_id: line for node_id, line in self._lines.items() if line.task is None}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(
            *(self._say_goodbye(node_id, line, deadline) for node_id, line in idle.items()),
            return_exceptions=True,
        )

    async def _say_goodbye(self, node_id: int, line: _Line, deadline: Deadline) -> None:
        """Only where a connection is open and no fetch is under way: behind that it would wait."""
        request, node = line.session.goodbye(), self._cluster.metadata.brokers.get(node_id)
        if request is None or node is None:
            return
        peer = self._cluster.connections.existing(node.address, DATA)
        if peer is not None:
            await ask(peer, request, timeout_ms=deadline.left_ms(_GOODBYE_MS))
