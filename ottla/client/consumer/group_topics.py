"""Which topics there are, looked up again now and then: patterns find new ones, and leaders see partitions grow.

The cluster is asked in the background, every `metadata_max_age_ms`, and more often while a topic that somebody wants
does not exist. What follows from the answers is decided by whoever is told (`news`), in its poll.
"""

import logging
import re
import uuid
from collections.abc import Callable, Iterable

from ottla.client.cluster import Cluster
from ottla.client.connections import version_of
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.heartbeat import Heart
from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Backoff
from ottla.core.errors import ErrorCode, KafkaError, RetriableError
from ottla.core.ids import NULL_ID
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

logger = logging.getLogger(__name__)

_IDS_SINCE = 12  # Metadata: topics may be asked for by id
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class GroupTopics:
    """Of one member."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        news: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._cluster, self._config, self._subscription = cluster, config, subscription
        self._news, self._failed = news, failed
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._heart = Heart(self._look, failed)
        self._looked_for: object = None
        self._matching: tuple[re.Pattern[str] | None, int, frozenset[str]] = None, 0, frozenset()
        self.others: frozenset[str] = frozenset()
        """What other members want: the leader of a group assigns it, so it looks after it."""
        self.unknown_ids: frozenset[uuid.UUID] = frozenset()
        """Topics that we were given, but whose names we do not know."""

    @property
    def has_looked(self) -> bool:
        """Whether what the cluster has was looked up since the subscription changed."""
        return self._looked_for == self._wanted()

    def start(self) -> None:
        self._heart.start()

    def look_soon(self) -> None:
        self._backoff.reset()
        self._heart.soon()

    async def stop(self) -> None:
        await self._heart.stop()
        self.others, self.unknown_ids = frozenset(), frozenset()
        self._looked_for = None

    def learn(self, ids: Iterable[uuid.UUID]) -> None:
        """Find out the names of these topics."""
        wanted = frozenset(ids)
        if wanted != self.unknown_ids:
            self.unknown_ids = wanted
            if wanted:
                self.look_soon()

    def matching(self) -> frozenset[str]:
        """The topics that the pattern matches now, or those that were chosen by name."""
        pattern, version = self._subscription.pattern, self._cluster.metadata.version
        if not isinstance(pattern, re.Pattern) or not self.has_looked:
            return self._subscription.topics
        if self._matching[:2] != (pattern, version):
            found = frozenset(name for name in self._candidates() if pattern.fullmatch(name))
            self._matching = pattern, version, found
        return self._matching[2]

    def match(self) -> bool:
        """Let the subscription follow its pattern; whether that is news."""
        found = self.matching()
        return found != self._subscription.topics and self._subscription.match(found)

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """How many partitions they have, those that exist."""
        topics = self._cluster.metadata.topics
        return {name: len(topics[name].partitions) for name in names if name in topics}

    # --- looking --------------------------------------------------------------------------------------------------

    def _candidates(self) -> list[str]:
        excludes = self._config.exclude_internal_topics
        return [
            name
            for name, topic in self._cluster.metadata.topics.items()
            if not (excludes and (topic.is_internal or name in _INTERNAL))
        ]

    def _wanted(self) -> frozenset[str] | re.Pattern[str] | None:
        """Names to ask for, or the pattern, for which all are asked for."""
        pattern = self._subscription.pattern
        if isinstance(pattern, re.Pattern):
            return pattern
        return self._subscription.topics if pattern is None else frozenset()

    async def _look(self) -> float:
        wanted = self._wanted()
        try:
            await self._refresh(wanted)
        except RetriableError as error:
            logger.debug("the topics could not be looked up: %s", error)
            return self._backoff.next_ms()
        except KafkaError as error:
            self._failed(error)
            return self._backoff.next_ms()
        self._looked_for = wanted
        self._report(wanted)
        self._news()
        if self._is_missing(wanted):
            return self._backoff.next_ms()
        self._backoff.reset()
        return self._config.metadata_max_age_ms

    async def _refresh(self, wanted: frozenset[str] | re.Pattern[str] | None) -> None:
        if self.unknown_ids:
            await self._refresh_ids(self.unknown_ids)
        if isinstance(wanted, re.Pattern):
            await self._cluster.refresh(None)
        elif names := (wanted or frozenset()) | self.others:
            await self._cluster.refresh(names)

    async def _refresh_ids(self, ids: frozenset[uuid.UUID]) -> None:
        peer = await self._cluster.any_peer()
        if version_of(peer, MetadataRequest) < _IDS_SINCE:
            await self._cluster.refresh(None)
            return
        topics = [MetadataRequest.Topic(topic_id=each, name=None) for each in sorted(ids) if each != NULL_ID]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer: MetadataResponse = await self._cluster.ask_any(request)
        self._cluster.metadata.update(answer, ())
        self.unknown_ids = ids - self._cluster.metadata.names.keys()

    def _is_missing(self, wanted: frozenset[str] | re.Pattern[str] | None) -> bool:
        names = self.others | (frozenset() if isinstance(wanted, re.Pattern) else wanted or frozenset())
        return bool(self.unknown_ids) or any(name not in self._cluster.metadata.topics for name in names)

    def _report(self, wanted: frozenset[str] | re.Pattern[str] | None) -> None:
        """What waiting will not bring about, the application must hear."""
        if isinstance(wanted, re.Pattern):
            return
        for name in sorted(wanted or ()):
            error = self._cluster.metadata.errors.get(name)
            if error is not None and not (error.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR):
                self._failed(error)
                return
