"""Histories in files: one JSON array per line, so that a run that was killed leaves what it had seen.

A file comes from anywhere, and is believed nothing: sizes, types and ranges are checked line by line.
"""

import itertools
import json
from pathlib import Path
from typing import Any

from ottla.testing.history import Action, History, HistoryError, Operation, Outcome, Poll, Send, Step, Value

LINE_BYTES_MAX = 16 << 20  # one operation; a poll of a hundred thousand values takes two megabytes
OPERATIONS_MAX = 10_000_000  # in one file: more than a day of a busy test
_OFFSET_MAX = (1 << 63) - 1


def write_history(history: History, path: str | Path) -> None:
    """One operation per line."""
    with Path(path).open("w", encoding="utf-8") as file:
        for operation in history:
            file.write(json.dumps(_to_json(operation), separators=(",", ":")) + "\n")


def read_history(path: str | Path) -> History:
    """The history in a file. Raises HistoryError, which names the line, for anything else."""
    history = History()
    with Path(path).open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(LINE_BYTES_MAX + 1)
            if not line:
                break
            try:
                if len(line) > LINE_BYTES_MAX or number > OPERATIONS_MAX:
                    raise ValueError("too much for a history")
                history.operations.append(_from_json(json.loads(line), number - 1))
            except (ValueError, TypeError, RecursionError) as error:
                raise HistoryError(f"{path}, line {number}: {error}") from None
    return history


def _to_json(operation: Operation) -> list[Any]:
    steps = [
        ["send", step.key, step.value, step.offset]
        if isinstance(step, Send)
        else ["poll", dict(step.records)]
        for step in operation.steps
    ]
    _, outcome, action, process, time_ns, _, keys, rebalanced, error = operation
    return [outcome, action, process, time_ns, steps, keys, sorted(rebalanced), error]


def _from_json(line: Any, number: int) -> Operation:
    if type(line) is not list or len(line) != 8:
        raise ValueError("an operation is an array of eight")
    outcome, action, process, time_ns, steps, keys, rebalanced, error = line
    return Operation(
        number,
        Outcome(outcome),
        Action(action),
        _whole(process, "a process"),
        _whole(time_ns, "a time"),
        tuple(map(_step, _array(steps, "steps"))),
        tuple(_text(key, "a key") for key in _array(keys, "keys")),
        frozenset(_text(key, "a key") for key in _array(rebalanced, "rebalanced keys")),
        _text(error, "an error"),
    )


def _step(step: Any) -> Step:
    match step:
        case ["send", key, value, offset]:
            return Send(
                _text(key, "a key"), _value(value), None if offset is None else _whole(offset, "an offset")
            )
        case ["poll", dict(records)]:
            return Poll(
                {key: [_read(record) for record in _array(got, "records")] for key, got in records.items()}
            )
    raise ValueError("a step is a send or a poll")


def _read(record: Any) -> tuple[int, Value]:
    if type(record) is not list or len(record) != 2:
        raise ValueError("a record that was read is an offset and a value")
    return _whole(record[0], "an offset"), _value(record[1])


def _value(value: Any) -> Value:
    if type(value) is not int and type(value) is not str:
        raise ValueError("a value is a number or a text")
    return value


def _whole(number: Any, what: str) -> int:
    if type(number) is not int or not 0 <= number <= _OFFSET_MAX:
        raise ValueError(f"{what} is a whole number")
    return number


def _text(text: Any, what: str) -> str:
    if type(text) is not str:
        raise ValueError(f"{what} is a text")
    return text


def _array(array: Any, what: str) -> list[Any]:
    if type(array) is not list:
        raise ValueError(f"{what} are an array")
    return array
