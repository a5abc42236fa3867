"""An administrator of simulated brokers: finds the controller, asks it, and looks again if that was somebody else."""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.controller.commands import ResourceType
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID
from ottla.protocol.messages.configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
from ottla.testing.simulation.brokers.clients import REQUEST_MS, TOPIC, Client, Told, Unanswered
from ottla.testing.simulation.cluster.schedule import Work

EXTRA = "extra"
"""A topic that comes and goes: nobody writes to it."""
ATTEMPTS_MAX = 40
_AGAIN = {ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT}
_SET = 0


class Administrator(Client):
    """Runs errands, each when its time has come."""

    def __init__(self, told: Told, name: str = "admin") -> None:
        super().__init__(told, name)
        self.busy = 0
        """Errands that are under way."""
        self._handlers: dict[str, Callable[[Work], Any]] = {
            "create": lambda work: self._create(EXTRA, {0: work.replicas}),
            "delete": self._delete,
            "grow": self._grow,
            "elect": self._elect,
            "min-insync": self._min_insync,
            "reassign": lambda work: self._reassign(work, list(work.replicas)),
            "cancel": lambda work: self._reassign(work, None),
        }

    async def begin(self, partitions: int, replicas: int) -> None:
        """Create the topic that everybody writes to. It takes as long as it takes."""
        ids = self.told.brokers[:replicas]
        spread = {each: [*ids[each % replicas :], *ids[: each % replicas]] for each in range(partitions)}
        while await self._create(TOPIC, spread) not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            await self.pause()

    def plan(self, work: Work) -> None:
        self.world.after(work.at_ms, self._start, work, node=self.name)

    def _start(self, work: Work) -> None:
        if work.kind in self._handlers:
            self.busy += 1
            self.loop.run(self._run(work))

    async def _run(self, work: Work) -> None:
        error = await self._handlers[work.kind](work)
        self.busy -= 1
        self.world.note(f"{work.kind}: {error.name}")
        self.world.sometimes(f"{work.kind}: {'done' if error is ErrorCode.NONE else error.name}")

    async def _command(
        self, request: object, errors: Callable[[Any], Iterable[int]], *, is_known: bool = False
    ) -> ErrorCode:
        """What the controller says, whoever that is by then: the first error, if there is one. `is_known`: the topic is
        there, and who does not know of it will."""
        again = {*_AGAIN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if is_known else _AGAIN
        for _ in range(ATTEMPTS_MAX):
            try:
                if self.controller >= 0:
                    answer = await self.ask(self.controller, request)
                    found = next((code for code in errors(answer) if code), ErrorCode.NONE)
                    if found not in again:
                        return ErrorCode(found)
            except Unanswered:
                pass
            await self.pause()
            await self.learn()
        return ErrorCode.REQUEST_TIMED_OUT

    # --- errands --------------------------------------------------------------------------------------------------

    async def _create(self, name: str, assignments: dict[int, Any]) -> ErrorCode:
        asked = CreateTopicsRequest.Topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.Topic.Assignment(partition_index=index, broker_ids=list(ids))
                for index, ids in assignments.items()
            ],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[asked], timeout_ms=REQUEST_MS)
        return await self._command(request, lambda answer: [each.error_code for each in answer.topics])

    async def _delete(self, work: Work) -> ErrorCode:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.Topic(name=EXTRA, topic_id=NULL_ID)], timeout_ms=REQUEST_MS
        )
        return await self._command(request, lambda answer: [each.error_code for each in answer.responses])

    async def _grow(self, work: Work) -> ErrorCode:
        """By one, as far as somebody knows how many there are."""
        asked = CreatePartitionsRequest.Topic(name=EXTRA, count=await self._count() + 1, assignments=None)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=REQUEST_MS, validate_only=False)
        return await self._command(request, lambda answer: [each.error_code for each in answer.results])

    async def _count(self) -> int:
        asked = [MetadataRequest.Topic(name=EXTRA)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        try:
            answer: MetadataResponse = await self.ask(self.chance.choice(self.told.brokers), request)
        except Unanswered:
            return 1
        return max([1, *(len(topic.partitions) for topic in answer.topics)])

    async def _elect(self, work: Work) -> ErrorCode:
        """Preferred leaders, everywhere."""

        def errors(answer: Any) -> list[int]:
            topics = answer.replica_election_results
            return [
                answer.error_code,
                *(each.error_code for topic in topics for each in topic.partition_result),
            ]

        return await self._command(ElectLeadersRequest(topic_partitions=None, timeout_ms=REQUEST_MS), errors)

    async def _min_insync(self, work: Work) -> ErrorCode:
        asked = IncrementalAlterConfigsRequest.Resource
        setting = asked.Setting(name="min.insync.replicas", config_operation=_SET, value=str(work.number))
        resource = asked(resource_type=ResourceType.TOPIC, resource_name=TOPIC, configs=[setting])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        return await self._command(
            request, lambda answer: [each.error_code for each in answer.responses], is_known=True
        )

    async def _reassign(self, work: Work, replicas: list[int] | None) -> ErrorCode:
        """Move a partition of the topic that everybody writes to; None takes that back."""
        asked = AlterPartitionReassignmentsRequest.Topic
        partition = asked.Partition(partition_index=work.partition, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[asked(name=TOPIC, partitions=[partition])], timeout_ms=REQUEST_MS
        )

        def errors(answer: Any) -> list[int]:
            moved = [each.error_code for topic in answer.responses for each in topic.partitions]
            return [answer.error_code, *moved]

        return await self._command(request, errors, is_known=True)
