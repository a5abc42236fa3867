"""`kafka-configs --describe`: settings with their synonyms, quotas, and who has a password."""

import argparse
from collections.abc import Mapping
from typing import Any

from ottla.cli.classic.configs import Entity
from ottla.cli.classic.java import Illegal, class_of, double_text, hash_ordered, java_hash, message_of
from ottla.cli.dump.output import printable
from ottla.client.admin.config_values import ConfigEntry, ConfigResource, ConfigResourceType, ConfigSource
from ottla.client.admin.quotas import QUOTA_ANY, QUOTA_DEFAULT, QuotaEntity, QuotaMatch
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import topic_name_fault

RESOURCES = {
    "topics": (ConfigResourceType.TOPIC, ConfigSource.TOPIC_CONFIG),
    "brokers": (ConfigResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (ConfigResourceType.BROKER_LOGGER, None),
    "client-metrics": (ConfigResourceType.CLIENT_METRICS, ConfigSource.CLIENT_METRICS_CONFIG),
    "groups": (ConfigResourceType.GROUP, ConfigSource.GROUP_CONFIG),
}
_SOURCES = {
    ConfigSource.TOPIC_CONFIG: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}
_QUOTA_FIELDS = {"users": "user", "clients": "client_id", "ips": "ip"}
_QUOTA_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
_QUOTA_WORDS = ("user-principal", "client-id", "ip")
_NAME_FAULTS = {
    "is empty": "the empty string is not allowed",
    'is "." or ".."': "'{name}' is not allowed",
    "is longer than 249 characters": "the length of '{name}' is longer than the max allowed length 249",
}


async def describe(admin: Any, options: argparse.Namespace, entity: Entity) -> None:
    if entity.type in RESOURCES:
        await _describe_resources(admin, options, entity)
        return
    await _describe_quotas(admin, options, entity)
    if "users" in entity.types and "clients" not in entity.types and "" not in entity.names:
        await _describe_passwords(admin, entity.names)


# --- settings ---------------------------------------------------------------------------------------------------------


async def _describe_resources(admin: Any, options: argparse.Namespace, entity: Entity) -> None:
    if not options.all and entity.names and not await _exists(admin, entity):
        print(f"The {entity.kind} '{entity.names[0]}' doesn't exist and doesn't have dynamic config.")
        return
    for name in entity.names[:1] or await _all_names(admin, entity):
        if options.zookeeper:
            settings = await settings_of(admin, entity.type, name)
            told = ",".join(f"{each.name}={_text(each.value)}" for each in settings)
            print(
                f"Configs for {entity.kind} '{name}' are {told}"
                if name
                else f"Configs for default brokers are {told}"
            )
            continue
        if name:
            print(f"{'All' if options.all else 'Dynamic'} configs for {entity.kind} {printable(name)} are:")
        else:
            print(f"Default configs for {entity.type} in the cluster are:")
        for each in await settings_of(admin, entity.type, name, options.all):
            print(f"  {_line(each)}")


async def settings_of(admin: Any, kind: str, name: str, everything: bool = False) -> list[ConfigEntry]:
    """The settings by name; unless all are wanted, those that were set for this very resource."""
    from ottla.client.admin import configs

    if kind == "topics":
        _check_topic(name)
    resource_type, source = RESOURCES[kind]
    if kind == "brokers" and not name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    resource = ConfigResource(resource_type, name)
    found = await configs.describe_configs(admin, [resource], include_synonyms=True)
    entries = [each for _, each in sorted(found[resource].items())]
    return [each for each in entries if everything or source is None or each.source is source]


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{_SOURCES.get(each.source, each.source.name)}:{each.name}={_text(each.value)}"
        for each in entry.synonyms
    )
    sensitive = "true" if entry.is_sensitive else "false"
    return f"{printable(entry.name)}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else printable(value)


def _check_topic(name: str) -> None:
    if fault := topic_name_fault(name):
        told = _NAME_FAULTS.get(
            fault, "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
        raise Illegal(f"Topic name is invalid: {told.format(name=name)}")


async def _exists(admin: Any, entity: Entity) -> bool:
    name = entity.names[0]
    if entity.type == "topics":
        _check_topic(name)
    return (entity.type in ("brokers", "broker-loggers") and not name) or name in await _all_names(
        admin, entity
    )


async def _all_names(admin: Any, entity: Entity) -> list[str]:
    from ottla.client.admin import configs, topics

    if entity.type == "topics":
        return hash_ordered(await topics.list_topics(admin, include_internal=True))
    if entity.type in ("brokers", "broker-loggers"):
        return [*(str(each) for each in await admin._routes.brokers()), ""]
    names = [each.name for each in await configs.list_config_resources(admin, [RESOURCES[entity.type][0]])]
    if entity.type == "groups":
        from ottla.client.admin import groups

        names = list(dict.fromkeys((*await groups.list_groups(admin), *names)))
    return names


# --- quotas -----------------------------------------------------------------------------------------------------------


def quota_entity(entity: Entity) -> QuotaEntity:
    """Types without a name mean any name."""
    if len(entity.names) > len(entity.types):
        raise Illegal("More entity names specified than entity types")
    named: dict[str, str | QuotaMatch] = {}
    for number, kind in enumerate(entity.types):
        name: str | QuotaMatch = QUOTA_ANY
        if number < len(entity.names):
            name = entity.names[number] or QUOTA_DEFAULT
        named[_QUOTA_FIELDS[kind]] = name
    return QuotaEntity(**named)


async def quotas_of(admin: Any, entity: Entity) -> Mapping[QuotaEntity, Mapping[str, float]]:
    from ottla.client.admin import quotas

    return await quotas.describe_client_quotas(admin, quota_entity(entity), strict=True)


async def _describe_quotas(admin: Any, options: argparse.Namespace, entity: Entity) -> None:
    found = await quotas_of(admin, entity)
    for each in hash_ordered(found, len(found), _hash_of):
        values = found[each]
        ordered = hash_ordered(values, len(values))
        if options.zookeeper:
            told = ",".join(f"{key}={double_text(values[key])}" for key in ordered)
            print(f"Configs for {_old_words(each)} are {told}")
        else:
            told = ", ".join(f"{key}={double_text(values[key])}" for key in ordered)
            print(f"Quota configs for {_words(each)} are {told}")


def _hash_of(entity: QuotaEntity) -> int:
    total = 0
    for field, name in entity._asdict().items():
        if name is not None:
            total += java_hash(_QUOTA_TYPES[field]) ^ (0 if name is QUOTA_DEFAULT else java_hash(name))
    return (31 + total) & 0xFFFFFFFF


def _words(entity: QuotaEntity) -> str:
    return ", ".join(
        f"the default {word}" if name is QUOTA_DEFAULT else f"{word} '{printable(str(name))}'"
        for word, name in zip(_QUOTA_WORDS, entity, strict=True)
        if name is not None
    )


def _old_words(entity: QuotaEntity) -> str:
    return _words(entity).replace("the default", "default")


# --- passwords --------------------------------------------------------------------------------------------------------


async def _describe_passwords(admin: Any, users: list[str]) -> None:
    from ottla.client.admin import scram

    found: Mapping[str, Any]
    try:
        found = await scram.describe_user_scram_credentials(admin, users or None)
    except PartialFailure as failure:
        found = failure.results
    for user, infos in found.items():
        if not isinstance(infos, KafkaError):
            told = ", ".join(
                f"{each.mechanism.name.replace('_', '-')}=iterations={each.iterations}" for each in infos
            )
            print(f"SCRAM credential configs for user-principal '{printable(user)}' are {told}")
        elif infos.code != ErrorCode.RESOURCE_NOT_FOUND:
            why = f"{class_of(infos).rpartition('.')[2]}: {message_of(infos, f'user {user}')}"
            print(f"Error retrieving SCRAM credential configs for user-principal '{printable(user)}': {why}")
