"""Records in JSON, one in each line, as `ottla consume --json` prints them.

    {"topic": "orders", "partition": 0, "timestamp": 1700000000000, "key": "anna", "value": "tea",
     "headers": [["trace", "1"], ["raw", {"base64": "/w=="}]]}

A key, a value and the content of a header is a text, written in UTF-8; bytes that are no text are {"base64": "..."};
null is null, so that a value of null is a tombstone. What is left out is null, or chosen as for any other record. Where
a record was read from (`offset` and the like) is no part of it, and is left unread.
"""

import base64
import binascii
import json
from typing import Any

from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import Fault, Headers, Parcel, Record, Value, parcels_of

FIELDS = {"topic", "partition", "timestamp", "key", "value", "headers"}
UNREAD = {"offset", "timestamp_type", "leader_epoch"}
_TIMESTAMP_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_SHOWN_MAX = 40


class _Wrong(ValueError):
    """What is wrong with a record, in a sentence."""


class JsonRecords:
    """Each piece is a record in JSON. Empty lines are none."""

    noun = "line"

    def __call__(self, block: Block) -> tuple[list[Parcel], Fault | None]:
        records: list[Record] = []
        places: list[int] = []
        fault = None
        for index, piece in enumerate(block.pieces):
            if not piece or piece.isspace():
                continue
            try:
                records.append(record_of(piece))
            except _Wrong as wrong:
                fault = Fault(index, str(wrong))
                break
            places.append(index)
        return parcels_of(records, places), fault


def record_of(piece: bytes) -> Record:
    try:
        found = json.loads(piece)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"it is no JSON ({_reason(error)}); --lines takes lines as they are") from None
    if not isinstance(found, dict):
        raise _Wrong(
            f"it is {_kind(found)}, and no object with key and value; --lines takes lines as they are"
        )
    if strange := [name for name in found if name not in FIELDS and name not in UNREAD]:
        known = ", ".join(sorted(FIELDS))
        raise _Wrong(
            f"{strange[0][:_SHOWN_MAX]!r} is no part of a record, which has {known}; --lines takes lines as they are"
        )
    return Record(
        _bytes(found.get("key"), "key"),
        _bytes(found.get("value"), "value"),
        _headers(found.get("headers")),
        _topic(found.get("topic")),
        _number(found.get("partition"), "partition", _PARTITION_MAX),
        _number(found.get("timestamp"), "timestamp", _TIMESTAMP_MAX),
    )


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


def _kind(found: Any) -> str:
    kinds = {str: "a text", list: "a list", bool: "true or false", type(None): "null"}
    return kinds.get(type(found), "a number")


def _bytes(found: Any, what: str) -> Value:
    if found is None:
        return None
    if isinstance(found, str):
        try:
            return found.encode()
        except UnicodeEncodeError:
            raise _Wrong(f"the {what} has half of a surrogate pair in it, which is no text") from None
    if isinstance(found, dict) and list(found) == ["base64"] and isinstance(found["base64"], str):
        try:
            return base64.b64decode(found["base64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise _Wrong(f"the {what} is no base64: {error}") from None
    is_object = isinstance(found, dict)
    kind = "an object" if is_object else _kind(found)
    raise _Wrong(
        f'the {what} is {kind}, and must be a text, null or {{"base64": "..."}}: '
        "a document in JSON is written as a text"
    )


def _headers(found: Any) -> Headers:
    """Pairs, or an object."""
    if found is None:
        return ()
    rows = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise _Wrong(f"the headers are {_kind(found)}, and must be pairs of a name and a text")
    headers = []
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2 or not isinstance(row[0], str):
            raise _Wrong('a header is a pair such as ["name", "content"]')
        _bytes(row[0], "name of a header")
        headers.append((row[0], _bytes(row[1], f"header {row[0]}")))
    return tuple(headers)


def _topic(found: Any) -> str | None:
    if found is None or isinstance(found, str):
        return found
    raise _Wrong(f"the topic is {_kind(found)}, and must be a text")


def _number(found: Any, what: str, largest: int) -> int | None:
    if found is None or (type(found) is int and 0 <= found <= largest):
        return found
    raise _Wrong(f"the {what} is {json.dumps(found)[:_SHOWN_MAX]}, and must be a whole number from 0 on")
