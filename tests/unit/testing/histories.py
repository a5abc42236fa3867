"""Histories to judge: what clients of a correct log might have seen, and ways to spoil it."""

from collections import defaultdict
from itertools import pairwise

from ottla.testing.history import Action, History, Operation, Outcome, Poll, Send

KEYS = ("x", "y")


class CorrectLog:
    """A log that keeps its promises, and clients with all kinds of luck. Every value is read at the end."""

    def __init__(self, random, operations=60):
        self.random = random
        self.operations = operations
        self.history = History(now_ns=lambda: 0)
        self.logs = {key: [] for key in KEYS}  # (offset, value) as readers see it
        self.end = dict.fromkeys(KEYS, 0)
        self.values = iter(range(1_000_000))
        self.writers = [self.history.client() for _ in range(3)]
        self.readers = [self.history.client() for _ in range(2)]
        self.positions = {}
        self.in_flight = []

    def run(self) -> list[Operation]:
        for reader in self.readers:
            reader.assign(KEYS).ok()
            self.positions[reader] = dict.fromkeys(KEYS, 0)
        for _ in range(self.operations):
            action = self.random.choice(
                (self.send, self.send, self.txn, self.txn, self.poll, self.poll, self.arrive)
            )
            action()
        for late in self.in_flight:
            self.append(late)
        last = self.history.client()
        last.assign(KEYS).ok()
        last.poll().ok([Poll({key: list(log) for key, log in self.logs.items()})])
        return list(self.history)

    def append(self, send: Send) -> Send:
        if self.random.random() < 0.2:
            self.end[send.key] += self.random.randint(1, 3)  # a marker, or something aborted
        offset = self.end[send.key]
        self.end[send.key] += 1
        self.logs[send.key].append((offset, send.value))
        return send._replace(offset=offset)

    def arrive(self):
        """A send of which the client has given up knowing arrives after all."""
        if self.in_flight:
            self.append(self.in_flight.pop(self.random.randrange(len(self.in_flight))))

    def send(self):
        writer, send = self.random.choice(self.writers), Send(self.random.choice(KEYS), next(self.values))
        pending, luck = writer.send(send.key, send.value), self.random.random()
        if luck < 0.7:
            pending.ok([self.append(send)])
        elif luck < 0.8:
            pending.fail("NOT_ENOUGH_REPLICAS")
        else:
            pending.info("REQUEST_TIMED_OUT")
            if luck < 0.93:
                self.in_flight.append(send)

    def txn(self):
        writer = self.random.choice(self.writers)
        sends = [Send(self.random.choice(KEYS), next(self.values)) for _ in range(self.random.randint(2, 4))]
        pending, luck = writer.txn(sends), self.random.random()
        if luck < 0.7:
            pending.ok([self.append(send) for send in sends])
        elif luck < 0.85:
            for send in sends:
                self.end[send.key] += 1
            pending.fail("aborted")
        else:
            if luck < 0.93:
                for send in sends:
                    self.append(send)
            pending.info("the answer was lost")

    def poll(self):
        reader = self.random.choice(self.readers)
        position, got = self.positions[reader], {}
        for key in KEYS:
            count = self.random.randint(0, 4)
            got[key] = self.logs[key][position[key] : position[key] + count]
        pending = reader.poll()
        if self.random.random() < 0.9:
            pending.ok([Poll(got)])
            for key in KEYS:
                position[key] += len(got[key])
        else:
            pending.fail("the consumer went back to where it was", [Poll(got)])


# --- ways to spoil it: each returns the spoilt history, or None where there is nothing to spoil


def edit_reads(history, change):
    """`change(key, records)` gives the records that are read instead, in every poll."""
    return [
        operation._replace(
            steps=tuple(
                Poll({key: change(key, list(records)) for key, records in step.records.items()})
                if isinstance(step, Poll)
                else step
                for step in operation.steps
            )
        )
        for operation in history
    ]


def unread(history, key, value):
    return edit_reads(
        history, lambda k, records: [r for r in records if (k, r[1]) != (key, value)] if k == key else records
    )


def final_log(history):
    return history[-1].steps[0].records


def with_final(history, key, record):
    """The last reader has read one more."""
    records = {k: [*v, record] if k == key else list(v) for k, v in final_log(history).items()}
    return [*history[:-1], history[-1]._replace(steps=(Poll(records),))]


def ended(history, outcome, *actions):
    return [o for o in history if o.outcome is outcome and o.action in actions]


def pick(random, choices):
    choices = list(choices)
    return random.choice(choices) if choices else None


def lose_write(history, random):
    known = {(s.key, s.value) for o in ended(history, Outcome.OK, Action.SEND, Action.TXN) for s in o.steps}
    found = pick(
        random,
        [
            (key, value)
            for key, log in final_log(history).items()
            for _, value in log[:-1]
            if (key, value) in known
        ],
    )
    return found and unread(history, *found)


def hide_write(history, random):
    send = pick(random, [s for o in ended(history, Outcome.OK, Action.SEND) for s in o.steps])
    return send and unread(history, send.key, send.value)


def duplicate(history, random):
    key = pick(random, [key for key, log in final_log(history).items() if log])
    return key and with_final(history, key, (1_000, random.choice(final_log(history)[key])[1]))


def two_at_one_offset(history, random):
    sends = [s for o in ended(history, Outcome.OK, Action.SEND) for s in o.steps]
    other = pick(random, [s for s in sends if s.key == "x"])
    send = pick(random, [s for s in sends if s.key == "x" and s is not other])
    return send and with_final(history, "x", (send.offset, other.value))


def read_aborted(history, random):
    send = pick(random, [s for o in ended(history, Outcome.FAIL, Action.SEND, Action.TXN) for s in o.steps])
    return send and with_final(history, send.key, (1_000, send.value))


def add_step(history, operation, step):
    return [o._replace(steps=(*o.steps, step)) if o is operation else o for o in history]


def read_own(history, random):
    txn = pick(random, ended(history, Outcome.OK, Action.TXN))
    return txn and add_step(
        history, txn, Poll({txn.steps[0].key: [(txn.steps[0].offset, txn.steps[0].value)]})
    )


def tear(history, random):
    txn = pick(random, ended(history, Outcome.OK, Action.TXN))
    if txn is None:
        return None
    send = random.choice(txn.steps)
    return unread(history, send.key, send.value)


def read_ghost(history, random):
    return with_final(history, random.choice(KEYS), (1_000, "ghost"))


def edit_poll(history, operation, key, records):
    got = {**operation.steps[0].records, key: records}
    return [o._replace(steps=(Poll(got),)) if o is operation else o for o in history]


def polls_in_a_row(history):
    """(poll, next poll of the same process that read the same key, key)"""
    last = {}
    for o in ended(history, Outcome.OK, Action.POLL)[:-1]:
        for key, records in o.steps[0].records.items():
            if records:
                if (o.process, key) in last:
                    yield last[o.process, key], o, key
                last[o.process, key] = o


def skip_between(history, random):
    found = pick(random, [f for f in polls_in_a_row(history) if len(f[1].steps[0].records[f[2]]) > 1])
    return found and edit_poll(history, found[1], found[2], found[1].steps[0].records[found[2]][1:])


def go_back_between(history, random):
    found = pick(random, polls_in_a_row(history))
    if found is None:
        return None
    before, after, key = found
    return edit_poll(history, after, key, [before.steps[0].records[key][-1], *after.steps[0].records[key]])


def long_polls(history, length):
    return [
        (o, key)
        for o in ended(history, Outcome.OK, Action.POLL)[:-1]
        for key, records in o.steps[0].records.items()
        if len(records) >= length
    ]


def skip_within(history, random):
    found = pick(random, long_polls(history, 3))
    if found is None:
        return None
    records = list(found[0].steps[0].records[found[1]])
    del records[1]
    return edit_poll(history, *found, records)


def go_back_within(history, random):
    found = pick(random, long_polls(history, 2))
    return found and edit_poll(history, *found, list(found[0].steps[0].records[found[1]])[::-1])


def swap_sends(history, one, other):
    """What one operation sent, and where it came to lie, the other did."""
    swapped = {}
    for o, by in ((one, other), (other, one)):
        swapped[id(o)] = o._replace(steps=by.steps)
        invoked = max(
            (
                i
                for i in history
                if i.process == o.process and i.outcome is Outcome.INVOKE and i.number < o.number
            ),
            key=lambda i: i.number,
        )
        swapped[id(invoked)] = invoked._replace(steps=(by.steps[0]._replace(offset=None),))
    return [swapped.get(id(o), o) for o in history]


def pairs_of_sends(history, is_pair):
    sends = ended(history, Outcome.OK, Action.SEND)
    return [
        (one, other)
        for index, one in enumerate(sends)
        for other in sends[index + 1 :]
        if one.steps[0].key == other.steps[0].key and is_pair(one, other)
    ]


def turn_sends_round(history, random):
    """Neighbours of one process, so that nothing lies between them that the rule would look at instead."""
    by_key = defaultdict(list)
    for o in ended(history, Outcome.OK, Action.SEND, Action.TXN):
        for step in o.steps:
            by_key[o.process, step.key].append(o)
    neighbours = {(id(a), id(b)) for row in by_key.values() for a, b in pairwise(row)}
    pair = pick(random, pairs_of_sends(history, lambda one, other: (id(one), id(other)) in neighbours))
    return pair and swap_sends(history, *pair)


def turn_time_round(history, random):
    pair = pick(random, pairs_of_sends(history, lambda one, other: one.process != other.process))
    return pair and swap_sends(history, *pair)


def turn_txn_round(history, random):
    txns = ended(history, Outcome.OK, Action.TXN)
    txn = pick(random, [o for o in txns if len({s.key for s in o.steps}) < len(o.steps)])
    return txn and [o._replace(steps=o.steps[::-1]) if o is txn else o for o in history]


def read_in_a_circle(history, random):
    txns = ended(history, Outcome.OK, Action.TXN)
    if len(txns) < 2:
        return None
    one, other = random.sample(txns, 2)
    for reader, writer in ((one, other), (other, one)):
        send = writer.steps[0]
        reader = next(o for o in history if o.number == reader.number)
        history = add_step(history, reader, Poll({send.key: [(send.offset, send.value)]}))
    return history


MUTATIONS = {
    "lost-write": lose_write,
    "unseen": hide_write,
    "duplicate": duplicate,
    "inconsistent-offsets": two_at_one_offset,
    "aborted-read": read_aborted,
    "precommitted-read": read_own,
    "torn-transaction": tear,
    "never-written": read_ghost,
    "poll-skip": skip_between,
    "nonmonotonic-poll": go_back_between,
    "internal-poll-skip": skip_within,
    "internal-nonmonotonic-poll": go_back_within,
    "nonmonotonic-send": turn_sends_round,
    "internal-nonmonotonic-send": turn_txn_round,
    "stale-offset": turn_time_round,
    "read-cycle": read_in_a_circle,
}
