"""States of a cluster to look at: records, commits, open transactions, and some that hang. Made by raw requests."""

import asyncio
import json
import struct
import time
import uuid

from ottla.cli.main import main
from ottla.core.errors import ErrorCode
from ottla.network.peer import connect
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.messages.topics import CreateTopicsRequest
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from ottla.records.builder import build
from ottla.records.record import Record

NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}
"""So that records of a transaction can be written that no coordinator has heard of."""
_BUSY = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
_PRODUCE_BEFORE_KIP_890 = 8


class Asked:
    """A cluster of one broker, asked by raw requests."""

    def __init__(self, address):
        self.address = address

    def send(self, request, version=None):
        async def work():
            host, _, port = self.address.rpartition(":")
            async with await connect(host, int(port)) as peer:
                while True:
                    answer = await peer.send(request, version)
                    if getattr(answer, "error_code", 0) not in _BUSY:
                        return answer
                    await asyncio.sleep(0.02)

        return asyncio.run(work())

    def create(self, topic, partitions=1):
        wanted = CreateTopicsRequest.Topic(
            name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        answer = self.send(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5)
        assert answer.topics[0].error_code == 0
        return topic

    def produce(self, topic, count=1, *, partition=0, timestamp=None, stamp=None, transactional_id=None):
        """`stamp` is (producer id, epoch, sequence); with a transactional id the batch belongs to a transaction."""
        time_ms = now_ms() if timestamp is None else timestamp
        producer_id, epoch, sequence = stamp or (-1, -1, -1)
        data = build(
            [Record(number, time_ms, None, b"value") for number in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
        )
        part = ProduceRequest.Topic.Partition(index=partition, records=data)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.Topic(name=topic, partition_data=[part])],
        )
        answer = self.send(request, _PRODUCE_BEFORE_KIP_890).responses[0].partition_responses[0]
        assert answer.error_code == 0, ErrorCode(answer.error_code).name
        return answer.base_offset

    # --- groups -------------------------------------------------------------------------------------------------

    def _coordinator(self, key, key_type):
        while (
            self.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
            .coordinators[0]
            .error_code
        ):
            time.sleep(0.02)

    def commit(self, group, topic, offset, *, partition=0, generation=-1, member=""):
        self._coordinator(group, 0)
        part = OffsetCommitRequest.Topic.Partition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[OffsetCommitRequest.Topic(name=topic, partitions=[part])],
        )
        while True:
            code = self.send(request, 7).topics[0].partitions[0].error_code
            if code not in _BUSY:
                break
        assert code == 0, ErrorCode(code).name

    def join(self, group, topic, partitions):
        """A classic group with one member, which owns these partitions. Returns its member id."""
        self._coordinator(group, 0)
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=[topic]), 1)
        wanted = {
            "group_id": group,
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequest.Protocol(name="range", metadata=subscription)],
        }
        joined = self.send(JoinGroupRequest(member_id="", **wanted), 3)
        assert joined.error_code == 0
        owned = ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartitions(topic=topic, partitions=partitions)]
        )
        given = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=encode_versioned(owned, 1))
        synced = self.send(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[given],
            ),
            3,
        )
        assert synced.error_code == 0
        return joined.member_id

    def join_consumers(self, group, topic):
        """A group of the consumer protocol with one member, which owns all partitions. Returns its member id."""
        self._coordinator(group, 0)
        member_id, epoch, owned = str(uuid.uuid4()), 0, []
        while True:
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=[topic],
                topic_partitions=owned,
            )
            answer = self.send(request, 1)
            assert answer.error_code == 0, answer.error_message
            epoch = answer.member_epoch
            if owned:
                return member_id
            if answer.assignment is not None:
                owned = answer.assignment.topic_partitions

    # --- transactions -------------------------------------------------------------------------------------------

    def init(self, transactional_id=None, timeout_ms=60_000):
        if transactional_id is not None:
            self._coordinator(transactional_id, 1)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self.send(request, 4)
        assert answer.error_code == 0, ErrorCode(answer.error_code).name
        return answer.producer_id, answer.producer_epoch

    def begin(self, transactional_id, topic, count=1, *, partition=0, owner=None, timestamp=None):
        """An open transaction that the coordinator knows of. Returns the producer, and where it starts."""
        producer_id, epoch = owner or self.init(transactional_id)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddedTopic(name=topic, partitions=[partition])],
        )
        while True:
            code = self.send(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
            if code.partition_error_code not in _BUSY:
                break
        assert code.partition_error_code == 0
        stamp = (producer_id, epoch, 0)
        start = self.produce(
            topic,
            count,
            partition=partition,
            stamp=stamp,
            transactional_id=transactional_id,
            timestamp=timestamp,
        )
        return (producer_id, epoch), start

    def end(self, transactional_id, owner, *, commit=True):
        """Returns the error code; if there is none, the markers are written."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=owner[0], producer_epoch=owner[1], committed=commit
        )
        code = self.send(request, 3).error_code
        asked = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while code == 0 and self.send(asked).transaction_states[0].transaction_state.startswith("Prepare"):
            time.sleep(0.01)
        return code

    def hang(self, topic, count=1, *, partition=0, timestamp=None, transactional_id="ghost"):
        """A transaction that only the partition knows of. The broker must not verify."""
        owner = self.init()
        start = self.produce(
            topic,
            count,
            partition=partition,
            stamp=(*owner, 0),
            transactional_id=transactional_id,
            timestamp=timestamp,
        )
        return owner, start


def now_ms():
    return time.time_ns() // 1_000_000


class Ran:
    """What a command did."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def rows(self):
        """Tab-separated lines as dictionaries."""
        names, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(names, line, strict=True)) for line in lines]


def runner(capsys, address):
    """Runs `ottla ...` against that broker."""

    def run(*args):
        code = main([*args, "-b", address])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def assignment_of_version(version, partitions):
    """An assignment as a client of that version writes it."""
    owned = ConsumerProtocolAssignment(assigned_partitions=partitions)
    return struct.pack(">h", version) + encode_versioned(owned, 0)[2:]
