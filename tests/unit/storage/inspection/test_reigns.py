"""Who led when: the batches and the checkpoint, and who is believed where they differ."""

import pytest

from ottla.storage.epochs import EpochStart
from ottla.storage.inspection.reigns import Reign, believe, contradicting, rebuilt


def runs(*epochs: int) -> list[Reign]:
    """Batches of one offset each, with these epochs."""
    found: list[Reign] = []
    for offset, epoch in enumerate(epochs):
        if found and found[-1].epoch == epoch:
            found[-1] = found[-1]._replace(last_offset=offset, batches=found[-1].batches + 1)
        else:
            found.append(Reign(epoch, offset, offset, 1, "x.log", offset))
    return found


def starts(*pairs: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*pair) for pair in pairs]


RIGHT = starts((0, 0), (2, 3))


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ((0, 0, 0, 2, 2, 2), RIGHT),
        ((0, 9, 0, 2, 2, 2), RIGHT),
        ((0, 0, 0, 2, 1, 2, 2), RIGHT),
        ((0, 0, 0, 2, 99, 2, 2), RIGHT),
        ((), []),
    ],
)
def test_the_batches_alone_tell_who_led_and_one_that_lies_is_outvoted(epochs, expected):
    assert rebuilt(runs(*epochs)) == expected


def test_a_checkpoint_that_agrees_is_believed_with_epochs_that_wrote_nothing():
    checkpoint = starts((0, 0), (1, 3), (2, 3), (7, 6))
    assert believe(runs(0, 0, 0, 2, 2, 2), checkpoint) == checkpoint


def test_one_batch_against_the_checkpoint_and_its_neighbours_lies():
    for lie in ((0, 5, 0, 2, 2, 2), (0, 0, 0, 2, 1, 2), (0, 0, 0, 2, 2, 77)):
        assert believe(runs(*lie), RIGHT) == RIGHT
        assert [run.batches for run in contradicting(runs(*lie), RIGHT)] == [1]


def test_a_checkpoint_against_a_whole_reign_lies():
    for wrong in (starts((0, 0), (2, 5)), starts((0, 0), (9, 3)), starts((0, 0))):
        assert believe(runs(0, 0, 0, 2, 2, 2), wrong) == RIGHT


def test_of_one_batch_and_one_entry_the_smaller_epoch_is_believed():
    assert believe(runs(0, 0, 2), starts((0, 0), (9, 2))) == starts((0, 0), (2, 2))
    assert believe(runs(0, 0, 9), starts((0, 0), (2, 2))) == starts((0, 0), (2, 2))


def test_batches_before_the_first_entry_are_not_judged():
    assert contradicting(runs(0, 0, 0, 2, 2), starts((2, 3))) == []
