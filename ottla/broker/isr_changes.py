"""Changes of the ISR, on their way to the controller (KIP-497).

Leaders propose, the controller decides. All partitions that want another ISR go into one AlterPartition, and one is
under way at a time. An answer that does not come leaves everybody in doubt: the partition keeps counting with both
ISRs, and the same proposal is made again.

While our metadata session is in doubt nothing is sent: another leader may have been elected already.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker import eligible
from ottla.broker.metadata import NO_CONTROLLER
from ottla.broker.peers import Peers
from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.inter_broker import AlterPartitionRequest, AlterPartitionResponse
from ottla.replication.exchange import Proposal
from ottla.replication.partition import Partition
from ottla.replication.state import PartitionState

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

Outcomes = Mapping[TopicPartition, PartitionState | KafkaError]
_PAUSE_MS, _PAUSE_MS_MAX = 50, 1_000
"""Before a proposal is made again whose fate is not known; twice as long every time."""
_RECOVERING = 1
_SAYS_NOTHING = {ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_TOPIC_ID}


class IsrChanges:
    """Asks all leaders of this broker for proposals: in turns, and when somebody may have caught up."""

    def __init__(self, broker: "Broker", peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._due: dict[TopicPartition, Partition] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self.may_change: Callable[[], bool] = lambda: True
        """Is our metadata session beyond doubt?"""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="change ISRs")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._peers.drop(self)

    def look_at(self, partition: Partition) -> None:
        """Somebody may have caught up: propose it soon, together with what else there is by then."""
        self._due[partition.topic_partition] = partition
        self._news.set()

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time() + self._interval_s
        while True:
            wait_s = next_look - loop.time()
            if self._failures:
                wait_s = min(wait_s, min(_PAUSE_MS_MAX, _PAUSE_MS << min(self._failures, 10)) / 1000)
            await self._sleep(wait_s)
            if self._failures or loop.time() >= next_look:
                self._due.update(self._broker.replicas.partitions)
                next_look = loop.time() + self._interval_s
            try:
                await self.propose_all()
            except Exception:
                logger.exception("a failure of ours: ISR changes are tried again later")
                self._failures += 1

    @property
    def _interval_s(self) -> float:
        """Twice in replica.lag.time.max.ms: nobody stays in the ISR for more than half of it too long."""
        return max(1, self._broker.config.replica_lag_time_max_ms // 2) / 1000

    async def _sleep(self, seconds: float) -> None:
        """Until somebody has news, at most so long. After a failure news wait: they would meet the same."""
        if self._failures:
            await asyncio.sleep(max(0.0, seconds))
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    async def propose_all(self) -> None:
        """Ask the controller for what leaders want, all in one."""
        self._news.clear()
        if not self.may_change():
            self._failures += bool(self._due)
            return
        due, self._due = self._due, {}
        now_ms = self._broker.clock.monotonic_ms()
        asked: list[tuple[Partition, Proposal]] = []
        for partition in due.values():
            partition.broker_epoch = (
                self._broker.controller.broker_epoch
            )  # orders may have come before it was known
            if (proposal := partition.propose(now_ms)) is not None:
                asked.append((partition, proposal))
        if not asked:
            self._failures = 0
            return
        outcomes: Outcomes = {}
        try:
            outcomes = await self._outcomes([proposal for _, proposal in asked])
            self._failures = self._failures + 1 if len(outcomes) < len(asked) else 0
        finally:
            self._settle(asked, outcomes)

    def _settle(self, asked: Sequence[tuple[Partition, Proposal]], outcomes: Outcomes) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        for partition, proposal in asked:
            outcome = outcomes.get(partition.topic_partition)
            members = sorted(proposal.members)
            if isinstance(outcome, PartitionState):
                self._count(partition.isr, frozenset(outcome.isr))
                logger.info("%s: in sync are %s now", partition.topic_partition, list(outcome.isr))
            else:
                logger.info("%s: ISR %s is not settled: %s", partition.topic_partition, members, outcome)
            partition.answered(proposal, outcome, now_ms)

    def _count(self, before: frozenset[int], after: frozenset[int]) -> None:
        metrics = self._broker.metrics
        metrics.isr_shrinks.labels().value += bool(before - after)
        metrics.isr_expands.labels().value += bool(after - before)

    # --- asking the controller ------------------------------------------------------------------------------------

    async def _outcomes(self, proposals: Sequence[Proposal]) -> Outcomes:
        """What the controller says; what is missing, nobody knows."""
        broker = self._broker
        controller = broker.metadata.controller_id
        try:
            if controller == broker.node_id:
                epoch = broker.controller.broker_epoch
                return _certain(await broker.controller.alter_partitions(controller, epoch, proposals))
            if controller == NO_CONTROLLER:
                return {}
            return await self._ask(controller, proposals)
        except (OttlaError, OSError) as error:
            # Whatever is said of the request as a whole: somebody else may have done it in the meantime.
            logger.info("the controller, broker %d, does not change ISRs: %s", controller, error)
            self._peers.drop(self)
            return {}

    async def _ask(self, controller: int, proposals: Sequence[Proposal]) -> Outcomes:
        broker = self._broker
        peer = await self._peers.to(controller, self)
        epoch = broker.controller.broker_epoch
        recovering = {
            proposal.topic_partition
            for proposal in proposals
            if (partition := broker.replicas.partitions.get(proposal.topic_partition)) is not None
            and partition.state is not None
            and partition.state.is_recovering
        }
        request = _request(broker.node_id, epoch, proposals, recovering)
        response: AlterPartitionResponse = await peer.send(
            request, timeout_ms=broker.config.replica_socket_timeout_ms
        )
        if response.error_code:
            raise KafkaError.of(response.error_code)
        return self._read(proposals, response)

    def _read(self, proposals: Sequence[Proposal], response: AlterPartitionResponse) -> Outcomes:
        names = {(p.topic_id, p.topic_partition.partition): p.topic_partition for p in proposals}
        outcomes: dict[TopicPartition, PartitionState | KafkaError] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                name = names.get((topic.topic_id, answer.partition_index))
                partition = None if name is None else self._broker.replicas.partitions.get(name)
                if name is None or partition is None or partition.state is None:
                    continue
                if answer.error_code:
                    outcomes[name] = KafkaError.of(answer.error_code)
                else:
                    outcomes[name] = partition.state._replace(
                        leader=answer.leader_id,
                        leader_epoch=answer.leader_epoch,
                        partition_epoch=answer.partition_epoch,
                        isr=tuple(answer.isr),
                        elr=eligible.found_in(answer),
                        is_recovering=answer.leader_recovery_state == _RECOVERING,
                    )
        return _certain(outcomes)


def _request(
    broker_id: int, broker_epoch: int, proposals: Sequence[Proposal], recovering: set[TopicPartition]
) -> AlterPartitionRequest:
    topics: dict[object, AlterPartitionRequest.Topic] = {}
    for proposal in proposals:
        topic = topics.get(proposal.topic_id)
        if topic is None:
            topic = AlterPartitionRequest.Topic(
                topic_name=proposal.topic_partition.topic, topic_id=proposal.topic_id, partitions=[]
            )
            topics[proposal.topic_id] = topic
        topic.partitions.append(
            AlterPartitionRequest.Topic.Partition(
                partition_index=proposal.topic_partition.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                leader_recovery_state=_RECOVERING if proposal.topic_partition in recovering else 0,
                new_isr_with_epochs=[
                    AlterPartitionRequest.Topic.Partition.Broker(
                        broker_id=life.broker, broker_epoch=life.epoch
                    )
                    for life in proposal.isr
                ],
            )
        )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values()))


def _certain(outcomes: Outcomes) -> Outcomes:
    """Without what a controller says that has been replaced, for its successor may have decided; nor what one says that
    has just begun, and does not know its own topics by their ids yet. If the topic is gone, we will be told."""
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if isinstance(outcome, PartitionState) or outcome.code not in _SAYS_NOTHING
    }
