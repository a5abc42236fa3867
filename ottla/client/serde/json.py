"""JSON without a schema: compact, UTF-8, and strict (no NaN), unless the options say otherwise."""

import json
from collections.abc import Callable
from typing import Any

from ottla.records.record import Header


class JsonSerializer:
    """Values as JSON. The options are those of `json.JSONEncoder`: `default=`, `sort_keys=`...; `cls=` for an encoder.

    JsonSerializer(default=str)            # dates and UUIDs as text
    """

    def __init__(self, *, cls: type[json.JSONEncoder] = json.JSONEncoder, **options: Any) -> None:
        chosen = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":"), **options}
        self._encode = cls(**chosen).encode

    def serialize(self, topic: str, headers: tuple[Header, ...], value: Any) -> bytes | None:
        return None if value is None else self._encode(value).encode("utf-8")


class JsonDeserializer:
    """JSON as values. The options are those of `json.JSONDecoder`: `parse_float=Decimal`, `object_hook=`...

    Raises ValueError for bytes that are no JSON, and for JSON that is nested too deeply.
    """

    def __init__(self, *, cls: type[json.JSONDecoder] = json.JSONDecoder, **options: Any) -> None:
        self._decode: Callable[[str], Any] = cls(**{"parse_constant": refuse_constant, **options}).decode

    def deserialize(self, topic: str, headers: tuple[Header, ...], data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return self._decode(str(data, "utf-8"))
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None


def refuse_constant(name: str) -> Any:
    """Python's reader takes NaN and Infinity, which are no JSON."""
    raise ValueError(f"{name} is no JSON")
