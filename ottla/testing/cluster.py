"""A cluster of real brokers for a test: processes that can be killed, paused, restarted, and cut off from each other.

    with Cluster(nodes=3) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        shop = Shop(cluster.bootstrap_servers)
        cluster.kill(cluster.leader("orders", 0))
        shop.sell("tea")

Each broker is `ottla start` in a process of its own, with the clients' port, the data and the number it had before
when it is started again. The program that has the cluster serves the metadata store, so that any broker may die; or the
store is a real ZooKeeper. When the `with` statement is left all processes and temporary files are gone, whatever was
raised in it; they go as well, on Linux, when the program is killed.

Every method may be called from any thread. Nothing here needs pytest, or a Kafka client.
"""

import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread
from ottla.testing.cluster_core import SECONDS, ClusterCore, Options
from ottla.testing.cluster_network import STORE, Place
from ottla.testing.cluster_node import ClusterError as ClusterError
from ottla.testing.cluster_node import ClusterNode
from ottla.testing.cluster_node import NodeState as NodeState
from ottla.testing.cluster_view import ClusterView, PartitionView

if TYPE_CHECKING:
    from ottla.testing.zookeeper import ZooKeeper

T = TypeVar("T")
Places = Place | Collection[Place]


class Cluster:
    """Brokers 1 to `nodes`. `with` starts them, and ends them."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        zookeeper: "bool | str | ZooKeeper" = False,
        config: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        racks: Sequence[str | None] | None = None,
        ports: Sequence[int] = (),
        links: bool = False,
        http: bool = False,
        for_tests: bool = True,
        session_timeout_ms: int = 3_000,
    ) -> None:
        """`zookeeper=True` starts one, a string is where one is. `config` has the keys of a server.properties. Data in
        `data_dir` stay, else they go in the end. `ports` are where clients connect, by default free ones. Without
        `links` brokers talk to each other directly, and no link can be cut. `http` serves metrics. `for_tests` makes
        internal topics small and timeouts short, where `config` does not say otherwise."""
        if nodes < 1:
            raise ValueError("a cluster has at least one broker")
        self._options = Options(
            nodes,
            zookeeper,
            dict(config or {}),
            None if data_dir is None else Path(data_dir).absolute(),
            list(racks or ()),
            list(ports),
            links,
            http,
            for_tests,
            session_timeout_ms,
        )
        self._thread: LoopThread | None = None
        self._core: ClusterCore | None = None

    def __enter__(self) -> "Cluster":
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """For those who cannot use `with`: start everything, and return when the cluster is healthy."""
        if self._core is not None:
            raise RuntimeError("the cluster runs already")
        self._thread = LoopThread("ottla-cluster")
        self._core = ClusterCore(self._options)
        try:
            self._run(self._core.start(), 2 * SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes, and remove what was temporary."""
        thread, self._thread = self._thread, None
        core, self._core = self._core, None
        if thread is not None and core is not None and thread.is_ours:
            try:
                thread.run(core.close(), SECONDS)
            finally:
                thread.end()

    def _run(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("the cluster does not run: use it in a `with` statement, or open() it")
        return self._thread.run(work, SECONDS + seconds)

    def _do(self, change: Callable[[], T]) -> T:
        """Have something done on the loop."""

        async def doing() -> T:
            return change()

        return self._run(doing())

    @property
    def _running(self) -> ClusterCore:
        if self._core is None:
            raise RuntimeError("the cluster does not run: use it in a `with` statement, or open() it")
        return self._core

    # --- who there is -------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: all brokers, those included that are down."""
        return ",".join(node.bootstrap_server for node in self.nodes)

    @property
    def nodes(self) -> list[ClusterNode]:
        return list(self._running.nodes.values())

    def node(self, id: int) -> ClusterNode:
        """`id`, `port`, `http_port`, `pid`, `state`, `config`, `data_dir`, `output_path`, `output()` of a broker."""
        return self._running.node(id)

    @property
    def zookeeper(self) -> "ZooKeeper | None":
        """The ZooKeeper, if it was started for this cluster or handed in."""
        return self._running.zookeeper

    # --- brokers come and go ------------------------------------------------------------------------------------

    def start(self, id: int) -> None:
        """Start a broker that is down, and return when clients may come. `wait_until_healthy` waits for more."""
        self._run(self._running.start_nodes([id]), SECONDS)

    def stop(self, id: int) -> None:
        """SIGTERM: it hands over what it leads, and ends cleanly."""
        self._run(self._running.stop_node(id), SECONDS)

    def kill(self, id: int) -> None:
        """SIGKILL: nothing is flushed, and nobody is told. The others notice when its session expires."""
        self._run(self._running.node(id).kill())

    def restart(self, id: int) -> None:
        """Stop it cleanly, and start it again."""
        self.stop(id)
        self.start(id)

    def pause(self, id: int) -> None:
        """SIGSTOP: it stands still. It does not know that others take its place meanwhile."""
        self._do(self._running.node(id).pause)

    def resume(self, id: int) -> None:
        self._do(self._running.node(id).resume)

    def add_node(self) -> ClusterNode:
        """Start one more broker, which has nothing yet."""
        return self._run(self._running.add_node(), SECONDS)

    # --- the network --------------------------------------------------------------------------------------------

    def partition(self, some: Places, others: Places, *, one_way: bool = False) -> None:
        """Cut the links between these brokers and those, without a word to either; with `one_way` only from the first
        to the second. Takes ids, collections of ids, and `STORE`. Clients reach all of them as before."""
        core = self._running
        self._do(lambda: core.cut(_places(some), _places(others), one_way=one_way))

    def isolate(self, id: int) -> None:
        """Cut a broker off from all others and from the store. Clients still reach it."""
        others = [node.id for node in self.nodes if node.id != id]
        self.partition(id, [*others, STORE])

    def cut_off_from_store(self, id: int, *, one_way: bool = False) -> None:
        """Its session will expire, though it can talk to the others; with `one_way` it still hears the store."""
        self.partition(id, STORE, one_way=one_way)

    def heal(self) -> None:
        """All links are there again. Connections that suffered are broken, and made anew by their owners."""
        self._run(self._running.heal())

    # --- what there is ------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int | None = None, **configs: object
    ) -> None:
        """`configs` are the topic's settings, with underscores. Three replicas by default, if there are so many."""
        copies = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self._run(self._running.create_topic(name, partitions, copies, settings), SECONDS)

    def view(self) -> ClusterView:
        """What the metadata store holds: `brokers`, `controller`, `partitions`."""
        return self._run(self._running.view())

    def told_by(self, id: int) -> ClusterView:
        """The same as one broker sees it, which may be behind."""
        return self._run(self._running.told_by(id))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads, by the metadata store; -1 if nobody does."""
        return self._partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Who is in sync."""
        return sorted(self._partition(topic, partition).isr)

    def controller(self) -> int:
        """Who is the controller; -1 if nobody is."""
        return self.view().controller

    def wait_until(self, condition: Callable[[ClusterView], object], timeout: float = SECONDS) -> ClusterView:
        """Return what the store holds as soon as `condition` is true of it. Raises ClusterError if it never is."""
        return self._run(self._running.wait_until(condition, timeout), timeout)

    def wait_until_healthy(self, timeout: float = SECONDS) -> None:
        """Return when all brokers are there, every partition has a leader and all its replicas in sync, and every
        broker knows it. Raises ClusterError, which says what is missing."""
        self._run(self._running.wait_until_healthy(timeout), timeout)

    def _partition(self, topic: str, partition: int) -> PartitionView:
        found = self.view().partitions
        place = TopicPartition(topic, partition)
        if place not in found:
            raise ClusterError(
                f"there is no {topic}-{partition}; there are {', '.join(map(str, found)) or 'none'}"
            )
        return found[place]


def _places(some: Places) -> list[Place]:
    return [some] if isinstance(some, int | str) else list(some)
