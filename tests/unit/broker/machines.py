"""A small machine to try hosts with: it remembers names, lets callers wait for one, and forgets by the clock."""

from ottla.broker.coordinators import Coordinator, Surroundings
from ottla.broker.metadata import Metadata
from ottla.core.clock import SystemClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timers
from ottla.protocol.messages import record_types
from ottla.protocol.messages.coordinator_records import TransactionLogKey, TransactionLogValue
from ottla.replication.machine import LATER, Answer, Decision, Entry
from ottla.storage.flushing import GroupCommit


def named(name, epoch=0):
    """An entry about a name; the record of a transactional id serves as well as any."""
    return Entry(
        TransactionLogKey(transactional_id=name),
        TransactionLogValue(
            producer_id=1,
            producer_epoch=epoch,
            transaction_timeout_ms=1,
            transaction_status=0,
            transaction_partitions=[],
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=0,
        ),
    )


class Names:
    """What was written stands in `names`; who waits, in `waiting`."""

    def __init__(self, leader_epoch, now):
        self.leader_epoch = leader_epoch
        self.timers = Timers(now.monotonic_ms)
        self.names = {}
        self.ends = []
        self.waiting = []
        self.is_active = False
        self.fails_to_apply = False

    def apply(self, entry, producer):
        if self.fails_to_apply:
            raise RuntimeError("planted")
        if entry.value is None:
            self.names.pop(entry.key.transactional_id, None)
        else:
            self.names[entry.key.transactional_id] = producer

    def apply_end(self, producer, is_commit):
        self.ends.append((producer, is_commit))

    def activate(self, now):
        self.is_active = True

    def retire(self):
        return self.waiting

    # What callers ask for

    def decide_add(self, *names, **how):
        answers = [Answer(ticket, names[0]) for ticket in self.waiting]
        self.waiting = []
        return Decision(len(self.names), [named(name) for name in names], answers, **how)

    def decide_wait(self, ticket):
        self.waiting.append(ticket)
        return Decision(LATER)

    def decide_refuse(self):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "nobody of that name")


def coordinator_of(
    *partitions, topic="names", metadata=None, count=1, timeout_ms=60_000, create=None, note_failure=None
):
    """A coordinator in charge of these partitions. They must have real logs."""
    commits = {}

    def commit_of(log):
        return commits.setdefault(log, GroupCommit(log, log.files))

    async def refill():
        raise AssertionError("nobody needs producer ids here")

    around = Surroundings(
        SystemClock(),
        metadata or Metadata(),
        commit_of,
        create,
        lambda: timeout_ms,
        refill,
        note_failure or (lambda partition: None),
    )
    found = Coordinator(topic, record_types.TRANSACTION_STATE, Names, lambda: count, around)
    for partition in partitions:
        commit_of(partition.log).on_synced = partition.synced
        found.follow(partition)
    return found
