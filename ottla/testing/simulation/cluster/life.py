"""One life of a simulated broker: what it does by itself, time after time.

It registers and stands for election by the real `ControllerHost`, follows leaders, asks the controller for other ISRs,
and flushes now and then. What others ask of it is in `requests`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata import NO_CONTROLLER
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import SessionState
from ottla.replication.exchange import BrokerLife, FetchQuestion, Proposal
from ottla.replication.following import Outcome
from ottla.replication.partition import Partition
from ottla.replication.state import NO_EPOCH, PartitionState
from ottla.testing.simulation.cluster.calls import Calls
from ottla.testing.simulation.cluster.controller import Office
from ottla.testing.simulation.cluster.messages import Alter, Answer, Fetch, Fetched, Stop
from ottla.testing.simulation.cluster.object_log import Config
from ottla.testing.simulation.cluster.replicas import SimReplicas
from ottla.testing.simulation.cluster.requests import Requests
from ottla.testing.simulation.loop import NodeLoop
from ottla.testing.simulation.world import Event

if TYPE_CHECKING:
    from ottla.testing.simulation.cluster.broker import SimBroker

_UNSURE = {ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR}
"""After these a proposal may have been written all the same: by a controller that did not hear of it."""


class Life:
    """From a start to a crash. `begin` it; the world does the rest."""

    def __init__(self, broker: "SimBroker", previous_epoch: int) -> None:
        self.broker = broker
        self.world = broker.world
        self.settings = broker.settings
        self.name = broker.name
        self.loop = NodeLoop(broker.world, broker.name)
        self.configs: dict[str, Config] = {}
        self.replicas = SimReplicas(
            broker.world, broker.id, broker.settings, broker.disk, self.moved, self.config_of
        )
        self.calls = Calls(broker.world, broker.name)
        self.office = Office(self, previous_epoch)
        self.requests = Requests(self)
        self.suspended_ms: int | None = None
        self._fetches: dict[TopicPartition, tuple[FetchQuestion, Event]] = {}

    def begin(self) -> None:
        self.loop.run(self.office.work())
        self._flush_now_and_then()
        self._look_at_isrs()

    def config_of(self, topic: str) -> Config:
        config = self.configs.get(topic)
        if config is None:
            config = self.configs[topic] = Config(
                self.settings.min_insync_replicas, flushes_before_ack=self.settings.flushes_before_ack
            )
        return config

    @property
    def broker_epoch(self) -> int:
        return self.replicas.broker_epoch

    @property
    def is_suspended(self) -> bool:
        return self.suspended_ms is not None

    def session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.suspended_ms = None
        elif self.suspended_ms is None:
            self.suspended_ms = self.world.now_ms
            self.world.sometimes("a broker is cut off from the store")
        if state is SessionState.LOST:
            self.world.sometimes("a session is lost")

    def registered(self, broker_epoch: int) -> None:
        if self.replicas.broker_epoch not in (NO_EPOCH, broker_epoch):
            self.world.sometimes("a broker registers again in the same life")
        self.suspended_ms = None
        self.replicas.register(broker_epoch)
        self.broker.last_epoch = max(self.broker.last_epoch, broker_epoch)

    # --- messages -------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any) -> None:
        if isinstance(message, Fetched):
            self._fetched(message)
        elif isinstance(message, Answer):
            self.calls.answered(message)
        else:
            self.requests.receive(sender, message)

    def after(self, delay_ms: int, call: Callable[..., None], *arguments: Any) -> Event:
        return self.world.after(delay_ms, call, *arguments, node=self.name)

    def moved(self, partition: Partition) -> None:
        """The controller has spoken about this partition."""
        self.broker.touched(partition)
        before = self._fetches.pop(partition.topic_partition, None)
        if before is not None:
            before[1].cancel()
        if not partition.is_stopped:
            self._fetch(partition.topic_partition)

    # --- following ------------------------------------------------------------------------------------------------

    def _fetch(self, where: TopicPartition) -> None:
        """Ask the leader, and ask again if no answer comes."""
        self._fetches.pop(where, None)
        partition = self.replicas.partitions.get(where)
        if partition is None or partition.state is None:
            return
        question = partition.question()
        if question is None:
            return
        again = self.after(self.settings.request_ms, self._fetch, where)
        self._fetches[where] = question, again
        life = BrokerLife(self.broker.id, self.broker_epoch)
        if life.epoch != NO_EPOCH:
            message = Fetch(where, partition.topic_id, life, question)
            self.world.send(self.name, f"b{partition.state.leader}", message)

    def _fetched(self, message: Fetched) -> None:
        partition = self.replicas.partitions.get(message.partition)
        if partition is None or partition.topic_id != message.topic_id:
            return
        outcome = partition.answer(message.question, message.answer, self.world.now_ms)
        if outcome is Outcome.OUT_OF_RANGE:
            outcome = partition.out_of_range(message.question, *message.ends)
        if outcome is Outcome.STALE:
            self.world.sometimes("a late answer to a follower is dropped")
        elif outcome is Outcome.TRUNCATED:
            self.world.sometimes("a follower truncates its log")
        self.broker.touched(partition)
        waiting = self._fetches.get(message.partition)
        if waiting is None or waiting[0] != message.question:
            return
        waiting[1].cancel()
        is_moving = outcome in (Outcome.APPENDED, Outcome.TRUNCATED)
        delay_ms = 0 if is_moving else self.settings.fetch_ms
        if outcome is Outcome.REFUSED:
            delay_ms = self.settings.retry_ms
        self._fetches[message.partition] = (
            message.question,
            self.after(delay_ms, self._fetch, message.partition),
        )

    # --- in sync --------------------------------------------------------------------------------------------------

    def _look_at_isrs(self) -> None:
        for partition in list(self.replicas.partitions.values()):
            self.propose(partition)
        self.after(self.settings.lag_ms // 2, self._look_at_isrs)

    def propose(self, partition: Partition) -> None:
        """Ask the controller for another ISR, if there should be one."""
        controller = self.office.metadata.controller_id
        if self.is_suspended or controller == NO_CONTROLLER or self.broker_epoch == NO_EPOCH:
            return
        proposal = partition.propose(self.world.now_ms)
        if proposal is None:
            return
        self.world.sometimes(
            "an ISR should shrink" if self._shrinks(partition, proposal) else "an ISR should grow"
        )

        def then(answer: Answer | None) -> None:
            self._proposed(partition, proposal, answer)

        epoch = self.broker_epoch
        self.calls.ask(
            f"b{controller}",
            lambda number: Alter(number, self.broker.id, epoch, proposal),
            then,
            self.settings.request_ms,
        )

    @staticmethod
    def _shrinks(partition: Partition, proposal: Proposal) -> bool:
        return not proposal.members >= partition.isr

    def _proposed(self, partition: Partition, proposal: Proposal, answer: Answer | None) -> None:
        outcome: PartitionState | KafkaError | None = None
        if answer is None:
            self.world.sometimes("an ISR is asked for, and no answer comes")
        elif answer.error is not ErrorCode.NONE:
            outcome = None if answer.error in _UNSURE else KafkaError.of(answer.error)
        else:
            outcome = answer.value
        if isinstance(outcome, KafkaError):
            self.world.sometimes(f"an ISR is refused ({int(outcome.code)})")
        partition.answered(proposal, outcome, self.world.now_ms)
        self.broker.touched(partition)

    # --- the disk -------------------------------------------------------------------------------------------------

    def _flush_now_and_then(self) -> None:
        for _, log in self.replicas.logs():
            log.flush()
            log.write_checkpoint()
        self.after(self.settings.flush_ms, self._flush_now_and_then)

    # --- leaving --------------------------------------------------------------------------------------------------

    def leave(self, then: Callable[[], None], attempts: int = 8) -> None:
        """Ask the controller to let somebody else lead; go when that is done, or after a while all the same."""
        controller = self.office.metadata.controller_id

        def answered(answer: Answer | None) -> None:
            done = answer is not None and answer.error is ErrorCode.NONE and not answer.value
            if done or attempts == 0:
                then()
            else:
                self.after(self.settings.retry_ms, self.leave, then, attempts - 1)

        if controller == NO_CONTROLLER:
            self.after(self.settings.retry_ms, answered, None)
        else:
            epoch = self.broker_epoch
            self.calls.ask(
                f"b{controller}",
                lambda number: Stop(number, self.broker.id, epoch),
                answered,
                self.settings.request_ms,
            )

    def end_session(self, then: Callable[[], None]) -> None:
        """Tell the store that we go, if it can be told."""

        async def leave() -> None:
            await self.office.leave()
            then()

        self.loop.run(leave())
