"""The levels of this process' loggers in Kafka's words: what DescribeConfigs calls a broker logger.

They are not stored: a restart brings back what the broker was started with.
"""

import logging

from ottla.core.errors import ErrorCode, KafkaError

ROOT = "root"
_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """Every logger with the level that holds for it."""
    named = {name: each for name, each in _loggers().items() if isinstance(each, logging.Logger)}
    found = {name: _name_of(each.getEffectiveLevel()) for name, each in sorted(named.items())}
    return {ROOT: _name_of(logging.getLogger().getEffectiveLevel()), **found}


def check_level(name: str, level: str | None) -> None:
    """Can this logger have this level? None means that of its parent."""
    if name != ROOT and name not in _loggers():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name!r}")
    if level is None and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{ROOT} has no parent whose level it could take")
    if level is not None and level not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} is {level!r}, but must be one of {', '.join(_LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Change a level that was checked."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _name_of(level: int) -> str:
    """The word for a level, or for the one below, as Python allows any number."""
    return next((word for word, number in reversed(_LEVELS.items()) if number <= level), "TRACE")


def _loggers() -> dict[str, logging.Logger | logging.PlaceHolder]:
    return logging.Logger.manager.loggerDict
