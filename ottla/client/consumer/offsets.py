"""The offsets that a group has committed: written and read at its coordinator, in every version of the two requests.

One question each; `commits.py` and `positions.py` say when, and what follows from it. Errors are sentences that name
the partition. A coordinator that moved is forgotten here, so that the next attempt finds the new one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.client.cluster import GROUP, Cluster
from ottla.client.connections import COORDINATOR
from ottla.client.deadline import Deadline
from ottla.client.errors import CommitFailedError, RebalanceInProgressError
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest

_IDS_SINCE = 10  # both requests
_GROUPS_SINCE, _STABLE_SINCE, _INSTANCES_SINCE = 8, 7, 7

LOST_MEMBERSHIP = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    )
)
"""What a commit may be answered when the group has gone on without us."""

Committed = dict[TopicPartition, OffsetAndMetadata | None]


class CommittedOffsets:
    """Of one group. `member` says who we are in it now; `failed(code)` is told when the group says that we are not."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        member: Callable[[], GroupMetadata],
        failed: Callable[[int], None],
        *,
        is_consumer_protocol: bool = False,
        needs_membership: Callable[[], bool] = lambda: False,
    ) -> None:
        """`needs_membership` says whether the group assigns what is read: who is not in it has nothing to commit."""
        self._cluster, self.group_id = cluster, group_id
        self._member, self._failed = member, failed
        self._is_consumer_protocol = is_consumer_protocol
        self._needs_membership = needs_membership

    # --- writing ------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Once. Raises CommitFailedError, a RetriableError, or what the coordinator says of a partition."""
        topics = {each.topic for each in offsets}
        version, ids = await self._version_for(OffsetCommitRequest, topics)
        member = self._member()
        if member.generation_id < 0 and self._needs_membership():
            # As nobody in particular it would be taken, if the group is empty: over whoever reads those records next.
            raise CommitFailedError(
                f"this consumer is not in the group {self.group_id!r}: it has not joined yet, or has left because it "
                "did not poll within max_poll_interval_ms; nothing was committed"
            )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id if version >= _INSTANCES_SINCE else None,
            topics=_commit_rows(offsets, ids),
        )
        answer = await self._ask(request, version)
        errors: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            name = self._name(topic, version)
            errors |= {
                TopicPartition(name, row.partition_index): row.error_code
                for row in topic.partitions
                if row.error_code
            }
        if errors:
            self._raise(errors)

    def _raise(self, errors: Mapping[TopicPartition, int]) -> None:
        for code in errors.values():
            if code in LOST_MEMBERSHIP:
                self._failed(code)
                raise self._refused(code)
        found = [
            KafkaError.of(code, f"the offset of {key} was not committed for the group {self.group_id!r}")
            for key, code in errors.items()
        ]
        # What will not pass first, and last what does not pass either if the topic was deleted.
        found.sort(
            key=lambda error: (
                isinstance(error, RetriableError),
                error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        )
        self._forget({each.topic for each in errors}, found)
        raise found[0]

    def _refused(self, code: int) -> KafkaError:
        name = ErrorCode(code).name
        if code == ErrorCode.STALE_MEMBER_EPOCH and self._member().generation_id >= 0:
            # The next heartbeat brings the epoch that the group is in.
            return RetriableError(
                ErrorCode.STALE_MEMBER_EPOCH, f"the group {self.group_id!r} is in another epoch"
            )
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            return KafkaError.of(code, f"another member of the group {self.group_id!r} has taken our place")
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return RebalanceInProgressError(
                f"the group {self.group_id!r} is moving partitions, and nothing was committed: poll, and commit again"
            )
        return CommitFailedError(
            f"the group {self.group_id!r} has gone on without this member ({name}): its partitions may be with others "
            "now, and records since its last commit will be read again. Poll more often, or set max_poll_records "
            "lower or max_poll_interval_ms higher"
        )

    # --- reading ------------------------------------------------------------------------------------------------

    async def fetch(self, partitions: Iterable[TopicPartition], deadline: Deadline) -> Committed:
        """What was committed; None for what was not. Waits while a transaction that commits is open."""
        wanted = sorted(partitions)

        async def attempt() -> Committed:
            return await self._fetch(wanted)

        if not wanted:
            return {}
        failed = f"the committed offsets of the group {self.group_id!r} were not found"
        return await self._cluster.patiently(attempt, deadline, failed)

    async def _fetch(self, wanted: list[TopicPartition]) -> Committed:
        by_topic: dict[str, list[int]] = {}
        for topic, number in wanted:
            by_topic.setdefault(topic, []).append(number)
        version, ids = await self._version_for(OffsetFetchRequest, set(by_topic))
        answer = await self._ask(self._fetch_request(by_topic, ids, version), version)
        group = answer.groups[0] if version >= _GROUPS_SINCE and answer.groups else answer
        if group.error_code:
            self._raise_for_group(group.error_code)
        found: Committed = {}
        for topic in group.topics:
            name = self._name(topic, version)
            for row in topic.partitions:
                partition = TopicPartition(name, row.partition_index)
                if row.error_code:
                    self._raise_for_group(row.error_code, f" for {partition}", [name])
                place = OffsetAndMetadata(
                    row.committed_offset, row.metadata or "", row.committed_leader_epoch
                )
                found[partition] = place if row.committed_offset >= 0 else None
        return {partition: found.get(partition) for partition in wanted}

    def _fetch_request(
        self, by_topic: Mapping[str, list[int]], ids: Mapping[str, Any], version: int
    ) -> OffsetFetchRequest:
        if version < _GROUPS_SINCE:
            rows = [
                OffsetFetchRequest.Topic(name=name, partition_indexes=each) for name, each in by_topic.items()
            ]
            is_stable = version >= _STABLE_SINCE
            return OffsetFetchRequest(group_id=self.group_id, topics=rows, require_stable=is_stable)
        row = OffsetFetchRequest.Group
        topics = [
            row.Topic(name=name, topic_id=ids[name], partition_indexes=each)
            if ids
            else row.Topic(name=name, partition_indexes=each)
            for name, each in by_topic.items()
        ]
        group = row(group_id=self.group_id, topics=topics)
        member = self._member()
        if self._is_consumer_protocol and member.generation_id >= 0:
            group.member_id, group.member_epoch = member.member_id, member.generation_id
        return OffsetFetchRequest(groups=[group], require_stable=True)

    def _raise_for_group(self, code: int, what: str = "", topics: Iterable[str] = ()) -> None:
        error = KafkaError.of(code, f"the committed offsets of the group {self.group_id!r}{what}")
        self._forget(topics, [error])
        if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            raise RetriableError(error.code, error.detail)  # a heartbeat or a join will tell us who we are
        raise error

    # --- both ---------------------------------------------------------------------------------------------------

    async def _version_for(self, request: type, topics: set[str]) -> tuple[int, dict[str, Any]]:
        """The version to ask in, and the ids of the topics if it names them so."""
        node_id = await self._cluster.coordinator(GROUP, self.group_id)
        version = await self._cluster.version_of(node_id, request, COORDINATOR)
        if version < _IDS_SINCE:
            return version, {}
        metadata = self._cluster.metadata
        if unknown := [name for name in topics if not metadata.topic_id(name).int]:
            await self._cluster.refresh(unknown)
        ids = {name: metadata.topic_id(name) for name in topics}
        return (version, ids) if all(each.int for each in ids.values()) else (_IDS_SINCE - 1, {})

    def _forget(self, topics: Iterable[str], errors: Iterable[KafkaError]) -> None:
        """What turned out to be old is asked for again next time: who coordinates, and under which ids topics go."""
        for error in errors:
            if error.code == ErrorCode.UNKNOWN_TOPIC_ID:
                for name in topics:
                    self._cluster.metadata.topics.pop(name, None)
            elif isinstance(error, StaleMetadataError):
                self._cluster.forget_coordinator(GROUP, self.group_id)

    async def _ask(self, request: object, version: int) -> Any:
        return await self._cluster.ask_coordinator(GROUP, self.group_id, request, version=version)

    def _name(self, topic: Any, version: int) -> str:
        if version < _IDS_SINCE:
            return str(topic.name)
        return self._cluster.metadata.names.get(topic.topic_id, "")


def _commit_rows(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, Any]
) -> list[OffsetCommitRequest.Topic]:
    rows: dict[str, OffsetCommitRequest.Topic] = {}
    for (topic, number), each in offsets.items():
        row = rows.get(topic)
        if row is None:
            row = rows[topic] = OffsetCommitRequest.Topic(name=topic, partitions=[])
            if ids:
                row.topic_id = ids[topic]
        row.partitions.append(
            OffsetCommitRequest.Topic.Partition(
                partition_index=number,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                committed_metadata=each.metadata,
            )
        )
    return list(rows.values())
