"""Asking a transaction's coordinator on another broker: AddPartitionsToTxn from broker to broker (KIP-890).

The coordinator is whoever leads the partition of __transaction_state that the id hashes to, as far as we were told. If
that was somebody else, or nobody answers, the producer is told to try again, and by then we know better.
"""

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.couriers import Couriers
from ottla.broker.metadata import Metadata
from ottla.broker.peers import Peers
from ottla.core.errors import ErrorCode, KafkaError, OttlaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ottla.replication.machine import Producer

if TYPE_CHECKING:
    from ottla.broker.coordinators import Coordinator
    from ottla.transactions.shard import TransactionShard

logger = logging.getLogger(__name__)

Codes = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """May this producer write to these partitions in its transaction? `adds`: have them added to it."""

    transactional_id: str
    producer: Producer
    places: tuple[TopicPartition, ...]
    adds: bool


class RemoteVerification:
    """Knows where coordinators are, and asks those that are elsewhere."""

    def __init__(
        self,
        node_id: int,
        transactions: "Coordinator[TransactionShard]",
        metadata: Metadata,
        peers: Peers,
    ) -> None:
        self._node_id = node_id
        self._transactions = transactions
        self._metadata = metadata
        self._couriers: Couriers[Question, Codes] = Couriers(peers, _deliver, lambda q: q.transactional_id)

    def coordinator_of(self, transactional_id: str) -> int | None:
        """The other broker that coordinates it; None if it is this one, or nobody."""
        index = self._transactions.partition_of(transactional_id)
        if index in self._transactions.shards or index in self._transactions.loading:
            return None
        image = self._metadata.topics.get(self._transactions.topic)
        leader = self._node_id if image is None else image.partitions[index].leader
        return leader if leader != self._node_id and leader in self._metadata.brokers else None

    async def ask(
        self,
        coordinator: int,
        transactional_id: str,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        adds: bool,
    ) -> Codes:
        """What that broker says about these partitions. No answer is NETWORK_EXCEPTION."""
        question = Question(transactional_id, producer, tuple(places), adds)
        try:
            return await self._couriers.ask(coordinator, question)
        except (
            KafkaError
        ) as error:  # of the request as a whole; a producer cannot do anything about our rights
            is_ours = error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            code = ErrorCode.INVALID_TXN_STATE if is_ours else error.code
        except (OttlaError, OSError) as error:
            logger.info("broker %d does not vouch for %s: %s", coordinator, transactional_id, error)
            code = ErrorCode.NETWORK_EXCEPTION
        return dict.fromkeys(places, code)

    def keep(self, alive: Collection[int]) -> None:
        """Wait for nobody else."""
        self._couriers.keep(alive)

    async def close(self) -> None:
        await self._couriers.close()


async def _deliver(peer: Peer, questions: Sequence[Question]) -> list[Codes]:
    request = AddPartitionsToTxnRequest(transactions=[_transaction(question) for question in questions])
    answer: AddPartitionsToTxnResponse = await peer.send(request)
    if answer.error_code:
        raise KafkaError.of(answer.error_code)
    told = {each.transactional_id: each for each in answer.results_by_transaction}
    if told.keys() != {question.transactional_id for question in questions}:
        raise ProtocolError(f"{peer.address} answers about other transactions than it was asked about")
    return [_codes(question, told[question.transactional_id]) for question in questions]


def _transaction(question: Question) -> AddPartitionsToTxnRequest.Transaction:
    by_topic: dict[str, list[int]] = {}
    for topic, index in question.places:
        by_topic.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest.Transaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer.id,
        producer_epoch=question.producer.epoch,
        verify_only=not question.adds,
        topics=[AddedTopic(name=name, partitions=indexes) for name, indexes in by_topic.items()],
    )


def _codes(question: Question, told: Any) -> Codes:
    """A partition about which nothing is said is not vouched for."""
    codes = dict.fromkeys(question.places, ErrorCode.UNKNOWN_SERVER_ERROR)
    for topic in told.topic_results:
        for each in topic.results_by_partition:
            place = TopicPartition(topic.name, each.partition_index)
            codes[place] = KafkaError.of(each.partition_error_code).code
    return codes
