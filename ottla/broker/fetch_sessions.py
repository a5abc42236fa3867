"""Incremental fetch sessions (KIP-227): a reader names its partitions once, then only what changes, both ways.

A session is the list of partitions its reader wants and, for each, the marks that were sent last. A partition is left
out of an answer while there is nothing new to say about it. One that was answered goes to the end of the list, so
that a busy one cannot starve those behind it when the size of an answer is limited.

What sessions take is bounded: their number, and the number of partitions in all of them together. Who gets none reads
without: every fetch then names every partition.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = SESSION_ID_MAX = (1 << 31) - 1
TOPIC_IDS_SINCE = 13
EVICTABLE_AFTER_MS = 120_000
"""A session that was not used for this long may go, and one of this age may give way to a larger one."""
PARTITIONS_MAX = 100_000  # in all sessions together, at about 400 bytes each

Wanted: TypeAlias = tuple[str, UUID, FetchRequest.Topic.Partition]
"""A partition to read: the topic's name (up to v12), its id (from v13 on), and what is asked of it."""
Answer: TypeAlias = FetchResponse.Topic.Partition
_Key: TypeAlias = tuple[str | int, int]


class _Remembered:
    """A partition of a session: what its reader wants, and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "note", "told", "wanted")

    def __init__(self, wanted: Wanted, high_watermark: int = -1, log_start_offset: int = -1) -> None:
        self.wanted = wanted
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.note: Any = None
        """What whoever reads wants to remember of it until the next fetch."""
        self.told: Answer | None = None
        """The last answer, where there is a note: the same may be given again, and is no news then."""

    def is_news(self, answer: Answer) -> bool:
        """Must the reader be told? The last stable offset is not compared: it moves with the high watermark."""
        if answer.error_code:
            self.high_watermark = -1  # once the error is gone, that is news as well
            return True
        if self.high_watermark == answer.high_watermark and self.log_start_offset == answer.log_start_offset:
            return bool(
                answer.records
                or answer.preferred_read_replica >= 0
                or answer.diverging_epoch is not None
                or answer.snapshot_id is not None
            )
        self.high_watermark = answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        return True


class _Session:
    """What one reader has told us. Its partitions are read in the order of the dict."""

    __slots__ = ("created_ms", "epoch", "is_privileged", "partitions", "session_id", "used_ms", "uses_ids")

    def __init__(
        self,
        session_id: int,
        partitions: dict[_Key, _Remembered],
        now_ms: int,
        *,
        is_privileged: bool,
        uses_ids: bool,
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.is_privileged = is_privileged
        self.uses_ids = uses_ids
        self.created_ms = self.used_ms = now_ms
        self.epoch = INITIAL_EPOCH + 1

    @property
    def value(self) -> tuple[bool, int]:
        """What it is worth to keep: followers before consumers, then those with more partitions."""
        return self.is_privileged, len(self.partitions)


class FetchContext:
    """One fetch: the partitions to read, and how the answers to them become a response.

    With an `error` there is nothing to read, and `answer([])` says so.
    """

    __slots__ = ("_epoch", "_remembered", "_session", "_start", "error", "partitions", "session_id")

    def __init__(
        self,
        partitions: list[Wanted],
        error: ErrorCode = ErrorCode.NONE,
        session: _Session | None = None,
        start: "_Start | None" = None,
    ) -> None:
        self.partitions = partitions
        self.error = error
        self.session_id = NO_SESSION if session is None else session.session_id
        self._session = session
        self._remembered = [] if session is None else list(session.partitions.values())
        self._epoch = 0 if session is None else session.epoch
        self._start = start

    def notes(self) -> list[Any]:
        """What was kept of each partition at the last fetch; None if nothing was."""
        if self._session is None:
            return [None] * len(self.partitions)
        return [known.note for known in self._remembered]

    def keep(self, notes: Sequence[Any]) -> None:
        """Remember this of the partitions until the next fetch, if there is a session."""
        if self._session is not None:
            for known, note in zip(self._remembered, notes, strict=True):
                known.note = note

    def answer(self, answers: Sequence[Answer]) -> FetchResponse:
        """The response; `answers` stand in the order of `partitions`. Records that are empty must be false."""
        session = self._session
        if session is None:
            if self._start is not None:
                self.session_id = self._start.open(self.partitions, answers)
            topics = _by_topic(self.partitions, answers)
        elif session.epoch != self._epoch:
            # The next fetch of the session has overtaken this one: what was told last is no longer known.
            self.error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            topics = []
        else:
            topics = _by_topic(*_news(session, self.partitions, answers))
        return FetchResponse(error_code=self.error, session_id=self.session_id, responses=topics)


class FetchSessions:
    """The sessions of all readers, least recently used first."""

    def __init__(
        self, slots_max: int, *, partitions_max: int = PARTITIONS_MAX, generator: random.Random | None = None
    ) -> None:
        self.slots_max = slots_max
        self.partitions_max = partitions_max
        self.partition_count = 0
        self.evicted_count = 0
        self._random = generator or random.Random()
        self._sessions: dict[int, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext:
        """What this request, together with those before it in its session, wants to read."""
        epoch = request.session_epoch
        if epoch > INITIAL_EPOCH:
            return self._continue(request, version, now_ms)
        if epoch < FINAL_EPOCH:
            return FetchContext([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if request.session_id != NO_SESSION:
            self._close(request.session_id)
        wanted = [
            (topic.topic, topic.topic_id, part) for topic in request.topics for part in topic.partitions
        ]
        if epoch == FINAL_EPOCH or not wanted:
            return FetchContext(wanted)
        start = _Start(self, now_ms, is_privileged=_is_follower(request), uses_ids=version >= TOPIC_IDS_SINCE)
        return FetchContext(wanted, start=start)

    def _continue(self, request: FetchRequest, version: int, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (version >= TOPIC_IDS_SINCE):
            return FetchContext([], ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Before anything changes: a fetch under way must notice that it does not speak of the same partitions any more.
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else INITIAL_EPOCH + 1
        if request.topics or request.forgotten_topics_data:
            self._change(session, request)
            if not session.partitions:
                self._close(session.session_id)
                return FetchContext([])
            if self.partition_count > self.partitions_max:
                # Its reader starts over with everything it wants, and is then served without a session.
                self._close(session.session_id)
                return FetchContext([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)  # the most recent is last
        return FetchContext([known.wanted for known in session.partitions.values()], session=session)

    def _change(self, session: _Session, request: FetchRequest) -> None:
        partitions, uses_ids = session.partitions, session.uses_ids
        count_before = len(partitions)
        for topic in request.topics:
            name: str | int = topic.topic_id.int if uses_ids else topic.topic
            for part in topic.partitions:
                known = partitions.get((name, part.partition))
                if known is not None:
                    known.wanted = (known.wanted[0], known.wanted[1], part)
                else:
                    partitions[name, part.partition] = _Remembered((topic.topic, topic.topic_id, part))
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id.int if uses_ids else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((name, index), None)
        self.partition_count += len(partitions) - count_before

    def open(self, session: _Session) -> int:
        """Keep a new session, if there is room or something worth less; its id, or NO_SESSION."""
        size = len(session.partitions)
        if size > self.partitions_max or self.slots_max <= 0:
            return NO_SESSION
        while len(self._sessions) >= self.slots_max or self.partition_count + size > self.partitions_max:
            if (victim := self._find_victim(session)) is None:
                return NO_SESSION
            self._close(victim.session_id)
            self.evicted_count += 1
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = self._random.randint(1, SESSION_ID_MAX)
        self._sessions[session.session_id] = session
        self.partition_count += size
        return session.session_id

    def _find_victim(self, newcomer: _Session) -> _Session | None:
        """Who must go for `newcomer`: one that is not used any more, or the least of those worth less."""
        now_ms = newcomer.created_ms
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTABLE_AFTER_MS:
            return oldest
        evictable = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTABLE_AFTER_MS
            or (newcomer.is_privileged and not session.is_privileged)
        ]
        least = min(evictable, key=lambda session: session.value, default=None)
        return least if least is not None and least.value < newcomer.value else None

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)


class _Start:
    """A session that opens when its first answer is known."""

    __slots__ = ("_is_privileged", "_now_ms", "_sessions", "_uses_ids")

    def __init__(self, sessions: FetchSessions, now_ms: int, *, is_privileged: bool, uses_ids: bool) -> None:
        self._sessions = sessions
        self._now_ms = now_ms
        self._is_privileged = is_privileged
        self._uses_ids = uses_ids

    def open(self, wanted: Sequence[Wanted], answers: Sequence[Answer]) -> int:
        partitions: dict[_Key, _Remembered] = {}
        for one, answer in zip(wanted, answers, strict=True):
            topic, topic_id, part = one
            high_watermark = -1 if answer.error_code else answer.high_watermark
            key = (topic_id.int if self._uses_ids else topic, part.partition)
            partitions[key] = _Remembered(one, high_watermark, answer.log_start_offset)
        session = _Session(
            NO_SESSION,
            partitions,
            self._now_ms,
            is_privileged=self._is_privileged,
            uses_ids=self._uses_ids,
        )
        return self._sessions.open(session)


def _news(
    session: _Session, wanted: Sequence[Wanted], answers: Sequence[Answer]
) -> tuple[list[Wanted], list[Answer]]:
    """The answers that say something new. Their partitions go to the end of the session."""
    partitions = session.partitions
    told: list[Wanted] = []
    news: list[Answer] = []
    for known, one, answer in zip(list(partitions.values()), wanted, answers, strict=True):
        if known.told is answer:
            continue
        if known.is_news(answer):
            key = one[1].int if session.uses_ids else one[0], one[2].partition
            partitions[key] = partitions.pop(key)
            told.append(one)
            news.append(answer)
        known.told = None if known.note is None else answer
    return told, news


def _by_topic(wanted: Sequence[Wanted], answers: Sequence[Answer]) -> list[FetchResponse.Topic]:
    """Answers under their topics, as they follow each other; a topic may come twice."""
    topics: list[FetchResponse.Topic] = []
    partitions: list[Answer] = []
    last_name: str | None = None
    last_id: UUID | None = None
    for (name, topic_id, _), answer in zip(wanted, answers, strict=True):
        if (topic_id is not last_id and topic_id != last_id) or name != last_name:
            last_name, last_id, partitions = name, topic_id, []
            topics.append(FetchResponse.Topic(topic=name, topic_id=topic_id, partitions=partitions))
        partitions.append(answer)
    return topics


def _is_follower(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or (
        request.replica_state is not None and request.replica_state.replica_id >= 0
    )
