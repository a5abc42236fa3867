"""`ottla config diff`: in which settings two things differ, or one from its defaults.

Exit codes: 0 done, whether they differ or not, 2 usage, 4 no such topic or broker, 5 not allowed, 6 no broker answers.
"""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.config_entity import BROKER_DEFAULT, Entity, entity_arguments, entity_of, entries, named
from ottla.cli.session import json_option, reach_options

if TYPE_CHECKING:
    from ottla.cli.remote import Admin
    from ottla.client.admin.config_values import ConfigEntry

_NAMES_MAX = 2


@click.command()
@entity_arguments("[NAME [OTHER]]")
@json_option
@reach_options
def diff(kind: str, words: tuple[str, ...], as_json: bool) -> int:
    """Compare the settings of two topics, two brokers, two groups; or those of one with the defaults that it would have
    if nobody had set anything.

    Only what differs is shown; a secret counts as different if one of the two has it set.

    --json: {"entity", "left", "right", "differences": [{"key", "left", "right", "left_source", "right_source"}]};
    right is null where the defaults are meant.
    """
    left, rest = entity_of(kind, words)
    if len(rest) >= _NAMES_MAX or (rest and left.kind == BROKER_DEFAULT):
        raise click.UsageError(f"{rest[-1]!r} is one too many: two are compared")
    right = named(left.kind, rest[0]) if rest else None
    from ottla.cli.remote import with_admin

    async def work(admin: "Admin") -> int:
        ours = await entries(admin, left, synonyms=right is None)
        theirs = defaults(ours) if right is None else await entries(admin, right)
        _show(left, right, differences(ours, theirs), as_json=as_json)
        return 0

    return with_admin(work)


def defaults(found: "dict[str, ConfigEntry]") -> "dict[str, ConfigEntry]":
    """What would be there if nobody had set anything; of what brokers do not tell, nothing."""
    from ottla.client.admin.config_values import ConfigSource

    made = {}
    for name, entry in found.items():
        told = [each.value for each in entry.synonyms if each.source is ConfigSource.DEFAULT_CONFIG]
        value = entry.value if entry.is_default else told[-1] if told else None
        made[name] = entry._replace(value=value, source=ConfigSource.DEFAULT_CONFIG)
    return made


def differences(ours: "dict[str, ConfigEntry]", theirs: "dict[str, ConfigEntry]") -> list[dict[str, Any]]:
    """One row for each setting that is not the same."""
    from ottla.cli.config_change import shown
    from ottla.cli.config_get import source_name

    rows = []
    for key in sorted(ours.keys() | theirs.keys()):
        pair = (ours.get(key), theirs.get(key))
        if _is_same(*pair):
            continue
        left, right = (None if each is None else source_name(each.source.name) for each in pair)
        rows.append(
            {
                "key": key,
                "left": shown(pair[0]),
                "right": shown(pair[1]),
                "left_source": left,
                "right_source": right,
            }
        )
    return rows


def _is_same(left: "ConfigEntry | None", right: "ConfigEntry | None") -> bool:
    if left is None or right is None:
        return False
    if left.is_sensitive or right.is_sensitive:
        return left.is_default and right.is_default
    return left.value == right.value


def _show(left: Entity, right: Entity | None, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    from ottla.cli.tables import document, say, show

    if as_json:
        other = None if right is None else right.name
        document({"entity": left.kind, "left": left.name or None, "right": other, "differences": rows})
        return
    if not rows:
        say(f"{left} has the default everywhere" if right is None else f"{left} and {right} do not differ")
    names = (left.name or left.kind, "default" if right is None else right.name)
    if names[0] == names[1]:
        names = (names[0], f"{names[1]} again")
    shown = [{"key": row["key"], names[0]: row["left"], names[1]: row["right"]} for row in rows]
    show(shown, ["key", *names])
