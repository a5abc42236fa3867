import logging

import pytest

from ottla.broker import loggers
from ottla.core.errors import KafkaError


@pytest.fixture
def logger():
    logger = logging.getLogger("ottla.testing.some_logger")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_levels_are_told_in_kafkas_words(logger):
    logger.setLevel(logging.WARNING)
    assert loggers.levels()[logger.name] == "WARN"
    logger.setLevel(logging.CRITICAL)
    assert loggers.levels()[logger.name] == "FATAL"
    logger.setLevel(25)
    assert loggers.levels()[logger.name] == "INFO"
    logger.setLevel(1)
    assert loggers.levels()[logger.name] == "TRACE"
    assert "root" in loggers.levels()


@pytest.mark.parametrize(("word", "number"), [("TRACE", 5), ("DEBUG", 10), ("WARN", 30), ("FATAL", 50)])
def test_a_level_can_be_set_and_taken_back(logger, word, number):
    loggers.check_level(logger.name, word)
    loggers.set_level(logger.name, word)
    assert logger.level == number
    loggers.check_level(logger.name, None)
    loggers.set_level(logger.name, None)
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(("name", "level"), [("no.such.logger", "INFO"), ("root", "LOUD")])
def test_what_cannot_be_is_refused(name, level):
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        loggers.check_level(name, level)


def test_the_root_has_no_parent_to_take_a_level_from():
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        loggers.check_level("root", None)
