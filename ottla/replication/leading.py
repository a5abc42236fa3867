"""The leader's account of its followers: who is in sync, who should be, and how far all of them have come.

The ISR changes only when the controller says so. What the leader wants is a proposal; until its fate is certain the
leader counts with the worst case, the union of the ISR it knows and the one it has asked for (KIP-497): records are
committed when all of those have them. An answer that never comes leaves the union in place.
"""

from collections.abc import Container

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import UNKNOWN, BrokerLife, FetchQuestion, Proposal
from ottla.replication.progress import NEVER, Progress
from ottla.replication.state import PartitionState

LAG_MS = 30_000
_NOT_DONE = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST}
"""Answers after which a proposal will never be accepted, however late a copy of it arrives."""
_OUTDATED = {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NEW_LEADER_ELECTED,
}
"""Answers that say: there is a newer state than the one you speak of. It is on its way to us."""


class Leading:
    """One reign: the time in which this broker leads a partition in one leader epoch."""

    def __init__(self, state: PartitionState, broker: BrokerLife, epoch_start: int, now_ms: int) -> None:
        self.state = state
        self.broker = broker
        self.epoch_start = epoch_start
        """Where the log ended when this reign began."""
        self.isr = frozenset(state.isr)
        self.followers = {
            id: Progress(now_ms if id in self.isr else NEVER) for id in state.replicas if id != broker.broker
        }
        self.proposal: Proposal | None = None
        self._is_asked = False
        """Is the proposal on its way, with an answer to come?"""
        self._is_outdated = False

    def adopt(self, state: PartitionState, now_ms: int) -> None:
        """The controller's word, in the same reign. A newer state settles what was proposed for an older one."""
        if state.partition_epoch > self.state.partition_epoch:
            self.proposal, self._is_asked, self._is_outdated = None, False, False
        self.state, self.isr = state, frozenset(state.isr)
        known = self.followers
        self.followers = {
            id: known.get(id) or Progress(now_ms if id in self.isr else NEVER)
            for id in state.replicas
            if id != self.broker.broker
        }

    # --- how far they are -----------------------------------------------------------------------------------------

    def note(self, life: BrokerLife, question: FetchQuestion, leader_end: int, now_ms: int) -> None:
        """A follower asks for `fetch_offset`, so it has everything below."""
        follower = self.followers[life.broker]
        if life.epoch != follower.broker_epoch:
            # A refusal was said of another life.
            follower.broker_epoch, follower.refused_until_ms = life.epoch, NEVER
        follower.fetched(question.fetch_offset, question.log_start_offset, leader_end, now_ms)

    def check_life(self, life: BrokerLife) -> None:
        """A fetch of a follower's former life says nothing about what it has in this one (KIP-903)."""
        follower = self.followers.get(life.broker)
        if follower is None:
            detail = f"broker {life.broker} has no replica of {self.state.topic_partition}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, detail)
        if life.epoch < follower.broker_epoch:
            detail = f"broker {life.broker} lives in epoch {follower.broker_epoch} by now, not {life.epoch}"
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, detail)

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who may be in sync as the controller sees it."""
        return self.isr if self.proposal is None else self.isr | self.proposal.members

    def committed_to(self, leader_end: int) -> int:
        """The offset that all who may be in sync have reached."""
        ends = [self.followers[id].end_offset for id in self.maximal_isr if id in self.followers]
        return min([leader_end, *ends])

    def low_watermark(self, leader_start: int, alive: Container[int]) -> int:
        """Where the logs of all live replicas have begun; UNKNOWN while one of them has not said."""
        starts = [follower.log_start_offset for id, follower in self.followers.items() if id in alive]
        return min([leader_start, *starts])

    # --- who is in sync -------------------------------------------------------------------------------------------

    def propose(self, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int) -> Proposal | None:
        """The ISR that should be, if it is another one. One proposal at a time; one whose fate is not known is made
        again, the very same."""
        if self._is_asked or self._is_outdated:
            return None
        if self.proposal is None:
            wanted = self._wanted(leader_end, high_watermark, lag_ms, now_ms)
            if wanted == self.isr:
                return None
            self.proposal = self._proposal(wanted)
        self._is_asked = True
        return self.proposal

    def answered(self, proposal: Proposal, error: KafkaError | None, lag_ms: int, now_ms: int) -> None:
        """No new state came of it: refused with `error`, or nobody knows."""
        is_refused = error is not None and error.code in _NOT_DONE
        if is_refused and proposal.leader_epoch == self.state.leader_epoch:
            # Also if a newer state has come before the answer: nothing is different for those who were to join.
            self._refuse(proposal, now_ms + lag_ms // 2)
        if proposal is not self.proposal:
            return
        self._is_asked = False
        if is_refused:
            self.proposal = None
        elif error is not None and error.code in _OUTDATED:
            self._is_outdated = True

    def _refuse(self, proposal: Proposal, until_ms: int) -> None:
        for id, epoch in proposal.isr:
            follower = self.followers.get(id)
            if id not in self.isr and follower is not None and follower.broker_epoch == epoch:
                follower.refused_until_ms = until_ms

    def someone_may_join(self, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int) -> bool:
        """Is it worth asking for a proposal now?"""
        if self.proposal is not None or self._is_outdated or len(self.isr) > len(self.followers):
            return False
        return any(
            id not in self.isr and self.may_join(follower, leader_end, high_watermark, lag_ms, now_ms)
            for id, follower in self.followers.items()
        )

    def may_join(
        self, follower: Progress, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int
    ) -> bool:
        """Has it everything that was committed, in earlier reigns too, and does it keep up?

        A new leader knows of a high watermark that is behind the old leader's. What it had when its reign began is the
        most that can have been committed before.
        """
        has_all = follower.end_offset >= max(high_watermark, self.epoch_start)
        # Or it would be out again at the next look. Who has everything but does not ask any more may be dead.
        is_steady = (
            follower.is_caught_up(leader_end, lag_ms, now_ms) and now_ms - follower.fetched_ms <= lag_ms
        )
        return has_all and is_steady and now_ms >= follower.refused_until_ms

    def _wanted(self, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int) -> frozenset[int]:
        """Whoever keeps up, and one more: of two that join at once, one that is refused would keep the other out."""
        wanted = {self.broker.broker}
        joining: list[int] = []
        for id, follower in self.followers.items():
            if id in self.isr:
                if follower.is_caught_up(leader_end, lag_ms, now_ms):
                    wanted.add(id)
            elif self.may_join(follower, leader_end, high_watermark, lag_ms, now_ms):
                joining.append(id)
        if joining:
            wanted.add(min(joining, key=lambda id: self.followers[id].refused_until_ms))
        return frozenset(wanted)

    def _proposal(self, wanted: frozenset[int]) -> Proposal:
        state = self.state
        members = [id for id in state.replicas if id in wanted]
        lives = tuple(self.broker if id == self.broker.broker else self._life(id) for id in members)
        return Proposal(
            state.topic_partition, state.topic_id, state.leader_epoch, state.partition_epoch, lives
        )

    def _life(self, id: int) -> BrokerLife:
        return BrokerLife(id, self.followers[id].broker_epoch)


assert UNKNOWN < 0, "a follower nobody has heard of holds the high watermark where it is"
