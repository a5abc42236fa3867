"""A cluster of broker processes on an event loop, which also serves their metadata and is the network between them.

`Cluster` is the face of it for programs that are not asynchronous. Whatever changes runs on the one loop, so nothing
here needs a lock. The loop must not be blocked for long: the brokers' sessions are with it.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.served import StoreServer
from ottla.metadata.store import MetadataStore, SessionState
from ottla.testing import cluster_view
from ottla.testing.cluster_network import STORE, Network, Place
from ottla.testing.cluster_node import LOOPBACK, ClusterError, ClusterNode, NodeState, Port
from ottla.testing.cluster_view import ClusterView

if TYPE_CHECKING:
    from ottla.testing.zookeeper import ZooKeeper

SECONDS = 60.0
"""How long anything may take, on a machine that is busy."""
_STOP_SECONDS = 45.0
_POLL_SECONDS = 0.05
_INTERNAL = "INTERNAL"


class Options(NamedTuple):
    """How a cluster is set up, see `Cluster`."""

    nodes: int
    zookeeper: "bool | str | ZooKeeper"
    config: Mapping[str, object]
    data_dir: Path | None
    racks: Sequence[str | None]
    ports: Sequence[int]
    links: bool
    http: bool
    for_tests: bool
    session_timeout_ms: int


class ClusterCore:
    """Brokers, their store, and the network between them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.nodes: dict[int, ClusterNode] = {}
        self.network = Network() if options.links else None
        self.zookeeper: ZooKeeper | None = None
        self._is_temporary = options.data_dir is None
        self._directory = options.data_dir or Path(tempfile.mkdtemp(prefix="ottla-cluster-"))
        self._store: MetadataStore | None = None
        self._server: StoreServer | None = None
        self._clean_up = weakref.finalize(
            self, _clean_up, self.nodes, self._directory if self._is_temporary else None, os.getpid()
        )

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything, and return when the cluster is healthy."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if self.options.zookeeper:
            await self._find_zookeeper()
        else:
            path = MEMORY if self._is_temporary else str(self._directory / "metadata.db")
            store = await EmbeddedStore.open(path)
            self._store, self._server = store, StoreServer(store)
            await self._server.start()
        for _ in range(self.options.nodes):
            await self._place()
        await self.start_nodes(self.nodes)
        await self.wait_until_healthy(SECONDS)

    async def close(self) -> None:
        """End everything; temporary files go."""
        try:
            await asyncio.gather(*(self._end(node) for node in self.nodes.values()))
            if self.network is not None:
                await self.network.close()
            if self._server is not None:
                await self._server.close()
            if self._store is not None:
                await self._store.close()
            if self.zookeeper is not None and self.zookeeper is not self.options.zookeeper:
                await asyncio.to_thread(self.zookeeper.close)
        finally:
            self._clean_up()

    async def _end(self, node: ClusterNode) -> None:
        if not self._is_temporary:
            with contextlib.suppress(ClusterError):
                await node.stop(_STOP_SECONDS)
        await node.kill()

    async def _find_zookeeper(self) -> None:
        if self.options.zookeeper is True:
            from ottla.testing.zookeeper import ZooKeeper

            self.zookeeper = await asyncio.to_thread(ZooKeeper)
            await asyncio.to_thread(self.zookeeper.start)
        elif not isinstance(self.options.zookeeper, str | bool):
            self.zookeeper = self.options.zookeeper

    @property
    def zookeeper_connect(self) -> str:
        """Where ZooKeeper is; empty without one."""
        if isinstance(self.options.zookeeper, str):
            return self.options.zookeeper
        return self.zookeeper.connect_string if self.zookeeper is not None else ""

    # --- brokers ------------------------------------------------------------------------------------------------

    def node(self, id: int) -> ClusterNode:
        if id not in self.nodes:
            raise ClusterError(f"there is no broker {id}; there are {', '.join(map(str, self.nodes))}")
        return self.nodes[id]

    async def add_node(self) -> ClusterNode:
        """One more broker, started."""
        node = await self._place()
        await self.start_nodes([node.id])
        return node

    async def start_nodes(self, ids: Iterable[int]) -> None:
        nodes = [self.node(id) for id in ids]
        for node in nodes:
            node.spawn()
        await asyncio.gather(*(node.until_ready(SECONDS) for node in nodes))

    async def stop_node(self, id: int) -> None:
        await self.node(id).stop(_STOP_SECONDS)

    async def _place(self) -> ClusterNode:
        """The next broker, with its ports and settings; not started."""
        index = len(self.nodes)
        options = self.options
        names = ["PLAINTEXT", *([_INTERNAL] if self.network else []), *(["HTTP"] if options.http else [])]
        ports = {name: Port() for name in names[1:]}
        ports["PLAINTEXT"] = Port(options.ports[index] if index < len(options.ports) else 0)
        rack = options.racks[index] if index < len(options.racks) else None
        numbers = {name: port.number for name, port in ports.items()}
        config = {
            **await self._addresses(index + 1, numbers),
            **({"broker.rack": rack} if rack is not None else {}),
            **(_for_tests(options.nodes) if options.for_tests else {}),
            **options.config,
        }
        node = self.nodes[index + 1] = ClusterNode(index + 1, self._directory, config, ports)
        return node

    async def _addresses(self, id: int, ports: Mapping[str, int]) -> dict[str, object]:
        """The settings that say where a broker listens, and where it finds others."""
        settings: dict[str, object] = {"listeners": f"PLAINTEXT://{LOOPBACK}:{ports['PLAINTEXT']}"}
        if self.network is not None:
            door = await self.network.door(None, id, LOOPBACK, ports[_INTERNAL])
            settings = {
                "listeners": f"{settings['listeners']},{_INTERNAL}://{LOOPBACK}:{ports[_INTERNAL]}",
                "advertised.listeners": f"{settings['listeners']},{_INTERNAL}://{LOOPBACK}:{door}",
                "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_INTERNAL}:PLAINTEXT",
                "inter.broker.listener.name": _INTERNAL,
            }
        if "HTTP" in ports:
            settings["http.listen"] = f"{LOOPBACK}:{ports['HTTP']}"
        if self._server is not None:
            settings["metadata.store.connect"] = await self._way_to_store(
                id, f"{LOOPBACK}:{self._server.port}"
            )
            settings["broker.session.timeout.ms"] = self.options.session_timeout_ms
        else:
            hosts, slash, chroot = self.zookeeper_connect.partition("/")
            ways = [await self._way_to_store(id, host) for host in hosts.split(",")]
            settings["zookeeper.connect"] = ",".join(ways) + slash + chroot
            settings["zookeeper.session.timeout.ms"] = self.options.session_timeout_ms
        return settings

    async def _way_to_store(self, id: int, address: str) -> str:
        if self.network is None:
            return address
        host, _, port = address.rpartition(":")
        return f"{LOOPBACK}:{await self.network.door(id, STORE, host, int(port))}"

    # --- the network --------------------------------------------------------------------------------------------

    def cut(self, some: Collection[Place], others: Collection[Place], *, one_way: bool) -> None:
        if self.network is None:
            raise ClusterError("links can be cut only in a cluster that has them: Cluster(links=True)")
        for place in (*some, *others):
            if place != STORE:
                self.node(int(place))
        for sender in some:
            for receiver in others:
                if sender != receiver:
                    self.network.cut(sender, receiver)
                    if not one_way:
                        self.network.cut(receiver, sender)

    async def heal(self) -> None:
        if self.network is not None:
            await self.network.heal()

    # --- questions ----------------------------------------------------------------------------------------------

    async def view(self) -> ClusterView:
        """What the store holds."""
        return await cluster_view.held_by(await self._observed())

    async def told_by(self, id: int) -> ClusterView:
        return await cluster_view.told_by(LOOPBACK, self.node(id).port)

    async def _observed(self) -> MetadataStore:
        """A session with the store, for looking at it."""
        if self._store is None or self._store.session is SessionState.LOST:
            from ottla.metadata.zookeeper import ZooKeeperStore

            if self._store is not None:
                await self._store.close()
            self._store = await ZooKeeperStore.open(
                self.zookeeper_connect, session_timeout_ms=30_000, connection_timeout_ms=10_000
            )
        return self._store

    async def wait_until(self, condition: Callable[[ClusterView], object], seconds: float) -> ClusterView:
        """Return what the store holds as soon as the condition is true of it. Raises ClusterError."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            view = await self.view()
            if condition(view):
                return view
            self._check(deadline, f"not after {seconds:.0f} s; the cluster is {view}")
            await asyncio.sleep(_POLL_SECONDS)

    async def wait_until_healthy(self, seconds: float) -> None:
        """Return when all brokers are there and every replica is in sync, and all of them know. Raises ClusterError."""
        deadline = asyncio.get_running_loop().time() + seconds
        addresses = {node.id: (LOOPBACK, node.port) for node in self.nodes.values()}
        while trouble := await cluster_view.trouble(await self._observed(), addresses):
            self._check(deadline, f"the cluster is not healthy after {seconds:.0f} s: {trouble}")
            await asyncio.sleep(_POLL_SECONDS)

    def _check(self, deadline: float, late: str) -> None:
        for node in self.nodes.values():
            if node.state is NodeState.FAILED:
                raise ClusterError(f"broker {node.id} has ended by itself. It said:\n{node.output()}")
        if asyncio.get_running_loop().time() > deadline:
            states = ", ".join(f"broker {node.id} is {node.state.value}" for node in self.nodes.values())
            raise ClusterError(f"{late} ({states})")

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Create a topic, and return when every broker that runs knows who leads it. Raises KafkaError."""
        deadline = asyncio.get_running_loop().time() + SECONDS
        is_first = True
        while True:
            try:
                controller = self.nodes.get((await self.view()).controller)
                if controller is None:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller")
                await cluster_view.create_topic(
                    LOOPBACK, controller.port, name, partitions, replication_factor, configs
                )
                break
            except (OttlaError, OSError) as error:
                if not is_first and getattr(error, "code", None) is ErrorCode.TOPIC_ALREADY_EXISTS:
                    break  # the answer to an earlier attempt was lost
                if not cluster_view.may_work_later(error):
                    raise
                self._check(deadline, f"the topic {name} cannot be created: {error}")
            is_first = False
            await asyncio.sleep(_POLL_SECONDS)
        await self._wait_until_known(name, deadline)

    async def _wait_until_known(self, topic: str, deadline: float) -> None:
        for node in self.nodes.values():
            while node.state is NodeState.RUNNING:
                told = None
                with contextlib.suppress(OttlaError, OSError):
                    told = await self.told_by(node.id)
                ours = [
                    part for place, part in (told.partitions if told else {}).items() if place.topic == topic
                ]
                if ours and all(part.leader in self.nodes for part in ours):
                    break
                self._check(deadline, f"broker {node.id} does not know who leads {topic}")
                await asyncio.sleep(_POLL_SECONDS)


def _for_tests(nodes: int) -> dict[str, object]:
    """Small internal topics, and troubles that are noticed in seconds: nobody wants to wait half a minute in a test."""
    copies = min(3, nodes)
    return {
        "default.replication.factor": copies,
        "group.initial.rebalance.delay.ms": 20,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": min(2, copies),
        "replica.lag.time.max.ms": 5_000,
        "replica.socket.timeout.ms": 5_000,
        "controller.socket.timeout.ms": 5_000,
    }


def _clean_up(nodes: dict[int, ClusterNode], directory: Path | None, pid: int) -> None:
    """Also at the end of a program that forgot to. A child that was forked off leaves its parent's processes alone."""
    if os.getpid() != pid:
        return
    for node in nodes.values():
        node.kill_at_once()
        node.let_go()
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
