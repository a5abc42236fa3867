"""Changes of settings: what they are now, what is sent, what they are then.

Used by `ottla config set`, `ottla config unset` and `ottla topic alter`. The broker says whether a value can be.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla.cli.config_units import plain
from ottla.cli.remote import Admin, Failed, failed
from ottla.cli.tables import document, show
from ottla.client.admin.config_values import AlterConfigOp, AlterConfigOpType, ConfigEntry, ConfigResource
from ottla.client.admin.configs import describe_configs, incremental_alter_configs
from ottla.client.errors import PartialFailure
from ottla.core.errors import KafkaError

_CHANGED = ["key", "operation", "before", "sent", "after"]
HIDDEN = "[hidden]"
_SET, _DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


def kind_of(resource: ConfigResource) -> str:
    """As the command line names it."""
    return resource.resource_type.name.lower().replace("_", "-")


def changes(
    sets: Mapping[str, str], unsets: Iterable[str], append: Mapping[str, str], subtract: Mapping[str, str]
) -> list[AlterConfigOp]:
    """Raises UsageError if one setting is to be changed twice."""
    made = [
        *(AlterConfigOp(key, plain(key, value), _SET) for key, value in sets.items()),
        *(AlterConfigOp(key, None, _DELETE) for key in unsets),
        *(AlterConfigOp(key, value, AlterConfigOpType.APPEND) for key, value in append.items()),
        *(AlterConfigOp(key, value, AlterConfigOpType.SUBTRACT) for key, value in subtract.items()),
    ]
    if not made:
        raise click.UsageError("nothing is to be changed: name a setting")
    keys = [each.name for each in made]
    for key in keys:
        if keys.count(key) > 1:
            raise click.UsageError(f"{key} is changed twice")
    return made


async def entries_of(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry]:
    """The settings of one thing by name. Raises its error as it is."""
    try:
        return (await describe_configs(admin, [resource]))[resource]
    except PartialFailure as error:
        raise next(iter(error.errors.values())) from None


async def change(
    admin: Admin,
    resource: ConfigResource,
    wanted: list[AlterConfigOp],
    *,
    dry_run: bool,
    as_json: bool,
    kind: str = "",
) -> int:
    """Do it, and show each setting before and after. `kind` is what the command line calls such a thing."""
    before = await entries_of(admin, resource)
    try:
        await incremental_alter_configs(admin, {resource: wanted}, validate_only=dry_run)
    except PartialFailure as error:
        raise next(iter(error.errors.values())) from None
    after = {} if dry_run else await _changed(admin, resource)
    rows = [_row(each, before.get(each.name), after.get(each.name)) for each in wanted]
    if as_json:
        document(
            {
                "entity": kind or kind_of(resource),
                "name": resource.name or None,
                "dry_run": dry_run,
                "changes": rows,
            }
        )
    else:
        show(rows, [name for name in _CHANGED if name != "after" or not dry_run])
    return 0


async def _changed(admin: Admin, resource: ConfigResource) -> dict[str, ConfigEntry]:
    """What the settings are now. Whatever goes wrong here, the change has been made, and that is said."""
    try:
        return await entries_of(admin, resource)
    except KafkaError as error:
        why = failed(error)
        raise Failed(
            f"it is changed, but nobody tells how it looks now: {why.message}", why.exit_code
        ) from error


def _row(wanted: AlterConfigOp, before: ConfigEntry | None, after: ConfigEntry | None) -> dict[str, Any]:
    is_secret = any(each is not None and each.is_sensitive for each in (before, after))
    return {
        "key": wanted.name,
        "operation": "unset" if wanted.operation is _DELETE else wanted.operation.name.lower(),
        "before": shown(before),
        "sent": HIDDEN if is_secret and wanted.value is not None else wanted.value,
        "after": shown(after),
    }


def shown(entry: ConfigEntry | None) -> str | None:
    """The value, unless it is a secret."""
    if entry is None:
        return None
    return HIDDEN if entry.is_sensitive else entry.value
