"""Layer 4: producers, consumers and admin clients for any Kafka.

    AsyncProducer, AsyncConsumer, AsyncAdmin     on the running event loop
    Producer, Consumer, Admin                    the same for programs without one

cluster metadata connections security    whom to ask, and how
producer/ consumer/ admin/               one package each
serde/                                   keys and values as bytes
helpers/                                 retries, deduplication, work in parallel
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin.admin import AsyncAdmin as AsyncAdmin
    from ottla.client.admin.blocking import Admin as Admin
    from ottla.client.consumer.blocking import Consumer as Consumer
    from ottla.client.consumer.consumer import AsyncConsumer as AsyncConsumer
    from ottla.client.consumer.subscription_pattern import SubscriptionPattern as SubscriptionPattern
    from ottla.client.listener import RebalanceListener as RebalanceListener
    from ottla.client.producer.blocking import Producer as Producer
    from ottla.client.producer.producer import AsyncProducer as AsyncProducer
    from ottla.client.records import ConsumerRecord as ConsumerRecord
    from ottla.client.records import GroupMetadata as GroupMetadata
    from ottla.client.records import OffsetAndMetadata as OffsetAndMetadata
    from ottla.client.records import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.client.records import ProducerRecord as ProducerRecord
    from ottla.client.records import RecordMetadata as RecordMetadata
    from ottla.core.errors import KafkaError as KafkaError
    from ottla.core.ids import TopicPartition as TopicPartition

_PLACES = {
    "AsyncProducer": "ottla.client.producer.producer",
    "Producer": "ottla.client.producer.blocking",
    "AsyncConsumer": "ottla.client.consumer.consumer",
    "Consumer": "ottla.client.consumer.blocking",
    "AsyncAdmin": "ottla.client.admin.admin",
    "Admin": "ottla.client.admin.blocking",
    "ConsumerRecord": "ottla.client.records",
    "OffsetAndMetadata": "ottla.client.records",
    "RecordMetadata": "ottla.client.records",
    "TopicPartition": "ottla.core.ids",
    "RebalanceListener": "ottla.client.listener",
    "SubscriptionPattern": "ottla.client.consumer.subscription_pattern",
    "GroupMetadata": "ottla.client.records",
    "OffsetAndTimestamp": "ottla.client.records",
    "ProducerRecord": "ottla.client.records",
    "KafkaError": "ottla.core.errors",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",
    "KafkaError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerRecord",
    "RebalanceListener",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: a program that only produces does not load the consumer."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
