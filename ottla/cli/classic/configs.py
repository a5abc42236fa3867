"""`kafka-configs`: describe and alter the settings of topics, brokers, clients, users, addresses and groups."""

import argparse
import socket
import sys
from typing import NamedTuple

from ottla.cli.classic.admin_parser import AdminParser, forbid, has, servers_in
from ottla.cli.classic.java import Illegal, exception_text
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.core.errors import ConfigError, KafkaError, OttlaError

_TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
_FLAGS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS = {"client": "clients", "user": "users", "broker": "brokers", "ip": "ips"}
_WITH_DEFAULTS = frozenset(_DEFAULTS.values())


class Entity(NamedTuple):
    """Whose settings: the types, and the names as far as they were given. An empty name is the default."""

    types: list[str]
    names: list[str]

    @property
    def type(self) -> str:
        return self.types[0]

    @property
    def kind(self) -> str:
        """As it is called in sentences."""
        return self.type[:-1]


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-configs",
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip,"
        " client-metrics or group",
    )
    parser.connection()
    parser.option("--bootstrap-controller", help="The Kafka controllers to connect to.")
    parser.flag("--alter", help="Alter the configuration for the entity.")
    parser.flag("--describe", help="List configs for the given entity.")
    parser.flag("--all", help="List all configs, those with default values included.")
    parser.options("--entity-type", help=f"Type of entity ({'/'.join(_TYPES)})")
    parser.options("--entity-name", help="Name of entity", dest="entity_names")
    parser.add_argument(
        "--entity-default",
        help="The default entity of clients, users, brokers or ips",
        action="append_const",
        const="",
        dest="entity_names",
    )
    parser.option("--add-config", help="Settings to add: k1=v1,k2=[v1,v2],k3=v3")
    parser.option("--add-config-file", help="A properties file with settings to add.")
    parser.options("--delete-config", help="Names of settings to remove: k1,k2")
    parser.flag("--force", help="Ask nothing.")
    for name, kind in _FLAGS.items():
        parser.option(f"--{name}", help=f"The name of one of the {kind}.")
    for name, kind in _DEFAULTS.items():
        parser.flag(f"--{name}-defaults", help=f"The defaults of all {kind}.")
    return parser


def run(options: argparse.Namespace) -> int:
    if (not options.describe and not options.alter) or (options.describe and options.alter):
        raise Refused("Command must include exactly one action: --describe, --alter")
    forbid(options, "describe", "alter", "add-config", "delete-config")
    try:
        _process(options, _checked(options))
    except Illegal as error:
        print(error, file=sys.stderr)
        return 1
    except (OttlaError, OSError) as error:
        words = " ".join(options.words)
        print(f"Error while executing config command with args '{words}'", file=sys.stderr)
        print(_exception(error), file=sys.stderr)
        return 1
    return 0


def _process(options: argparse.Namespace, entity: Entity) -> None:
    if options.zookeeper:
        print("Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.")
        print("Use --bootstrap-server instead to specify a broker to connect to.")
    if options.bootstrap_controller:
        raise ConfigError("controllers cannot be spoken to here: say --bootstrap-server")
    if options.alter and len(entity.types) != len(entity.names):
        raise Illegal("An entity name must be specified for every entity type")
    servers = servers_in(options)
    if options.alter:
        from ottla.cli.classic.config_changes import alter

        with_admin(servers, options.command_config, lambda admin: alter(admin, options, entity))
    else:
        from ottla.cli.classic.config_descriptions import describe

        with_admin(servers, options.command_config, lambda admin: describe(admin, options, entity))


def _exception(error: Exception) -> str:
    if isinstance(error, KafkaError):
        return f"java.util.concurrent.ExecutionException: {exception_text(error)}"
    if isinstance(error, FileNotFoundError):
        return f"java.nio.file.NoSuchFileException: {error.filename}"
    return str(error)


# --- the command line -------------------------------------------------------------------------------------------------


def entity_of(options: argparse.Namespace) -> Entity:
    """--entity-type and so on, or the flags that are shorter, in the order in which Apache's tool takes them."""
    types, names = list(options.entity_type), list(options.entity_names or [])
    for flag, kind in _FLAGS.items():
        if has(options, flag):
            types.append(kind)
            names.append(getattr(options, flag.replace("-", "_")))
    for flag, kind in _DEFAULTS.items():
        if has(options, f"{flag}-defaults"):
            types.append(kind)
            names.append("")
    return Entity(types, names)


def _checked(options: argparse.Namespace) -> Entity:
    """Raises Illegal for what makes no sense."""
    is_old = bool(options.zookeeper)
    if not (options.bootstrap_server or options.broker_list or options.bootstrap_controller or is_old):
        raise Illegal("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if options.bootstrap_server and options.bootstrap_controller:
        raise Illegal("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    entity = entity_of(options)
    _check_types(options, entity)
    _check_names(entity)
    if options.describe:
        _check_described(options, entity)
    else:
        _check_altered(options, entity)
    return entity


def _check_types(options: argparse.Namespace, entity: Entity) -> None:
    types = entity.types
    if twice := [each for number, each in enumerate(types) if each in types[:number]]:
        raise Illegal(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for each in types:
        if each not in _TYPES:
            raise Illegal(
                f"Invalid entity type {each}, the entity type must be one of {', '.join(_TYPES)}"
                " with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise Illegal("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise Illegal("Only 'users' and 'clients' entity types may be specified together")
    has_flags = any(has(options, each) for each in _FLAGS) or any(
        has(options, f"{each}-defaults") for each in _DEFAULTS
    )
    if has_flags and (options.entity_type or options.entity_names):
        raise Illegal(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )


def _check_names(entity: Entity) -> None:
    for name in filter(None, entity.names):
        if entity.type in ("brokers", "broker-loggers") and not name.lstrip("+-").isdecimal():
            raise Illegal(
                f"The entity name for {entity.type} must be a valid integer broker id, but it is: {name}"
            )
        if entity.type == "ips" and not _resolves(name):
            raise Illegal(
                f"The entity name for {entity.type} must be a valid IP or resolvable host, but it is: {name}"
            )


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def _check_described(options: argparse.Namespace, entity: Entity) -> None:
    if "--entity-default" in options.words and not _WITH_DEFAULTS & set(entity.types):
        raise Illegal(f"--entity-default must not be specified with --describe of {','.join(entity.types)}")
    if "broker-loggers" in entity.types and not any(entity.names):
        raise Illegal(f"An entity name must be specified with --describe of {','.join(entity.types)}")


def _check_altered(options: argparse.Namespace, entity: Entity) -> None:
    if _WITH_DEFAULTS & set(entity.types):
        if not entity.names:
            raise Illegal(
                "An entity-name or default entity must be specified with --alter of"
                " users, clients, brokers or ips"
            )
    elif not any(entity.names):
        raise Illegal(f"An entity name must be specified with --alter of {','.join(entity.types)}")
    adds, adds_file = options.add_config is not None, options.add_config_file is not None
    if adds and adds_file:
        raise Illegal("Only one of --add-config or --add-config-file must be specified")
    if not (adds or adds_file or options.delete_config):
        raise Illegal(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


TOOL = Tool(_parser, run)
