"""The cluster through the eyes of a client: as one listener shows it, in the words of the Metadata reply.

A leader or replica that cannot be reached through the listener counts as offline. What old clients are told about such
a partition differs, so there are three dialects.

The topics of a reply are kept until they, or the brokers, change: to build them anew takes as long as to encode them.
They are shared between replies, so nobody may change one.
"""

import weakref
from collections.abc import Mapping

from ottla.broker.metadata import Metadata
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.replication.state import NO_LEADER, BrokerImage, Endpoint, PartitionState, TopicImage

_STALE_MAX = 1000
"""Topics that are gone but still kept, before all are dropped: nobody tells us of a deletion."""

Topic = MetadataResponse.Topic
Partition = MetadataResponse.Topic.Partition


class Views:
    """What one listener shows, in one dialect."""

    def __init__(self, brokers: Mapping[int, BrokerImage], listener: str, version: int) -> None:
        self.brokers = brokers
        self._names_missing_listener = version >= 6  # before that the code 72 was unknown
        self._hides_unreachable = (
            version == 0
        )  # clients of v0 fail on a replica that is not among the brokers
        found = {node_id: broker.endpoint(listener) for node_id, broker in brokers.items()}
        self.endpoints: dict[int, Endpoint] = {id: each for id, each in found.items() if each}
        self._topics: dict[str, tuple[TopicImage, Topic]] = {}

    def topic(self, image: TopicImage) -> Topic:
        """The topic for a reply. Not to be changed."""
        kept = self._topics.get(image.name)
        if kept is not None and kept[0] is image:
            return kept[1]
        topic = Topic(
            error_code=ErrorCode.NONE,
            name=image.name,
            topic_id=image.topic_id,
            is_internal=image.is_internal,
            partitions=[self._partition(state) for state in image.partitions],
        )
        self._topics[image.name] = (image, topic)
        return topic

    def trim(self, count: int) -> None:
        """Forget the topics if there are far more than the `count` that exist."""
        if len(self._topics) > count + _STALE_MAX:
            self._topics.clear()

    def leader(self, state: PartitionState) -> int:
        """The leader, if a client of this listener can reach it."""
        return state.leader if state.leader in self.endpoints else NO_LEADER

    def offline(self, state: PartitionState) -> list[int]:
        """The replicas that are dead, have lost their disk, or lack the listener."""
        return [id for id in state.replicas if id not in self.endpoints or id in state.offline]

    def _partition(self, state: PartitionState) -> Partition:
        replicas, isr = self._shown(state.replicas), self._shown(state.isr)
        return Partition(
            error_code=self._fault(
                state, is_whole=len(replicas) + len(isr) == len(state.replicas + state.isr)
            ),
            partition_index=state.partition,
            leader_id=self.leader(state),
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=self.offline(state),
        )

    def _shown(self, replicas: tuple[int, ...]) -> list[int]:
        if self._hides_unreachable:
            return [id for id in replicas if id in self.endpoints]
        return list(replicas)

    def _fault(self, state: PartitionState, *, is_whole: bool) -> ErrorCode:
        if state.leader in self.endpoints:
            return ErrorCode.NONE if is_whole else ErrorCode.REPLICA_NOT_AVAILABLE
        if state.leader in self.brokers and self._names_missing_listener:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE


_kept: "weakref.WeakKeyDictionary[Metadata, dict[tuple[str, int], Views]]" = weakref.WeakKeyDictionary()


def views_of(metadata: Metadata, listener: str, version: int) -> Views:
    """What a client of this listener is shown that speaks this version of Metadata."""
    kept = _kept.setdefault(metadata, {})
    dialect = 0 if version == 0 else 1 if version < 6 else 6
    views = kept.get((listener, dialect))
    if views is None or views.brokers is not metadata.brokers:
        views = kept[listener, dialect] = Views(metadata.brokers, listener, dialect)
    views.trim(len(metadata.topics))
    return views
