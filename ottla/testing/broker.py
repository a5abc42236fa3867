"""A Kafka broker inside the program that tests it: real sockets, real logs, nothing to install or clean up.

`Broker` runs in a thread of its own and is used from anywhere; `AsyncBroker` runs on the caller's event loop. Both are
the broker that `ottla start` runs, with its data in a temporary directory or in memory, and with faults on demand.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_server})
        ...
        assert [record.value for record in broker.records("orders")] == [b"tea"]

A broker belongs to the process that started it: after a fork the child starts its own. It lets go of the sockets that
came along, or clients would not notice when their broker dies.
"""

import asyncio
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from ottla.broker.broker import Broker as Node
from ottla.broker.config import BrokerConfig
from ottla.broker.directories import stored_node_id
from ottla.controller.commands import NewTopic
from ottla.core.errors import KafkaError
from ottla.core.loop_thread import LoopThread
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.records.batch import iter_batches, records_of
from ottla.records.record import Header
from ottla.storage.files import Files, OsFiles
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from ottla.testing.faults import Faults

T = TypeVar("T")

_READ_BYTES = 1 << 20
_POLL_SECONDS = 0.005
_IN_MEMORY = "memory"


_running: "weakref.WeakSet[AsyncBroker]" = weakref.WeakSet()


class StoredRecord(NamedTuple):
    """A record as it lies in the log."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


_FOR_TESTS = {
    "group.initial.rebalance.delay.ms": 20,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
"""The first member of a group need not wait for others, nor the first client for a hundred partitions. A moment it
does wait: kafka-python, if it is given the lead before it knows its topics, assigns nothing, for good."""


class AsyncBroker:
    """A broker on the running event loop. `async with` starts it, and removes its data in the end."""

    def __init__(
        self,
        *,
        port: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
        memory: bool = False,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """`port` 0 takes a free one, and keeps it over restarts. Data in `data_dir` stay; else they go in the end.
        `config` has the keys of a server.properties."""
        if memory and data_dir is not None:
            raise ValueError("data is kept in data_dir or in memory, not in both")
        self.faults = Faults()
        self.fail_next, self.delay = self.faults.fail_next, self.faults.delay
        self.pause, self.resume = self.faults.pause, self.faults.resume
        self.disk = SimDisk() if memory else None
        """The simulated disk of a broker in memory: it fails on demand too."""
        self._is_temporary = data_dir is None
        self._files: Files = self.disk or OsFiles(syncs=not self._is_temporary)
        self._settings = dict(config or {})
        self._port = port
        self._data_dir = _IN_MEMORY if memory else None if data_dir is None else os.fspath(data_dir)
        self._temporary: weakref.finalize[Any, Any] | None = None
        self._memory: EmbeddedStore | None = None
        self._node: Node | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "AsyncBroker":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Start, or start again: on the same port, with the same data."""
        if self._node is not None:
            raise RuntimeError("the broker runs already")
        node = Node(BrokerConfig(self._config()), files=self._files, open_store=self._open_store)
        node.dispatch.faults.append(self.faults)
        await node.start()
        self._node, self._port = node, node.port
        _running.add(self)

    async def stop(self) -> None:
        """Stop cleanly. The data stay for the next `start`."""
        self.faults.resume()
        node, self._node = self._node, None
        if node is not None:
            await node.stop()

    async def restart(self) -> None:
        """Stop cleanly and start again: clients lose their connections, and find the same broker again."""
        await self.stop()
        await self.start()

    async def kill(self) -> None:
        """Stop as `kill -9` would: connections break, nothing is flushed, nothing is said. `start` recovers."""
        node, self._node = self._node, None
        if node is not None:
            await node.kill()
        self.faults.resume()

    async def close(self) -> None:
        """Stop, and remove data that were only there for this broker."""
        try:
            await self.stop()
        finally:
            if self._temporary is not None:
                self._temporary()

    async def _open_store(self, path: str) -> EmbeddedStore:
        """In memory, topics outlive the broker as the simulated disk does."""
        if self.disk is None:
            return await EmbeddedStore.open(path, syncs=not self._is_temporary)
        if self._memory is None:
            self._memory = await EmbeddedStore.open(MEMORY)
        return self._memory.another_session()

    def _config(self) -> dict[str, object]:
        if self._data_dir is None:
            self._data_dir = tempfile.mkdtemp(prefix="ottla-")
            self._temporary = weakref.finalize(self, _remove_tree, self._data_dir, os.getpid())
        settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": self._data_dir,
        }
        if self.disk is None and (node_id := stored_node_id([self._data_dir])) is not None:
            settings["node.id"] = node_id
        return {**settings, **_FOR_TESTS, **self._settings}

    # --- what tests ask -----------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The broker itself."""
        if self._node is None:
            raise RuntimeError("the broker does not run: start() it, or use it in a `with` statement")
        return self._node

    @property
    def port(self) -> int:
        return self._port

    @property
    def bootstrap_server(self) -> str:
        """Where clients connect: `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> str | None:
        """Where the data lie; None before the first start, and in memory."""
        return None if self.disk is not None else self._data_dir

    async def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """`configs` are the topic's settings, with underscores: `create_topic("t", retention_ms=1000)`."""
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        results = await self.node.controller.create_topics([NewTopic(name, partitions, 1, configs=settings)])
        if isinstance(outcome := results[name], KafkaError):
            raise outcome

    def topics(self) -> dict[str, int]:
        """The topics, and how many partitions each has."""
        counts: dict[str, int] = {}
        for partition in self.node.replicas.partitions:
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
        return dict(sorted(counts.items()))

    async def records(
        self, topic: str, partition: int | None = None, *, at_least: int = 0, timeout: float = 10.0
    ) -> list[StoredRecord]:
        """What consumers can read of a topic, by partition and offset: straight from the log.

        With `at_least`, wait until there are so many; the topic may come into being meanwhile.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            found = self._records(topic, partition, is_required=at_least == 0)
            if len(found) >= at_least:
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{topic} has {len(found)} records after {timeout} s, not {at_least}")
            await asyncio.sleep(_POLL_SECONDS)

    def _records(self, topic: str, partition: int | None, *, is_required: bool) -> list[StoredRecord]:
        logs = {
            tp.partition: replica.log
            for tp, replica in self.node.replicas.partitions.items()
            if tp.topic == topic and partition in (None, tp.partition)
        }
        if is_required and not logs:
            wanted = topic if partition is None else f"partition {partition} of {topic}"
            raise KeyError(f"there is no {wanted}; there are {self.topics() or 'no topics'}")
        return [record for number in sorted(logs) for record in _read_all(number, logs[number])]


class Broker:
    """A broker in a thread of its own, for tests and programs that are not asynchronous themselves.

    `with` starts it, and removes its data in the end. Every method may be called from any thread.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        data_dir: str | os.PathLike[str] | None = None,
        memory: bool = False,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """As for AsyncBroker."""
        self._inner = AsyncBroker(port=port, data_dir=data_dir, memory=memory, config=config)
        self.faults, self.disk = self._inner.faults, self._inner.disk
        self.fail_next, self.delay = self.faults.fail_next, self.faults.delay
        self.pause, self.resume = self.faults.pause, self.faults.resume
        self._thread: LoopThread | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start, or start again after `stop` or `kill`: on the same port, with the same data."""
        if self._thread is None:
            self._thread = LoopThread()
        try:
            self._thread.run(self._inner.start())
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop cleanly. The data stay for the next `start`."""
        if self._thread is not None:
            self._thread.run(self._inner.stop())

    def restart(self) -> None:
        """Stop cleanly and start again: clients lose their connections, and find the same broker again."""
        self._run(self._inner.restart())

    def kill(self) -> None:
        """Stop as `kill -9` would: connections break, nothing is flushed, nothing is said. `start` recovers."""
        self._run(self._inner.kill())

    def close(self) -> None:
        """Stop, end the thread, and remove data that were only there for this broker."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_ours:
            try:
                thread.run(self._inner.close())
            finally:
                thread.end()

    def _run(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("the broker does not run: start() it, or use it in a `with` statement")
        return self._thread.run(work, seconds)

    # --- what tests ask -----------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return self._inner.port

    @property
    def bootstrap_server(self) -> str:
        """Where clients connect: `host:port`."""
        return self._inner.bootstrap_server

    @property
    def data_dir(self) -> str | None:
        return self._inner.data_dir

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """`configs` are the topic's settings, with underscores: `create_topic("t", retention_ms=1000)`."""
        self._run(self._inner.create_topic(name, partitions, **configs))

    def topics(self) -> dict[str, int]:
        """The topics, and how many partitions each has."""
        return self._run(_in_loop(self._inner.topics))

    def records(
        self, topic: str, partition: int | None = None, *, at_least: int = 0, timeout: float = 10.0
    ) -> list[StoredRecord]:
        """What consumers can read of a topic, by partition and offset: straight from the log.

        With `at_least`, wait until there are so many; the topic may come into being meanwhile.
        """
        return self._run(self._inner.records(topic, partition, at_least=at_least, timeout=timeout), timeout)


async def _in_loop(fn: Callable[[], T]) -> T:
    return fn()


def _read_all(partition: int, log: Log) -> Iterator[StoredRecord]:
    """Every record below the high watermark; the markers of transactions are none."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, log.high_watermark).read()
        for position, header in iter_batches(data, partial=True):
            if not header.is_control:
                for record in records_of(data, position):
                    if record.offset >= offset:
                        yield StoredRecord(partition, *record.fields())
            offset = header.next_offset


def _remove_tree(path: str, pid: int) -> None:
    """A child that was forked off leaves its parent's files alone."""
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)


def _let_go() -> None:
    """In a child that was forked off: the sockets are its parent's. Their numbers stay taken, by nothing."""
    nodes = [broker._node for broker in _running if broker._node is not None]
    _running.clear()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in [number for node in nodes for number in node.server.descriptors()]:
        os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
