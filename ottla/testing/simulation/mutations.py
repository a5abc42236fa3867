"""Broken versions of methods and functions of replication and of the controller.

Each takes the place of the one that it is named after in `mutants`. Whatever it does wrong, somebody once did.
"""

from collections.abc import Sequence
from typing import Any

from ottla.broker.reign import Reign
from ottla.controller.context import Context
from ottla.core.errors import KafkaError
from ottla.core.watermark import Waiter, Watermark
from ottla.metadata.store import Op
from ottla.replication.exchange import BrokerLife, FetchQuestion, Proposal
from ottla.replication.following import Following
from ottla.replication.leading import Leading
from ottla.replication.partition import Partition
from ottla.replication.progress import Progress
from ottla.replication.state import PartitionState
from ottla.storage.epochs import EpochEnd

Original = Any


def always(value: object) -> Any:
    """Nothing is looked at."""

    def instead(original: Original) -> Any:
        return lambda *args, **how: value

    return instead


def always_property(value: object) -> Any:
    def instead(original: Original) -> Any:
        return property(lambda self: value)

    return instead


# --- followers ----------------------------------------------------------------------------------------------------


def truncate_to_high_watermark(original: Original) -> Any:
    def _begin_to_follow(self: Partition, state: PartitionState) -> None:
        self.log.truncate_to(self.log.high_watermark)
        self._show_log()
        original(self, state)

    return _begin_to_follow


def follower_takes_the_leaders_end(original: Original) -> Any:
    def truncation_point(self: Following, diverging: EpochEnd) -> int:
        return min(diverging.end_offset, self._log.end_offset)

    return truncation_point


def fits_any_epoch(original: Original) -> Any:
    def fits(self: Following, question: FetchQuestion) -> bool:
        return self.has_same_end(question)

    return fits


# --- leaders ------------------------------------------------------------------------------------------------------


def end_of_the_asked_epoch_only(original: Original) -> Any:
    """What KIP-101 said first: where the next larger epoch began, whether or not the asked one ever ruled here."""

    def end_of_epoch(self: Partition, epoch: int) -> tuple[int, int]:
        found, end_offset = original(self, epoch)
        return (epoch if found >= 0 else found), end_offset

    return end_of_epoch


def joins_at_the_high_watermark(original: Original) -> Any:
    def may_join(
        self: Leading, follower: Progress, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int
    ) -> bool:
        is_steady = follower.is_caught_up(leader_end, lag_ms, now_ms)
        return follower.end_offset >= high_watermark and is_steady

    return may_join


def joins_at_once(original: Original) -> Any:
    def may_join(
        self: Leading, follower: Progress, leader_end: int, high_watermark: int, lag_ms: int, now_ms: int
    ) -> bool:
        return follower.end_offset >= 0

    return may_join


def unknown_is_refused(original: Original) -> Any:
    def answered(
        self: Leading, proposal: Proposal, error: KafkaError | None, lag_ms: int, now_ms: int
    ) -> None:
        original(self, proposal, error, lag_ms, now_ms)
        if error is None and proposal is self.proposal:
            self.proposal = None

    return answered


def outdated_is_refused(original: Original) -> Any:
    def answered(
        self: Leading, proposal: Proposal, error: KafkaError | None, lag_ms: int, now_ms: int
    ) -> None:
        original(self, proposal, error, lag_ms, now_ms)
        if error is not None and proposal is self.proposal:
            self.proposal = None

    return answered


def shrinks_alone(original: Original) -> Any:
    def propose(self: Partition, now_ms: int) -> Proposal | None:
        proposal: Proposal | None = original(self, now_ms)
        if proposal is not None and self.leading is not None and proposal.members < self.leading.isr:
            self.isr = self.leading.isr = proposal.members
            self._move_high_watermark()
        return proposal

    return propose


def counts_the_known_isr_only(original: Original) -> Any:
    return property(lambda self: self.isr)


def counts_the_wanted_isr_only(original: Original) -> Any:
    return property(lambda self: self.isr if self.proposal is None else self.proposal.members)


def counts_whom_it_has_heard(original: Original) -> Any:
    def committed_to(self: Leading, leader_end: int) -> int:
        followers = [self.followers[id] for id in self.maximal_isr if id in self.followers]
        ends = [follower.end_offset for follower in followers if follower.end_offset >= 0]
        return min([leader_end, *ends])

    return committed_to


def outvoted_by_numbers_only(original: Original) -> Any:
    return property(lambda self: self.is_under_min_isr)


def progress_only_grows(original: Original) -> Any:
    def fetched(self: Progress, end_offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        original(self, max(end_offset, self.end_offset), log_start_offset, leader_end, now_ms)

    return fetched


def lives_are_not_told(original: Original) -> Any:
    def _life(self: Leading, id: int) -> BrokerLife:
        return BrokerLife(id)

    return _life


def follows_old_orders(original: Original) -> Any:
    def follow_orders(self: Partition, state: PartitionState, now_ms: int = 0) -> bool:
        known = self.state
        if known is not None and state.partition_epoch < known.partition_epoch:
            self.state = None
        return bool(original(self, state, now_ms))

    return follow_orders


def shows_everything(original: Original) -> Any:
    def fetchable_end(self: Partition, isolation_level: int, *, is_follower: bool = False) -> int:
        return self.log.end_offset

    return fetchable_end


# --- controller ---------------------------------------------------------------------------------------------------


def born_if_new(original: Original) -> Any:
    """A broker that comes back before anybody has missed it has never been away."""
    return lambda broker, last: last is None


def eligible_for_ever(original: Original) -> Any:
    def eligible_after(state: PartitionState, isr: Any, policy: Any) -> tuple[int, ...]:
        members = (*state.isr, *state.elr)
        return tuple(id for id in state.replicas if id not in isr and id in members)

    return eligible_after


def elects_anybody(original: Original) -> Any:
    def elect(state: PartitionState, live: Any, policy: Any, leaving: Any = frozenset()) -> PartitionState:
        found: PartitionState = original(state, live, policy._replace(allows_unclean=True), leaving)
        return found

    return elect


def last_leader_first(original: Original) -> Any:
    """Whoever led last leads again as soon as it is back, whoever else is eligible."""

    def _elect_clean(state: PartitionState, able: Any, policy: Any) -> PartitionState | None:
        if not state.isr and state.last_known_leader in able:
            leader = state.last_known_leader
            return state._replace(leader=leader, isr=(leader,), elr=())
        found: PartitionState | None = original(state, able, policy)
        return found

    return _elect_clean


# --- hosts --------------------------------------------------------------------------------------------------------


def writes_unfenced(original: Original) -> Any:
    """Whoever once was controller writes, as long as nobody else has written the same node."""

    async def write(self: Reign, context: Context, writes: Sequence[Op]) -> None:
        if writes:
            await self._office.store.multi(list(writes))

    return write


def acknowledges_at_once(original: Original) -> Any:
    def on_reach(self: Watermark, offset: int, told: Any) -> Waiter:
        waiter: Waiter = original(self, min(offset, self.value), told)
        return waiter

    return on_reach
