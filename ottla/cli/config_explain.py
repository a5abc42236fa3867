"""`ottla config explain`: where a setting comes from. Without words those of the connection, else those of a broker.

Exit codes: 0 done, 2 usage, 4 no such topic, broker or setting, 5 not allowed, 6 no broker answers.
"""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.config_entity import check_keys, entity_of, entries
from ottla.cli.session import DEFAULT_TIMEOUT, SERVERS, json_option, reach_options, session

if TYPE_CHECKING:
    from ottla.cli.remote import Admin
    from ottla.client.admin.config_values import ConfigEntry

_CONNECTION = ["key", "value", "source"]
_CHAIN = ["setting", "key", "value", "source", "holds"]
_TIMEOUT, _DEFAULT = "timeout", "default"


@click.command()
@click.argument("kind", metavar="[KIND]", required=False)
@click.argument("words", nargs=-1, metavar="[NAME] [KEY...]")
@click.option("--all", "all_", is_flag=True, help="Those with their default value, too.")
@json_option
@reach_options
def explain(kind: str | None, words: tuple[str, ...], all_: bool, as_json: bool) -> int:
    """Say where each setting of the connection comes from: a flag, -X, the environment, the profile, the file
    client.properties, or nobody. What stands first in this list wins. No broker is asked, and secrets are not shown.

    With `topic NAME`, `broker ID` and so on, it is about settings of the cluster: for each KEY, or each that somebody
    has set, the values that would hold one after the other if the one before were not there.

    \b
    --json: {"profile", "settings": [{"key", "value", "source"}]}
    or {"entity", "name", "settings": [{"key", "documentation", "values": [{"key", "value", "source"}]}]}.
    """
    if kind is not None:
        return _explain_cluster(kind, words, all_=all_, as_json=as_json)
    from ottla.cli.tables import document, show

    rows = _connection(all_=all_)
    if as_json:
        document({"profile": session().profile_name, "settings": rows})
    else:
        show(rows, _CONNECTION)
    return 0


def _connection(*, all_: bool) -> list[dict[str, Any]]:
    """A row for each setting of a client, those that somebody has said something about first."""
    from ottla.cli.config_change import HIDDEN
    from ottla.cli.profile import is_secret
    from ottla.client.config import AdminConfig

    found = session().found()
    said: dict[str, tuple[str | None, str]] = {key: (each.value, each.source) for key, each in found.items()}
    said.setdefault(SERVERS, (session().servers, _DEFAULT))
    timeout = session().timeout
    said[_TIMEOUT] = (
        f"{timeout or DEFAULT_TIMEOUT:g}s",
        _DEFAULT if timeout is None else "--timeout",
    )
    said.setdefault("client.id", ("ottla-cli", _DEFAULT))
    if all_:
        for key, declared in AdminConfig.keys.items():
            said.setdefault(key, (_text(declared.default), _DEFAULT))
    return [
        {"key": key, "value": HIDDEN if is_secret(key) and value else value, "source": source}
        for key, (value, source) in sorted(said.items(), key=lambda each: (each[1][1] == _DEFAULT, each[0]))
    ]


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)


# --- of the cluster ---------------------------------------------------------------------------------------------------


def _explain_cluster(kind: str, words: tuple[str, ...], *, all_: bool, as_json: bool) -> int:
    entity, keys = entity_of(kind, words)
    from ottla.cli.remote import with_admin
    from ottla.cli.tables import document, show

    async def work(admin: "Admin") -> int:
        found = await entries(admin, entity, synonyms=True, documentation=True)
        check_keys(entity, keys, list(found))
        chosen = [
            each for name, each in found.items() if (name in keys if keys else all_ or not each.is_default)
        ]
        if as_json:
            rows = [
                {"key": each.name, "documentation": each.documentation, "values": chain(each)}
                for each in chosen
            ]
            document({"entity": entity.kind, "name": entity.name or None, "settings": rows})
        else:
            show(
                [
                    {"setting": each.name, **row, "holds": "no" if number else "yes"}
                    for each in chosen
                    for number, row in enumerate(chain(each))
                ],
                _CHAIN,
            )
        return 0

    return with_admin(work)


def chain(entry: "ConfigEntry") -> list[dict[str, Any]]:
    """The values of a setting: the one that holds, and those that would. Of a secret, that there is one."""
    from ottla.cli.config_change import HIDDEN, shown
    from ottla.cli.config_get import source_name

    if not entry.synonyms:
        return [{"key": entry.name, "value": shown(entry), "source": source_name(entry.source.name)}]
    return [
        {
            "key": each.name,
            "value": HIDDEN if entry.is_sensitive else each.value,
            "source": source_name(each.source.name),
        }
        for each in entry.synonyms
    ]
