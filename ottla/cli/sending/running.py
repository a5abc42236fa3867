"""One `ottla produce` from its first record to its last word.

Ctrl-C and SIGTERM stop the reading; what is under way gets a few seconds, and then it is said what was acknowledged. A
second one ends it at once. In a transaction, whatever goes wrong aborts it, and that nothing was written is only said
if the broker has said so.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

from ottla.cli.outcomes import counted
from ottla.cli.remote import PARTLY, UNREACHABLE, Failed, failed, run
from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import Parser
from ottla.cli.sending.progress import SendingProgress
from ottla.cli.sending.pump import GRACE_MS, Pump, Target
from ottla.cli.sending.tally import Tally
from ottla.cli.sending.topics import Topics
from ottla.cli.session import session
from ottla.cli.tables import document, say
from ottla.client.errors import KafkaTimeoutError, TransactionAbortableError
from ottla.client.producer.config import ProducerConfig, producer_config
from ottla.client.producer.producer import AsyncProducer
from ottla.core.errors import KafkaError

INTERRUPTED = 130
_ENOUGH = 2
"""So many signals end it at once."""
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class Plan(NamedTuple):
    """What a command line means."""

    inputs: list[Callable[[], AsyncIterator[Block]]]
    parser: Parser
    target: Target
    settings: dict[str, Any]
    creates: bool
    is_json: bool
    bar: SendingProgress


def carry_out(plan: Plan) -> int:
    """Returns the exit code. Raises `Failed`."""
    config = producer_config(plan.settings)
    tally, is_interrupted = run(_send(plan, config))
    tally.end()
    return _conclude(plan, config, tally, is_interrupted)


async def _send(plan: Plan, config: ProducerConfig) -> tuple[Tally, bool]:
    stop = asyncio.Event()
    tally = Tally(stop.set, plan.parser.noun)
    topics = Topics(plan.creates)
    if plan.target.topic is not None:
        await topics.partition_count(plan.target.topic)
        _tell_created(topics)
    signals: list[int] = []
    producer = AsyncProducer(**plan.settings)
    size_max = min(config.max_request_size, config.buffer_memory)
    pump = Pump(producer, plan.parser, plan.target, topics, tally, plan.bar, size_max)
    is_transactional = config.transactional_id is not None
    with _listening(stop, signals):
        try:
            if is_transactional:
                await producer.init_transactions()
                await producer.begin_transaction()
            await pump.run(plan.inputs, stop)
            if is_transactional:
                tally.transaction = await _ended(producer, tally, is_interrupted=bool(signals))
        finally:
            plan.bar.close()
            await producer.close(timeout_ms=0 if stop.is_set() else GRACE_MS)
    return tally, bool(signals)


def _tell_created(topics: Topics) -> None:
    for name in topics.created:
        if not session().is_quiet:
            say(f"topic {name} was created")


@contextmanager
def _listening(stop: asyncio.Event, signals: list[int]) -> Any:
    """The first signal stops the reading, the second one everything."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "only within a task"

    def heard(number: int) -> None:
        signals.append(number)
        stop.set()
        if len(signals) == _ENOUGH:  # more of them would only interrupt the end itself
            task.cancel()

    kinds = (signal.SIGINT, signal.SIGTERM)
    try:
        for kind in kinds:
            loop.add_signal_handler(kind, heard, kind)
    except (RuntimeError, ValueError):
        pass  # not in the main thread, or on a system without them: then they end the process
    try:
        yield
    except asyncio.CancelledError:
        if len(signals) > 1:
            raise KeyboardInterrupt from None
        raise
    finally:
        for kind in kinds:
            loop.remove_signal_handler(kind)


async def _ended(producer: AsyncProducer, tally: Tally, *, is_interrupted: bool) -> str:
    """Commit if all went well, else abort; what is known of the end."""
    if tally.trouble is None and not is_interrupted:
        try:
            await producer.commit_transaction()
            return COMMITTED
        except TransactionAbortableError as error:
            tally.went_wrong(error)
        except KafkaError as error:
            tally.went_wrong(error)
            return UNKNOWN
    try:
        await producer.abort_transaction()
    except KafkaError:
        return UNKNOWN
    return ABORTED


# --- the last word ----------------------------------------------------------------------------------------------------


def _conclude(plan: Plan, config: ProducerConfig, tally: Tally, is_interrupted: bool) -> int:
    trouble = tally.trouble
    sentence = None
    if trouble is not None:
        reason = failed(trouble.error).message
        sentence = f"{trouble.where}: {reason}" if trouble.where else reason
        sentence = f"{sentence}; {_written(tally, config)}"
    elif is_interrupted:
        sentence = f"interrupted: {_written(tally, config)}"
    if plan.is_json:
        document(tally.document() | {"error": sentence})
    if trouble is not None:
        assert sentence is not None, "there is one for every trouble"
        raise Failed(sentence, INTERRUPTED if is_interrupted else _code(tally, trouble.error))
    if sentence is not None:
        say(sentence)
        return INTERRUPTED
    if not session().is_quiet and not plan.is_json:
        say(tally.summary(is_answered=config.acks != 0))
    return 0


def _code(tally: Tally, error: Exception) -> int:
    code = failed(error).exit_code
    is_some_there = tally.acknowledged and tally.transaction != ABORTED
    return PARTLY if is_some_there and code != UNREACHABLE else code


def _written(tally: Tally, config: ProducerConfig) -> str:
    """What is known of the records that were read."""
    if tally.transaction == ABORTED:
        return "the transaction was aborted, and nothing was written"
    if tally.transaction == UNKNOWN:
        limit = config.transaction_timeout_ms / 1000
        return (
            "what became of the transaction is not known: unless it was committed, the broker aborts it "
            f"within {limit:g} s"
        )
    if not tally.acknowledged and not tally.missing:
        return "nothing was written"
    text = f"acknowledged: {tally.acknowledged} of {counted(tally.read, 'record')}"
    if not tally.missing:
        return text
    error = None if tally.trouble is None else tally.trouble.error
    if error is None or isinstance(error, KafkaTimeoutError) or failed(error).exit_code == UNREACHABLE:
        return f"{text}; of the other {tally.missing} some may be written all the same"
    return text
