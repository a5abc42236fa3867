"""The host of the controller: registers this broker, elects it, runs commands one after the other, carries them out.

The brain in `ottla.controller` decides; here its writes go to the store and its effects to the brokers. At most one
controller writes: `/controller` and the next epoch are taken in one step, and every later write fails if somebody else
has taken a newer one. When a write fails, what is known may be wrong: the controller starts again from the store.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.broker.metadata import Metadata
from ottla.broker.orders import Configs, Orders, Replicas
from ottla.broker.stored import StoredCluster, leftovers, load_cluster, load_context
from ottla.controller import brokers, configs, topics
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import Context
from ottla.controller.decision import Decision
from ottla.controller.topics import Defaults
from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition, format_id, random_id
from ottla.metadata import paths
from ottla.metadata.fields import INT64_MAX
from ottla.metadata.paths import (
    BrokerNode,
    ClusterIdNode,
    ControllerEpochNode,
    ControllerNode,
    EndpointNode,
    ProducerIdBlockNode,
)
from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    MetadataStore,
    NodeExists,
    NoNode,
    Op,
    SessionLost,
    Set,
    StoreError,
)
from ottla.replication.state import Endpoint, TopicImage

logger = logging.getLogger(__name__)
T = TypeVar("T")

WRITES_MAX = 1_000
"""Operations in one multi: ZooKeeper takes a megabyte at once, and the event loop is not to wait for longer ones."""
ATTEMPTS_MAX = 10
"""How often a step is tried that another broker may be taking at the same time."""
PRODUCER_ID_BLOCK_SIZE = 1_000


class Claim(NamedTuple):
    """Our time as controller: the epoch, and the version of its node that every write checks."""

    epoch: int
    version: int


class Dice:
    """Chance for the controller; `source` makes it reproducible."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source

    def new_id(self) -> uuid.UUID:
        return random_id(self._source)

    def below(self, bound: int) -> int:
        return (self._source or random).randrange(bound)


def _seen(done: "asyncio.Future[Any]") -> None:
    """Whoever asked may be gone: then nobody is left to hear of an error, and that is no news for the log."""
    if not done.cancelled():
        done.exception()


class ControllerHost:
    """`open` before the logs are opened, `elect` when the listeners are bound, `resign` at the end.

    After `elect` returns, this broker has been told everything that concerns it. A command returns when its change
    lasts in the store and this broker has followed it.
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
        chance: random.Random | None = None,
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = -1
        self._store = store
        self._metadata = metadata
        self._settings = configs
        self._orders = Orders(node_id, replicas, metadata, configs)
        self._clock = clock
        self._defaults = defaults
        self._chance = Dice(chance)
        self._turn = asyncio.Lock()
        self._claim: Claim | None = None
        self._context: Context | None = None

    # Coming and going

    async def open(self) -> StoredCluster:
        """Read what the logs need to be opened, and pass the settings on. A new store gets its layout and an id."""
        cluster_id = await self._cluster_id()
        self._metadata.cluster_id = cluster_id
        stored = await load_cluster(self._store, cluster_id)
        self._orders.follow_configs(stored.configs)
        return stored

    async def elect(self, endpoints: Sequence[Endpoint], rack: str | None = None) -> None:
        """Register this broker, and become controller if there is none."""
        async with self._turn:
            node = BrokerNode(tuple(EndpointNode(*endpoint) for endpoint in endpoints), rack)
            controller_id = await self._register(
                Create(BrokerNode.path(self.node_id), self._encode(node), True)
            )
            if self._claim is None:
                self._metadata.update(controller_id=controller_id)
                return
            logger.info("broker %d is the controller, epoch %d", self.node_id, self._claim.epoch)
            await self._begin(self._claim)

    async def resign(self) -> None:
        """Decide nothing from now on. Whoever closes the store's session lets others take over."""
        async with self._turn:
            self._claim = self._context = None

    @property
    def is_controller(self) -> bool:
        return self._claim is not None

    # Commands

    async def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicImage | KafkaError]:
        """Every topic as it is now, or why it is not."""

        async def work(context: Context) -> dict[str, TopicImage | KafkaError]:
            check = self._settings.check
            decision, answers = topics.create(context, wanted, self._defaults(), self._chance, check)
            if not validate_only:
                await self._carry_out(context, decision)
            return answers

        return await self._command(work)

    async def delete_topics(
        self, names: Sequence[str], ids: Mapping[str, uuid.UUID] | None = None
    ) -> dict[str, KafkaError | None]:
        async def work(context: Context) -> dict[str, KafkaError | None]:
            decision, answers = topics.doom(context, names, ids)
            await self._carry_out(context, decision)
            await self._bury(context)
            return answers

        return await self._command(work)

    async def create_partitions(
        self, growth: Sequence[Growth], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        async def work(context: Context) -> dict[str, KafkaError | None]:
            decision, answers = topics.grow(context, growth, self._chance)
            if not validate_only:
                await self._carry_out(context, decision)
            return answers

        return await self._command(work)

    async def alter_configs(
        self,
        resource: ConfigResource,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change settings; None takes one away, and `replace` all that are not named. Raises KafkaError."""

        async def work(context: Context) -> None:
            configs.check_resource(context, resource)
            after = configs.altered(context, resource, values, replace=replace)
            self._settings.check(resource, after)
            if not validate_only:
                await self._carry_out(context, configs.alter(context, resource, after))

        await self._command(work)

    def configs_of(self, resource_type: ResourceType, name: str) -> dict[str, str]:
        """What is stored for a resource, without any defaults."""
        return dict(self._orders.configs.get(ConfigResource(resource_type, name), {}))

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody gets again."""

        async def work(context: Context) -> range:
            nodes = await self._store.get_all([paths.PRODUCER_ID_BLOCK])
            node = nodes.get(paths.PRODUCER_ID_BLOCK)
            first = ProducerIdBlockNode.decode(node.data).last + 1 if node is not None else 0
            last = first + PRODUCER_ID_BLOCK_SIZE - 1
            if last > INT64_MAX:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given away")
            data = ProducerIdBlockNode(self.node_id, first, last).encode()
            write = (
                Set(paths.PRODUCER_ID_BLOCK, data, node.version)
                if node
                else Create(paths.PRODUCER_ID_BLOCK, data)
            )
            await self._write(context, [write])
            return range(first, last + 1)

        return await self._command(work)

    async def replicas_failed(self, partitions: Collection[TopicPartition]) -> None:
        """The disk under these replicas of this broker has failed: somebody else is to lead, or nobody."""

        async def work(context: Context) -> None:
            await self._carry_out(context, brokers.fail(context, self.node_id, partitions))

        await self._command(work)

    # Election

    async def _cluster_id(self) -> str:
        for _ in range(ATTEMPTS_MAX):
            wanted = [*paths.LAYOUT, ControllerEpochNode.path, ClusterIdNode.path]
            found = await self._store.get_all(wanted)
            data = {
                ControllerEpochNode.path: ControllerEpochNode.encode(0),
                ClusterIdNode.path: ClusterIdNode.encode(format_id(self._chance.new_id())),
            }
            missing = [Create(path, data.get(path, b"")) for path in wanted if path not in found]
            if not missing:
                return ClusterIdNode.decode(found[ClusterIdNode.path].data)
            try:
                await self._store.multi(missing)
            except NodeExists:
                continue  # another broker starts, too
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the metadata store does not come to rest")

    async def _register(self, me: Create) -> int:
        """Register, and become controller in the same step if nobody is. Returns who is."""
        for _ in range(ATTEMPTS_MAX):
            found = await self._store.get_all([me.path, ControllerNode.path, ControllerEpochNode.path])
            if me.path in found:
                raise KafkaError(
                    ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                    f"another broker {self.node_id} is alive: {me.path} exists",
                )
            ops: list[Op] = [me]
            claim = None
            if ControllerNode.path not in found:
                epoch_node = found[ControllerEpochNode.path]
                claim = Claim(ControllerEpochNode.decode(epoch_node.data) + 1, epoch_node.version + 1)
                ops.append(
                    Create(
                        ControllerNode.path, ControllerNode.encode(self.node_id, self._clock.now_ms()), True
                    )
                )
                ops.append(
                    Set(ControllerEpochNode.path, ControllerEpochNode.encode(claim.epoch), epoch_node.version)
                )
            try:
                self.broker_epoch = (await self._store.multi(ops))[0]
            except (NodeExists, BadVersion):
                continue  # another broker was faster; see what is left for us
            self._claim = claim
            return self.node_id if claim else ControllerNode.decode(found[ControllerNode.path].data)
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the metadata store does not come to rest")

    async def _begin(self, claim: Claim) -> Context:
        """Take over as controller: read everything, set it right, and finish what was left half-done."""
        context = await load_context(self._store, self.node_id, claim.epoch, claim.version)
        self._orders.follow_configs({resource: config.values for resource, config in context.configs.items()})
        await self._carry_out(context, configs.drop_orphans(context))
        await self._carry_out(context, brokers.begin(context))
        await self._bury(context)
        self._context = context
        return context

    # Running commands

    async def _command(self, work: Callable[[Context], Awaitable[T]]) -> T:
        # Whoever asked may go away in the middle; what is begun is finished all the same.
        running = asyncio.ensure_future(self._run(work))
        running.add_done_callback(_seen)
        return await asyncio.shield(running)

    async def _run(self, work: Callable[[Context], Awaitable[T]]) -> T:
        async with self._turn:
            if self._claim is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, f"broker {self.node_id} is not the controller")
            try:
                return await work(self._context or await self._begin(self._claim))
            except StoreError as error:
                self._context = None
                await self._check_claim(self._claim)
                logger.error("a change of the cluster's metadata failed: %s", error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    async def _check_claim(self, claim: Claim) -> None:
        """Step back if there is a newer controller."""
        try:
            node = await self._store.get(ControllerEpochNode.path)
            moved = node.version != claim.version
        except (NoNode, SessionLost):
            moved = True
        except StoreError:
            return  # nobody knows; the next command will find out
        if moved:
            self._claim = None
            logger.warning("broker %d is no longer the controller", self.node_id)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"broker {self.node_id} is no longer the controller")

    async def _carry_out(self, context: Context, decision: Decision) -> None:
        await self._write(context, decision.writes)
        for change in decision.changes:
            context.apply(change)
        failed: list[TopicPartition] = []
        for effect in decision.effects:
            failed += await self._orders.tell(effect, context.controller_id, context.epoch)
        if failed:  # never twice for the same partition: a replica that has failed is not told to lead
            await self._carry_out(context, brokers.fail(context, self.node_id, failed))

    async def _write(self, context: Context, writes: Sequence[Op]) -> None:
        guard = Check(ControllerEpochNode.path, context.epoch_version)
        for first in range(0, len(writes), WRITES_MAX):
            await self._store.multi([guard, *writes[first : first + WRITES_MAX]])

    async def _bury(self, context: Context) -> None:
        if context.doomed:
            found = {name: await leftovers(self._store, name) for name in context.doomed}
            await self._carry_out(context, topics.bury(found))

    def _encode(self, node: BrokerNode) -> bytes:
        return node.encode(self._clock.now_ms())
