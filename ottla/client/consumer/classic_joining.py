"""From being nobody to knowing what to read: JoinGroup, the leader's work, SyncGroup, as often as it takes.

A join runs in the background. It may take as long as the slowest member does, and a cooperative member reads on
meanwhile. It changes nothing that an application could notice: what came out is taken over by the next poll.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.assignors.exchange import assign_group, decode_assignment, topics_of
from ottla.assignors.registry import Assignor
from ottla.client.cluster import GROUP, Cluster
from ottla.client.consumer.classic_member import ClassicMember, Next
from ottla.client.consumer.classic_votes import Votes
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.deadline import Backoff
from ottla.client.errors import KafkaTimeoutError, NetworkError
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError, RetriableError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest

logger = logging.getLogger(__name__)

JOIN = "join"
"""A connection of its own: JoinGroup is answered when all have joined, commits and heartbeats do not wait for that."""
_JOIN_MARGIN_MS = 5000  # on top of the rebalance timeout, after which a coordinator answers in any case


class Joined(NamedTuple):
    """What came out of a join."""

    generation_id: int
    topics: frozenset[str]
    """What we said we want."""
    partitions: frozenset[TopicPartition]
    leads: Mapping[str, int] | None
    """If we lead: the topics of the whole group, and how many partitions they had when we assigned."""
    group_topics: frozenset[str] = frozenset()


class Joining:
    """One join of a member that has given up what it had to."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        member: ClassicMember,
        votes: Votes,
        topics: frozenset[str],
        protocols: Sequence[JoinGroupRequest.Protocol],
    ) -> None:
        self._cluster, self._config, self._member = cluster, config, member
        self._votes, self._topics, self._protocols = votes, topics, protocols
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def run(self) -> Joined | None:
        """None: begin anew. Raises what waiting does not help."""
        while True:
            try:
                outcome = await self._once()
            except RetriableError as error:
                logger.debug("joining the group %s: %s", self._member.group_id, error)
                outcome = (
                    Next.ELSEWHERE if isinstance(error, NetworkError | KafkaTimeoutError) else Next.AGAIN
                )
            if isinstance(outcome, Joined):
                return outcome
            if outcome is Next.PREPARE:
                return None
            if outcome is Next.ELSEWHERE:
                self._cluster.forget_coordinator(GROUP, self._member.group_id)
            if outcome is not Next.AT_ONCE:
                await asyncio.sleep(self._backoff.next_ms() / 1000)

    async def _once(self) -> Joined | Next:
        member = self._member
        request = member.join_request(self._protocols)
        limit_ms = max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + _JOIN_MARGIN_MS)
        answer: JoinGroupResponse = await self._ask(request, limit_ms)
        outcome = member.joined(answer, list(self._votes.assignors))
        if outcome is not Next.GO_ON:
            return outcome
        logger.info(
            "joined the group %s in generation %d as %s",
            member.group_id,
            member.generation_id,
            member.member_id,
        )
        leads, group_topics = None, frozenset[str]()
        assignments: list[SyncGroupRequest.Assignment] = []
        if member.is_leader:
            group_topics = frozenset(topics_of(answer.members))
            leads = await self._counts(group_topics)
            if not answer.skip_assignment:
                assignments = assign_group(self._assignor(), answer.members, leads)
        sync = member.sync_request(assignments)
        reply = await self._ask(sync, limit_ms)
        outcome = member.synced(sync, reply)
        if outcome is not Next.GO_ON:
            return outcome
        return Joined(sync.generation_id, self._topics, _partitions(reply.assignment), leads, group_topics)

    async def _ask(self, request: object, limit_ms: float) -> Any:
        node_id = await self._cluster.coordinator(GROUP, self._member.group_id)
        return await self._cluster.ask(node_id, request, purpose=JOIN, timeout_ms=limit_ms)

    def _assignor(self) -> Assignor:
        assert self._member.protocol_name is not None, "joined"
        return self._votes.assignors[self._member.protocol_name]

    async def _counts(self, topics: frozenset[str]) -> dict[str, int]:
        """The leader must know every topic that anybody wants. One that does not exist gets nobody anything."""
        if topics:
            await self._cluster.refresh(topics)
        found = self._cluster.metadata.topics
        return {name: len(found[name].partitions) for name in topics if name in found}


def _partitions(assignment: bytes) -> frozenset[TopicPartition]:
    try:
        found = decode_assignment(assignment)
    except ProtocolError as error:
        detail = f"the leader of the group sent an assignment that cannot be read: {error}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail) from error
    return frozenset(TopicPartition(topic, number) for topic, numbers in found.items() for number in numbers)
