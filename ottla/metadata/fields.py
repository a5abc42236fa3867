"""JSON as it is read from the metadata store: fields are asked for by name and type, and everything else is refused.

Every refusal is a ProtocolError that names the path of the node.
"""

import json
import re
from typing import Any

from ottla.core.errors import ProtocolError

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class Fields:
    """A JSON object that is asked for fields of a certain type."""

    def __init__(self, path: str, fields: dict[str, Any]) -> None:
        self.path = path
        self.fields = fields

    @classmethod
    def parse(cls, path: str, data: bytes) -> "Fields":
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:  # of JSON and of UTF-8
            raise ProtocolError(f"{path} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ProtocolError(f"{path} is JSON, but not an object")
        return cls(path, fields)

    def object(self, name: str) -> "Fields":
        return Fields(self.path, self._get(name, dict))

    def text(self, name: str) -> str:
        value: str = self._get(name, str)
        return value

    def number(self, name: str, low: int = 0) -> int:
        value: int = self._get(name, int)
        if not low <= value <= INT32_MAX:
            raise ProtocolError(f"{self.path}: {name} is {value}, which cannot be")
        return value

    def ids(self, name: str) -> tuple[int, ...]:
        """Ids of brokers, none of them twice."""
        values: list[int] = self._list(name, int)
        if not all(0 <= value <= INT32_MAX for value in values) or len(set(values)) != len(values):
            raise ProtocolError(f"{self.path}: {name} is not a list of different brokers")
        return tuple(values)

    def texts(self, name: str) -> list[str]:
        return self._list(name, str)

    def _list(self, name: str, kind: type) -> list[Any]:
        values: list[Any] = self._get(name, list)
        if not all(type(value) is kind for value in values):
            raise ProtocolError(f"{self.path}: {name} is not a list of {kind.__name__}")
        return values

    def _get(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if type(value) is not kind:  # not isinstance: true is no number
            raise ProtocolError(f"{self.path}: {name} is missing, or not of type {kind.__name__}")
        return value


def parse_number(path: str, text: str, high: int) -> int:
    """A decimal number from 0 to `high`, spelled as we would spell it."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,18}", text) or int(text) > high:
        raise ProtocolError(f"{path}: {text!r} is not a number from 0 to {high}")
    return int(text)
