"""The host of the controller: registers this broker, stands for election for ever, and runs commands when elected.

The brain in `ottla.controller` decides, `office` says whether we may, `reign` carries it out, and `standing` follows
what others change in the store. Here are those parts put together, and everything that a controller can be asked for.
"""

import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.channels import Channels, Line
from ottla.broker.metadata import Metadata
from ottla.broker.office import Dice, Office, OpenSession
from ottla.broker.orders import Configs, Orders, Replicas
from ottla.broker.reign import Reign
from ottla.broker.standing import Rebalancing, Standing
from ottla.broker.stored import StoredCluster, load_cluster
from ottla.controller import brokers, configs, topics
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import Context, Policy
from ottla.controller.decision import Decision
from ottla.controller.topics import Defaults
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata import paths
from ottla.metadata.fields import INT64_MAX
from ottla.metadata.paths import BrokerNode, EndpointNode, ProducerIdBlockNode
from ottla.metadata.store import Create, MetadataStore, Node, Op, SessionState, Set
from ottla.replication.exchange import BrokerLife, Proposal
from ottla.replication.state import NO_EPOCH, Endpoint, PartitionState, TopicImage

if TYPE_CHECKING:
    from ottla.controller.preferred import ElectionType

PRODUCER_ID_BLOCK_SIZE = 1_000


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
        answers: Callable[[BrokerNode], Awaitable[bool]] | None = None,
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
            answers=answers,
        )
        self._metadata = metadata
        self._settings = configs
        self.orders = Orders(node_id, replicas, metadata, configs)
        self._reign = Reign(
            self._office, Channels(node_id, self.orders.follow, line), self.orders, default_policy
        )
        self._defaults = defaults
        self._standing = Standing(
            self._office, self._reign, self.orders, metadata, rebalancing or Rebalancing()
        )
        self.on_session: Callable[[SessionState], object] = lambda state: None
        """Called when the session with the store is interrupted, goes on, or is over. See `may_decide`."""
        self.on_registered: Callable[[int], object] = lambda broker_epoch: None
        """Called with every new broker epoch."""
        self._standing.on_session = lambda state: self.on_session(state)
        self._standing.on_registered = lambda epoch: self.on_registered(epoch)

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
    def reign(self) -> Reign:
        """What we do as controller, whenever we are: for those who count."""
        return self._reign

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

    async def regain(self) -> None:
        """Before `elect`: logs take time to open, in which a session can end. Raises StoreUnavailable."""
        await self._office.regain()

    async def elect(
        self, endpoints: Sequence[Endpoint], rack: str | None = None, previous_epoch: int = NO_EPOCH
    ) -> None:
        """Register this broker, become controller if there is none, and stand for election from now on.

        `previous_epoch` is the life before, if it ended with a clean shutdown.
        """
        await self._standing.enter(
            BrokerNode(tuple(EndpointNode(*each) for each in endpoints), rack, previous_epoch)
        )
        if self.is_controller:
            await self._take_over()
        self._standing.begin()

    async def _take_over(self) -> None:
        try:
            await self._reign.take_over()
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            # Somebody else was elected in the meantime, or the session is over. We are a broker all the same.

    async def resign(self) -> None:
        """Decide nothing from now on, and let others take over."""
        await self._standing.end()
        async with self._reign.turn:
            await self._office.vacate()
        await self._reign.end()
        await self.orders.rest()

    def abandon(self) -> None:
        """Stand for election no more, as a crash would have it."""
        self._standing.abandon()
        self.orders.abandon()
        self._office.resign()
        self._reign.forget()

    async def hang_up(self) -> None:
        """Close the connections to other brokers."""
        await self._reign.end()

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

    async def allocate_producer_ids(self, broker_id: int | None = None) -> range:
        """A block of ids that nobody gets again, for a broker: this one if none is named."""
        owner = self.node_id if broker_id is None else broker_id

        async def work(context: Context) -> range:
            nodes = await self._office.store.get_all([paths.PRODUCER_ID_BLOCK])
            write, block = _next_block(owner, nodes.get(paths.PRODUCER_ID_BLOCK))
            await self._reign.write(context, [write])
            return block

        return await self._reign.command(work)

    async def replicas_failed(
        self, partitions: Collection[TopicPartition], life: BrokerLife | None = None
    ) -> None:
        """The disk under these replicas of a broker, this one if none is named, has failed."""
        from ottla.controller import alterations

        found = life or BrokerLife(self.node_id, self.broker_epoch)

        def decide(context: Context) -> tuple[Decision, None]:
            alterations.check_broker_epoch(context, *found)
            return brokers.fail(context, found.broker, partitions), None

        await self._reign.decide(decide)

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

    async def reassign(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move partitions to other replicas; None takes a move back. Returns when it has begun."""
        from ottla.controller import reassignment

        return await self._reign.decide(
            lambda context: reassignment.alter(context, wanted, allow_factor_change=allow_factor_change)
        )

    async def reassignments(
        self, among: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionState]:
        """The partitions that are on the move, of all or of these."""
        from ottla.controller import reassignment

        return await self._reign.decide(lambda context: (Decision(), reassignment.ongoing(context, among)))


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
