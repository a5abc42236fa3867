"""`kafka-configs --alter`: settings, quotas and passwords are set and removed."""

import argparse
import re
from typing import Any

from ottla.cli.classic.config_descriptions import RESOURCES, quota_entity, quotas_of, settings_of
from ottla.cli.classic.configs import Entity
from ottla.cli.classic.java import Illegal, hash_ordered
from ottla.client.admin.config_values import AlterConfigOp, AlterConfigOpType, ConfigResource
from ottla.client.admin.scram import ScramDeletion, ScramMechanism, ScramUpsertion

_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_KEY = re.compile(r"[a-zA-Z0-9._-]*")
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_IP_QUOTAS = ("connection_creation_rate",)
_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_PASSWORD = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_ITERATIONS = 4096  # by default, and at least
_OLD_WORDS = {"users": "user-principal", "clients": "client-id", "topics": "topic", "groups": "group"}


async def alter(admin: Any, options: argparse.Namespace, entity: Entity) -> None:
    added, deleted = _added(options), _deleted(options)
    if entity.type in RESOURCES:
        await _alter_resource(admin, entity, added, deleted)
    elif entity.type == "ips":
        if unknown := [each for each in (*added, *deleted) if each not in _IP_QUOTAS]:
            raise Illegal(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server."
                f" Unexpected config names: {','.join(unknown)}"
            )
        await _alter_quotas(admin, entity, added, deleted)
    else:
        _check_clients(entity, added, deleted)
        if any(each in _QUOTAS for each in (*added, *deleted)):
            await _alter_quotas(admin, entity, added, deleted)
        else:
            await _alter_passwords(admin, entity.names[0], added, deleted)
    print(_done(options, entity))


def _done(options: argparse.Namespace, entity: Entity) -> str:
    if options.zookeeper:
        parts = [
            f"{_OLD_WORDS.get(kind, kind)} '{name}'" if name else f"default {_OLD_WORDS.get(kind, kind)}"
            for kind, name in zip(entity.types, entity.names, strict=False)
        ]
        return f"Completed updating config for entity: {', '.join(parts)}."
    if entity.names[0]:
        return f"Completed updating config for {entity.kind} {entity.names[0]}."
    return f"Completed updating default config for {entity.type} in the cluster."


# --- what is to be changed --------------------------------------------------------------------------------------------


def _added(options: argparse.Namespace) -> dict[str, str]:
    """The settings of --add-config-file or --add-config, where brackets hold lists together."""
    from ottla.core.properties import parse_properties

    found: dict[str, str] = {}
    if options.add_config_file is not None:
        with open(options.add_config_file, encoding="utf-8") as file:
            found = dict(parse_properties(file.read(), options.add_config_file))
    if options.add_config is not None:
        pairs = _split(",", options.add_config)
        while pairs and not pairs[-1]:
            pairs.pop()  # as Java's split does
        for pair in pairs:
            parts = _split(r"\s*=\s*", pair)
            if len(parts) != 2:  # a name and a value
                raise Illegal(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format"
                    ' "key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            found[parts[0].strip()] = re.sub(r"[\[\]]", "", parts[1]).strip()
    for name in found:
        if not _KEY.fullmatch(name):
            raise Illegal(f"Invalid character found for config key: {name}")
    return {name: found[name] for name in hash_ordered(found)}


def _split(separator: str, text: str) -> list[str]:
    return re.split(separator + _OUTSIDE_BRACKETS, text)


def _deleted(options: argparse.Namespace) -> list[str]:
    return [name.strip() for each in options.delete_config for name in each.split(",")]


def _check_clients(entity: Entity, added: dict[str, str], deleted: list[str]) -> None:
    """Quotas of users and clients, and passwords of users."""
    odd = [each for each in added if each not in _QUOTAS and each not in _MECHANISMS]
    odd_deleted = [each for each in deleted if each not in _QUOTAS and each not in _MECHANISMS]
    passwords = [each for each in added if each in _MECHANISMS]
    passwords_deleted = [each for each in deleted if each in _MECHANISMS]
    only, kind = "quota and SCRAM credential configs", "users"
    if entity.type == "clients" or len(entity.types) > 1:
        only, kind = "quota configs", "clients"
        odd, odd_deleted = odd + passwords, odd_deleted + passwords_deleted
    for names, verb, collection in ((odd, "added", "Set"), (odd_deleted, "deleted", "ArrayBuffer")):
        if names:
            raise Illegal(
                f"Only {only} can be {verb} for '{kind}' using --bootstrap-server."
                f" Unexpected config names: {collection}({', '.join(names)})"
            )
    if passwords or passwords_deleted:
        if "" in entity.names:
            raise Illegal(
                "The use of --entity-default or --user-defaults is not allowed"
                " with User SCRAM Credentials using --bootstrap-server."
            )
        if any(each in _QUOTAS for each in (*added, *deleted)):
            raise Illegal(
                "Cannot alter both quota and SCRAM credential configs simultaneously"
                " for 'users' using --bootstrap-server."
            )


# --- changing it ------------------------------------------------------------------------------------------------------


async def _alter_resource(admin: Any, entity: Entity, added: dict[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import configs

    name = entity.names[0]
    if entity.type == "broker-loggers":
        known = {each.name for each in await settings_of(admin, entity.type, name)}
        if odd := [each for each in (*deleted, *added) if each not in known]:
            raise Illegal(f"Invalid broker logger(s): {','.join(odd)}")
    changes = [AlterConfigOp(key, value) for key, value in added.items()]
    changes += [AlterConfigOp(key, "", AlterConfigOpType.DELETE) for key in deleted]
    resource = ConfigResource(RESOURCES[entity.type][0], name)
    await configs.incremental_alter_configs(admin, {resource: changes})


async def _alter_quotas(admin: Any, entity: Entity, added: dict[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import quotas

    found = await quotas_of(admin, entity)
    old = next(iter(found.values()), {})
    if odd := [each for each in deleted if each not in old]:
        raise Illegal(f"Invalid config(s): {','.join(odd)}")
    changes: dict[str, float | None] = {key: _quota(key, value) for key, value in added.items()}
    changes |= dict.fromkeys(deleted)
    await quotas.alter_client_quotas(admin, {quota_entity(entity): changes})


def _quota(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Illegal(f"Cannot parse quota configuration value for {name}: {text}") from None


async def _alter_passwords(admin: Any, user: str, added: dict[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import scram

    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(user, _MECHANISMS[each]) for each in deleted
    ]
    for name, text in added.items():
        iterations, password = _password(name, text)
        changes.append(ScramUpsertion(user, password, _MECHANISMS[name], iterations))
    await scram.alter_user_scram_credentials(admin, changes)


def _password(mechanism: str, text: str) -> tuple[int, str]:
    """`iterations=8192,password=secret`, the first of which may be missing."""
    match = _PASSWORD.fullmatch(text)
    if match is None:
        raise Illegal(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    told, password = match.groups()
    try:
        iterations = _ITERATIONS if told in (None, "-1") else int(told)
    except ValueError:
        raise Illegal(f'For input string: "{told}"') from None
    if iterations < _ITERATIONS:
        raise Illegal(
            f"Iterations {iterations} is less than the minimum {_ITERATIONS} required for {mechanism}"
        )
    return iterations, password
