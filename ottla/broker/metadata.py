"""The cluster as the controller told us last: what Metadata answers, and where a request looks up its topics.

Only the controller's calls change it. Look-ups are plain dictionaries, for they are made by every request.
"""

import uuid
from collections.abc import Callable, Collection, Iterable

from ottla.replication.state import BrokerImage, TopicImage

NO_CONTROLLER = -1


class Metadata:
    """Topics by name and by id, live brokers, and who the controller is."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.controller_id = NO_CONTROLLER
        self.topics: dict[str, TopicImage] = {}
        self.topic_of_id: dict[uuid.UUID, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.on_update: Callable[[Collection[str], Collection[str]], object] = lambda changed, deleted: None
        """Called with the names of topics that are new or have changed, and of those that are gone."""

    def update(
        self,
        *,
        topics: Iterable[TopicImage] = (),
        deleted: Iterable[str] = (),
        brokers: Iterable[BrokerImage] | None = None,
        controller_id: int | None = None,
    ) -> None:
        """`topics` are new or have changed, each given whole; `brokers` are all that live, if given."""
        topics, deleted = list(topics), list(deleted)
        for name in deleted:
            self._forget(name)
        for topic in topics:
            self._forget(topic.name)
            self.topics[topic.name] = topic
            self.topic_of_id[topic.topic_id] = topic
        if brokers is not None:
            self.brokers = {broker.node_id: broker for broker in brokers}
        if controller_id is not None:
            self.controller_id = controller_id
        if topics or deleted:
            self.on_update([topic.name for topic in topics], deleted)

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def _forget(self, name: str) -> None:
        """A topic that was deleted and created again has another id; the old one must lead nowhere."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.topic_of_id.pop(topic.topic_id, None)
