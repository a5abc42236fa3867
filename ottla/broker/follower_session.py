"""A follower's end of a fetch session (KIP-227): which partitions the leader knows of, and what to tell it next.

The first request of a session names everything; the later ones name what has changed, and an idle partition costs
nothing on the wire. Whenever the two ends may disagree (a lost answer, an error of the session), it starts over.
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.replication.exchange import FetchQuestion

NO_SESSION, FIRST_EPOCH = 0, 0
EPOCH_MAX = (1 << 31) - 1

Place = tuple[UUID, int]
"""A partition as Fetch names it since v13: the id of its topic, and its number."""


class Asked(NamedTuple):
    """What is asked about one partition. The follower's high watermark lets the leader tell at once of a newer one."""

    question: FetchQuestion
    high_watermark: int
    bytes_max: int


class FollowerSession:
    """One session. `want` and `forget` partitions, send what `next_request` says, and tell what came of it."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._wanted: dict[Place, Asked] = {}
        self._changed: set[Place] = set()
        self._forgotten: set[Place] = set()
        self._told: set[Place] = set()
        """What the leader has heard of in this session."""

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, place: Place, asked: Asked) -> None:
        """Ask this from the next request on."""
        if self._wanted.get(place) != asked:
            self._wanted[place] = asked
            self._changed.add(place)
        self._forgotten.discard(place)

    def forget(self, place: Place) -> None:
        """Ask nothing about it any more."""
        if self._wanted.pop(place, None) is not None:
            self._changed.discard(place)
            if place in self._told:
                self._forgotten.add(place)

    def asked(self, place: Place) -> FetchQuestion | None:
        """The question that an answer about this partition belongs to, if one is still wanted."""
        asked = self._wanted.get(place)
        return None if asked is None or place not in self._told else asked.question

    def fill(self, request: FetchRequest) -> FetchRequest:
        """Write into the request what this session has to say now."""
        is_first = self._epoch == FIRST_EPOCH
        if is_first:
            self._told.clear()
            self._forgotten.clear()
        places = self._wanted if is_first else sorted(self._changed)
        request.session_id, request.session_epoch = self._id, self._epoch
        request.topics = _by_topic((place, self._wanted[place]) for place in places)
        request.forgotten_topics_data = _forgotten(sorted(self._forgotten))
        self._told.update(self._wanted if is_first else self._changed)
        self._told.difference_update(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        return request

    def answered(self, response: FetchResponse) -> bool:
        """The leader has answered. False if the session starts over: then there is nothing in the answer."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self.start_over()
            return False
        if self._epoch == FIRST_EPOCH:
            self._id = response.session_id
            self._epoch = FIRST_EPOCH if self._id == NO_SESSION else FIRST_EPOCH + 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else FIRST_EPOCH + 1
        return True

    def start_over(self) -> None:
        """Nobody knows what the leader has heard: the next request names everything, and closes what was."""
        self._epoch = FIRST_EPOCH


def _by_topic(asked: Iterable[tuple[Place, Asked]]) -> list[FetchRequest.Topic]:
    topics: dict[UUID, FetchRequest.Topic] = {}
    for (topic_id, index), (question, high_watermark, bytes_max) in asked:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchRequest.Topic(topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchRequest.Topic.Partition(
                partition=index,
                current_leader_epoch=question.current_leader_epoch,
                fetch_offset=question.fetch_offset,
                last_fetched_epoch=question.last_fetched_epoch,
                log_start_offset=question.log_start_offset,
                partition_max_bytes=bytes_max,
                high_watermark=high_watermark,
            )
        )
    return list(topics.values())


def _forgotten(places: Iterable[Place]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in places:
        topics.setdefault(topic_id, []).append(index)
    return [
        FetchRequest.ForgottenTopic(topic_id=topic, partitions=indexes) for topic, indexes in topics.items()
    ]
