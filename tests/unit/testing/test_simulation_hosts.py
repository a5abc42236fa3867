"""The replicated log and the host of machines: what is committed stays, what is not may go, replies come after it."""

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timers
from ottla.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS
from ottla.replication.machine import LATER, Answer, Decision, Entry, Producer
from ottla.testing.simulation.producer_states import Marker, ProducerStates
from ottla.testing.simulation.replicated_log import ReplicatedLog
from ottla.testing.simulation.shard_host import OnceTicket, SimShardHost
from ottla.testing.simulation.world import World

PRODUCER = Producer(7, 1)


def entry(number: int) -> Entry:
    return Entry(
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitValue(offset=number, leader_epoch=-1, metadata="", commit_timestamp=0),
    )


class Counter:
    """A machine that holds numbers. It can let somebody wait, and ring."""

    def __init__(self, epoch, now):
        self.epoch, self.timers = epoch, Timers(now.monotonic_ms)
        self.numbers, self.ended, self.waiting, self.is_active = [], [], [], False

    def apply(self, entry, producer):
        self.numbers.append(entry.value.offset)

    def apply_end(self, producer, is_commit):
        self.ended.append((producer, is_commit))

    def activate(self, now):
        self.is_active = True

    def retire(self):
        return self.waiting

    def add(self, number):
        return Decision(reply=number, entries=[entry(number)], effects=[f"effect {number}"])

    def wait(self, ticket):
        self.waiting.append(ticket)
        return Decision(LATER)

    def wake(self):
        return Decision(None, answers=[Answer(ticket, "woken") for ticket in self.waiting])

    def ring_in(self, delay_ms, number, now):
        self.timers.add(now.monotonic_ms + delay_ms, lambda now: self.add(number))
        return Decision("set")


class Node:
    def __init__(self, world, name):
        self.world, self.name, self.host = world, name, None
        world.add(self)

    def receive(self, sender, message):
        raise AssertionError("nobody sends here")

    def crash(self):
        self.host.crash()

    def restart(self):
        pass


class Cluster:
    """Two nodes, one partition, and whatever was answered and carried out."""

    def __init__(self, seed=1, **settings):
        self.world = World(seed)
        self.effects, self.replies = [], []
        self.log = ReplicatedLog(self.world, "p", replication_ms=(10, 10), **settings)
        for name in ("a", "b"):
            node = Node(self.world, name)
            node.host = SimShardHost(
                self.world, name, self.log, CONSUMER_OFFSETS, Counter, carry_out=self.effects.append
            )
            setattr(self, name, node.host)
        self.lead("a")

    def lead(self, name):
        self.log.elect(name)
        self.run(1_500)

    def run(self, by_ms):
        self.world.run(self.world.now_ms + by_ms)

    def ask(self, host, decide):
        host.ask(decide, OnceTicket(self.replies.append))

    def codes(self):
        return [reply.code if isinstance(reply, KafkaError) else reply for reply in self.replies]


def test_a_reply_and_its_effects_leave_when_the_high_watermark_has_passed():
    cluster = Cluster()
    cluster.ask(cluster.a, lambda machine, now: machine.add(5))
    assert cluster.a.machine.numbers == [5], "applied at once"
    cluster.run(9)
    assert (cluster.replies, cluster.effects, len(cluster.log.committed)) == ([], [], 0)
    cluster.run(1)
    assert (cluster.replies, cluster.effects, len(cluster.log.committed)) == ([5], ["effect 5"], 1)


def test_what_wrote_nothing_waits_for_what_it_may_speak_of():
    cluster = Cluster()
    cluster.ask(cluster.a, lambda machine, now: machine.add(5))
    cluster.ask(cluster.a, lambda machine, now: Decision(list(machine.numbers)))
    assert cluster.replies == []
    cluster.run(10)
    assert cluster.replies == [5, [5]]


def test_somebody_who_waits_is_answered_by_a_later_decision():
    cluster = Cluster()
    ticket = OnceTicket(cluster.replies.append)
    cluster.a.ask(lambda machine, now: machine.wait(ticket), ticket)
    cluster.run(100)
    assert cluster.replies == []
    cluster.a.ask(lambda machine, now: machine.wake())
    cluster.a.ask(lambda machine, now: machine.wake())
    assert cluster.replies == ["woken"]


def test_a_new_leader_replays_everything_through_bytes_and_starts_its_clocks():
    cluster = Cluster()
    for number in range(3):
        cluster.ask(cluster.a, lambda machine, now, number=number: machine.add(number))
    cluster.a.mark(Marker(PRODUCER, True, 0), OnceTicket(cluster.replies.append))
    cluster.run(100)
    assert cluster.a.machine.ended == [(PRODUCER, True)]
    cluster.lead("b")
    assert cluster.b.machine.numbers == [0, 1, 2]
    assert cluster.b.machine.ended == [(PRODUCER, True)]
    assert cluster.b.machine.is_active and cluster.b.machine.epoch == cluster.b.epoch == 1
    assert cluster.a.machine is None and cluster.a.epoch == -1
    assert cluster.replies == [0, 1, 2, None]


def test_whoever_waits_at_a_deposed_leader_is_sent_away():
    cluster = Cluster()
    ticket = OnceTicket(cluster.replies.append)
    cluster.a.ask(lambda machine, now: machine.wait(ticket), ticket)
    cluster.lead("b")
    cluster.ask(cluster.a, lambda machine, now: machine.add(1))
    assert cluster.codes() == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_host_that_loads_says_so():
    cluster = Cluster()
    cluster.log.elect("b")
    cluster.world.run_until(lambda: cluster.b.epoch == 1, 10_000)
    cluster.ask(cluster.b, lambda machine, now: machine.add(1))
    assert cluster.codes() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_a_deposed_leader_that_does_not_know_it_never_replies():
    cluster = Cluster()
    cluster.world.pause("b")  # the election is over before anybody serves
    cluster.log.elect("b")
    cluster.ask(cluster.a, lambda machine, now: machine.add(9))
    cluster.run(10_000)
    assert cluster.codes() in ([], [ErrorCode.NOT_COORDINATOR])
    assert cluster.log.committed == []


def test_committed_records_survive_every_failover_and_others_go_in_whole_batches():
    sizes = set()
    for seed in range(40):
        cluster = Cluster(seed)
        cluster.ask(cluster.a, lambda machine, now: machine.add(1))
        cluster.run(100)
        for number in (2, 4):
            batch = Decision(None, entries=[entry(number), entry(number + 1)])
            cluster.ask(cluster.a, lambda machine, now, batch=batch: batch)
        cluster.world.crash("a")
        cluster.run(3_000)
        assert cluster.log.leader == "b"
        numbers = cluster.b.machine.numbers
        assert numbers in ([1], [1, 2, 3], [1, 2, 3, 4, 5])
        assert len(cluster.log.committed) == len(numbers), "what a leader has, it replicates"
        sizes.add(len(numbers))
    assert sizes == {1, 3, 5}


def test_alarms_ring_in_virtual_time_and_die_with_the_machine():
    cluster = Cluster()
    cluster.ask(cluster.a, lambda machine, now: machine.ring_in(60_000, 7, now))
    cluster.ask(cluster.a, lambda machine, now: machine.ring_in(30_000, 6, now))
    cluster.run(29_999)
    assert cluster.a.machine.numbers == []
    cluster.run(1)
    assert cluster.a.machine.numbers == [6]
    cluster.run(100)
    cluster.lead("b")
    cluster.run(100_000)
    assert cluster.b.machine.numbers == [6]


def test_a_refused_append_loads_the_machine_anew_unless_it_knows_better():
    cluster = Cluster()
    cluster.ask(cluster.a, lambda machine, now: machine.add(1))
    cluster.run(100)
    cluster.log.refusal = 1.0
    before = cluster.a.machine
    decision = Decision(5, entries=[entry(5)], if_refused=lambda error: Decision(error.code))
    cluster.ask(cluster.a, lambda machine, now: decision)
    assert cluster.a.machine is before
    cluster.ask(cluster.a, lambda machine, now: machine.add(2))
    assert cluster.a.machine is None
    assert cluster.codes() == [1, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2]
    cluster.log.refusal = 0.0
    cluster.run(1_000)
    assert cluster.a.machine.numbers == [1]


def test_watchers_see_every_committed_record_once_and_in_order():
    cluster, seen = Cluster(), []
    cluster.log.watchers.append(lambda offset, item: seen.append(offset))
    for number in range(5):
        leader = cluster.a if cluster.log.leader == "a" else cluster.b
        cluster.ask(leader, lambda machine, now, number=number: machine.add(number))
        cluster.lead("b" if number % 2 else "a")
    assert seen == list(range(len(cluster.log.committed)))


def test_nobody_leads_while_all_are_dead_and_somebody_does_afterwards():
    cluster = Cluster()
    cluster.world.crash("a")
    cluster.world.crash("b")
    cluster.run(5_000)
    assert cluster.a.machine is None and cluster.b.machine is None
    cluster.world.restart("b")
    cluster.run(5_000)
    assert cluster.log.leader == "b" and cluster.b.machine is not None


def test_a_refusal_that_decides_nothing_is_the_answer():
    cluster = Cluster(refusal=1.0)

    def refuse(error):
        raise error

    decision = Decision(5, entries=[entry(5)], if_refused=refuse)
    cluster.ask(cluster.a, lambda machine, now: decision)
    assert cluster.codes() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert cluster.a.machine is not None


def refusal(check, *arguments):
    try:
        check(*arguments)
    except KafkaError as error:
        return error.code
    return None


def test_an_older_epoch_does_not_write():
    states = ProducerStates()
    states.write(Producer(1, 5))
    assert refusal(states.check, Producer(1, 4)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states.check, Producer(1, 5)) is refusal(states.check, Producer(2, 0)) is None


def test_a_late_marker_ends_nothing():
    states = ProducerStates()
    states.write(Producer(1, 5))
    assert states.is_open(Producer(1, 5))
    marker = Marker(Producer(1, 6), True, 3)
    assert refusal(states.check_marker, marker) is None
    states.end(marker)
    assert not states.is_open(Producer(1, 5)) and not states.is_open(Producer(1, 6))
    assert refusal(states.check_marker, marker) is None, "once more does no harm"
    states.write(Producer(1, 6))
    assert refusal(states.check_marker, marker) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states.check_marker, marker._replace(transaction_version=1)) is None
    old = Marker(Producer(1, 7), False, 2)
    assert refusal(states.check_marker, old) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_hosts_fence_too_and_know_it_after_a_failover():
    cluster = Cluster()
    batch = Decision(
        "written", entries=[entry(1)], producer=PRODUCER, if_refused=lambda error: Decision(error.code)
    )
    cluster.ask(cluster.a, lambda machine, now: batch)
    cluster.a.mark(Marker(PRODUCER._replace(epoch=2), True, 0))
    cluster.run(100)
    cluster.lead("b")
    cluster.ask(cluster.b, lambda machine, now: batch)
    assert cluster.codes() == ["written", ErrorCode.INVALID_PRODUCER_EPOCH]
