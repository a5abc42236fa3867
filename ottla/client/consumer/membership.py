"""What a consumer needs of its membership in a group; the classic and the consumer protocol each have one."""

from typing import Protocol

from ottla.client.deadline import Deadline
from ottla.client.records import GroupMetadata


class Membership(Protocol):
    """A member of a group. Heartbeats leave in the background; everything that an application can notice (listeners,
    another assignment) happens in `poll`, so never while it works on records."""

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who we are in the group, for commits. Generation (or member epoch) -1 while we are nobody."""

    @property
    def needs_poll(self) -> bool:
        """A rebalance waits for us, or an error: whoever waits for records should call `poll` instead.

        When this becomes true, the `wake` that the membership was made with is called."""

    async def poll(self, deadline: Deadline) -> None:
        """Called at the beginning of every poll of the application. Joins, joins again, gives up and takes over
        partitions (through `Subscription.set_assignment`, with its listener told), as far as the deadline allows.
        Also tells that the application is alive (`max_poll_interval_ms`). Raises what cannot be waited out."""

    def subscription_changed(self) -> None:
        """The consumer wants other topics now: join again at the next poll."""

    def enforce_rebalance(self, reason: str) -> None:
        """Join again at the next poll, though nothing has changed."""

    def failed_commit(self, code: int) -> None:
        """A commit was refused with ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID or
        STALE_MEMBER_EPOCH: what that says about us."""

    async def leave(self, deadline: Deadline) -> None:
        """Give up partitions (the listener is told) and leave the group. A static member stays in it, silently."""

    async def close(self) -> None:
        """End background tasks. Nothing is said to anybody."""
