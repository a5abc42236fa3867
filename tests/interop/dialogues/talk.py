"""One side of a comparison: asks a broker in every version that both brokers speak, and keeps the answers.

Ids, ports, texts and what else must differ between two brokers is taken out of an answer. What stays, error codes,
offsets, epochs, counts, records, is laid out as a flat table: one row for each field, by its path. Lists are taken
for sets, because Kafka keeps most of them in hash maps.
"""

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ottla.core.errors import OttlaError, ProtocolError
from ottla.network.peer import Peer, connect
from ottla.protocol.apis import api_of
from ottla.protocol.messages.offsets import ListOffsetsRequest
from ottla.protocol.messages.topics import CreateTopicsRequest
from ottla.protocol.schema import NULL_UUID, declaration
from ottla.protocol.wiretypes import Versions

NO_TOPIC = uuid.UUID(int=77)
NO_ANSWER = "no answer"
_ANSWER_MS = 10_000
_TRIES_MAX = 250
_UNLIKE = {"cluster_id", "documentation", "host", "log_dir", "port", "throttle_time_ms"}
_UNLIKE |= {"error_message", "batch_index_error_message"}
"""Each broker's own places and words."""
_SIZES = {"total_bytes", "usable_bytes", "session_id"}
"""Of these, only whether there is one."""
_MOMENT_MAX_MS = 600_000
_KEYS = ("name", "topic_name", "topic", "resource_name", "key", "topic_id", "api_key", "index")
_KEYS += ("partition_index", "partition", "broker_id", "node_id", "batch_index", "producer_id")
_KEYS += ("group_id", "transactional_id", "member_id")
"""What tells the rows of a list apart; the first one that a row has."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{22}$")
"""Ids of members that a broker has made up."""
Answers = dict[tuple[str, int], dict[str, Any]]
"""The fields of an answer by the question and the version."""


class Talk:
    """Asks, and keeps what was answered."""

    def __init__(self, address: str, spoken: Mapping[int, Versions]) -> None:
        self._address, self._spoken = address, spoken
        self.answers: Answers = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.known: dict[int, str] = {}
        """Ids of producers, which each broker gives out on its own, and what to call them."""
        self.peer: Peer

    async def __aenter__(self) -> "Talk":
        self.peer = await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.peer.close()

    async def _connect(self) -> Peer:
        host, _, port = self._address.rpartition(":")
        return await connect(host, int(port))

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(
        self,
        label: str,
        request: object,
        since: int = 0,
        until: int = 99,
        *,
        last: bool = False,
        patience_ms: int = _ANSWER_MS,
    ) -> Any:
        """Ask in every version that can carry the request, or only in the last; returns the last answer.

        A callable makes the request for a version. A broker that hangs up, or says nothing, is connected to anew.
        """
        make = request if callable(request) else lambda version: request
        kind = type(make(since))
        answer = None
        versions = self._versions(kind, since, until)
        for version in versions[-1:] if last else versions:
            name = f"{api_of(declaration(kind).api_key).name} {label}"
            assert (name, version) not in self.answers, f"{name} was asked before"
            try:
                answer = await self.peer.send(make(version), version, timeout_ms=patience_ms)
            except ProtocolError:
                continue  # this version has no word for it
            except OttlaError:
                self.answers[name, version] = {"": NO_ANSWER}
                await self.peer.close()
                self.peer = await self._connect()
            else:
                self.answers[name, version] = dict(self._rows(answer, ""))
        return answer

    def speaks(self, kind: type, version: int) -> bool:
        return version in self._versions(kind, 0, version)

    def _versions(self, kind: type, since: int, until: int) -> range:
        spoken = self._spoken[declaration(kind).api_key or 0]
        return range(max(spoken.first, since), min(spoken.last, until) + 1)

    async def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """A topic that can be written to when this returns."""
        topic = CreateTopicsRequest.Topic
        kept = {"retention.ms": "-1", **(configs or {})}
        settings = [topic.Setting(name=key, value=value) for key, value in kept.items()]
        wanted = topic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=settings
        )
        created = await self.peer.send(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        assert created.topics[0].error_code == 0, created
        self.ids[name] = created.topics[0].topic_id
        await self.until_led(name, partitions)

    async def until_led(self, name: str, partitions: int = 1) -> None:
        """Wait for the broker to answer as leader of all partitions. Metadata may say so a moment earlier."""
        part = ListOffsetsRequest.Topic.Partition
        parts = [part(partition_index=index, timestamp=-1) for index in range(partitions)]
        question = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.Topic(name=name, partitions=parts)]
        )
        while any(each.error_code for each in (await self.peer.send(question)).topics[0].partitions):
            await asyncio.sleep(0.02)

    async def until(self, is_there: Callable[[Any], bool], request: object) -> None:
        """Repeat a question until the answer shows what was done before, or has had time enough to."""
        for _ in range(_TRIES_MAX):
            if is_there(await self.peer.send(request)):
                return
            await asyncio.sleep(0.02)

    # --- laying out ---------------------------------------------------------------------------------------------

    def _rows(self, value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, list):
            yield path + "#", len(value)
            seen: dict[str, int] = {}
            for name, each in sorted(((self._name(each), each) for each in value), key=lambda row: row[0]):
                seen[name] = seen.get(name, 0) + 1
                yield from self._rows(each, f"{path}[{name}{'+' * (seen[name] - 1)}]")
        elif names := getattr(type(value), "__slots__", ()):
            for name in names:
                if name not in _UNLIKE and not name.startswith("_"):
                    yield from self._rows(self._field(name, getattr(value, name)), f"{path}.{name}")
        else:
            yield path, value

    def _field(self, name: str, value: Any) -> Any:
        if name in _SIZES:
            return value > 0
        if isinstance(value, uuid.UUID):
            return self._id(value)
        if name in ("member_id", "leader") and isinstance(value, str):
            return _UUID.sub("<id>", value)
        if name == "producer_id" and value >= 0:
            return self.known.get(value, "an id")
        if isinstance(value, bytes | bytearray | memoryview):
            return f"{len(value)} bytes {hashlib.md5(value).hexdigest()[:6]}"
        if isinstance(value, int) and abs(value - time.time() * 1000) < _MOMENT_MAX_MS:
            return "now"
        return value

    def _id(self, value: uuid.UUID) -> str:
        if value == NULL_UUID:
            return "none"
        return next((f"id of {name}" for name, known in self.ids.items() if known == value), "an id")

    def _name(self, value: Any) -> str:
        if not getattr(type(value), "__slots__", ()):
            return str(value)
        for key in _KEYS:
            if hasattr(value, key) and getattr(value, key) not in ("", None, NULL_UUID):
                return str(self._field(key, getattr(value, key)))
        return ""


def differences(theirs: Answers, ours: Answers) -> dict[str, str]:
    """Fields that differ, with what they are on both sides and in which versions."""
    found: dict[str, dict[str, list[int]]] = {}
    for name, version in sorted(theirs.keys() | ours.keys()):
        left, right = _Side(theirs.get((name, version), {})), _Side(ours.get((name, version), {}))
        rows = [
            path for path in left.rows.keys() | right.rows.keys() if left.shown(path) != right.shown(path)
        ]
        for row in sorted({_first_absent(path, left, right) for path in rows}):
            values = f"Kafka {left.shown(row)}, Ottla {right.shown(row)}"
            found.setdefault(f"{name}: {row}", {}).setdefault(values, []).append(version)
    return {
        path: "; ".join(f"v{each[0]}-{each[-1]} {values}" for values, each in found[path].items())
        for path in sorted(found)
    }


class _Side:
    """The rows of one answer, and the elements of lists that they are about."""

    def __init__(self, rows: Mapping[str, Any]) -> None:
        self.rows = rows
        self.elements = {path[:end] for path in rows for end in _ends(path)}

    def shown(self, row: str) -> Any:
        return self.rows.get(row, "there" if row in self.elements else "absent")


def _ends(path: str) -> Iterator[int]:
    return (at + 1 for at, letter in enumerate(path) if letter == "]")


def _first_absent(path: str, left: _Side, right: _Side) -> str:
    """An element of a list that only one side has is told once, not for each of its fields."""
    ends = (path[:end] for end in _ends(path))
    return next((each for each in ends if not (each in left.elements and each in right.elements)), path)


def unmeant(found: Mapping[str, str], meant: Mapping[str, str]) -> dict[str, str]:
    """Differences that no pattern of the table matches."""
    patterns = [re.compile(each) for each in meant]
    return {path: how for path, how in found.items() if not any(each.fullmatch(path) for each in patterns)}


def idle(found: Iterable[Mapping[str, str]], meant: Mapping[str, str]) -> list[str]:
    """Patterns of the table that match no difference."""
    paths = [path for each in found for path in each]
    return [pattern for pattern in meant if not any(re.fullmatch(pattern, path) for path in paths)]
