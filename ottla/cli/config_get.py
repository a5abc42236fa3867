"""`ottla config get`: settings as they hold, and where each comes from.

Exit codes: 0 done, 2 usage, 4 no such topic, broker or setting, 5 not allowed, 6 no broker answers.
"""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.config_entity import check_keys, entity_arguments, entity_of, entries
from ottla.cli.session import json_option, reach_options

if TYPE_CHECKING:
    from ottla.cli.remote import Admin
    from ottla.client.admin.config_values import ConfigEntry

_SHORT = ["key", "value", "source"]
_WIDE = [*_SHORT, "type", "read_only", "sensitive"]


@click.command()
@entity_arguments("[NAME] [KEY...]")
@click.option("--all", "all_", is_flag=True, help="Those with their default value, too.")
@json_option
@reach_options
def get(kind: str, words: tuple[str, ...], all_: bool, as_json: bool) -> int:
    """Show the settings of `topic NAME`, `broker ID`, `broker-default`, `group NAME`, `client-metrics NAME` or
    `broker-logger ID`: those that somebody has set, those with the KEYs, or with --all all of them.

    The source says who set it: the topic, the group, this broker or all brokers at run time (dynamic), its
    server.properties (static), or nobody (default). Secrets are not shown. --wide shows more columns.

    --json: {"entity", "name", "settings": [{"key", "value", "source", "is_default", "type", "read_only",
    "sensitive"}]}.
    """
    entity, keys = entity_of(kind, words)
    from ottla.cli.remote import with_admin
    from ottla.cli.session import session
    from ottla.cli.tables import document, show

    async def work(admin: "Admin") -> int:
        found = await entries(admin, entity)
        check_keys(entity, keys, list(found))
        rows = [
            row_of(each)
            for name, each in found.items()
            if (name in keys if keys else all_ or not each.is_default)
        ]
        if as_json:
            document({"entity": entity.kind, "name": entity.name or None, "settings": rows})
        else:
            show(rows, _WIDE if session().is_wide else _SHORT)
        return 0

    return with_admin(work)


def row_of(entry: "ConfigEntry") -> dict[str, Any]:
    from ottla.cli.config_change import shown

    return {
        "key": entry.name,
        "value": shown(entry),
        "source": source_name(entry.source.name),
        "is_default": entry.is_default,
        "type": entry.type.name.lower(),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


def source_name(name: str) -> str:
    """`DYNAMIC_DEFAULT_BROKER_CONFIG` is `dynamic default broker`."""
    return name.removesuffix("_CONFIG").lower().replace("_", " ")
