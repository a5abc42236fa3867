"""The topics of a request that deals with committed offsets, sifted before the coordinator sees them.

A partition that does not exist, or is not the caller's to read, has its fate before; the others get theirs from the
coordinator. Together they are the reply, in the order of the request.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.authorizer import Operation, ResourceType
from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_OPEN = ErrorCode.NONE
"""The fate of a partition until the coordinator has judged it, and after that of one that nothing is wrong with."""


class Sieve:
    """Topics with partitions, of any request whose topics have `name` and `partitions`."""

    def __init__(self, broker: "Broker", call: Call, topics: Sequence[Any], *, by_id: bool = False) -> None:
        if by_id:
            name_topics(broker, topics)
        self._topics = topics
        self._fates = [_fates(broker, call, topic, by_id=by_id) for topic in topics]
        self.accepted = [each for each in map(self._open_part, topics, self._fates) if each.partitions]
        """What is for the coordinator to judge."""

    def fill(self, response: Any) -> None:
        """The coordinator has judged, in the order in which it was asked."""
        self._fill(each.error_code for topic in response.topics for each in topic.partitions)

    def fail(self, error: KafkaError) -> None:
        """The coordinator refuses all that it was given. Raises the error if that was everything."""
        if all(code is _OPEN for each in self._fates for code in each):
            raise error
        self._fill(error.code for topic in self.accepted for _ in topic.partitions)

    def answers(self, answer: type[Any]) -> list[tuple[Any, list[Any]]]:
        """Each topic of the request with the answers for its partitions."""
        return [
            (
                topic,
                [
                    answer(partition_index=each.partition_index, error_code=code)
                    for each, code in zip(topic.partitions, codes, strict=True)
                ],
            )
            for topic, codes in zip(self._topics, self._fates, strict=True)
        ]

    def succeeded(self) -> Iterator[tuple[Any, Any]]:
        """Each partition that nothing is wrong with, after its topic."""
        for topic, codes in zip(self._topics, self._fates, strict=True):
            for partition, code in zip(topic.partitions, codes, strict=True):
                if code == ErrorCode.NONE:
                    yield topic, partition

    @staticmethod
    def _open_part(topic: Any, codes: Sequence[ErrorCode]) -> Any:
        partitions = [each for each, code in zip(topic.partitions, codes, strict=True) if code is _OPEN]
        return dataclasses.replace(topic, partitions=partitions)

    def _fill(self, codes: Iterator[int]) -> None:
        self._fates = [
            [ErrorCode(next(codes)) if code is _OPEN else code for code in each] for each in self._fates
        ]


def name_topics(broker: "Broker", topics: Sequence[Any]) -> None:
    """Write beside each id the name that it stands for; none, if it stands for nothing."""
    for topic in topics:
        image = broker.metadata.topic_of_id.get(topic.topic_id)
        topic.name = image.name if image is not None else ""


def _fates(broker: "Broker", call: Call, topic: Any, *, by_id: bool) -> list[ErrorCode]:
    """What is known about each partition of a topic before the coordinator is asked."""
    if by_id and not topic.name:
        return [ErrorCode.UNKNOWN_TOPIC_ID for _ in topic.partitions]
    if not broker.authorizer.allows(call, Operation.READ, ResourceType.TOPIC, topic.name):
        return [ErrorCode.TOPIC_AUTHORIZATION_FAILED for _ in topic.partitions]
    image = broker.metadata.topics.get(topic.name)
    count = len(image.partitions) if image is not None else 0
    return [
        _OPEN if 0 <= each.partition_index < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in topic.partitions
    ]
