"""What one request makes of a KIP-848 group: records on top of a state that stays as it is.

Each step goes the same way. The member is written down if it changed; a new subscription, or topics that changed, start
an epoch; an epoch without targets gets them; and the member moves towards its target as far as it may.
"""

from collections.abc import Mapping

from ottla.core.clock import Moment
from ottla.core.errors import KafkaError
from ottla.groups.consumer_member import NOTHING, Member, MemberState, Partitions
from ottla.groups.consumer_reconcile import reconcile
from ottla.groups.consumer_records import (
    current_entry,
    epoch_entry,
    member_entry,
    no_member_entries,
    no_partition_metadata_entry,
    no_regex_entry,
    regex_entry,
    target_entry,
    target_epoch_entry,
)
from ottla.groups.consumer_regex import check_pattern
from ottla.groups.consumer_state import ConsumerState
from ottla.groups.consumer_target import (
    assignors,
    metadata_hash,
    preferred_assignor,
    resolved,
    targets_for,
    topics_of,
)
from ottla.groups.group import Surroundings
from ottla.replication.machine import Entry


class Step:
    """One decision in the making. It reads the state and changes nothing; `entries` is what comes out."""

    def __init__(self, group_id: str, state: ConsumerState, around: Surroundings, now: Moment) -> None:
        self.entries: list[Entry] = []
        self.epoch = state.epoch
        self.replaced: Member | None = None
        self._replacement_id = ""
        self._group_id = group_id
        self._state = state
        self._around = around
        self._now = now
        self._regexes = {regex: found.topics for regex, found in state.regexes.items()}

    def replace(self, old: Member, new_id: str) -> Member:
        """A static member came back under another id: it inherits everything but the epoch."""
        new = old._replace(id=new_id, epoch=0, previous_epoch=0, state=MemberState.STABLE, to_revoke=NOTHING)
        self.replaced, self._replacement_id = old, new_id
        if new_id != old.id:  # who comes back under its own id is not to be erased: its clocks would stop
            self.entries += no_member_entries(self._group_id, old.id)
        self.entries.append(member_entry(self._group_id, new))
        self.entries.append(target_entry(self._group_id, new_id, self._state.targets.get(old.id, NOTHING)))
        self.entries.append(current_entry(self._group_id, new))
        return new

    def advance(
        self, before: Member, member: Member, owned: Partitions | None, *, looks_again: bool
    ) -> Member:
        """`member` is what `before` has become by its request; the result is what it becomes by the group's answer."""
        is_new = before.id not in self._state.members and self.replaced is None
        if is_new or not member.has_same_metadata(before):
            self.entries.append(member_entry(self._group_id, member))
        if member.topic_regex is not None and member.topic_regex not in self._state.regexes:
            check_pattern(member.topic_regex)
        subscribes_anew = _subscription(member) != _subscription(before)
        if subscribes_anew or looks_again or self._state.epoch == 0:
            self._start_epoch_if(subscribes_anew, self._members_with(member), looks_again=looks_again)
        if self.epoch > self._state.assignment_epoch:
            target, target_epoch = self._assign(self._members_with(member))[member.id], self.epoch
        else:
            target, target_epoch = self._target_of(member.id), self._state.assignment_epoch
        if member.is_reconciled_to(target_epoch):
            return member
        after = reconcile(member, target_epoch, target, owned, self._state.is_free)
        if after != member:
            self.entries.append(current_entry(self._group_id, after))
        return after

    def remove(self, member_ids: list[str]) -> None:
        """These are gone, whatever the reason; the group moves on without them."""
        for member_id in member_ids:
            self.entries += no_member_entries(self._group_id, member_id)
        gone = set(member_ids)
        rest = {one.id: one for one in self._state.members.values() if one.id not in gone}
        self._start_epoch_if(True, rest, looks_again=False)

    def look_again(self) -> None:
        """Start an epoch if the topics are not what they were."""
        self._start_epoch_if(False, self._state.members, looks_again=True)

    def _members_with(self, member: Member) -> dict[str, Member]:
        members = dict(self._state.members)
        if self.replaced is not None:
            members.pop(self.replaced.id, None)
        members[member.id] = member
        return members

    def _target_of(self, member_id: str) -> Partitions:
        heir_of = self.replaced.id if self.replaced is not None else member_id
        return self._state.targets.get(heir_of, NOTHING)

    def _targets(self) -> dict[str, Partitions]:
        """The targets so far, a replaced member's under its new id."""
        targets = dict(self._state.targets)
        if self.replaced is not None:
            targets[self._replacement_id] = targets.pop(self.replaced.id, NOTHING)
        return targets

    def _start_epoch_if(self, is_due: bool, members: Mapping[str, Member], *, looks_again: bool) -> None:
        """A group begins in epoch 1; somebody with a subscription takes it to the next."""
        is_due = self._resolve_regexes(members, looks_again=looks_again) or is_due
        names = topics_of(members.values(), self._regexes.__getitem__)
        hashed = metadata_hash(names, self._around.topics)
        is_due = is_due or hashed != self._state.metadata_hash
        if is_due or self._state.epoch == 0:
            self.epoch = max(self._state.epoch, 1) + is_due
            if self._state.has_partition_metadata:
                self.entries.append(no_partition_metadata_entry(self._group_id))
            self.entries.append(epoch_entry(self._group_id, self.epoch, hashed))

    def _resolve_regexes(self, members: Mapping[str, Member], *, looks_again: bool) -> bool:
        """Whether some pattern that is in use stands for other topics than before."""
        in_use = {one.topic_regex for one in members.values() if one.topic_regex is not None}
        has_changed = False
        for regex in sorted(in_use):
            known = self._state.regexes.get(regex)
            if known is not None and not looks_again:
                continue
            try:
                topics = resolved(regex, self._around.topics)
            except KafkaError:
                # Whoever brings a pattern is told. This one was written by another engine: nobody here is to blame.
                topics = known.topics if known is not None else frozenset()
            self._regexes[regex] = topics
            if known is None or topics != known.topics:
                version = 1 if known is None else known.version + 1
                entry = regex_entry(self._group_id, regex, topics, version, self._now.wall_ms)
                self.entries.append(entry)
                has_changed = True
        for regex in sorted(self._state.regexes.keys() - in_use):
            self.entries.append(no_regex_entry(self._group_id, regex))
        return has_changed

    def _assign(self, members: Mapping[str, Member]) -> Mapping[str, Partitions]:
        names = self._around.settings.group_consumer_assignors
        assign = assignors(tuple(names))[preferred_assignor(members.values(), names)]
        before = self._targets()
        targets = targets_for(members, before, self._regexes.__getitem__, self._around.topics, assign)
        for member_id, target in targets.items():
            if before.get(member_id) != target:
                self.entries.append(target_entry(self._group_id, member_id, target))
        self.entries.append(target_epoch_entry(self._group_id, self.epoch, self._now.wall_ms))
        return targets


def _subscription(member: Member) -> tuple[frozenset[str], str | None]:
    return member.topic_names, member.topic_regex
