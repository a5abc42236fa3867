"""The host of the controller: registers this broker, stands for election for ever, and runs commands when elected.

The brain in `ottla.controller` decides, `office` says whether we may, `reign` carries it out. Here is what moves them:
nodes of the store that others change, the session that ends and begins, the clock, and those who ask for something.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.channels import Channels, Line
from ottla.broker.metadata import NO_CONTROLLER, Metadata
from ottla.broker.office import Dice, Office, OpenSession
from ottla.broker.orders import Configs, Orders, Replicas
from ottla.broker.reign import Reign
from ottla.broker.stored import StoredCluster, load_cluster, load_configs
from ottla.controller import configs, topics
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import Context, Policy
from ottla.controller.decision import Decision
from ottla.controller.topics import Defaults
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition
from ottla.metadata import paths
from ottla.metadata.fields import INT64_MAX
from ottla.metadata.paths import BrokerNode, ControllerNode, EndpointNode, ProducerIdBlockNode
from ottla.metadata.store import Create, MetadataStore, Node, Op, SessionState, Set
from ottla.replication.exchange import Proposal
from ottla.replication.state import NO_EPOCH, Endpoint, PartitionState, TopicImage

if TYPE_CHECKING:
    from ottla.controller.preferred import ElectionType

logger = logging.getLogger(__name__)

PRODUCER_ID_BLOCK_SIZE = 1_000
RETRY_SECONDS = (0.1, 5.0)
"""How long to wait after something failed in the background: at first, and at most."""


class Rebalancing:
    """How often the controller looks whether leadership is where it should be, and how much may be elsewhere."""

    def __init__(
        self,
        seconds: Callable[[], float | None] = lambda: None,
        percent: Callable[[], int] = lambda: 10,
    ) -> None:
        self.seconds = seconds
        """None: never."""
        self.percent = percent


class ControllerHost:
    """`open` before the logs are opened, `elect` when the listeners are bound, `resign` at the end.

    When `elect` returns, this broker is registered; if it is the controller, it has been told everything that
    concerns it. A command returns when its change lasts in the store and the live brokers have followed it.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        node_id: int,
        replicas: Replicas,
        metadata: Metadata,
        configs: Configs,
        clock: Clock,
        defaults: Callable[[], Defaults] = lambda: Defaults(1, 1),
        default_policy: Callable[[], Policy] = Policy,
        rebalancing: Rebalancing | None = None,
        line: Line | None = None,
        open_session: OpenSession | None = None,
        registration_timeout_ms: int = 0,
        chance: random.Random | None = None,
    ) -> None:
        self.node_id = node_id
        self._chance = Dice(chance)
        self._office = Office(
            store,
            node_id=node_id,
            clock=clock,
            chance=self._chance,
            open_session=open_session,
            registration_timeout_ms=registration_timeout_ms,
        )
        self._office.on_session = self._follow_session
        self._metadata = metadata
        self._settings = configs
        self.orders = Orders(node_id, replicas, metadata, configs)
        self._reign = Reign(
            self._office, Channels(node_id, self.orders.follow, line), self.orders, default_policy
        )
        self._defaults = defaults
        self._rebalancing = rebalancing or Rebalancing()
        self._me = BrokerNode(())
        self._standing: asyncio.Task[None] | None = None
        self.on_session: Callable[[SessionState], object] = lambda state: None
        """Called when the session with the store is interrupted, goes on, or is over. See `may_decide`."""
        self.on_registered: Callable[[int], object] = lambda broker_epoch: None
        """Called with every new broker epoch."""

    @property
    def is_controller(self) -> bool:
        return self._office.claim is not None

    @property
    def controller_epoch(self) -> int:
        """Ours, or -1."""
        return self._office.claim.epoch if self._office.claim else NO_EPOCH

    @property
    def broker_epoch(self) -> int:
        return self._office.broker_epoch

    @property
    def may_decide(self) -> bool:
        """Are we still who we were, for all the store tells? If not, no ISR may change, and nothing be decided."""
        return self._office.may_decide

    @property
    def store(self) -> MetadataStore:
        """The present session."""
        return self._office.store

    # --- coming and going ---------------------------------------------------------------------------------------

    async def open(self) -> StoredCluster:
        """Read what the logs need to be opened, and pass the settings on. A new store gets its layout and an id."""
        cluster_id = await self._office.prepare()
        self._metadata.cluster_id = cluster_id
        stored = await load_cluster(self._office.store, cluster_id)
        self.orders.follow_configs(stored.configs)
        return stored

    async def elect(
        self, endpoints: Sequence[Endpoint], rack: str | None = None, previous_epoch: int = NO_EPOCH
    ) -> None:
        """Register this broker, become controller if there is none, and stand for election from now on.

        `previous_epoch` is the life before, if it ended with a clean shutdown.
        """
        self._me = BrokerNode(tuple(EndpointNode(*each) for each in endpoints), rack, previous_epoch)
        await self._enter()
        if self.is_controller:
            await self._reign.take_over()
        name = f"broker {self.node_id} stands for election"
        self._standing = asyncio.get_running_loop().create_task(self._stand(), name=name)

    async def resign(self) -> None:
        """Decide nothing from now on. Whoever closes the store's session lets others take over."""
        standing = self._standing
        self.abandon()
        if standing is not None:
            await asyncio.wait([standing])
        async with self._reign.turn:
            self._office.step_back()
        await self._reign.end()

    def abandon(self) -> None:
        """Stand for election no more, as a crash would have it."""
        if self._standing is not None:
            self._standing.cancel()
            self._standing = None

    async def _enter(self) -> None:
        async with self._reign.turn:
            self._reign.forget()
            await self._office.enter(self._me)
            epoch = self.orders.broker_epoch = self._office.broker_epoch
            self._follow_controller()
        # The next session of this process has lost nothing of what this one had.
        self._me = self._me._replace(previous_epoch=epoch)
        self.on_registered(epoch)

    # --- standing for election ----------------------------------------------------------------------------------

    async def _stand(self) -> None:
        seconds, longest = RETRY_SECONDS
        look_again = asyncio.get_running_loop().time()
        while True:
            try:
                await self._attend()
                look_again = await self._rebalance(look_again)
                seconds = RETRY_SECONDS[0]
            except Exception as error:  # whatever it is, somebody must go on standing for election
                self._complain(error)
                self._office.ring()
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, longest)
            await self._wait_for_news(look_again)

    async def _wait_for_news(self, until: float) -> None:
        seconds = self._rebalancing.seconds()
        limit = None if seconds is None else max(0.0, until - asyncio.get_running_loop().time())
        try:
            await asyncio.wait_for(self._office.bell.wait(), limit)
        except TimeoutError:
            return

    async def _attend(self) -> None:
        """See what has changed in the store, and do what follows from it."""
        office = self._office
        office.bell.clear()
        if office.store.session is SessionState.LOST:
            await office.renew()
        if office.broker_epoch == NO_EPOCH:  # also if the last attempt to enter failed half-way
            await self._enter()
            office.ring()
        if office.store.session is not SessionState.CONNECTED:
            return  # what only one may do waits until we know whether it is us
        news = office.news.copy()
        office.news.clear()
        if ControllerNode.path in news:
            async with self._reign.turn:
                await office.stand()
                self._follow_controller()
        if not self.is_controller:
            if news & {paths.CONFIG_CHANGES, ControllerNode.path}:
                self.orders.follow_configs(await load_configs(office.store))
        elif news & {paths.BROKERS, ControllerNode.path}:
            await self._reign.follow_brokers()

    async def _rebalance(self, due: float) -> float:
        """Give leadership back when it is time. Returns when it will be time again."""
        now, seconds = asyncio.get_running_loop().time(), self._rebalancing.seconds()
        if seconds is None or now < due:
            return due
        context = self._reign.context
        if self.is_controller and context is not None and len(context.brokers) > 1:
            from ottla.controller import preferred

            percent = self._rebalancing.percent()
            await self._reign.decide(
                lambda context: (preferred.rebalance(context, percent), None), waits=False
            )
        return now + seconds

    def _follow_controller(self) -> None:
        if not self.is_controller:
            self._reign.forget()
            if self._metadata.controller_id != self._office.controller_id:
                self._metadata.update(controller_id=self._office.controller_id)

    def _complain(self, error: Exception) -> None:
        is_known = isinstance(error, OttlaError | OSError)
        logger.warning(
            "broker %d does not get on with the cluster: %s",
            self.node_id,
            error,
            exc_info=None if is_known else error,
        )

    def _follow_session(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._reign.forget()
            self._metadata.update(controller_id=NO_CONTROLLER)
        self.on_session(state)

    # --- topics and settings ------------------------------------------------------------------------------------

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicImage | KafkaError]:
        """Every topic as it is now, or why it is not."""
        return await self._reign.decide(
            lambda context: topics.create(
                context, wanted, self._defaults(), self._chance, self._settings.check
            ),
            validate_only=validate_only,
        )

    async def delete_topics(
        self, names: Sequence[str], ids: Mapping[str, uuid.UUID] | None = None
    ) -> dict[str, KafkaError | None]:
        """Returns when the replicas are stopped, as far as they can be reached, and nothing is left in the store."""
        return await self._reign.decide(lambda context: topics.doom(context, names, ids))

    async def create_partitions(
        self, growth: Sequence[Growth], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        return await self._reign.decide(
            lambda context: topics.grow(context, growth, self._chance), validate_only=validate_only
        )

    async def alter_configs(
        self,
        resource: ConfigResource,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change settings; None takes one away, and `replace` all that are not named. Raises KafkaError."""

        def decide(context: Context) -> tuple[Decision, None]:
            configs.check_resource(context, resource)
            after = configs.altered(context, resource, values, replace=replace)
            self._settings.check(resource, after)
            return configs.alter(context, resource, after), None

        await self._reign.decide(decide, validate_only=validate_only)

    def configs_of(self, resource_type: ResourceType, name: str) -> dict[str, str]:
        """What is stored for a resource, without any defaults."""
        return dict(self.orders.configs.get(ConfigResource(resource_type, name), {}))

    # --- what brokers ask for -----------------------------------------------------------------------------------

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody gets again."""

        async def work(context: Context) -> range:
            nodes = await self._office.store.get_all([paths.PRODUCER_ID_BLOCK])
            write, block = _next_block(self.node_id, nodes.get(paths.PRODUCER_ID_BLOCK))
            await self._reign.write(context, [write])
            return block

        return await self._reign.command(work)

    async def replicas_failed(
        self, partitions: Collection[TopicPartition], broker: int | None = None
    ) -> None:
        """The disk under these replicas of a broker, this one if none is named, has failed."""
        await self._reign.fail(self.node_id if broker is None else broker, partitions)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
    ) -> dict[TopicPartition, PartitionState | KafkaError]:
        """What the leaders of these partitions propose, judged and done. Raises STALE_BROKER_EPOCH.

        Unlike other commands it does not wait for anybody: the leader that asks holds back what it has not committed.
        """
        from ottla.controller import alterations

        return await self._reign.decide(
            lambda context: alterations.alter(context, broker_id, broker_epoch, proposals), waits=False
        )

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Let others lead what this broker leads. Returns what it still leads; ask again."""
        from ottla.controller import shutdown

        return await self._reign.decide(lambda context: shutdown.prepare(context, broker_id, broker_epoch))

    # --- elections and moves ------------------------------------------------------------------------------------

    async def elect_leaders(
        self, kind: "ElectionType", partitions: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect now; None means everywhere."""
        from ottla.controller import preferred

        return await self._reign.decide(lambda context: preferred.elect(context, kind, partitions))


def _next_block(node_id: int, node: Node | None) -> tuple[Op, range]:
    """The producer ids after those that were given away last, and the write that makes them ours."""
    first = ProducerIdBlockNode.decode(node.data).last + 1 if node is not None else 0
    last = first + PRODUCER_ID_BLOCK_SIZE - 1
    if last > INT64_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given away")
    data = ProducerIdBlockNode(node_id, first, last).encode()
    path = paths.PRODUCER_ID_BLOCK
    write: Op = Create(path, data) if node is None else Set(path, data, node.version)
    return write, range(first, last + 1)
