"""A fetch session with one broker (KIP-227): after the first request only what has changed is asked for and answered.

Both sides count. A session whose answer was lost, or that the broker has forgotten, is begun again with everything.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.consumer.config import ConsumerConfig
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.fetch import FetchRequest

IDS_SINCE, SESSIONS_SINCE = 13, 7
_EPOCH_FIRST, _EPOCH_CLOSE, _EPOCH_MAX = 0, -1, (1 << 31) - 1
_FORGOTTEN = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
SESSION_ERRORS = (*_FORGOTTEN, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""Begin a new session, and nothing is lost."""


class Wanted(NamedTuple):
    """What is asked of one partition."""

    offset: int
    last_epoch: int
    leader_epoch: int
    topic_id: uuid.UUID
    life: int
    """Ours: the answer counts only while the partition has the same."""


class FetchSession:
    """With one broker."""

    def __init__(self) -> None:
        self.session_id = 0
        self._epoch = _EPOCH_FIRST
        self._known: dict[TopicPartition, Wanted] = {}
        self._has_ids = False

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], version: int, config: ConsumerConfig
    ) -> FetchRequest:
        """The next one, for exactly these partitions."""
        has_ids = version >= IDS_SINCE
        if has_ids != self._has_ids:
            self.lose()
        self._has_ids = has_ids
        removed: dict[TopicPartition, Wanted] = {}
        changed = wanted
        if self._epoch != _EPOCH_FIRST:
            removed = {key: each for key, each in self._known.items() if _is_gone(each, wanted.get(key))}
            changed = {key: each for key, each in wanted.items() if self._known.get(key) != each}
        self._known = dict(wanted)
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            session_id=self.session_id,
            session_epoch=self._epoch,
            topics=_topics(changed, config.max_partition_fetch_bytes, version),
            forgotten_topics_data=_forgotten(removed) if version >= SESSIONS_SINCE else [],
            rack_id=config.client_rack,
        )

    def accept(self, answer: Any) -> bool:
        """Whether the answer counts; if not, ask again."""
        if answer.error_code:
            if answer.error_code in _FORGOTTEN:
                self.session_id = 0
            self.lose()
            return False
        if self._epoch == _EPOCH_FIRST:
            self.session_id = answer.session_id
            self._epoch = _EPOCH_FIRST + 1 if answer.session_id else _EPOCH_FIRST
        else:
            self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else _EPOCH_FIRST + 1
        return True

    @property
    def is_new(self) -> bool:
        """Whether the next request, or the one under way, begins it."""
        return self._epoch == _EPOCH_FIRST

    def lose(self) -> None:
        """Nobody knows what the broker knows: begin again. The old session, if there is one, is replaced."""
        self._epoch = _EPOCH_FIRST
        self._known = {}

    def goodbye(self) -> FetchRequest | None:
        """What tells the broker that it may forget the session."""
        if not self.session_id:
            return None
        return FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=self.session_id, session_epoch=_EPOCH_CLOSE, topics=[]
        )


def _is_gone(before: Wanted, now: Wanted | None) -> bool:
    """Also a topic that was made anew: the broker knows partitions by the topic's id."""
    return now is None or now.topic_id != before.topic_id


def _topics(
    wanted: Mapping[TopicPartition, Wanted], bytes_max: int, version: int
) -> list[FetchRequest.Topic]:
    rows: dict[str, FetchRequest.Topic] = {}
    for (topic, number), each in wanted.items():
        row = rows.get(topic)
        if row is None:
            row = rows[topic] = FetchRequest.Topic(topic=topic, topic_id=each.topic_id, partitions=[])
        row.partitions.append(
            FetchRequest.Topic.Partition(
                partition=number,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.last_epoch if version >= 12 else -1,
                partition_max_bytes=bytes_max,
            )
        )
    return list(rows.values())


def _forgotten(removed: Mapping[TopicPartition, Wanted]) -> list[FetchRequest.ForgottenTopic]:
    rows: dict[tuple[str, uuid.UUID], list[int]] = {}
    for (topic, number), each in removed.items():
        rows.setdefault((topic, each.topic_id), []).append(number)
    return [
        FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=numbers)
        for (topic, topic_id), numbers in rows.items()
    ]


def all_have_ids(wanted: Iterable[Wanted]) -> bool:
    """Whether topics can be named by their ids: old brokers did not give them any."""
    return all(each.topic_id.int for each in wanted)
