"""Profiles: named sets of client settings, each a .properties file, and the name of the one in use.

    ~/.config/ottla/client.properties         for everybody, below every profile
    ~/.config/ottla/profiles/NAME.properties  what -X would say, once and for all
    ~/.config/ottla/profile                   the name of the profile in use

OTTLA_CONFIG_DIR puts the directory elsewhere, XDG_CONFIG_HOME its parent. The files may hold passwords: nobody else
can read what is written here.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ottla.core.errors import ConfigError, OttlaError
from ottla.core.properties import format_properties, parse_properties

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ENDING = ".properties"


class NoSuchProfile(OttlaError):
    """There is no profile of that name."""


def config_dir() -> Path:
    if own := os.environ.get("OTTLA_CONFIG_DIR"):
        return Path(own)
    above = os.environ.get("XDG_CONFIG_HOME")
    return (Path(above) if above else home() / ".config") / "ottla"


def home() -> Path:
    """Of the one who runs this. Where nobody knows it, a directory that does not exist: nothing is found there."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")  # as Debian calls the home of those who have none


def check_name(name: str) -> str:
    """Raises ConfigError for what cannot be the name of a file."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of a profile: letters, digits, dots and dashes can")
    return name


def names() -> list[str]:
    try:
        files = sorted((config_dir() / "profiles").iterdir())
    except OSError:
        return []
    return [each.name.removesuffix(_ENDING) for each in files if each.name.endswith(_ENDING)]


def path_of(name: str) -> Path:
    return config_dir() / "profiles" / f"{check_name(name)}{_ENDING}"


def read(name: str) -> dict[str, str]:
    """What a profile says. Raises NoSuchProfile if there is none of that name."""
    path = path_of(name)
    if not path.is_file():
        there = ", ".join(names())
        known = f"there are: {there}" if there else f"`ottla profile add {name} -b HOST:PORT` makes it"
        raise NoSuchProfile(f"there is no profile {name!r}; {known}")
    return read_file(path)


def read_file(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8") from None


def common() -> dict[str, str]:
    """client.properties, if it is there."""
    path = config_dir() / "client.properties"
    return read_file(path) if path.is_file() else {}


def current() -> str | None:
    """The name of the profile in use."""
    try:
        return (config_dir() / "profile").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def save(name: str, settings: Mapping[str, str]) -> Path:
    path = path_of(name)
    _write(path, format_properties(settings))
    return path


def use(name: str | None) -> None:
    """From now on, or with None no longer any."""
    if name is None:
        (config_dir() / "profile").unlink(missing_ok=True)
    else:
        _write(config_dir() / "profile", f"{name}\n")


def remove(name: str) -> None:
    path_of(name).unlink()
    if current() == name:
        use(None)


def _write(path: Path, text: str) -> None:
    """All of it or nothing, and readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
