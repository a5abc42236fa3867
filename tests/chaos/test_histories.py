"""Histories of a broker that is killed and started again under load, judged by the checker.

Idempotent producers, transactional ones, readers of both isolation levels and groups of both protocols write down all
that they do and see while the broker dies at moments that chance chose. In the end new readers read everything, and the
groups read on until they have committed the last record.

`make chaos` runs more rounds and writes tests/chaos/HISTORIES.md.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.checker import Report, check
from ottla.testing.history import Action, History, Key, Operation, Outcome, Poll, Send, Value
from ottla.testing.history_file import read_history, write_history
from tests.chaos.histories import judged_apart, sends_of
from tests.chaos.history_load import KEYS, TOPICS, Progress, Sender, Transactor
from tests.chaos.history_readers import Group, Member, Reader, Reading
from tests.chaos.processes import BrokerProcess

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "2"))
RESULTS = Path(__file__).with_name("HISTORIES.md")
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "transaction.state.log.num.partitions": 5,
    "offsets.topic.num.partitions": 5,
    "log.segment.bytes": 1
    << 18,  # so that segments are rolled, and their indexes written, while it is killed
}
SYNCED = {"log.flush.interval.messages": 1}
"""In every other round: then more kills find records that are written, but not answered."""
TRANSACTIONS_PER_ROUND = 30, 90
CLIENTS_MAX = 16


@dataclass
class Run:
    """What came out of it."""

    everything: History = field(default_factory=History)
    committed: History = field(default_factory=History)
    groups: list[Group] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rounds: list[Counter[str]] = field(default_factory=list)
    """What was done in each, until the broker was killed."""

    def histories(self) -> dict[str, list[Operation]]:
        """What is judged on its own."""
        return judged_apart(self.everything, self.committed, self.groups)


def run(path: Path) -> Run:
    done, progress, source = Run(), Progress(), random.Random(4)
    with BrokerProcess(path, SETTINGS | SYNCED) as broker, ThreadPoolExecutor(CLIENTS_MAX) as pool:
        server = broker.bootstrap_server
        create_topics(server)
        done.groups = [Group(server, protocol, protocol) for protocol in ("classic", "consumer")]
        members = [Member(group, done.committed) for group in done.groups for _ in range(2)]
        try:
            futures = [pool.submit(client.run, progress) for client in (*clients(server, done), *members)]
            progress.clients += futures
            kill_and_start(broker, progress, source, members, done)
            progress.is_over = True
            progress.wait(lambda: all(each.done() for each in futures[: -len(members)]))
            ends = read_everything(server, done)
            progress.wait(lambda: all(group.has_reached(ends) for group in done.groups))
        finally:
            progress.is_over = True
            for group in done.groups:
                group.is_over = True
        progress.wait(lambda: all(each.done() for each in futures))
        assert broker.terminate() == 0, broker.errors
    done.counts = progress.counts
    return done


def create_topics(server: str) -> None:
    topics = [NewTopic(topic, count, 1) for topic, count in TOPICS.items()]
    admin = AdminClient({"bootstrap.servers": server})
    for future in admin.create_topics(topics).values():
        future.result()


def clients(server: str, done: Run) -> list[Sender | Transactor | Reader]:
    histories = done.everything, done.committed
    return [
        *(Sender(server, f"sender-{number}", *histories) for number in range(2)),
        *(Transactor(server, f"transactor-{number}", *histories) for number in range(2)),
        Transactor(server, "reading-transactor", *histories, Reading(server)),
        Reader(server, done.everything, "read_uncommitted"),
        Reader(server, done.committed, "read_committed"),
    ]


def kill_and_start(
    broker: BrokerProcess, progress: Progress, source: random.Random, members: list[Member], done: Run
) -> None:
    for number in range(ROUNDS):
        before = progress.counts.copy()
        progress.wait_for("transactions", source.randint(*TRANSACTIONS_PER_ROUND))
        progress.wait_for("sends", source.randint(1, 60))  # or one would die just after a transaction, always
        with ExitStack() as stack:
            for group in done.groups:
                stack.enter_context(group.watched())
            broker.kill()
            done.rounds.append(progress.counts - before)
            broker.settings = SETTINGS | SYNCED if number % 2 else SETTINGS
            broker.start()
        source.choice(members).is_to_leave.set()  # the next one asks the broker what was committed
    progress.wait_for("transactions", TRANSACTIONS_PER_ROUND[0])


def read_everything(server: str, done: Run) -> dict[Key, int]:
    """With new readers, from the beginning of every key. Behind the last committed record of each."""
    Reader(server, done.everything, "read_uncommitted").read_to_the_end()
    last = Reader(server, done.committed, "read_committed")
    last.read_to_the_end()
    return last.ends


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Run:
    path = tmp_path_factory.mktemp("histories")
    done = run(path / "data")
    write_history(done.everything, path / "everything.history")  # to be looked at, should it be wrong
    write_history(done.committed, path / "committed.history")
    return done


def test_no_history_of_a_killed_broker_has_an_anomaly(recorded):
    reports = {name: check(history) for name, history in recorded.histories().items()}
    if "OTTLA_CHAOS_ROUNDS" in os.environ:
        RESULTS.write_text(page(recorded, reports))
    assert all(report.is_valid for report in reports.values()), "\n".join(map(str, reports.values()))


def test_no_acknowledged_commit_of_a_group_is_forgotten(recorded):
    assert [group.forgotten for group in recorded.groups] == [[], []]
    assert recorded.counts["memberships"] > 4  # or nobody has asked


def test_everything_has_happened_that_was_to_be_judged(recorded):
    ended = Counter((each.action, each.outcome) for each in recorded.committed)
    assert (
        ended[Action.TXN, Outcome.OK] and ended[Action.TXN, Outcome.FAIL] and ended[Action.SEND, Outcome.OK]
    )
    assert any(isinstance(step, Poll) and step.records for each in recorded.committed for step in each.steps)
    assert recorded.counts["commits"]


def test_a_history_in_a_file_says_the_same(recorded, tmp_path):
    write_history(recorded.committed, tmp_path / "history")
    assert read_history(tmp_path / "history").operations == recorded.committed.operations


def change_reads(
    operations: list[Operation], change: Callable[[Key, list[tuple[int, Value]]], list[tuple[int, Value]]]
) -> list[Operation]:
    """The same, had its clients read something else."""

    def changed(step: Send | Poll) -> Send | Poll:
        if isinstance(step, Send):
            return step
        return Poll({key: change(key, list(records)) for key, records in step.records.items()})

    return [each._replace(steps=tuple(map(changed, each.steps))) for each in operations]


def without(operations: list[Operation], sends: Iterable[Send]) -> list[Operation]:
    """The same, had nobody read these."""
    gone = {(send.key, send.value) for send in sends}
    return change_reads(operations, lambda key, records: [r for r in records if (key, r[1]) not in gone])


def ended(operations: list[Operation], action: Action, outcome: Outcome) -> list[tuple[Send, ...]]:
    """What was sent by operations that ended like this, all of it with offsets."""
    found = [sends_of(each) for each in operations if (each.action, each.outcome) == (action, outcome)]
    return [sends for sends in found if all(send.offset is not None for send in sends)]


def lose_a_send(operations: list[Operation]) -> list[Operation]:
    sends = ended(operations, Action.SEND, Outcome.OK)
    return without(operations, sends[len(sends) // 2][:1])


def lose_the_last_send(operations: list[Operation]) -> list[Operation]:
    sends = [send for each in ended(operations, Action.SEND, Outcome.OK) for send in each]
    return without(operations, [max((send for send in sends if send.key == KEYS[0]), key=_offset_of)])


def tear_a_transaction(operations: list[Operation]) -> list[Operation]:
    sends = next(
        sends for sends in ended(operations, Action.TXN, Outcome.OK) if len({send.key for send in sends}) > 1
    )
    return without(operations, [send for send in sends if send.key == sends[0].key])


def show_an_aborted_value(operations: list[Operation]) -> list[Operation]:
    aborted = ended(operations, Action.TXN, Outcome.FAIL)[0][0]

    def show(key: Key, records: list[tuple[int, Value]]) -> list[tuple[int, Value]]:
        assert aborted.offset is not None
        if key == aborted.key and records and records[0][0] < aborted.offset < records[-1][0]:
            return sorted([*records, (aborted.offset, aborted.value)])
        return records

    return change_reads(operations, show)


def forget_a_commit(operations: list[Operation]) -> list[Operation]:
    """A transaction that was aborted, but acknowledged as committed."""
    number = next(
        each.number for each in operations if each.action is Action.TXN and each.outcome is Outcome.FAIL
    )
    return [each._replace(outcome=Outcome.OK) if each.number == number else each for each in operations]


def write_twice(operations: list[Operation]) -> list[Operation]:
    send = ended(operations, Action.SEND, Outcome.OK)[0][0]
    return change_reads(
        operations,
        lambda key, records: (
            [*records, (records[-1][0] + 1, send.value)] if key == send.key and records else records
        ),
    )


def turn_round(operations: list[Operation]) -> list[Operation]:
    return change_reads(operations, lambda _, records: records[::-1])


def _offset_of(send: Send) -> int:
    assert send.offset is not None
    return send.offset


@pytest.mark.parametrize(
    ("damage", "whose", "kinds"),
    [
        (lose_a_send, "a group, classic", {"lost-write", "unseen"}),
        (lose_the_last_send, "a group, consumer", {"unseen"}),
        (tear_a_transaction, "read_committed", {"torn-transaction", "unseen"}),
        (show_an_aborted_value, "read_committed", {"aborted-read"}),
        (forget_a_commit, "read_committed", {"unseen"}),
        (write_twice, "read_committed", {"duplicate"}),
        (turn_round, "read_committed", {"internal-nonmonotonic-poll"}),
    ],
)
def test_a_broker_that_did_wrong_would_be_found_out(recorded, damage, whose, kinds):
    assert kinds <= set(check(damage(recorded.histories()[whose])).broken)


def test_an_aborted_record_that_is_not_in_the_log_would_be_missed(recorded):
    aborted = ended(list(recorded.committed), Action.TXN, Outcome.FAIL)[0][0]
    assert "unseen" in check(without(list(recorded.everything), [aborted])).broken


def page(run: Run, reports: dict[str, Report]) -> str:
    kinds = sorted(kind for kind in run.counts if kind.startswith("transactions: "))
    anomalies = sum(sum(r.counts[kind] for kind in r.broken) for r in reports.values())
    operations = sum(1 for history in (run.everything, run.committed) for _ in history)
    return "\n".join(
        [
            "# Histories of a broker that was killed",
            "",
            "Written by `make chaos`. Clients (librdkafka) write down what they do and see while the broker is killed",
            "at random moments and started again on the same data: idempotent and transactional producers, readers",
            "with `assign`, groups of both protocols. `ottla.testing.checker` judges what they wrote down.",
            "",
            f"**{len(run.rounds)} kills, {operations:,} operations, {anomalies} anomalies; "
            f"{sum(len(group.forgotten) for group in run.groups)} commits of groups forgotten.**",
            "",
            "| judged | operations | wrong | allowed |",
            "|---|---:|---|---|",
            *(
                f"| {name} | {report.operations:,} | {_list(report, report.broken)} | "
                f"{_list(report, sorted(set(report.counts) - set(report.broken)))} |"
                for name, report in reports.items()
            ),
            "",
            "| transactions that ended like this | |",
            "|---|---:|",
            *(f"| {kind.removeprefix('transactions: ')} | {run.counts[kind]:,} |" for kind in kinds),
            "",
            "| round | values sent without transactions | transactions | offsets committed by groups |",
            "|---:|---:|---:|---:|",
            *(
                f"| {number} | {each['sends']:,} | {each['transactions']} | {each['commits']} |"
                for number, each in enumerate(run.rounds, 1)
            ),
            "",
        ]
    )


def _list(report: Report, kinds: list[str]) -> str:
    return ", ".join(f"{kind} {report.counts[kind]:,}" for kind in kinds) or "nothing"
