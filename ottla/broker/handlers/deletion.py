"""DeleteRecords: records below an offset are not to be read any more, on this broker or any other that may lead.

The leader's log begins there at once, and its disk knows. The answer leaves when all live followers have followed: one
that had not, and were elected, would bring the records back.
"""

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offsets import DeleteRecordsRequest, DeleteRecordsResponse
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

HIGH_WATERMARK = -1  # in place of an offset to delete up to

_Deleted = DeleteRecordsResponse.Topic.Partition


async def delete_records(
    broker: "Broker", call: Call, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    topics, deletions = [], []
    for topic in request.topics:
        some = [_Deletion(broker, topic.name, asked) for asked in topic.partitions]
        for deletion in some:
            deletion.begin(call)
        topics.append(DeleteRecordsResponse.Topic(name=topic.name, partitions=[each.answer for each in some]))
        deletions += some
    for deletion in deletions:
        await deletion.note()
    broker.upkeep.look_at(topic.name for topic in topics)
    waits = [each.wait(deadline_ms) for each in deletions if each.has_followers]
    if waits:
        await asyncio.gather(*waits)
    return DeleteRecordsResponse(topics=topics)


class _Deletion:
    """Of records of one partition. An error ends it."""

    def __init__(self, broker: "Broker", topic: str, asked: DeleteRecordsRequest.Topic.Partition) -> None:
        self._broker = broker
        self._topic = topic
        self._offset: int = asked.offset
        self._partition: Partition | None = None
        self.answer = _Deleted(
            partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.NONE
        )

    def begin(self, call: Call) -> None:
        """Let our own log begin there."""
        broker, topic = self._broker, self._topic
        try:
            if not broker.authorizer.allows(call, Operation.DELETE, ResourceType.TOPIC, topic):
                detail = f"DELETE of {topic!r} is not allowed"
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, detail)
            partition = broker.replicas.get(topic, self.answer.partition_index)
            self._check(partition)
            if self._offset == HIGH_WATERMARK:
                self._offset = partition.high_watermark.value
            if self._offset < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"there is no offset {self._offset}")
            partition.log.advance_log_start(self._offset)
        except KafkaError as error:
            self._refuse(error)
        else:
            self._partition, self.answer.low_watermark = partition, partition.log.log_start_offset

    def _check(self, partition: Partition) -> None:
        partition.check_leader()
        image = self._broker.metadata.topics.get(self._topic)
        if image is not None and image.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self._topic} belongs to the brokers")
        if "delete" not in partition.config.cleanup_policy:
            detail = f"the cleanup policy of {self._topic} lets nothing be deleted"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, detail)

    async def note(self) -> None:
        """What was deleted must not come back with the next start."""
        if self._partition is not None:
            try:
                await self._broker.replicas.note_log_start(self._partition)
            except KafkaError as error:
                self._refuse(error)

    @property
    def has_followers(self) -> bool:
        return self._partition is not None and bool(
            self._partition.state and self._partition.state.replicas[1:]
        )

    async def wait(self, deadline_ms: int) -> None:
        """Until the live followers have deleted, too."""
        partition, marks = self._partition, self._broker.replication.low_watermarks
        assert partition is not None, "nobody waits for what was refused"
        try:
            left_ms = deadline_ms - self._broker.clock.monotonic_ms()
            if not await marks.reach(partition, self._offset, left_ms):
                self.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            self.answer.low_watermark = marks.of(partition)
        except KafkaError as error:
            self._refuse(error)

    def _refuse(self, error: KafkaError) -> None:
        """A disk that failed under it takes its directory out of service."""
        self.answer.low_watermark, self.answer.error_code = -1, error.code
        self._partition = None
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            try:
                partition = self._broker.replicas.get(self._topic, self.answer.partition_index)
            except KafkaError:
                return  # it is out of service already
            self._broker.replicas.note_failure(partition)
