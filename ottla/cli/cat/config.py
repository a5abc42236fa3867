"""Settings that kcat's users have in files, and those that -X names.

A file is read if -F names it, else if KCAT_CONFIG does, else ~/.config/kcat.conf if it is there and no --profile was
given. What -X says goes before the file, and the file before the profile. `topic.` before a name means nothing here:
there is one kind of settings. What librdkafka has and we have not is an error behind -X; in a file it is left out.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.session import Session

if TYPE_CHECKING:
    from ottla.client.config import ClientConfig

NO_FILE = ("-", "none")
VARIABLES = ("KCAT_CONFIG", "KAFKACAT_CONFIG")
NAMES = ("kcat.conf", "kafkacat.conf")
LIST, DUMP = ("list", "help"), ("dump",)
REGISTRY = "schema.registry.url"
PARTITIONER = "partitioner"
_HIDDEN = "[hidden]"


class File(NamedTuple):
    """The settings of a file, and what of it means nothing here."""

    path: str
    settings: dict[str, str]
    unknown: list[str]


def is_asked(assignments: Iterable[str], words: tuple[str, ...]) -> bool:
    return any(each in words for each in assignments)


def path_of(named: tuple[str, ...], has_profile: bool) -> str | None:
    """Which file to read, if any."""
    if named:
        return None if named[-1] in NO_FILE else named[-1]
    for variable in VARIABLES:
        if os.environ.get(variable):
            return os.environ[variable]
    if has_profile:
        return None
    home = Path(os.environ.get("HOME") or "~").expanduser() / ".config"
    return next((str(home / name) for name in NAMES if (home / name).is_file()), None)


def read(path: str) -> File:
    """Raises OSError, and click.UsageError for a line that is no setting."""
    from ottla.cli.synonyms import MEANINGLESS, translated
    from ottla.core.errors import ConfigError

    settings: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text("utf-8", "surrogateescape").splitlines(), 1):
        line = line.strip().replace("\\:", ":").replace("\\=", "=")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{path}:{number}: expected property=value")
        settings[plain(name.strip())] = value.strip()
    known = {*_known(), REGISTRY}
    try:
        unknown = [
            name
            for name, value in settings.items()
            if name not in MEANINGLESS and not known.issuperset(translated({name: value}))
        ]
    except ConfigError as error:
        raise click.UsageError(f"{path}: {error}") from None
    return File(path, {name: value for name, value in settings.items() if name not in unknown}, unknown)


def plain(name: str) -> str:
    """The name of a setting, without the word for settings of a topic."""
    return name.removeprefix("topic.")


def apply(session: Session, file: File | None) -> str | None:
    """Let the session know what the file and -X say. Returns the address of the schema registry."""
    words = [plain(each) for each in session.assignments if each not in (*LIST, *DUMP)]
    if file is not None:
        words = [f"{name}={value}" for name, value in file.settings.items()] + words
    registries = [each.partition("=")[2] for each in words if each.startswith(f"{REGISTRY}=")]
    session.assignments = [each for each in words if not each.startswith(f"{REGISTRY}=")]
    return registries[-1] if registries else None


# --- what there is, and what holds ------------------------------------------------------------------------------------


def _kinds() -> "dict[str, type[ClientConfig]]":
    from ottla.client.config import AdminConfig
    from ottla.client.consumer.config import ConsumerConfig
    from ottla.client.producer.config import ProducerConfig

    return {"producer": ProducerConfig, "consumer": ConsumerConfig, "admin": AdminConfig}


def _known() -> dict[str, Any]:
    return {name: key for cls in _kinds().values() for name, key in cls.keys.items()}


def listed() -> str:
    """-X list: every setting, whose it is, its default and what it is for."""
    from ottla.cli.synonyms import SAME

    kinds = _kinds()
    rows = [("Property", "C/P", "Default", "Description")]
    others: dict[str, list[str]] = {}
    for name, own in SAME.items():
        others.setdefault(own, []).append(name)
    for name, key in sorted(_known().items()):
        whose = [each for each in ("consumer", "producer") if name in kinds[each].keys]
        letter = {"consumer": "C", "producer": "P"}[whose[0]] if len(whose) == 1 else "*"
        also = f" Also called {', '.join(others[name])}." if name in others else ""
        rows.append((name, letter, key.show(key.default), f"{key.doc}{also}"))
    return "".join(f"{name:<40} | {kind:<3} | {default:>15} | {doc}\n" for name, kind, default, doc in rows)


def dumped(session: Session) -> str:
    """-X dump: what holds, one `name = value` in a line. Passwords are not shown."""
    known = _known()
    found = {name: each.value for name, each in session.found().items() if name in known}
    lines = [
        f"{name} = {_HIDDEN if key.sensitive and name in found else found.get(name, key.show(key.default))}"
        for name, key in sorted(known.items())
    ]
    return "\n".join(["# Global config", *lines, "", "# Topic config", "", ""])
