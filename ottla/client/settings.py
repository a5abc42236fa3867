"""From the parameters of a constructor to a table of settings: names in either spelling, old names with a warning."""

import difflib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from ottla.client.config import ClientConfig
from ottla.core.errors import ConfigError

C = TypeVar("C", bound=ClientConfig)


class Old(NamedTuple):
    """A setting of the 0.8 and 0.9 clients: what it means today."""

    modern: str
    """The key, or the words, for the warning."""
    read: Callable[[Any], Mapping[str, object]]
    """Its value as settings of today."""


def read_settings(cls: type[C], settings: Mapping[str, object], old: Mapping[str, Old] | None = None) -> C:
    """The settings as a checked table. Raises ConfigError in one sentence that names the key.

    A setting of today that is written beside an old one wins.
    """
    spellings = {each.replace(".", "_"): each for each in cls.keys}
    old_spellings = {each.replace(".", "_"): each for each in old or {}}
    values: dict[str, object] = {}
    written: dict[str, object] = {}
    for name, value in settings.items():
        underscored = name.replace(".", "_")
        if underscored in spellings:
            if spellings[underscored] in values:
                raise ConfigError(f"{name} is written twice, with dots and with underscores")
            values[spellings[underscored]] = value
        elif old and underscored in old_spellings:
            written[old_spellings[underscored]] = value
        else:
            raise ConfigError(_unknown(name, [*spellings, *old_spellings]))
    return cls({**_translated(written, old or {}), **values})


def _translated(written: Mapping[str, object], old: Mapping[str, Old]) -> dict[str, object]:
    """Old settings as today's. Of two that say something about the same key, the later one in the table wins."""
    found: dict[str, object] = {}
    for key, entry in old.items():
        if key in written:
            _warn(f"{key} is a setting of Kafka 0.8 and 0.9: use {entry.modern}")
            found |= entry.read(written[key])
    return found


def _warn(sentence: str) -> None:
    # The frames in between are ours: the readers, the client's own constructor.
    warnings.warn(sentence, DeprecationWarning, stacklevel=6)


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.replace(".", "_"), known, 1)
    hint = f"; perhaps {close[0]} is meant" if close else ""
    return f"there is no setting {name}{hint}"
