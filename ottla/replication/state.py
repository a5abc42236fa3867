"""What a controller decides about partitions, and what brokers are told of each other. Values, never changed."""

import uuid
from typing import NamedTuple

from ottla.core.ids import TopicPartition

NO_LEADER = -1
NO_EPOCH = -1
"""Of a broker: not known, or none."""


class PartitionState(NamedTuple):
    """One partition as the controller wants it. `partition_epoch` grows with every change, `leader_epoch` with every
    election; whoever knows a newer one ignores an older."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    is_new: bool = False
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): not in sync any more, but they have every record that was committed."""
    last_known_leader: int = NO_LEADER
    """Who led last, while nobody in sync or eligible is left."""
    is_recovering: bool = False
    """The leader was elected though it may lack committed records."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TopicImage(NamedTuple):
    """A topic as Metadata shows it; `partitions` by index, from 0 on without holes."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[PartitionState, ...]
    is_internal: bool = False


class Endpoint(NamedTuple):
    """Where a listener of a broker is reached from outside."""

    listener: str
    security_protocol: str
    host: str
    port: int


class BrokerImage(NamedTuple):
    """A live broker. `epoch` tells its lives apart. `previous_epoch` is the life before, if it ended with a clean
    shutdown: whoever cannot name it may have lost what it had not yet written to the disk."""

    node_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    previous_epoch: int = NO_EPOCH

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)
