"""Rules that were once Kafka's, planted again: the transcripts then lose what they do not lose.

So it is shown twice that a rule matters: the transcript tells what happens with it, the test here what happens without.
"""

from pathlib import Path
from types import FunctionType

import pytest

from ottla.controller import alterations, elections
from ottla.replication.following import UNKNOWN, Following
from ottla.replication.partition import Partition
from tests.scenarios.datadriven import retold
from tests.scenarios.replication.stage import Stage

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not isinstance(vars(Partition)["append"], FunctionType), reason="compiled classes take no patches"
)


def play(name):
    """The stage after a transcript, and what is told of it."""
    stage = Stage()
    return stage, retold((HERE / f"{name}.txt").read_text(), stage.run, stage.table)


def values(stage, broker):
    return [value for _, value, _ in stage.brokers[broker].content()]


@pytest.fixture
def truncation_to_the_high_watermark(monkeypatch):
    """Kafka before 0.11, and the rule of many notes on it: who begins to follow cuts its log to its own high watermark,
    then fetches; nobody speaks of epochs."""

    def truncate(self):
        self._log.truncate_to(self._log.high_watermark)

    monkeypatch.setattr(Following, "_drop_empty_epoch", truncate)
    monkeypatch.setattr(Following, "last_epoch", lambda self: UNKNOWN)


@pytest.mark.parametrize("name", ["two_leaders_fail", "kip_101_loss"])
def test_truncating_to_the_high_watermark_loses_what_was_acknowledged(name, truncation_to_the_high_watermark):
    stage, told = play(name)
    assert stage.is_lossy
    assert "LOST" in told


def test_truncating_to_the_high_watermark_leaves_logs_that_differ(truncation_to_the_high_watermark):
    stage, _ = play("kip_101_divergence_unclean")
    assert (values(stage, 1), values(stage, 2)) == (["a", "b"], ["a", "x"])


def test_a_late_answer_that_is_heeded_cuts_the_log_of_a_replica_that_is_in_sync(monkeypatch):
    monkeypatch.setattr(Following, "fits", lambda self, question: True)
    stage, _ = play("late_answer")
    assert 1 in stage.controller.state.isr
    assert values(stage, 1) == ["a"]
    assert list(stage.acknowledged) == ["a", "c", "d"]


def test_without_lives_a_broker_that_lost_its_log_is_in_sync(monkeypatch):
    monkeypatch.setattr(alterations, "is_same_life", lambda context, life: True)
    _, told = play("kip_903")
    blank = next(block for block in told.split("\n\n") if block.startswith("# The proposal names"))
    assert "3  follower      0    0    0  -" in blank
    assert "ISR 1,2,3" in blank


def test_the_last_replica_standing_makes_everybody_forget_if_it_is_believed(monkeypatch):
    monkeypatch.setattr(elections, "lost_its_memory", lambda broker, last: False)
    stage, _ = play("kip_966")
    assert stage.is_lossy


def test_a_high_watermark_that_moves_with_too_few_in_sync_shows_consumers_what_goes_again(monkeypatch):
    monkeypatch.setattr(Partition, "may_be_outvoted", False)
    _, told = play("jepsen_2013")
    assert "the consumer reads a b d" in told
