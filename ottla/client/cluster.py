"""The cluster as a client reaches it: whom to ask, and patience while it is busy electing.

Producers, consumers and admin clients stand on this. It finds brokers through the bootstrap servers, and comes back to
those when no broker that it knows answers. Whatever is asked repeatedly goes through `patiently`: errors that may pass
are waited out, with growing pauses, until the caller's deadline.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from ottla.client.config import ClientConfig
from ottla.client.connections import COORDINATOR, GENERAL, Connections, ask, version_of
from ottla.client.deadline import Backoff, Deadline
from ottla.client.errors import (
    AuthenticationError,
    KafkaTimeoutError,
    NetworkError,
    NoBrokersAvailable,
    ProtocolMismatch,
    UnknownTopicError,
)
from ottla.client.metadata import Metadata, Node, TopicInfo
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition, topic_name_fault
from ottla.network.peer import Peer
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
"""What a coordinator coordinates: the key types of FindCoordinator."""
_MANY_KEYS_SINCE = 4  # FindCoordinator
_ALL_SINCE = 1  # Metadata: null means all topics
_CREATION_SINCE = 4  # Metadata: says whether topics may be created


class Cluster:
    """One per client. `config` says where it is; nothing is connected before the first question."""

    def __init__(self, config: ClientConfig, *, creates_topics: bool = False) -> None:
        self.config = config
        self.connections = Connections(config)
        self.metadata = Metadata()
        self.creates_topics = creates_topics
        """Whether asking for a topic may bring it into being, if the brokers allow that."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._refreshing: dict[frozenset[str] | None, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for task in list(self._refreshing.values()):
            task.cancel()
        await self.connections.close()

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node_id: int,
        request: object,
        *,
        purpose: str = GENERAL,
        timeout_ms: float | None = None,
        version: int | None = None,
        version_max: int | None = None,
    ) -> Any:
        """What that broker answers, once. Raises NetworkError, KafkaTimeoutError, UnsupportedVersionError."""
        peer = await self.peer(node_id, purpose)
        limit_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        return await ask(peer, request, timeout_ms=limit_ms, version=version, version_max=version_max)

    async def ask_any(self, request: object, *, timeout_ms: float | None = None, **how: Any) -> Any:
        """What some broker answers, once."""
        peer = await self.any_peer()
        limit_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        return await ask(peer, request, timeout_ms=limit_ms, **how)

    async def ask_controller(self, request: object, *, timeout_ms: float | None = None, **how: Any) -> Any:
        """What the controller answers, once. Raises StaleMetadataError while there is none."""
        await self.refresh([])
        if self.metadata.controller_id not in self.metadata.brokers:
            raise StaleMetadataError(ErrorCode.NOT_CONTROLLER, "there is no controller at the moment")
        return await self.ask(self.metadata.controller_id, request, timeout_ms=timeout_ms, **how)

    async def ask_coordinator(
        self, kind: int, key: str, request: object, *, timeout_ms: float | None = None, **how: Any
    ) -> Any:
        """What the coordinator of a group or a transactional id answers, once. Look at its error codes:
        `StaleMetadataError` ones (NOT_COORDINATOR...) call for `forget_coordinator`."""
        node_id = await self.coordinator(kind, key)
        try:
            return await self.ask(node_id, request, purpose=COORDINATOR, timeout_ms=timeout_ms, **how)
        except (NetworkError, KafkaTimeoutError):
            self.forget_coordinator(kind, key)
            raise

    async def peer(self, node_id: int, purpose: str = GENERAL) -> Peer:
        """A connection to that broker."""
        node = self.metadata.brokers.get(node_id)
        if node is None:
            await self.refresh([])
            node = self.metadata.brokers.get(node_id)
        if node is None:
            raise NetworkError(f"broker {node_id} is not among the brokers that live")
        return await self.connections.to(node.address, purpose)

    async def any_peer(self) -> Peer:
        """A connection to some broker: one that is open, or a known one, or a bootstrap server."""
        nodes = list(self.metadata.brokers.values())
        for node in nodes:
            if (peer := self.connections.existing(node.address, GENERAL)) is not None:
                return peer
        random.shuffle(nodes)
        servers = self.config.servers
        reasons: dict[Address, Exception] = {}
        for address in dict.fromkeys([*(node.address for node in nodes), *servers]):
            try:
                return await self.connections.to(address, GENERAL)
            except (NetworkError, KafkaTimeoutError, ProtocolMismatch, AuthenticationError) as error:
                reasons[address] = error
        for reason in reasons.values():
            if isinstance(reason, AuthenticationError | ProtocolMismatch):
                raise reason  # waiting would not help
        raise NoBrokersAvailable("; ".join(str(each) for each in reasons.values()))

    async def version_of(self, node_id: int, request: type, purpose: str = GENERAL) -> int:
        """The highest version that this broker and we speak."""
        return version_of(await self.peer(node_id, purpose), request)

    # --- who does what --------------------------------------------------------------------------------------------

    async def refresh(self, names: Iterable[str] | None) -> None:
        """Ask about these topics, or with None about all. Those who ask the same at the same time share an answer."""
        wanted = None if names is None else frozenset(names)
        task = self._refreshing.get(wanted)
        if task is None:
            task = asyncio.ensure_future(self._refresh(wanted))
            self._refreshing[wanted] = task
            task.add_done_callback(lambda done: self._refreshed(wanted, done))
        await asyncio.shield(task)

    def _refreshed(self, wanted: frozenset[str] | None, task: "asyncio.Task[None]") -> None:
        self._refreshing.pop(wanted, None)
        if not task.cancelled():
            task.exception()  # counts as seen: everybody who asked may have gone meanwhile

    async def _refresh(self, names: frozenset[str] | None) -> None:
        peer = await self.any_peer()
        version = version_of(peer, MetadataRequest)
        creates = self.creates_topics or version < _CREATION_SINCE
        if names and creates and not self.creates_topics:
            names = None  # such a broker may create what we name
        topics = None if names is None else [MetadataRequest.Topic(name=name) for name in sorted(names)]
        if names is None and version < _ALL_SINCE:
            topics = []
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=creates)
        answer: MetadataResponse = await ask(peer, request, timeout_ms=self.config.request_timeout_ms)
        if answer.error_code:
            raise KafkaError.of(answer.error_code, "the metadata")
        self.metadata.update(answer, names)

    async def topic(self, name: str, deadline: Deadline) -> TopicInfo:
        """A topic that has a leader for at least one partition. Raises what the cluster says of it, or
        KafkaTimeoutError if it does not come about in time."""
        if (fault := topic_name_fault(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic name {name!r} {fault}")

        async def look() -> TopicInfo:
            known = self.metadata.topics.get(name)
            if known is None or not known.available:
                await self.refresh([name])
                known = self.metadata.topics.get(name)
            if known is None:
                raise self.metadata.errors.get(name) or unknown_topic(name)
            if not known.available:
                raise StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} has no leader")
            return known

        return await self.patiently(look, deadline, f"topic {name} was not found")

    async def leader(self, partition: TopicPartition) -> Node:
        """The broker that leads a partition, asked for if it is not known. Raises StaleMetadataError without one."""
        node = self.metadata.leader(partition)
        if node is None:
            await self.refresh([partition.topic])
            node = self.metadata.leader(partition)
        if node is None:
            raise self.leaderless(partition)
        return node

    def leaderless(self, partition: TopicPartition) -> KafkaError:
        """Why no broker can be asked about it: there is none that leads it, or no such partition."""
        if self.metadata.partition(partition) is None:
            return self.metadata.errors.get(partition.topic) or unknown_topic(str(partition))
        return StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")

    async def coordinator(self, kind: int, key: str) -> int:
        """The id of the broker that coordinates a group or a transactional id. Raises StaleMetadataError if none."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.metadata.brokers:
            return known
        peer = await self.any_peer()
        version = version_of(peer, FindCoordinatorRequest)
        if version >= _MANY_KEYS_SINCE:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = await ask(peer, request, timeout_ms=self.config.request_timeout_ms, version=version)
        row = answer.coordinators[0] if answer.coordinators else answer
        if row.error_code:
            what = "group" if kind == GROUP else "transactional id"
            raise KafkaError.of(row.error_code, f"the coordinator of the {what} {key!r}")
        if row.node_id not in self.metadata.brokers:
            self.metadata.learn_brokers([Node(row.node_id, row.host, row.port)])
        self._coordinators[kind, key] = row.node_id
        return int(row.node_id)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Ask again next time."""
        self._coordinators.pop((kind, key), None)

    # --- patience -----------------------------------------------------------------------------------------------

    async def patiently(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, failed: str) -> T:
        """What `attempt` returns, tried again while its error may pass. Raises KafkaTimeoutError, which begins with
        `failed` and names the last error; other errors are raised at once."""
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        last: KafkaError | None = None
        while True:
            limit = asyncio.timeout(deadline.left_seconds())
            try:
                async with limit:
                    return await attempt()
            except KafkaError as error:
                if not isinstance(error, RetriableError):
                    raise
                last = error
            except TimeoutError:
                if not limit.expired():
                    raise
                # Whatever the deadline says: uvloop's timers may be a moment early.
                last = last or self._silence()
                raise self.too_late(failed, deadline, last) from last
            if not deadline.is_over:
                await backoff.pause(deadline)
            if deadline.is_over:
                raise self.too_late(failed, deadline, last) from last

    def _silence(self) -> KafkaError | None:
        """Who has let us wait for a connection."""
        silent = ", ".join(map(str, self.connections.opening()))
        return KafkaTimeoutError(f"no answer from {silent} yet") if silent else None

    @staticmethod
    def too_late(failed: str, deadline: Deadline, last: Exception | None) -> KafkaError:
        reason = f": {last}" if last is not None else ""
        if isinstance(last, NoBrokersAvailable):
            return NoBrokersAvailable(f"{failed} within {deadline}{reason}")
        if isinstance(last, KafkaError) and last.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopicError(f"{failed} within {deadline}{reason}")
        return KafkaTimeoutError(f"{failed} within {deadline}{reason}")


def unknown_topic(what: str) -> KafkaError:
    return KafkaError.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {what}")
