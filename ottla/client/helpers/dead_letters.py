"""A topic for records that nobody could handle: for `on_exhausted` of whatever tries.

    RetryInPlace(consumer, handle, on_exhausted=DeadLetters(producer))

The letter is acknowledged before `on_exhausted` returns, so before the offset of the record is committed: a crash in
between writes it twice, and never loses it. Key and value are sent as the consumer handed them out: a consumer with
deserializers needs a producer whose serializers undo them. Without either the bytes stay as they are, and only so can a
record that no deserializer could read be kept.
"""

import time

from ottla.client.helpers.attempts import named
from ottla.client.helpers.faces import AnyProducer, acknowledged, drive, settled
from ottla.client.helpers.failures import Failure
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError

DEAD_LETTER_TOPIC = "{topic}.dlq"


class AsyncDeadLetters:
    """Writes them with an AsyncProducer."""

    def __init__(self, producer: AnyProducer, topic: str = DEAD_LETTER_TOPIC) -> None:
        """`topic` may have `{topic}` in it: the topic that the record was read from."""
        if producer.transactional_id is not None:
            raise ConfigError(
                f"the producer is transactional ({producer.transactional_id}): use RetryTopics, which commits the "
                "offset with the letter, or another producer"
            )
        self._producer, self._topic = producer, topic

    async def __call__(self, record: ConsumerRecord, error: Exception, attempt: int) -> None:
        """Write it, and return when it is acknowledged. Raises if it could not be: then the record is not done."""
        failure = Failure.of(record).again(error, attempt, now_ms())
        topic = self._topic.format(topic=record.topic)
        if topic == record.topic:
            raise ConfigError(
                f"{named(record)} is a dead letter already: it cannot be put behind itself"
            ) from error
        delivery = await settled(
            self._producer.send(topic, value=record.value, key=record.key, headers=failure.headers(record))
        )
        await acknowledged(self._producer, delivery)


class DeadLetters:
    """Writes them with a Producer, from any thread."""

    def __init__(self, producer: AnyProducer, topic: str = DEAD_LETTER_TOPIC) -> None:
        self._inner = AsyncDeadLetters(producer, topic)

    def __call__(self, record: ConsumerRecord, error: Exception, attempt: int) -> None:
        drive(self._inner(record, error, attempt))


def now_ms() -> int:
    """Milliseconds since 1970."""
    return round(time.time() * 1000)
