"""The client's warnings: the first one, until something has succeeded again."""

import logging

from ottla.cli.reading.remarks import remarks

LOGGER = logging.getLogger("ottla.client.consumer.fetcher")


def test_the_first_warning_is_said_and_the_next_after_success(capsys):
    with remarks("consume", is_quiet=False) as said:
        LOGGER.warning("broker %d is gone", 1)
        LOGGER.warning("broker 2 is gone")
        LOGGER.info("nothing")
        said.relieve()
        LOGGER.warning("broker 3 is gone\x1b[2J")
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "ottla: consume: broker 1 is gone; it goes on as soon as that is over",
        r"ottla: consume: broker 3 is gone\x1b[2J; it goes on as soon as that is over",
    ]


def test_quiet_is_quiet_and_everything_is_as_before(capsys):
    client = logging.getLogger("ottla.client")
    before = client.level, client.propagate, list(client.handlers)
    with remarks("consume", is_quiet=True):
        LOGGER.warning("broker 1 is gone")
    assert capsys.readouterr().err == ""
    assert (client.level, client.propagate, list(client.handlers)) == before
