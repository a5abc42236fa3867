"""A conversation with a broker in plain requests, whose answers can be laid beside those of another broker.

Ids, ports, texts and what else must differ from broker to broker is taken out of the answers; error codes, offsets,
epochs and the bytes of records stay.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.core.errors import OttlaError
from ottla.network.peer import Peer, connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offsets import ListOffsetsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.topics import CreateTopicsRequest
from ottla.records.builder import build
from ottla.records.record import Record
from tests.interop.clients.client import NOW

NO_TOPIC = uuid.UUID(int=77)
_UNLIKE = {
    "batch_index_error_message",
    "cluster_id",
    "documentation",
    "error_message",
    "port",
    "throttle_time_ms",
}
"""Words and places, which are each broker's own."""


def batch(count: int = 2, **how: Any) -> bytes:
    return build([Record(i, NOW + i, b"k", b"value %d" % i) for i in range(count)], **how)


class Conversation:
    """Asks, and keeps what was answered, by label."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.answers: dict[str, Any] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.peer: Peer

    async def __aenter__(self) -> "Conversation":
        self.peer = await connect(self._host, int(self._port))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.peer.close()

    async def ask(self, label: str, request: object, version: int | None = None) -> Any:
        """The answer; whoever gives none within seconds, or hangs up, is asked the next one anew."""
        try:
            answer = await self.peer.send(request, version, timeout_ms=5000)
        except OttlaError:
            self.answers[label] = "no answer"
            await self.peer.close()
            self.peer = await connect(self._host, int(self._port))
            return None
        self.answers[label] = self._alike(answer)
        return answer

    def _alike(self, value: Any) -> Any:
        if isinstance(value, list):
            return sorted((self._alike(each) for each in value), key=repr)
        if isinstance(value, uuid.UUID):
            return next((name for name, known in self.ids.items() if known == value), value.hex)
        if isinstance(value, bytes | bytearray | memoryview):
            return len(value), hashlib.md5(value).hexdigest()
        names = getattr(type(value), "__slots__", ())
        if not names:
            return value
        shown = {name: self._alike(getattr(value, name)) for name in names if name not in _UNLIKE}
        if "aborted_transactions" in shown:
            shown["aborted_transactions"] = shown["aborted_transactions"] or []
        if "session_id" in shown:
            shown["session_id"] = shown["session_id"] > 0
        return shown

    async def create(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """A topic that can be written to when this returns."""
        topic = CreateTopicsRequest.Topic
        settings = [topic.Setting(name=key, value=value) for key, value in (configs or {}).items()]
        wanted = topic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=settings
        )
        created = await self.peer.send(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        assert created.topics[0].error_code == 0, created
        self.ids[name] = created.topics[0].topic_id
        while not await self._is_led(name, partitions):
            await asyncio.sleep(0.02)

    async def _is_led(self, name: str, partitions: int) -> bool:
        """Does the broker answer as leader of all partitions? Metadata may say so a moment earlier."""
        topic = ListOffsetsRequest.Topic
        parts = [topic.Partition(partition_index=index, timestamp=-1) for index in range(partitions)]
        question = ListOffsetsRequest(replica_id=-1, topics=[topic(name=name, partitions=parts)])
        (found,) = (await self.peer.send(question)).topics
        return not any(each.error_code for each in found.partitions)

    def produce(
        self, topic: str, data: bytes | None, *, partition: int = 0, acks: int = -1, name: str | None = None
    ) -> ProduceRequest:
        part = ProduceRequest.Topic.Partition(index=partition, records=data)
        wanted = ProduceRequest.Topic(
            name=topic, topic_id=self.ids.get(topic, NO_TOPIC), partition_data=[part]
        )
        return ProduceRequest(transactional_id=name, acks=acks, timeout_ms=3000, topic_data=[wanted])

    def fetch(
        self,
        wanted: Sequence[tuple[str, int, int]],
        *,
        session: tuple[int, int] = (0, -1),
        max_bytes: int = 10_000_000,
        min_bytes: int = 1,
        isolation: int = 0,
        forget: Mapping[str, list[int]] | None = None,
        **part: int,
    ) -> FetchRequest:
        """`wanted` are topics, partitions and offsets; `session` is an id and an epoch."""
        topic = FetchRequest.Topic
        parts = {"partition_max_bytes": 1_000_000, **part}
        topics = [
            topic(
                topic=name,
                topic_id=self.ids.get(name, NO_TOPIC),
                partitions=[
                    topic.Partition(partition=index, fetch_offset=offset, **parts)
                    for each, index, offset in wanted
                    if each == name
                ],
            )
            for name in dict.fromkeys(name for name, _, _ in wanted)
        ]
        forgotten = [
            FetchRequest.ForgottenTopic(topic=name, topic_id=self.ids[name], partitions=partitions)
            for name, partitions in (forget or {}).items()
        ]
        return FetchRequest(
            max_wait_ms=100,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=forgotten,
        )
