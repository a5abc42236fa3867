"""To whom the questions of an admin client go, and which answers are worth waiting for.

A call is about many things: each goes to the broker that can answer for it, and has an answer of its own. What a
moment's patience cures (an election, a coordinator that moves or loads, a quota) is asked again, for those things that
were not answered yet; everything else is an answer, also where a producer or a consumer would go on trying: a topic
that is not there will not come because we ask.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.client.cluster import GROUP, Cluster, unknown_topic
from ottla.client.config import AdminConfig
from ottla.client.connections import COORDINATOR, version_of
from ottla.client.deadline import Deadline
from ottla.client.errors import KafkaTimeoutError, NetworkError, PartialFailure, UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

Answers = dict[K, V | KafkaError]
"""What became of each thing."""

PASSING = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
_INT32_MAX = 2**31 - 1


class Client(Protocol):
    """What the calls of all areas need: they are the methods of `AsyncAdmin`."""

    @property
    def _routes(self) -> "Routes": ...


class Routes:
    """One per client."""

    def __init__(self, config: AdminConfig) -> None:
        self.config = config
        self.cluster = Cluster(config)

    def deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def broker_ms(self, deadline: Deadline) -> int:
        """How long a broker may work on a request before it says that it was not done in time."""
        return min(_INT32_MAX, max(1, int(deadline.left_ms(self.config.request_timeout_ms))))

    # --- patience -----------------------------------------------------------------------------------------------

    async def patient(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, failed: str) -> T:
        """What `attempt` returns or raises, tried again while its error is one that passes."""
        final: list[KafkaError] = []

        async def trial() -> list[T]:
            try:
                return [await attempt()]
            except KafkaError as error:
                if passes(error):
                    raise
                final.append(error)  # not raised here: some of those are called retriable, for others than us
                return []

        found = await self.cluster.patiently(trial, deadline, failed)
        if final:
            raise final[0]
        return found[0]

    async def settle(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        deadline: Deadline,
        failed: str,
    ) -> Answers[K, V]:
        """An answer for each key. `attempt` is asked again about those whose error may pass.

        Raises what `attempt` raises if nothing was answered yet.
        """
        wanted = list(dict.fromkeys(keys))
        done: Answers[K, V] = {}

        async def trial() -> None:
            pending = [key for key in wanted if key not in done]
            answers = await attempt(pending)
            last: KafkaError | None = None
            for key in pending:
                answer = answers[key] if key in answers else _unanswered(key)
                if isinstance(answer, KafkaError) and passes(answer):
                    last = answer
                else:
                    done[key] = answer
            if last is not None:
                raise last

        if wanted:
            try:
                await self.patient(trial, deadline, failed)
            except KafkaError as error:
                if not done:
                    raise
                done |= {key: error for key in wanted if key not in done}
        return {key: done[key] for key in wanted}

    # --- whom to ask ----------------------------------------------------------------------------------------------

    async def brokers(self, wanted: Iterable[int] | None = None) -> list[int]:
        """Those that live; of the wanted ones, if some are."""
        await self.cluster.refresh([])
        return sorted(self.cluster.metadata.brokers if wanted is None else wanted)

    async def version(self, request: type) -> int:
        """The version that the broker which is asked next would be asked in."""
        return version_of(await self.cluster.any_peer(), request)

    async def from_brokers(
        self,
        shares: Mapping[int, Sequence[K]],
        ask: Callable[[int, list[K]], Awaitable[Mapping[K, V | KafkaError]]],
    ) -> Answers[K, V]:
        """The answers of several brokers, asked at the same time: an error of one is that of its things only."""
        living = self.cluster.metadata.brokers
        answers: Answers[K, V] = {}
        asked = [node_id for node_id in shares if node_id in living]
        for node_id in shares.keys() - set(asked):
            error = KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not among those that live"
            )
            answers |= dict.fromkeys(shares[node_id], error)
        found = await asyncio.gather(
            *(ask(node_id, list(shares[node_id])) for node_id in asked), return_exceptions=True
        )
        for node_id, outcome in zip(asked, found, strict=True):
            if isinstance(outcome, KafkaError):
                if isinstance(outcome, UnsupportedVersionError):
                    raise outcome
                answers |= dict.fromkeys(shares[node_id], outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                answers |= outcome
        return answers

    async def by_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, V | KafkaError]]],
    ) -> Answers[TopicPartition, V]:
        """The answers of those who lead the partitions. Whether there is such a partition, the metadata say."""
        wanted = list(partitions)
        await self.cluster.refresh({each.topic for each in wanted})
        metadata = self.cluster.metadata
        answers: Answers[TopicPartition, V] = {}
        shares: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in wanted:
            if metadata.partition(each) is None:
                answers[each] = metadata.errors.get(each.topic) or unknown_topic(f"partition {each}")
            elif (leader := metadata.leader(each)) is None:
                answers[each] = StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, f"{each} has no leader")
            else:
                shares[leader.node_id].append(each)
        for each, answer in (await self.from_brokers(shares, ask)).items():
            if isinstance(answer, KafkaError) and answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                answer = StaleMetadataError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"its leader does not know {each}"
                )
            answers[each] = answer
        return answers

    async def by_coordinator(
        self,
        kind: int,
        keys: Iterable[str],
        ask: Callable[[int, list[str]], Awaitable[Mapping[str, V | KafkaError]]],
    ) -> Answers[str, V]:
        """The answers of those who coordinate groups or transactional ids."""
        wanted = list(keys)
        found = await asyncio.gather(
            *(self.cluster.coordinator(kind, key) for key in wanted), return_exceptions=True
        )
        answers: Answers[str, V] = {}
        shares: dict[int, list[str]] = defaultdict(list)
        for key, node_id in zip(wanted, found, strict=True):
            if isinstance(node_id, KafkaError):
                answers[key] = node_id
            elif isinstance(node_id, BaseException):
                raise node_id
            else:
                shares[node_id].append(key)
        answers |= await self.from_brokers(shares, ask)
        for key, answer in answers.items():
            if isinstance(answer, KafkaError) and passes(answer):
                self.cluster.forget_coordinator(kind, key)
        return answers

    async def ask_coordinator(self, node_id: int, request: object, **how: Any) -> Any:
        """On the connection for coordinators, where answers may be slow."""
        return await self.cluster.ask(node_id, request, purpose=COORDINATOR, **how)

    async def group(
        self, group_id: str, ask: Callable[[int], Awaitable[T]], deadline: Deadline, failed: str
    ) -> T:
        """What `ask` finds at the coordinator of one group."""

        async def attempt() -> T:
            node_id = await self.cluster.coordinator(GROUP, group_id)
            try:
                return await ask(node_id)
            except KafkaError as error:
                if passes(error):
                    self.cluster.forget_coordinator(GROUP, group_id)
                raise

        return await self.patient(attempt, deadline, failed)


def passes(error: KafkaError) -> bool:
    """Is it worth asking again?"""
    if isinstance(error, NetworkError | KafkaTimeoutError):
        return True
    return isinstance(error, RetriableError) and error.code in PASSING


def check(code: int, about: str, message: str | None = None) -> None:
    """Raises the error that a code stands for, if it does: about what, and what the broker says to it."""
    if code:
        raise failure(code, about, message)


def failure(code: int, about: str, message: str | None = None) -> KafkaError:
    return KafkaError.of(code, f"{about}: {message}" if message else about)


def outcome(code: int, about: str, message: str | None, value: V) -> V | KafkaError:
    """The value, unless there is an error."""
    return failure(code, about, message) if code else value


def all_of(answers: Answers[K, V], what: str) -> dict[K, V]:
    """The values. Raises PartialFailure if there is an error among them."""
    if any(isinstance(each, KafkaError) for each in answers.values()):
        raise PartialFailure(what, answers)
    return {key: each for key, each in answers.items() if not isinstance(each, KafkaError)}


def the_one(answers: Answers[K, V]) -> V:
    """The value of the only key. Raises its error as it is."""
    (answer,) = answers.values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as requests name them."""
    topics: dict[str, list[int]] = defaultdict(list)
    for each in partitions:
        topics[each.topic].append(each.partition)
    return dict(topics)


def _unanswered(key: object) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves out {key}")
