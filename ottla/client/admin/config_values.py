"""Settings of topics, brokers and other resources: what is asked, what is changed, what is answered."""

import enum
from typing import NamedTuple


class ConfigResourceType(enum.IntEnum):
    """What has settings. A client's metrics are a subscription that brokers hand to clients (KIP-714)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose settings. The broker with an empty name stands for all brokers."""

    resource_type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"all {kind}s"

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> "ConfigResource":
        """One broker, or what holds for all."""
        return cls(ConfigResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def broker_logger(cls, node_id: int) -> "ConfigResource":
        return cls(ConfigResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> "ConfigResource":
        return cls(ConfigResourceType.CLIENT_METRICS, name)

    @property
    def node_id(self) -> int | None:
        """The broker that alone can answer for it, if it is such a resource. Raises ValueError for a bad name."""
        is_of_one = self.resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        return int(self.name) if is_of_one and self.name else None


class ConfigSource(enum.IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigType(enum.IntEnum):
    """What a value is."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSynonym(NamedTuple):
    """A value that would hold if those before it were not there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting. The value of a sensitive one is not told."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_read_only: bool = False
    is_sensitive: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOpType(enum.IntEnum):
    """How a setting is changed. The last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    """One change of one setting."""

    name: str
    value: object = None
    operation: AlterConfigOpType = AlterConfigOpType.SET


def config_text(value: object) -> str | None:
    """A value as brokers read it: `true`, and lists with commas."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(str(config_text(each)) for each in value)
    return str(value)
