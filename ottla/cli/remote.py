"""Asking a cluster from a command: where to ask, whom to ask what, and what a failure means to a shell.

A `Cluster` keeps one connection to each broker that was asked something. Questions that any broker answers go to the
first that took our connection; the others go to the coordinator, to the leader, to the controller, or to everybody.
Who is not the controller any more says so, and its successor is asked. Every answer has a size, and a time by which it
must come. What goes wrong becomes a `Failed`: one sentence and one exit code.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ottla.cli.session import DEFAULT_TIMEOUT, SERVERS, connection_options, session, where_options
from ottla.client.config import AdminConfig
from ottla.client.connections import GENERAL, Connections
from ottla.client.errors import KafkaTimeoutError, NetworkError, PartialFailure, ProtocolMismatch
from ottla.client.settings import read_settings
from ottla.core.errors import (
    AuthorizationError,
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
    RetriableError,
    StaleMetadataError,
)
from ottla.core.hosts import Address, parse_host
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer, PeerClosed, RequestTimedOut
from ottla.protocol.apis import api_of
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.schema import declaration

if TYPE_CHECKING:
    from ottla.client.admin.routes import Routes

T = TypeVar("T")
K = TypeVar("K")

FAILED, PARTLY, NOT_FOUND, DENIED, UNREACHABLE, UNHEALTHY = 1, 3, 4, 5, 6, 8
PORT = 9092
GROUP, TRANSACTION = 0, 1
"""What FindCoordinator is asked for."""
KEYS_AT_A_TIME = 1000
"""Groups, ids or partitions in one request."""
BROKERS_AT_A_TIME = 16
_PAUSE_SECONDS = 0.1
_MANY_KEYS_SINCE = 4  # FindCoordinator


class Failed(click.ClickException):
    """A command that could not do what it was asked: a sentence for people, a code for scripts."""

    def __init__(self, sentence: str, exit_code: int = FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it where it finds it first


_NOT_THERE = {
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_NOT_ALLOWED = {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE}


def failed(error: Exception) -> Failed:
    """What a shell should hear of an error that came from a broker, or from the way there."""
    if isinstance(error, Failed):
        return error
    if isinstance(error, PeerClosed | RequestTimedOut):
        return Failed(str(error), UNREACHABLE)
    if isinstance(error, PartialFailure):
        first = next(iter(error.errors.values()))
        return Failed(
            str(error), failed(first).exit_code if len(error.errors) == len(error.results) else PARTLY
        )
    if isinstance(error, ProtocolMismatch) and "speaks TLS" in str(error):
        return Failed(f"{error}; here that is -X security.protocol=SSL")
    if isinstance(error, KafkaError):
        return Failed(str(error), _code_of(error))
    return Failed(str(error), FAILED)


def _code_of(error: KafkaError) -> int:
    if isinstance(error, AuthorizationError) or error.code in _NOT_ALLOWED:
        return DENIED
    if error.code in _NOT_THERE:
        return NOT_FOUND
    return UNREACHABLE if isinstance(error, NetworkError | KafkaTimeoutError) else FAILED


def check(code: int, about: str) -> None:
    """Raise what an answer's error code means, if it means anything. `about` names the thing."""
    if code:
        error = KafkaError.of(code)
        if error.detail:
            raise KafkaError(error.code, f"{about}: {error.detail}")
        raise type(error)(error.code, f"{about}: {error.code.meaning}")


def servers(text: str) -> list[Address]:
    """`host:port,host:port`; the port is 9092 unless it is there."""
    try:
        found = [parse_host(each, "--bootstrap-server") for each in text.split(",") if each.strip()]
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if not found:
        raise click.UsageError("--bootstrap-server names no server")
    return [Address(each.host or "localhost", each.port or PORT) for each in found]


class Topic(NamedTuple):
    """A topic as the cluster sees it. A partition without a leader is led by -1."""

    name: str
    leaders: Mapping[int, int]
    is_internal: bool


class Answers(NamedTuple):
    """What each broker said, and why some said nothing."""

    by_broker: dict[int, Any]
    failures: dict[int, Failed]


class Cluster:
    """Made by `cluster`, which also closes the connections."""

    def __init__(self, connections: Connections, first: Peer, timeout_ms: int) -> None:
        self.connections = connections
        self.first = first
        """The broker that took our connection."""
        self.timeout_ms = timeout_ms
        """How long every answer may take."""
        self._loop = asyncio.get_running_loop()
        self.brokers: dict[int, Address] = {}
        self.controller_id = -1

    # --- whom to ask --------------------------------------------------------------------------------------------

    async def broker(self, node_id: int) -> Peer:
        """A connection to that broker, the same each time."""
        if node_id not in self.brokers:
            await self.topics([])
        address = self.brokers.get(node_id)
        if address is None:
            raise Failed(f"broker {node_id} is not among the brokers that live", UNREACHABLE)
        return await self.connections.to(address)

    async def coordinators(self, keys: Iterable[str], key_type: int) -> dict[int, list[str]]:
        """The keys by the broker that coordinates them."""
        found: dict[int, list[str]] = {}
        for some in pieces(list(dict.fromkeys(keys))):
            for key, node_id in await self.patiently(partial(self._find, some, key_type)):
                found.setdefault(node_id, []).append(key)
        return found

    async def coordinator(self, key: str, key_type: int) -> int:
        return next(iter(await self.coordinators([key], key_type)))

    async def _find(self, keys: Sequence[str], key_type: int) -> list[tuple[str, int]]:
        from ottla.protocol.messages.groups import FindCoordinatorRequest  # few commands need it

        version = self.first.version_of(api_of(10))
        if version >= _MANY_KEYS_SINCE:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
            rows = (await self.first.send(request, version)).coordinators
        else:
            rows = [await self.first.send(FindCoordinatorRequest(key=key, key_type=key_type)) for key in keys]
        for key, row in zip(keys, rows, strict=False):
            check(row.error_code, f"the coordinator of {key!r}")
            self.brokers.setdefault(row.node_id, Address(row.host, row.port))
        if version >= _MANY_KEYS_SINCE:
            return [(row.key, row.node_id) for row in rows]
        return [(key, row.node_id) for key, row in zip(keys, rows, strict=True)]

    async def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        """Those that exist of the topics with these names; with None, all. Nothing is created by asking."""
        found: dict[str, Topic] = {}
        for some in [None] if names is None else pieces(list(names)) or [[]]:
            asked = None if some is None else [MetadataRequest.Topic(name=name) for name in some]
            request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
            answer: MetadataResponse = await self.first.send(request)
            check(answer.error_code, "the metadata")
            self.brokers |= {row.node_id: Address(row.host, row.port) for row in answer.brokers}
            self.controller_id = answer.controller_id
            for row in answer.topics:
                if row.name is None or row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                check(row.error_code, f"topic {row.name}")
                leaders = {each.partition_index: each.leader_id for each in row.partitions}
                found[row.name] = Topic(row.name, leaders, row.is_internal)
        return found

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by their leader; under -1 those that have none, or do not exist."""
        partitions = sorted(set(partitions))
        topics = await self.topics(dict.fromkeys(each.topic for each in partitions)) if partitions else {}
        found: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            topic = topics.get(each.topic)
            leader = -1 if topic is None else topic.leaders.get(each.partition, -1)
            found.setdefault(leader, []).append(each)
        return found

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(self, node_id: int, request: object, version_max: int | None = None) -> Any:
        """The answer of one broker, in the highest version that both speak, up to `version_max`."""
        peer = await self.broker(node_id)
        key = declaration(type(request)).api_key
        assert key is not None, "only requests are sent"
        version = peer.version_of(api_of(key))
        return await peer.send(request, version if version_max is None else min(version, version_max))

    async def ask_controller(self, request: object, look: Callable[[Any], None] | None = None) -> Any:
        """What the controller says, or the next one if it has gone. `look` raises what an answer has in its details."""

        async def once() -> Any:
            await self.topics([])
            if self.controller_id not in self.brokers:
                raise StaleMetadataError(ErrorCode.NOT_CONTROLLER, "there is no controller at the moment")
            try:
                answer = await self.ask(self.controller_id, request)
            except (PeerClosed, NetworkError) as error:
                self.connections.drop(self.brokers[self.controller_id], GENERAL)
                raise StaleMetadataError(
                    ErrorCode.NOT_CONTROLLER, f"the controller is gone: {error}"
                ) from error
            check(getattr(answer, "error_code", 0), "the controller")
            if look is not None:
                look(answer)
            return answer

        return await self.patiently(once)

    async def everywhere(self, request: object, version_min: int = 0) -> Answers:
        """What every broker says. It is a failure of all if none says anything."""
        if not self.brokers:
            await self.topics([])
        key = declaration(type(request)).api_key
        assert key is not None, "only requests are sent"

        async def one(node_id: int) -> Any:
            peer = await self.broker(node_id)
            spoken = peer.version_of(api_of(key))
            if spoken < version_min:
                raise ProtocolError(
                    f"broker {node_id} is too old: it speaks {api_of(key).name} up to v{spoken}"
                )

            async def once() -> Any:
                answer = await peer.send(request)
                check(getattr(answer, "error_code", 0), f"broker {node_id}")
                return answer

            return await self.patiently(once)

        done = await each_of(sorted(self.brokers), one)
        answers = Answers({}, {})
        for node_id, outcome in done.items():
            if isinstance(outcome, Failed):
                answers.failures[node_id] = outcome
            else:
                answers.by_broker[node_id] = outcome
        if not answers.by_broker:
            raise next(iter(answers.failures.values()))
        return answers

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while the answer is that it may succeed later, as long as one request may take."""
        deadline = self._loop.time() + self.timeout_ms / 1000
        while True:
            try:
                return await ask()
            except RetriableError:
                if self._loop.time() + _PAUSE_SECONDS > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)


@asynccontextmanager
async def cluster(addresses: Sequence[Address], timeout_ms: int) -> AsyncIterator[Cluster]:
    """A cluster that one of these servers belongs to, until the block ends."""
    connections = Connections(admin_config(timeout_ms / 1000))
    reasons: list[Failed] = []
    try:
        for address in addresses:
            try:
                first = await connections.to(address)
            except (KafkaError, ProtocolError) as error:
                reasons.append(failed(error))
                continue
            yield Cluster(connections, first, timeout_ms)
            return
    finally:
        await connections.close()
    code = UNREACHABLE if any(each.exit_code == UNREACHABLE for each in reasons) else reasons[0].exit_code
    raise Failed("; ".join(each.message for each in reasons) + where_to_look(code), code)


def admin_config(timeout: float) -> AdminConfig:
    """How the session says that a cluster is spoken to. Raises UsageError."""
    logging.getLogger("ottla.client").setLevel(
        logging.CRITICAL
    )  # a command says itself what went wrong, once
    limit_ms = max(1, int(timeout * 1000))
    limits = {
        "default.api.timeout.ms": limit_ms,
        "request.timeout.ms": limit_ms,
        "socket.connection.setup.timeout.ms": limit_ms,
    }
    try:
        return read_settings(AdminConfig, {**session().settings(AdminConfig), **limits})
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


class Admin:
    """What the calls of `ottla.client.admin` are made with: their modules are imported by who needs them."""

    def __init__(self, routes: "Routes") -> None:
        self._routes = routes


def with_admin(work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
    """Do the work with the cluster that the session names. Where nobody is, that is said at once."""
    from ottla.client.admin.routes import Routes  # who only asks has no use for it

    config = admin_config(session().timeout or DEFAULT_TIMEOUT)

    async def connected() -> T:
        routes = Routes(config)
        try:
            await first_peer(routes)
            return await work(Admin(routes))
        finally:
            await routes.cluster.close()

    return run(connected())


async def first_peer(routes: "Routes") -> None:
    """Is anybody there? Raises `Failed`."""
    try:
        await routes.cluster.any_peer()
    except KafkaError as error:
        why = failed(error)
        raise Failed(why.message + where_to_look(why.exit_code), why.exit_code) from error


def where_to_look(exit_code: int) -> str:
    """The end of a sentence for who finds nobody: what to do about it."""
    if exit_code != UNREACHABLE:
        return ""
    if (found := session().found().get(SERVERS)) is not None:
        return f"; is a broker running there? The address comes from {found.source}"
    return "; `ottla start` starts a broker, -b HOST:PORT names another"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's questions. Whatever a broker, or the way there, did wrong is raised as `Failed`."""
    try:
        return asyncio.run(work)
    except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError) as error:
        raise failed(error) from error


def asking(bootstrap_server: str, timeout: float, work: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    """Do the work with the cluster that the options name."""
    addresses = servers(bootstrap_server)

    async def connected() -> T:
        async with cluster(addresses, int(timeout * 1000)) as asked:
            return await work(asked)

    return run(connected())


async def each_of(
    keys: Iterable[K], ask: Callable[[K], Awaitable[T]], at_a_time: int = BROKERS_AT_A_TIME
) -> dict[K, "T | Failed"]:
    """Ask about each, a few at a time. What fails for one does not fail for the others."""
    room = asyncio.Semaphore(at_a_time)

    async def one(key: K) -> "T | Failed":
        async with room:
            try:
                return await ask(key)
            except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError, Failed) as error:
                return failed(error)

    keys = list(keys)
    return dict(zip(keys, await asyncio.gather(*map(one, keys)), strict=True))


def pieces(things: Sequence[T], size: int = KEYS_AT_A_TIME) -> list[Sequence[T]]:
    return [things[start : start + size] for start in range(0, len(things), size)]


__all__ = ["connection_options", "where_options"]  # of the session; who asks a cluster finds them here
