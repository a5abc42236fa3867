"""A client of several brokers: it asks who leads and who coordinates, asks them, and asks again while it may."""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any

from ottla.controller.commands import NewTopic
from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer, connect
from ottla.protocol.apis import api_named
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import AddedTopic, TxnOffsetCommitRequest
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from tests.unit.broker.several import Cluster

SHARED: dict[str, object] = {
    "metadata_store_connect": "127.0.0.1:1",  # as in a real cluster; the store itself is given to the brokers
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "group_initial_rebalance_delay_ms": 0,
    "replica_lag_time_max_ms": 2_000,
}
PLACES = [TopicPartition("tea", index) for index in range(3)]
"""Each is led by another broker, at first."""
GROUP, TRANSACTION = 0, 1
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def scenario(test):
    """Run a test that waits."""

    @wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 120))

    return inner


class Client:
    """Asks whom it must, over real connections."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._peers: dict[int, Peer] = {}

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in self._peers.values():
            peer.abort()

    async def create(self, name: str = "tea", **configs: object) -> None:
        """A topic of three partitions with three replicas, each led by another broker."""
        nodes = sorted(self.cluster.nodes)
        spread = {at: (*nodes[at:], *nodes[:at]) for at in range(len(nodes))}
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        wanted = NewTopic(name, -1, -1, assignments=spread, configs=settings)
        created = await self.cluster.controller.controller.create_topics([wanted])
        assert not isinstance(created[name], Exception), created
        await self.known(name)

    async def create_anew(self, name: str) -> None:
        """A topic of one partition, of a name that was deleted."""
        created: object = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "")
        while isinstance(created, KafkaError):  # it may not be gone altogether
            wanted = NewTopic(name, 1, 1)
            created = (await self.cluster.controller.controller.create_topics([wanted]))[name]
            await asyncio.sleep(0.002)
        await self.known(name)

    async def known(self, name: str) -> None:
        """Everybody has heard of it."""
        while not all(name in node.metadata.topics for node in self.cluster.nodes.values()):
            await asyncio.sleep(0.001)

    async def ask(self, node_id: int, name: str, version: int, **fields: Any) -> Any:
        """What that broker says."""
        peer = self._peers.get(node_id)
        if peer is None or not peer.is_open:
            peer = self._peers[node_id] = await connect("127.0.0.1", self.cluster.nodes[node_id].port)
        return await peer.send(api_named(name).request(**fields), version)

    async def insist(
        self, where: Callable[[], Any], code: Callable[[Any], int], name: str, version: int, **fields: Any
    ) -> Any:
        """Ask whoever it is by then, until the answer is not that it may be somebody else, or later."""
        while True:
            try:
                answer = await self.ask(await where(), name, version, **fields)
                if code(answer) not in AGAIN:
                    return answer
            except (OttlaError, OSError, KeyError):
                pass  # it died
            await asyncio.sleep(0.005)

    async def leader(self, place: TopicPartition) -> int:
        """Waits until somebody alive leads it, as a broker says that lives."""
        while True:
            for node in list(self.cluster.nodes.values()):
                image = node.metadata.topics.get(place.topic)
                if image is not None and image.partitions[place.partition].leader in self.cluster.nodes:
                    return image.partitions[place.partition].leader
            await asyncio.sleep(0.001)

    async def coordinator(self, key: str, kind: int) -> int:
        """As anybody says, once it is somebody who lives."""
        while True:
            for node_id in list(self.cluster.nodes):
                found = await self.ask(node_id, "FindCoordinator", 3, key=key, key_type=kind)
                if found.error_code == ErrorCode.NONE and found.node_id in self.cluster.nodes:
                    return found.node_id
            await asyncio.sleep(0.005)

    # --- reading --------------------------------------------------------------------------------------------------

    async def visible(self, place: TopicPartition) -> list[str]:
        """What a reader of committed records sees, once the log has nothing open any more."""
        part = FetchRequest.Topic.Partition(
            partition=place.partition, fetch_offset=0, partition_max_bytes=1 << 20
        )
        while True:
            leader = await self.leader(place)
            try:
                answer = await self.ask(
                    leader,
                    "Fetch",
                    11,
                    max_wait_ms=0,
                    min_bytes=0,
                    isolation_level=1,
                    topics=[FetchRequest.Topic(topic=place.topic, partitions=[part])],
                )
            except (OttlaError, OSError, KeyError):
                continue
            told = answer.responses[0].partitions[0]
            if told.error_code == ErrorCode.NONE and told.last_stable_offset == told.high_watermark:
                aborted = {(each.producer_id, each.first_offset) for each in told.aborted_transactions or ()}
                return _committed(bytes(told.records or b""), aborted)
            await asyncio.sleep(0.005)

    async def offset(self, group: str, place: TopicPartition = PLACES[0]) -> int:
        """The committed offset, once nothing is pending."""
        topic = OffsetFetchRequest.Topic(name=place.topic, partition_indexes=[place.partition])
        unstable = {ErrorCode.UNSTABLE_OFFSET_COMMIT}
        while True:
            answer = await self.insist(
                lambda: self.coordinator(group, GROUP),
                lambda each: each.error_code,
                "OffsetFetch",
                7,
                group_id=group,
                topics=[topic],
                require_stable=True,
            )
            (found,) = answer.topics[0].partitions
            if found.error_code not in AGAIN | unstable:
                assert found.error_code == ErrorCode.NONE
                return found.committed_offset
            await asyncio.sleep(0.005)

    async def commit(self, group: str, offset: int, place: TopicPartition = PLACES[0], **member: Any) -> int:
        """Commit an offset; returns the error code."""
        part = OffsetCommitRequest.Topic.Partition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=None
        )
        answer = await self.insist(
            lambda: self.coordinator(group, GROUP),
            lambda each: each.topics[0].partitions[0].error_code,
            "OffsetCommit",
            9,
            group_id=group,
            topics=[OffsetCommitRequest.Topic(name=place.topic, partitions=[part])],
            **member,
        )
        return answer.topics[0].partitions[0].error_code


def _committed(data: bytes, aborted: set[tuple[int, int]]) -> list[str]:
    """Without markers, and without what was aborted, as a consumer goes by the list of aborted transactions."""
    values, skipping = [], set[int]()
    for position, header in iter_batches(data, partial=True):
        if header.is_control:
            skipping.discard(header.producer_id)
            continue
        if any(id == header.producer_id and first <= header.base_offset for id, first in aborted):
            skipping |= {header.producer_id}
            aborted -= {
                each for each in aborted if each[0] == header.producer_id and each[1] <= header.base_offset
            }
        if header.producer_id not in skipping:
            values += [(record.value or b"").decode() for record in records_of(data, position)]
    return values


class Owner:
    """A producer with a transactional id. A newer one lets its batches announce themselves."""

    def __init__(self, client: Client, transactional_id: str = "mine", *, is_newer: bool = True) -> None:
        self.client = client
        self.id = transactional_id
        self.is_newer = is_newer
        self.producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def coordinator(self) -> int:
        return await self.client.coordinator(self.id, TRANSACTION)

    async def ask(self, name: str, version: int, **fields: Any) -> Any:
        """What its coordinator says."""
        return await self.client.insist(
            self.coordinator, lambda each: each.error_code, name, version, transactional_id=self.id, **fields
        )

    @property
    def me(self) -> dict[str, int]:
        return {"producer_id": self.producer[0], "producer_epoch": self.producer[1]}

    async def init(self) -> "Owner":
        given = await self.ask("InitProducerId", 4, transaction_timeout_ms=60_000)
        assert given.error_code == ErrorCode.NONE
        self.producer, self._sequences = (given.producer_id, given.producer_epoch), {}
        return self

    async def send(self, value: str, *places: TopicPartition) -> None:
        """The same value to each of these."""
        for place in places:
            assert await self.send_once(value, place) == ErrorCode.NONE

    async def send_once(self, value: str, place: TopicPartition) -> int:
        if not self.is_newer:
            await self._announce(place)
        sequence = self._sequences.get(place, 0)
        id, epoch = self.producer
        now_ms = next(iter(self.client.cluster.nodes.values())).clock.now_ms()
        data = build(
            [Record(0, now_ms, None, value.encode())],
            producer_id=id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        part = ProduceRequest.Topic.Partition(index=place.partition, records=data)
        answer = await self.client.insist(
            lambda: self.client.leader(place),
            lambda each: each.responses[0].partition_responses[0].error_code,
            "Produce",
            12 if self.is_newer else 9,
            transactional_id=self.id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=[ProduceRequest.Topic(name=place.topic, partition_data=[part])],
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code == ErrorCode.NONE:
            self._sequences[place] = sequence + 1
        return code

    async def _announce(self, place: TopicPartition) -> None:
        answer = await self.client.insist(
            self.coordinator,
            lambda each: each.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddedTopic(name=place.topic, partitions=[place.partition])],
        )
        told = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
        assert told.partition_error_code == ErrorCode.NONE

    async def commit_offset(self, group: str, offset: int, place: TopicPartition = PLACES[0]) -> None:
        if not self.is_newer:
            assert (await self.ask("AddOffsetsToTxn", 3, **self.me, group_id=group)).error_code == 0
        topic = TxnOffsetCommitRequest.Topic
        part = topic.Partition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=None
        )
        answer = await self.client.insist(
            lambda: self.client.coordinator(group, GROUP),
            lambda each: each.topics[0].partitions[0].error_code,
            "TxnOffsetCommit",
            5 if self.is_newer else 3,
            transactional_id=self.id,
            group_id=group,
            topics=[topic(name=place.topic, partitions=[part])],
            **self.me,
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    async def end(self, *, committed: bool = True) -> None:
        ended = await self.ask("EndTxn", 5 if self.is_newer else 4, **self.me, committed=committed)
        assert ended.error_code == ErrorCode.NONE, ErrorCode(ended.error_code)
        if self.is_newer:
            self.producer, self._sequences = (ended.producer_id, ended.producer_epoch), {}
