"""`ottla config set` and `ottla config unset`: other settings for a topic, a broker, all brokers, a group.

Exit codes: 0 done, 1 refused, 2 usage, 4 no such topic, broker or setting to unset, 5 not allowed, 6 no broker answers.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.config_entity import (
    BROKER_DEFAULT,
    Entity,
    check_keys,
    entity_arguments,
    entity_of,
    entries,
)
from ottla.cli.config_units import assignments
from ottla.cli.session import json_option, reach_options

if TYPE_CHECKING:
    from ottla.cli.remote import Admin

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only let the broker say whether it could be done.")


@click.command("set")
@entity_arguments("[NAME] [KEY=VALUE...]")
@click.option(
    "--append", multiple=True, metavar="KEY=VALUE", help="Add to a setting that is a list; repeatable."
)
@click.option("--subtract", multiple=True, metavar="KEY=VALUE", help="Take away from a list; repeatable.")
@_DRY_RUN
@json_option
@reach_options
def set_(
    kind: str,
    words: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change settings of `topic NAME`, `broker ID`, `broker-default`, `group NAME`, `client-metrics NAME` or
    `broker-logger ID`, and show each before and after.

    Times and sizes may have units, as in retention.ms=1d and segment.bytes=64MiB. `broker-default` is for all brokers
    that have nothing of their own.

    --json: {"entity", "name", "dry_run", "changes": [{"key", "operation", "before", "sent", "after"}]}.
    """
    entity, sets = entity_of(kind, words)
    return _change(
        entity,
        assignments(sets),
        (),
        assignments(append),
        assignments(subtract),
        dry_run=dry_run,
        as_json=as_json,
    )


@click.command()
@entity_arguments("[NAME] KEY...")
@_DRY_RUN
@json_option
@reach_options
def unset(kind: str, words: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Give settings of `topic NAME`, `broker ID`, `broker-default`, `group NAME`, `client-metrics NAME` or
    `broker-logger ID` the value back that they have when nobody sets them.

    --json: {"entity", "name", "dry_run", "changes": [{"key", "operation", "before", "sent", "after"}]}.
    """
    entity, keys = entity_of(kind, words)
    for key in keys:
        if "=" in key:
            raise click.UsageError(f"{key}: a setting that is to be unset has no value; write unset ... KEY")
    return _change(entity, {}, keys, {}, {}, dry_run=dry_run, as_json=as_json)


def _change(
    entity: Entity,
    sets: Mapping[str, str],
    unsets: Sequence[str],
    append: Mapping[str, str],
    subtract: Mapping[str, str],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    from ottla.cli.config_change import change, changes
    from ottla.cli.remote import with_admin

    wanted = changes(sets, unsets, append, subtract)

    async def work(admin: "Admin") -> int:
        await entity.check(admin)
        if unsets and entity.kind != BROKER_DEFAULT:  # of all brokers, only what is set can be asked for
            check_keys(entity, unsets, list(await entries(admin, entity)))
        return await change(
            admin, entity.resource, wanted, dry_run=dry_run, as_json=as_json, kind=entity.kind
        )

    return with_admin(work)
