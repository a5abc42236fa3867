"""Decisions of the controller, carried out one after the other: write, remember, tell.

At most one command or event is at work, behind one lock. What brokers are told is only queued there: who waits for
them waits outside. When a write fails, nobody knows what is true any more; the context is forgotten, and everything
begins again from the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from ottla.broker.channels import Channels
from ottla.broker.office import Claim, Office
from ottla.broker.orders import Answers, Orders, failed, mistaken
from ottla.broker.stored import leftovers, load_brokers, load_context, policy_of
from ottla.controller import brokers, configs, deletions, elections, topics
from ottla.controller.context import Context, Policy
from ottla.controller.decision import (
    BrokersChanged,
    ConfigChange,
    ConfigStored,
    Decision,
    Effect,
    LeaderAndIsr,
    StopReplicas,
    TopicChanged,
    TopicDoomed,
    UpdateMetadata,
)
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import ControllerEpochNode, ControllerNode
from ottla.metadata.store import Check, Op, StoreError
from ottla.replication.exchange import BrokerLife
from ottla.replication.state import NO_LEADER, BrokerImage, TopicImage

logger = logging.getLogger(__name__)
T = TypeVar("T")

WRITES_MAX = 1_000
"""Operations in one multi: ZooKeeper takes a megabyte at once, and the event loop is not to wait for longer ones."""
FOLLOW_SECONDS = 5.0
"""How long a command waits for brokers to follow. They are told until they do; only nobody waits for it."""


class Reign:
    """The controller at work, whenever `office` has a claim."""

    def __init__(
        self,
        office: Office,
        channels: Channels,
        orders: Orders,
        default_policy: Callable[[], Policy] = Policy,
    ) -> None:
        self.turn = asyncio.Lock()
        self.context: Context | None = None
        self._office = office
        self._channels = channels
        self._orders = orders
        self._default_policy = default_policy
        self._told: list[asyncio.Task[None]] = []
        """What the command that is at work has told, as tasks that end when it is answered."""
        self._told_us: list[asyncio.Task[None]] = []
        self._doomed: set[str] = set()
        self._unburied: set[str] = set()
        """Doomed topics whose replicas were stopped, but which could not be removed from the store."""
        self._under_way: set[asyncio.Task[None]] = set()
        self.elections = self.unclean_elections = 0
        """How many leaders we have elected."""

    @property
    def offline_partitions(self) -> int:
        """Partitions that nobody leads, as far as we have a say."""
        return sum(state.leader == NO_LEADER for state in self.context.states()) if self.context else 0

    # --- commands -----------------------------------------------------------------------------------------------

    async def command(self, work: Callable[[Context], Awaitable[T]], *, waits: bool = True) -> T:
        """Do this as controller. Returns when it lasts, and, if it `waits`, the brokers have followed or take too long.

        Raises NOT_CONTROLLER if we are not, or no longer."""
        if (
            self._office.claim is None
        ):  # at once: whoever registers has the turn for as long as a session lasts
            raise self._not_controller()
        # Whoever asked may go away in the middle; what is begun is finished all the same.
        running = asyncio.ensure_future(self._complete(work, waits))
        running.add_done_callback(_seen)
        return await asyncio.shield(running)

    async def decide(
        self,
        decide: Callable[[Context], tuple[Decision, T]],
        *,
        validate_only: bool = False,
        waits: bool = True,
    ) -> T:
        """A command that is a function of the brain: carry out what it decides, and return what it answers."""

        async def work(context: Context) -> T:
            decision, answers = decide(context)
            if not validate_only:
                await self.carry_out(context, decision)
            return answers

        return await self.command(work, waits=waits)

    async def take_over(self) -> None:
        """As a command that does nothing but what a new controller begins with."""
        await self.command(_nothing)

    async def follow_brokers(self) -> None:
        """Brokers have come or gone: one decision about all of them."""

        async def work(context: Context) -> None:
            self._doomed.update(name for name in context.doomed if name in self._unburied)
            self._unburied.clear()
            found = await load_brokers(self._office.store)
            known = {broker.epoch for broker in context.brokers.values()}
            await self.carry_out(context, brokers.change(context, found))
            born = {broker.node_id for broker in found if broker.epoch not in known}
            await self.carry_out(context, deletions.remind(context, born, born=True))

        await self.command(work, waits=False)

    async def end(self) -> None:
        """Decide nothing from now on. Returns when nothing is under way any more."""
        async with self.turn:
            self.context = None
        await self._channels.close()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def forget(self) -> None:
        """We have lost the office: what we know is of no use, and what we had to say nobody would hear."""
        self.context = None
        self._channels.keep(())

    async def _complete(self, work: Callable[[Context], Awaitable[T]], waits: bool) -> T:
        async with self.turn:
            self._told, self._told_us, self._doomed = [], [], set()
            try:
                result = await self._run(work)
            except BaseException:
                if self._doomed:  # what a new controller has found to do is not what was refused
                    self._in_background(self._followed(self._told, self._told_us, self._doomed))
                raise
            followed = self._followed(self._told, self._told_us, self._doomed)
        if waits:
            await followed
        else:
            self._in_background(followed)
        return result

    async def _followed(
        self,
        told: Sequence["asyncio.Task[None]"],
        told_us: Sequence["asyncio.Task[None]"],
        doomed: Collection[str],
    ) -> None:
        """Wait for everybody, and bury the topics whose replicas are to be stopped by now."""
        await _wait(told_us, None)
        await _wait(told, FOLLOW_SECONDS)
        if doomed:
            try:
                await self._complete(lambda context: self._bury(context, doomed), waits=True)
            except Exception:
                self._unburied.update(doomed)
                self._office.ring()
                raise

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(_seen)
        return task

    async def _run(self, work: Callable[[Context], Awaitable[T]]) -> T:
        claim = self._office.claim
        if claim is None or not self._office.may_decide:
            raise self._not_controller()
        try:
            return await work(await self._know(claim))
        except StoreError as error:
            self._begin_again()  # what has happened after all, others are to be told
            await self._office.confirm(claim)
            logger.error("a change of the cluster's metadata failed: %s", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except KafkaError:
            raise  # a refusal: nothing was done
        except Exception:
            self._begin_again()  # something may be written of which nobody was told
            raise

    def _not_controller(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_CONTROLLER, f"broker {self._office.node_id} is not the controller")

    def _begin_again(self) -> None:
        """From what is stored, and tell everybody everything."""
        self.context = None
        self._office.ring()

    # --- a decision ---------------------------------------------------------------------------------------------

    async def carry_out(self, context: Context, decision: Decision) -> None:
        """Only within a command."""
        await self.write(context, decision.writes)
        for change in decision.changes:
            if isinstance(change, TopicChanged):
                self._count_elections(context, change.topic)
            context.apply(change)
            if isinstance(change, TopicDoomed):
                self._doomed.add(change.name)
            if isinstance(change, BrokersChanged):
                own = BrokerLife(self._office.node_id, self._office.broker_epoch)
                self._channels.keep([own, *(BrokerLife(b.node_id, b.epoch) for b in change.brokers)])
        for effect in decision.effects:
            if isinstance(effect, ConfigChange):
                # At once, whatever our own broker is at: the next decision goes by these settings.
                self._orders.follow_config(effect.resource, effect.values)
            else:
                self._tell(context, effect)
        changed = [change.topic for change in decision.changes if isinstance(change, TopicChanged)]
        if any(isinstance(change, ConfigStored) for change in decision.changes):
            changed += [topic.image for topic in context.topics.values()]
        await self._advance(context, changed)

    def _count_elections(self, context: Context, after: TopicImage) -> None:
        before = context.topics.get(after.name)
        states = before.image.partitions if before is not None else ()
        for old, new in zip(
            states, after.partitions, strict=False
        ):  # partitions that are new elect nobody away
            if new.leader_epoch > old.leader_epoch and new.leader != NO_LEADER:
                self.elections += 1
                self.unclean_elections += new.is_recovering and not old.is_recovering

    async def write(self, context: Context, writes: Sequence[Op]) -> None:
        guard = Check(ControllerEpochNode.path, context.epoch_version)
        for first in range(0, len(writes), WRITES_MAX):
            await self._office.store.multi([guard, *writes[first : first + WRITES_MAX]])

    def _tell(self, context: Context, effect: LeaderAndIsr | StopReplicas | UpdateMetadata) -> None:
        node_id, target = self._office.node_id, effect.broker
        broker = context.brokers.get(target)
        if target == node_id:
            broker = BrokerImage(node_id, self._office.broker_epoch, ())
        if broker is None:
            return
        future = self._channels.send(broker, effect, context.controller_id, context.epoch)
        hearing = self._in_background(self._hear(future, BrokerLife(target, broker.epoch), effect))
        (self._told_us if target == node_id else self._told).append(hearing)

    async def _hear(self, answer: "asyncio.Future[Answers | None]", life: BrokerLife, effect: Effect) -> None:
        """Hear how a broker takes an order."""
        broker = life.broker
        try:
            answers = await answer or {}
        except KafkaError as error:
            logger.warning("broker %d refuses the controller: %s", broker, error)
            if error.code is ErrorCode.STALE_CONTROLLER_EPOCH:
                self._office.ring(ControllerNode.path)
        except Exception as error:
            logger.error("broker %d could not follow the controller", broker, exc_info=error)
        else:
            await self._heed(life, effect, answers)

    async def _heed(self, life: BrokerLife, effect: Effect, answers: Answers) -> None:
        """Take an answer to heart, unless the broker has begun another life by the time that it is our turn."""
        broker = life.broker

        async def decide(judge: Callable[[Context], Decision]) -> None:
            await self.decide(
                lambda context: (judge(context) if _is_lived(context, life) else Decision(), None)
            )

        try:
            if isinstance(effect, LeaderAndIsr) and (lost := failed(answers)):
                # Not what could not be deleted: that is nobody's replica any more, and its name perhaps another's.
                # Never twice for the same partition: a replica that has failed is not told to lead.
                await decide(lambda context: brokers.fail(context, broker, lost))
            if former := mistaken(answers):
                await decide(lambda context: deletions.make_room(context, broker, former))
            if gone := _deleted(effect, answers):
                await decide(lambda context: deletions.confirm(context, broker, gone))
        except KafkaError as error:
            logger.warning("what broker %d answers cannot be heeded now: %s", broker, error)
            self._begin_again()  # it is said only once, unless it is asked for anew
        except Exception as error:
            logger.error("what broker %d answers could not be heeded", broker, exc_info=error)

    async def _advance(self, context: Context, changed: Sequence[TopicImage]) -> None:
        """Replicas that were to be added may be in sync by now, or fewer have to be."""
        if any(state.adding or state.removing for topic in changed for state in topic.partitions):
            from ottla.controller import reassignment

            decision = reassignment.advance(context)
            if decision.writes or decision.changes or decision.effects:
                await self.carry_out(context, decision)

    # --- taking over --------------------------------------------------------------------------------------------

    async def _know(self, claim: Claim) -> Context:
        """The cluster as we know it; all of it is read if we do not know it yet."""
        if self.context is None or self.context.epoch_version != claim.version:
            self.context = None
            self.context = await self._begin(claim)
        return self.context

    async def _begin(self, claim: Claim) -> Context:
        """Take over as controller: read everything, and set it right. What was half-deleted goes on to be deleted."""
        store, node_id = self._office.store, self._office.node_id
        context = await load_context(store, node_id, claim.epoch, claim.version)
        context.policy = policy_of(context, self._default_policy)
        self._orders.follow_configs({resource: config.values for resource, config in context.configs.items()})
        await self.carry_out(context, configs.drop_orphans(context))
        born = {
            id for id, broker in context.brokers.items() if elections.is_born(broker, context.epochs.get(id))
        }
        await self.carry_out(context, brokers.begin(context))
        await self.carry_out(context, deletions.remind(context, born, born=True))
        await self.carry_out(context, deletions.remind(context, context.brokers.keys() - born, born=False))
        await self._advance(context, [topic.image for topic in context.topics.values()])
        self._doomed.update(context.doomed)
        return context

    async def _bury(self, context: Context, names: Collection[str]) -> None:
        found = {name: await leftovers(self._office.store, name) for name in context.doomed if name in names}
        await self.carry_out(context, topics.bury(context, found))


def _deleted(effect: Effect, answers: Answers) -> list[TopicPartition]:
    """The replicas that are gone, as a broker says."""
    if not isinstance(effect, StopReplicas):
        return []
    return [
        partition
        for partition, code in answers.items()
        if code == ErrorCode.NONE and effect.partitions.get(partition)
    ]


def _is_lived(context: Context, life: BrokerLife) -> bool:
    """Is the broker still in that life, or in none?"""
    broker = context.brokers.get(life.broker)
    return broker is None or broker.epoch == life.epoch


async def _nothing(context: Context) -> None:
    pass


async def _wait(told: Sequence["asyncio.Task[None]"], seconds: float | None) -> None:
    if told:
        await asyncio.wait(told, timeout=seconds)


def _seen(done: "asyncio.Future[Any]") -> None:
    """Whoever asked may be gone: then nobody is left to hear of an error, and that is no news for the log."""
    if not done.cancelled():
        done.exception()
