"""The life of transactions as text: what was asked, and below the dashes all that came of it.

    init t [as 1000/0] [timeout=MS] [v=N]     InitProducerId; versions are the newest unless given
    add t 1000/0 a-0 a-1 [v=N]                AddPartitionsToTxn
    commit t 1000/0 [v=N], abort ...          EndTxn
    verify t 1000/0 a-0                       AddPartitionsToTxn, verify only
    mark a-0 / mark                           markers were written to these partitions, or to all
    wait MS                                   time passes
    restart                                   another broker loads the log
    expire, describe t, list                  what they are called
    set t epoch=N                             a record with another epoch appears: to get at the end of them quickly

`log` lines are records, `order` lines markers to be written, `->` the reply. If a change is meant, run this with
OTTLA_REWRITE=1 and look at the difference: commit it only if you know where each line of it comes from.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.core.errors import KafkaError
from ottla.replication.machine import Producer
from tests.unit.transactions.stage import ADD, END, INIT, Stage, partitions

DIRECTORY = Path(__file__).parent / "transcripts" / "transactions"
TRANSCRIPTS = sorted(DIRECTORY.glob("*.txt"))
DASHES = "----"


class Narrator:
    """Carries out lines of a transcript and says what came of them."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.marked: dict[tuple[str, Producer], set[str]] = {}

    def restart(self, *, is_compacted: bool) -> None:
        """Another broker loads the log, and at once writes the markers again that were written before."""
        self.stage.restart(compacted=is_compacted)
        for order in self.stage.orders:
            if names := self.marked.get((order.transactional_id, order.producer)):
                self.stage.mark(order, *names)

    def run(self, line: str) -> list[str]:
        """What was written, ordered and replied."""
        words = line.split()
        command, options = words[0], dict(word.split("=") for word in words if "=" in word)
        written = len(self.stage.log)
        ordered = [] if command == "restart" else list(self.stage.orders)
        try:
            reply = getattr(self, f"do_{command}")([word for word in words[1:] if "=" not in word], options)
        except KafkaError as error:
            reply = f"{error.code.name} ({int(error.code)})"
        lines = [f"log   {self._record(entry)}" for entry in self.stage.log[written:]]
        lines += [self._order(order) for order in self.stage.orders if order not in ordered]
        if reply is not None:
            lines += [f"-> {each}" for each in reply.splitlines()]
        return lines

    def do_init(self, words, options):
        expected = who(words[2]) if words[1:2] == ["as"] else (-1, -1)
        response = self.stage.init(
            words[0],
            expected,
            timeout_ms=int(options.get("timeout", 60_000)),
            version=int(options.get("v", INIT)),
        )
        if response.error_code:
            return f"{response.error_code.name} ({int(response.error_code)})"
        return f"{response.producer_id}/{response.producer_epoch}"

    def do_add(self, words, options):
        self.stage.add(words[0], who(words[1]), *words[2:], version=int(options.get("v", ADD)))
        return "ok"

    def do_commit(self, words, options, *, commit=True):
        after = self.stage.end(words[0], who(words[1]), commit=commit, version=int(options.get("v", END)))
        return f"{after.id}/{after.epoch}"

    def do_abort(self, words, options):
        return self.do_commit(words, options, commit=False)

    def do_verify(self, words, options):
        asked = partitions(*words[2:])
        codes = self.stage.shard.verify_partitions(words[0], who(words[1]), asked)
        return "\n".join(f"{partition} {codes[partition].name}" for partition in asked)

    def do_mark(self, words, options):
        orders = list(self.stage.orders)
        for order in orders:
            self.marked.setdefault((order.transactional_id, order.producer), set()).update(words)
            self.stage.mark(order, *words)
        done = [each for each in orders if not self.stage.of(each.transactional_id).state.is_prepared]
        self.stage.orders = [each for each in self.stage.orders if each not in done]

    def do_wait(self, words, options):
        self.stage.advance(int(words[0]))

    def do_restart(self, words, options):
        self.stage.restart()

    def do_expire(self, words, options):
        self.stage.carry_out(self.stage.shard.decide_expire(self.stage.now))

    def do_describe(self, words, options):
        answer = self.stage.shard.describe(words[0])
        if answer.error_code:
            return f"{answer.error_code.name} ({int(answer.error_code)})"
        topics = " ".join(f"{topic.topic}{topic.partitions}" for topic in answer.topics)
        return f"{answer.transaction_state} {answer.producer_id}/{answer.producer_epoch} {topics}".rstrip()

    def do_list(self, words, options):
        lines = self.stage.shard.list(words, (), -1, None, self.stage.now)
        return "\n".join(f"{each.transactional_id} {each.transaction_state}" for each in lines) or "none"

    def do_set(self, words, options):
        changed = self.stage.of(words[0])._replace(producer_epoch=int(options["epoch"]))
        self.stage.log.append(changed.to_entry())
        self.stage.shard.apply(self.stage.log[-1], None)

    def _record(self, entry):
        name, value = entry.key.transactional_id, entry.value
        if value is None:
            return f"{name} tombstone"
        step = next(step for step in reversed(self.stage.written()) if step.to_entry() == entry)
        parts = [name, step.state.label, f"{step.producer_id}/{step.producer_epoch}"]
        parts += sorted(map(str, step.partitions))
        if step.next_producer_id != -1:
            parts.append(f"next={step.next_producer_id}")
        if step.previous_producer_id != step.producer_id:
            parts.append(f"previous={step.previous_producer_id}")
        return " ".join([*parts, f"tv{step.client_version}"])

    def _order(self, order):
        outcome = "commit" if order.is_commit else "abort"
        where = " ".join(map(str, order.partitions))
        tail = f"coordinator={order.coordinator_epoch} tv{order.transaction_version}"
        return f"order {order.transactional_id} {outcome} {order.producer.id}/{order.producer.epoch} {where} {tail}"


def who(word: str) -> Producer:
    producer_id, epoch = word.split("/")
    return Producer(int(producer_id), int(epoch))


def told(text: str, run: Callable[[str], list[str]]) -> str:
    """The transcript with what comes of its commands now."""
    out, is_result = [], False
    for line in text.splitlines():
        if line == DASHES:
            is_result = True
        elif not line.strip() or line.startswith("#"):
            is_result = False
            out.append(line)
        elif not is_result:
            out += [line, DASHES, *run(line)]
    return "\n".join(out) + "\n"


def commands(path: Path) -> list[str]:
    lines, is_result = [], False
    for line in path.read_text().splitlines():
        is_result = line == DASHES or (is_result and bool(line.strip()))
        if line.strip() and not is_result and not line.startswith("#"):
            lines.append(line)
    return lines


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path):
    text = path.read_text()
    now = told(text, Narrator().run)
    if os.environ.get("OTTLA_REWRITE"):
        path.write_text(now)
    assert now == text


def essence(lines: list[str]) -> list[str]:
    """Without the orders: a coordinator that takes over gives them again, in its own name."""
    return [line for line in lines if not line.startswith("order")]


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("name", ["commit", "abort", "commit_tv1", "abort_tv1", "epochs_run_out"])
def test_a_restart_between_any_two_steps_changes_no_reply_and_no_record(name, is_compacted):
    steps = commands(DIRECTORY / f"{name}.txt")
    plain = Narrator()
    expected = [essence(plain.run(step)) for step in steps]
    for position in range(len(steps) + 1):
        narrator = Narrator()
        seen = [essence(narrator.run(step)) for step in steps[:position]]
        narrator.restart(is_compacted=is_compacted)
        seen += [essence(narrator.run(step)) for step in steps[position:]]
        assert seen == expected, f"restarted before step {position + 1}"
        assert narrator.stage.shard.transactions == plain.stage.shard.transactions


def test_transcripts_are_there():
    assert len(TRANSCRIPTS) >= 10
