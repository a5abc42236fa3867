"""Transactions of a producer: who it is, what is in the current one, and how it ends.

Kafka has two ways. In the old one partitions are added before the first record leaves for them, and the epoch stays. In
the new one (transaction.version 2, KIP-890) records add their partitions themselves, and every end brings another
epoch, so that nothing of one transaction can slip into the next. Which one holds is the cluster's choice.

An error that spoils a transaction is remembered until it is aborted; one that shows that another producer has taken
over is for good.
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Any

from ottla.client.cluster import GROUP, TRANSACTION, Cluster
from ottla.client.connections import COORDINATOR, version_of
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import (
    CommitFailedError,
    IllegalStateError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ottla.client.producer.batch import NOBODY, Batch, Identity
from ottla.client.producer.config import ProducerConfig
from ottla.client.records import GroupMetadata, OffsetAndMetadata, Offsets, with_notes
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)


class State(enum.Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = "init_transactions() was not called"
    READY = "no transaction has begun"
    OPEN = "a transaction is open"
    COMMITTING = "a transaction is being committed"
    ABORTING = "a transaction is being aborted"
    SPOILT = "the transaction has failed, and can only be aborted"
    FENCED = "the producer has failed, and can only be closed"


_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
_FINAL = {
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_NOT_OURS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
}
_OLD_PRODUCE, _OLD_ADD, _OLD_END, _OLD_OFFSETS = 11, 3, 4, 4
"""The last versions of the old way."""
_BUMP_SINCE = 3  # InitProducerId
_ADD_PAUSE_MS = 20  # the broker is still writing the end of the last transaction: that takes a moment


class Transactions:
    """Of one producer. The `Gate` of its sender."""

    is_transactional = True

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        look: asyncio.Event,
        has_doubts: Callable[[], bool],
    ) -> None:
        """`has_doubts` says whether some partition's numbers cannot be used any more."""
        assert config.transactional_id is not None, "only with a transactional id"
        self.transactional_id: str = config.transactional_id
        self.identity = NOBODY
        self.state = State.UNINITIALIZED
        self._cluster, self._config, self._look, self._has_doubts = cluster, config, look, has_doubts
        self._cause: Exception | None = None
        self._is_new_way = False
        self._has_begun = False
        """Whether the coordinator knows of the transaction, so that it must be told how it ends."""
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._unsure: set[TopicPartition] = set()
        """Asked to be added, without an answer: the coordinator may know of the transaction, or not."""
        self._adding: asyncio.Task[None] | None = None

    # --- what applications call -----------------------------------------------------------------------------------

    async def init(self, deadline: Deadline) -> None:
        """Become the one producer of this id. Transactions of an earlier one are finished before this returns."""
        self._check(State.UNINITIALIZED)
        await self._patiently(lambda: self._init(NOBODY), deadline, "the transactional id was not had")
        self.state = State.READY

    def begin(self) -> None:
        self._check(State.READY)
        self.state, self._has_begun = State.OPEN, False
        self._added.clear()
        self._unsure.clear()

    def check_open(self) -> None:
        """Raises if records cannot be added now."""
        self._check(State.OPEN)

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata, deadline: Deadline) -> None:
        """Commit offsets of a group with the transaction."""
        self._check(State.OPEN)
        rows = with_notes(offsets)
        if not rows:
            return
        if not self._is_new_way:
            await self._patiently(
                lambda: self._add_offsets(group.group_id), deadline, "the offsets were not added"
            )
        self._has_begun = True
        await self._patiently(
            lambda: self._commit_offsets(rows, group), deadline, "the offsets were not committed"
        )

    def closing(self, is_commit: bool) -> None:
        """Nothing may be added any more. Raises if the transaction cannot end that way."""
        allowed = (State.OPEN, State.COMMITTING) if is_commit else (State.OPEN, State.ABORTING, State.SPOILT)
        self._check(*allowed)
        self.state = State.COMMITTING if is_commit else State.ABORTING
        if not is_commit:
            self._to_add.clear()

    async def end(self, is_commit: bool, deadline: Deadline) -> None:
        """Everything has left: tell the coordinator. After a timeout it may be called again."""
        self._check(State.COMMITTING if is_commit else State.ABORTING)
        what = "committed" if is_commit else "aborted"
        await self._know_whether_begun(deadline)
        if self._has_begun:
            await self._patiently(
                lambda: self._end(is_commit), deadline, f"the transaction was perhaps not {what}"
            )
            self._has_begun = False
        if self._has_doubts():
            await self._patiently(lambda: self._init(self.identity), deadline, "the epoch was not raised")
        self.state, self._cause = State.READY, None

    async def _know_whether_begun(self, deadline: Deadline) -> None:
        """A transaction that the coordinator knows of and that nobody ends would run into its timeout."""
        await self.close()
        if self._unsure and not self._has_begun:
            unsure = frozenset(self._unsure)
            await self._patiently(lambda: self._add(unsure), deadline, "the partitions were not added")
            self._has_begun = True

    # --- what the sender asks -------------------------------------------------------------------------------------

    def may_send(self, partition: TopicPartition) -> bool:
        if self.state not in (State.OPEN, State.COMMITTING):
            return False
        if self._is_new_way:
            self._has_begun = True
            return True
        if partition in self._added:
            return True
        self._to_add.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.ensure_future(self._add_all())
        return False

    def wants_renewal(self) -> None:
        """Between transactions only: see `end`."""

    def id_is_taken(self) -> None:
        """Then we are fenced: `failed` is told."""

    def take_error(self) -> Exception | None:
        """Also what comes back of a transaction that is being aborted has no future."""
        if self.state is State.ABORTING:
            return IllegalStateError("the transaction was aborted")
        return self._failure() if self.state in (State.SPOILT, State.FENCED) else None

    def failed(self, batch: Batch, error: Exception) -> Exception:
        if self.state in (State.OPEN, State.COMMITTING):
            self._spoil(error)
        return error

    def version_max(self, peer: Peer) -> int | None:
        return None if self._is_new_way else _OLD_PRODUCE

    async def close(self) -> None:
        """Ask for no more partitions."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    # --- requests -------------------------------------------------------------------------------------------------

    async def _init(self, before: Identity) -> None:
        node_id = await self._cluster.coordinator(TRANSACTION, self.transactional_id)
        peer = await self._cluster.peer(node_id, COORDINATOR)
        if version_of(peer, InitProducerIdRequest) < _BUMP_SINCE:
            before = NOBODY  # older brokers raise the epoch whoever asks
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=before.producer_id,
            producer_epoch=before.epoch,
        )
        answer = await self._ask(request, "the producer's id")
        self.identity = Identity(answer.producer_id, answer.producer_epoch)
        self._is_new_way = peer.features.get("transaction.version", 0) >= 2

    async def _add_all(self) -> None:
        """Add the partitions that records wait for. What fails spoils the transaction."""
        backoff = Backoff(_ADD_PAUSE_MS, self._config.retry_backoff_max_ms)
        while self._to_add and self.state in (State.OPEN, State.COMMITTING):
            partitions = frozenset(self._to_add)
            self._unsure |= partitions
            try:
                await self._add(partitions)
            except RetriableError:
                await asyncio.sleep(backoff.next_ms() / 1000)
            except KafkaError as error:
                self._unsure -= partitions
                self._spoil(error)
                return
            else:
                self._has_begun = True
                self._added |= partitions
                self._to_add -= partitions
                self._look.set()

    async def _add(self, partitions: frozenset[TopicPartition]) -> None:
        topics: dict[str, AddedTopic] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, AddedTopic(name=topic, partitions=[])).partitions.append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        answer = await self._ask(request, "the transaction", version_max=_OLD_ADD)
        for row in answer.results_by_topic_v3_and_below:
            for each in row.results_by_partition:
                # Others fail with OPERATION_NOT_ATTEMPTED because of the one that says why.
                if each.partition_error_code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                    self._raise(each.partition_error_code, f"{row.name}-{each.partition_index}")

    async def _add_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group_id,
        )
        await self._ask(request, f"the offsets of group {group_id!r}", version_max=3)

    async def _commit_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        answer = await self._cluster.ask_coordinator(
            GROUP,
            group.group_id,
            self._offsets_request(offsets, group),
            version_max=None if self._is_new_way else _OLD_OFFSETS,
        )
        for row in answer.topics:
            for each in row.partitions:
                code = each.error_code
                if code and KafkaError.of(code).code.category is ErrorCode.NOT_COORDINATOR.category:
                    self._cluster.forget_coordinator(GROUP, group.group_id)
                if code in _NOT_OURS:
                    raise CommitFailedError(
                        f"the group {group.group_id!r} has gone on without this member: {KafkaError.of(code)}"
                    )
                self._raise(code, f"the offset of {row.name}-{each.partition_index}")

    def _offsets_request(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, TxnOffsetCommitRequest.Topic] = {}
        for (name, number), each in offsets.items():
            topic = topics.setdefault(name, TxnOffsetCommitRequest.Topic(name=name, partitions=[]))
            topic.partitions.append(
                TxnOffsetCommitRequest.Topic.Partition(
                    partition_index=number,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )

    async def _end(self, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=is_commit,
        )
        limit = None if self._is_new_way else _OLD_END
        answer = await self._ask(request, "the end of the transaction", version_max=limit)
        if self._is_new_way and answer.producer_id >= 0:
            self.identity = Identity(answer.producer_id, answer.producer_epoch)

    async def _ask(self, request: object, about: str, version_max: int | None = None) -> Any:
        """What the coordinator says; its errors raised."""
        answer = await self._cluster.ask_coordinator(
            TRANSACTION, self.transactional_id, request, version_max=version_max
        )
        code = getattr(answer, "error_code", 0)
        if code:
            if isinstance(KafkaError.of(code), StaleMetadataError):
                self._cluster.forget_coordinator(TRANSACTION, self.transactional_id)
            self._raise(code, about)
        return answer

    # --- errors -----------------------------------------------------------------------------------------------------

    def _raise(self, code: int, about: str) -> None:
        """Raise what a code means for us."""
        if code in _FENCED:
            raise ProducerFencedError(
                f"another producer uses the transactional id {self.transactional_id!r}, or the transaction took longer "
                f"than transaction.timeout.ms ({self._config.transaction_timeout_ms} ms)"
            )
        if code:
            raise KafkaError.of(code, about)

    async def _patiently(self, attempt: Callable[[], Any], deadline: Deadline, failed: str) -> None:
        try:
            await self._cluster.patiently(attempt, deadline, failed)
        except KafkaError as error:
            if not isinstance(error, RetriableError):
                self._spoil(error)
            raise

    def _spoil(self, error: Exception) -> None:
        """Remember what has gone wrong: nothing of the transaction leaves any more."""
        if isinstance(error, ProducerFencedError) or (isinstance(error, KafkaError) and error.code in _FINAL):
            self.state = State.FENCED
        elif self.state is State.UNINITIALIZED or self.state is State.FENCED:
            return
        elif self.state is not State.ABORTING:
            self.state = State.SPOILT
        self._cause = error
        self._look.set()

    def _failure(self) -> KafkaError:
        """What those hear who go on as if nothing had happened."""
        if self.state is State.FENCED:
            if isinstance(self._cause, ProducerFencedError):
                return ProducerFencedError(str(self._cause))
            return IllegalStateError(f"the producer has failed, and can only be closed: {self._cause}")
        return TransactionAbortableError(f"the transaction can only be aborted: {self._cause}")

    def _check(self, *allowed: State) -> None:
        if self.state in allowed:
            return
        if self.state in (State.FENCED, State.SPOILT):
            raise self._failure() from self._cause
        raise IllegalStateError(f"not possible now: {self.state.value}")
