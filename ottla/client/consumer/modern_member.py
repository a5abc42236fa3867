"""A member of a KIP-848 group, without a socket: one request says everything, and its answer says what to read.

The coordinator names a target; the member moves towards it and says what it holds, and the coordinator gives a
partition to its next owner only when the one before has said that it does not hold it any more. What has not changed
since the last answer is not said again; after anything went wrong everything is, for what arrived is not known.
"""

import enum
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.consumer.subscription_pattern import SubscriptionPattern
from ottla.client.errors import UnsupportedVersionError
from ottla.client.records import GroupMetadata
from ottla.core.errors import AuthorizationError, ErrorCode, KafkaError
from ottla.core.ids import format_id, random_id
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Epochs that are no epochs."""
NO_EPOCH = -1
_OWN_IDS_SINCE = _REGEX_SINCE = 1

Held = Mapping[uuid.UUID, frozenset[int]]
"""Partitions by the ids of their topics."""


class Step(enum.Enum):
    """How far a member is."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"


class Next(enum.Enum):
    """What to do after an answer."""

    GO_ON = "go on"
    AGAIN = "ask again after a pause"
    ELSEWHERE = "ask again, and ask first who coordinates"
    LOST = "we are out, and what we held may be gone"


class Wishes(NamedTuple):
    """What a member tells of itself."""

    topics: frozenset[str]
    pattern: SubscriptionPattern | None = None


_ELSEWHERE = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}


class ConsumerMember:
    """One consumer in one group."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        rebalance_timeout_ms: int,
        rack_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.group_id, self.instance_id = group_id, instance_id
        self._rebalance_timeout_ms, self._rack_id, self._assignor = rebalance_timeout_ms, rack_id, assignor
        self._own_id = format_id(random_id())
        self.step = Step.OUT
        self.member_id = ""
        self.epoch = NO_EPOCH
        self.heartbeat_interval_ms = 0
        self.target: Held | None = None
        """What the coordinator wants us to hold, until we do."""
        self.held: Held = {}
        self._acknowledges = False
        self._said: Wishes | None = None

    @property
    def is_in(self) -> bool:
        """Whether what it holds is its own."""
        return self.step is Step.IN

    @property
    def beats(self) -> bool:
        return self.step is not Step.OUT

    @property
    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.epoch, self.member_id, self.instance_id)

    def join(self) -> None:
        """What was held is given up: begin."""
        self.step, self.epoch = Step.JOINING, NO_EPOCH
        self.held, self.target = {}, None
        self.failed()

    def forget(self) -> None:
        """Be nobody: what was held is lost."""
        self.step, self.epoch, self.target = Step.OUT, NO_EPOCH, None
        self.failed()

    def holds(self, held: Held, target: Held) -> None:
        """We have come so far on the way to a target: say so."""
        self.held, self._acknowledges = held, True
        if self.target == target and held == target:
            self.target = None

    # --- heartbeats -----------------------------------------------------------------------------------------------

    def has_news(self, wishes: Wishes) -> bool:
        """Whether there is something to say before it is time."""
        return self.step is Step.JOINING or (self.is_in and (self._acknowledges or self._said != wishes))

    def request(self, wishes: Wishes, version: int) -> ConsumerGroupHeartbeatRequest:
        """Raises UnsupportedVersionError for what the broker cannot be told."""
        if wishes.pattern is not None and version < _REGEX_SINCE:
            raise UnsupportedVersionError("the broker is too old to match patterns: use a re.Pattern")
        if not self.member_id and version >= _OWN_IDS_SINCE:
            self.member_id = self._own_id
        says_all = self._said is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOINS if self.step is Step.JOINING else self.epoch,
            instance_id=self.instance_id,
        )
        if says_all:
            request.rack_id = self._rack_id
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._assignor
        self._say_wishes(request, wishes)
        if says_all or self._acknowledges:
            request.topic_partitions = [
                TopicPartitions(topic_id=each, partitions=sorted(self.held[each]))
                for each in sorted(self.held)
            ]
        self._said, self._acknowledges = wishes, False
        return request

    def _say_wishes(self, request: ConsumerGroupHeartbeatRequest, wishes: Wishes) -> None:
        said = self._said
        if said is None or said.topics != wishes.topics:
            request.subscribed_topic_names = sorted(wishes.topics)
        if wishes.pattern is not None:
            if said is None or said.pattern != wishes.pattern:
                request.subscribed_topic_regex = wishes.pattern.pattern
        elif said is not None and said.pattern is not None:
            request.subscribed_topic_regex = ""  # taken back

    def failed(self) -> None:
        """Whether the last request arrived is not known: say everything again."""
        self._said = None

    def answered(self, answer: ConsumerGroupHeartbeatResponse) -> Next:
        """Raises what waiting does not help."""
        code = answer.error_code
        if code == ErrorCode.NONE:
            self._follow(answer)
            return Next.GO_ON
        self.failed()
        if code in _LOST:
            self.forget()
            return Next.LOST
        if code in _ELSEWHERE:
            return Next.ELSEWHERE
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Next.AGAIN
        who = "" if self.instance_id is None else f" as {self.instance_id}"
        said = f": {answer.error_message}" if answer.error_message else ""
        error = KafkaError.of(code, f"ConsumerGroupHeartbeat in the group {self.group_id}{who}{said}")
        if not (isinstance(error, AuthorizationError) and code == ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            self.forget()  # with that one, a member stays; it may be allowed to read some day
        raise error

    def _follow(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.step, self.epoch = Step.IN, answer.member_epoch
        self.member_id = answer.member_id or self.member_id
        self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is not None:
            found: dict[uuid.UUID, frozenset[int]] = {}
            for row in answer.assignment.topic_partitions:
                found[row.topic_id] = found.get(row.topic_id, frozenset()) | frozenset(row.partitions)
            self.target = {topic_id: numbers for topic_id, numbers in found.items() if numbers}

    # --- leaving --------------------------------------------------------------------------------------------------

    @property
    def says_goodbye(self) -> bool:
        return self.beats and bool(self.member_id)

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """A static member keeps its place for a while."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVES if self.instance_id is None else LEAVES_FOR_A_WHILE,
            instance_id=self.instance_id,
        )
