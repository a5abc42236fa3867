"""Who a producer is to brokers: nobody, or one with an id, whose batches have numbers.

An idempotent producer without transactions raises its epoch when its numbers cannot be used any more (KIP-360): a
request of its former life that is late finds the newer epoch in the log, and is refused.
"""

import asyncio
from typing import Protocol

from ottla.client.cluster import Cluster
from ottla.client.deadline import Backoff
from ottla.client.producer.batch import NOBODY, Batch, Identity
from ottla.core.errors import KafkaError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.transactions import InitProducerIdRequest

_NO_TIMEOUT_MS = 2**31 - 1
_EPOCH_MAX = 2**15 - 1


class Gate(Protocol):
    """What the sender asks before a batch leaves, and tells when one has failed."""

    @property
    def is_transactional(self) -> bool: ...

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def identity(self) -> Identity: ...

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether records for that partition may leave now. If not, it is seen to that they may soon."""

    def wants_renewal(self) -> None:
        """The numbers of some partition cannot be used any more: become somebody else."""

    def id_is_taken(self) -> None:
        """A log has batches of our id that are not ours: a higher epoch would not help."""

    def take_error(self) -> Exception | None:
        """Why nothing that waits can leave, for good. Asked at every look; what waits then fails with it."""

    def failed(self, batch: Batch, error: Exception) -> Exception:
        """A batch has failed for good: the error that its senders hear."""

    def version_max(self, peer: Peer) -> int | None:
        """The highest version of Produce that may be spoken, if there is one."""

    async def close(self) -> None: ...


class Nobody:
    """A producer without idempotence: everything may leave at once."""

    is_transactional = False
    transactional_id: str | None = None
    identity = NOBODY

    def may_send(self, partition: TopicPartition) -> bool:
        return True

    def wants_renewal(self) -> None:
        pass

    def id_is_taken(self) -> None:
        pass

    def take_error(self) -> Exception | None:
        return None

    def failed(self, batch: Batch, error: Exception) -> Exception:
        return error

    def version_max(self, peer: Peer) -> int | None:
        return None

    async def close(self) -> None:
        pass


class Idempotent:
    """A producer whose batches have numbers. It gets its id when the first batch wants to leave."""

    is_transactional = False
    transactional_id: str | None = None

    def __init__(self, cluster: Cluster, look: asyncio.Event) -> None:
        self.identity = NOBODY
        self._error: KafkaError | None = None
        self._cluster, self._look = cluster, look
        self._asking: asyncio.Task[None] | None = None

    def may_send(self, partition: TopicPartition) -> bool:
        if self.identity is NOBODY:
            self.wants_renewal()
            return False
        return True

    def wants_renewal(self) -> None:
        producer_id, epoch = self.identity
        if self.identity is not NOBODY and epoch < _EPOCH_MAX:
            self.identity = Identity(producer_id, epoch + 1)
        elif self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._renew())

    def id_is_taken(self) -> None:
        self.identity = NOBODY

    def take_error(self) -> Exception | None:
        error, self._error = self._error, None
        return error

    def failed(self, batch: Batch, error: Exception) -> Exception:
        return error

    def version_max(self, peer: Peer) -> int | None:
        return None

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _renew(self) -> None:
        config = self._cluster.config
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        while True:
            try:
                self.identity = await self._new_identity()
                break
            except KafkaError as error:
                if not isinstance(error, RetriableError):
                    self._error = error
                    break
            await asyncio.sleep(backoff.next_ms() / 1000)
        self._look.set()

    async def _new_identity(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT_MS)
        answer = await self._cluster.ask_any(request)
        if answer.error_code:
            raise KafkaError.of(answer.error_code, "the producer's id")
        return Identity(answer.producer_id, answer.producer_epoch)
