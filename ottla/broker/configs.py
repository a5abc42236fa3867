"""The settings of everything that has some, as the controller told us last: step 4 of AlterConfigs.

The metadata store holds plain text per resource. Here it becomes typed values: one Config object per topic for as
long as the topic lives, so that a log that holds it follows every change, and the broker's own. A change is judged
with `check` before it is stored, and arrives with `apply` after. What the store says and we do not understand, because
a newer broker wrote it, is left out and logged: it must not keep a broker from starting.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.config_resources import ClientMetricsConfig, GroupConfig
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.config import Config, Key, Source
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.storage.config import TopicConfig

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig

logger = logging.getLogger(__name__)

Values = Mapping[str, str]
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
_OF_RETENTION = (
    TopicConfig.cleanup_policy,
    TopicConfig.retention_ms,
    TopicConfig.retention_bytes,
    TopicConfig.segment_ms,
    TopicConfig.file_delete_delay_ms,
)
_OF_COMMITMENT = (TopicConfig.min_insync_replicas, TopicConfig.flush_messages)


class Configs:
    """The settings of this broker, its topics, and the few other resources that have some."""

    def __init__(self, broker: "BrokerConfig") -> None:
        self.broker = broker
        self.groups: dict[str, GroupConfig] = {}
        self.client_metrics: dict[str, ClientMetricsConfig] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._unset_group: GroupConfig | None = None
        self.on_retention_changed: Callable[[Collection[str]], object] = lambda topics: None
        """Called with the topics that have other settings now of how long records are kept."""
        self.on_commitment_changed: Callable[[Collection[str]], object] = lambda topics: None
        """Called with the topics that have other settings now of when records are committed."""

    def topic(self, name: str) -> TopicConfig:
        """The one object with the settings of this topic. It follows changes; hold it, and read it each time."""
        config = self._topics.get(name)
        if config is None:
            config = self._topics[name] = TopicConfig(broker=self.broker)
        return config

    def group(self, name: str) -> GroupConfig:
        """What holds for a group, set or not."""
        config = self.groups.get(name)
        if config is None:
            config = self._unset_group = self._unset_group or GroupConfig(broker=self.broker)
        return config

    def forget_topic(self, name: str) -> None:
        """The topic is gone; one of the same name that comes later starts with nothing set."""
        self._topics.pop(name, None)

    def get(self, resource: ConfigResource) -> Config:
        """What holds for a resource, set or not. Raises KafkaError if it cannot have settings here."""
        if resource.type is ResourceType.TOPIC:
            return self.topic(resource.name)
        if resource.type is ResourceType.BROKER and self.is_own(resource):
            return self.broker
        if resource.type is ResourceType.GROUP:
            return self.group(resource.name)
        if resource.type is ResourceType.CLIENT_METRICS:
            return self.client_metrics.get(resource.name) or ClientMetricsConfig()
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {self.broker.node_id} holds no settings of {_named(resource)}"
        )

    def is_own(self, broker: ConfigResource) -> bool:
        """Does this resource, a broker or all of them, mean us?"""
        return broker.name in ("", str(self.broker.node_id))

    def check(self, resource: ConfigResource, values: Values) -> None:
        """May these be all the settings of the resource? If not, raises an error that names the key.

        It is INVALID_CONFIG, but INVALID_REQUEST where Kafka says so: for brokers, for unknown keys of client metrics.
        """
        try:
            if resource.type is ResourceType.BROKER:
                self.broker.update(values, _layer(resource), replace=True, dry_run=True)
            else:
                self._build(resource, values)
        except ConfigError as error:
            is_unknown = not values.keys() <= ClientMetricsConfig.keys.keys()
            is_of_metrics = resource.type is ResourceType.CLIENT_METRICS
            is_request = resource.type is ResourceType.BROKER or (is_of_metrics and is_unknown)
            code = ErrorCode.INVALID_REQUEST if is_request else ErrorCode.INVALID_CONFIG
            raise KafkaError(code, str(error)) from error

    def apply(self, resource: ConfigResource, values: Values) -> None:
        """These are now all the settings of the resource."""
        watched = (
            (_OF_RETENTION, self.on_retention_changed),
            (_OF_COMMITMENT, self.on_commitment_changed),
        )
        before = [self._settings_of(resource, keys) for keys, _ in watched]
        self._apply(resource, values)
        for known, (keys, on_changed) in zip(before, watched, strict=True):
            after = self._settings_of(resource, keys)
            if changed := [topic for topic, settings in after.items() if settings != known.get(topic)]:
                on_changed(changed)

    def _settings_of(
        self, resource: ConfigResource, keys: Iterable[Key[Any]]
    ) -> dict[str, tuple[object, ...]]:
        """These settings of the topics that a change of this resource touches."""
        topics: Iterable[str] = ()
        if resource.type is ResourceType.TOPIC:
            topics = [resource.name]
        elif resource.type is ResourceType.BROKER:
            topics = list(self._topics)
        return {name: tuple(self.topic(name)[key.name] for key in keys) for name in topics}

    def _apply(self, resource: ConfigResource, values: Values) -> None:
        if resource.type is ResourceType.TOPIC:
            _change(self.topic(resource.name), values, Source.TOPIC, resource)
        elif resource.type is ResourceType.BROKER:
            if self.is_own(resource):
                _change(self.broker, values, _layer(resource), resource)
        elif resource.type is ResourceType.GROUP:
            group = self.groups.setdefault(resource.name, GroupConfig(broker=self.broker))
            _change(group, values, Source.GROUP, resource)
            if not values:
                del self.groups[resource.name]
        elif resource.type is ResourceType.CLIENT_METRICS:
            metrics = self.client_metrics.setdefault(resource.name, ClientMetricsConfig())
            _change(metrics, values, Source.CLIENT_METRICS, resource)
            if not values:
                del self.client_metrics[resource.name]

    def _build(self, resource: ConfigResource, values: Values) -> Config:
        if resource.type is ResourceType.TOPIC:
            return TopicConfig(values, broker=self.broker)
        if resource.type is ResourceType.GROUP:
            group = GroupConfig(values, broker=self.broker)
            _check_group(group, self.broker)
            return group
        if resource.type is ResourceType.CLIENT_METRICS:
            return ClientMetricsConfig(values)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{_named(resource)} has no settings")


def _check_group(group: GroupConfig, broker: "BrokerConfig") -> None:
    """What is set for a group stays within what the broker allows to any."""
    session, interval = group.consumer_session_timeout_ms, group.consumer_heartbeat_interval_ms
    broker.check_bounds("consumer.session.timeout.ms", "session.timeout.ms", session)
    broker.check_bounds("consumer.heartbeat.interval.ms", "heartbeat.interval.ms", interval)
    if interval >= session:
        raise ConfigError("consumer.heartbeat.interval.ms is not below consumer.session.timeout.ms")


def _layer(broker: ConfigResource) -> Source:
    return Source.BROKER if broker.name else Source.ALL_BROKERS


def _change(config: Config, values: Values, source: Source, resource: ConfigResource) -> None:
    try:
        config.update(values, source, replace=True)
    except ConfigError as error:
        logger.error("a setting of %s is left out: %s", _named(resource), error)
        kept = {name: value for name, value in values.items() if _is_bearable(config, name, value, source)}
        try:
            config.update(kept, source, replace=True)
        except ConfigError as contradiction:  # each is possible, but not all together
            logger.error("the settings of %s stay as they were: %s", _named(resource), contradiction)


def _is_bearable(config: Config, name: str, value: str, source: Source) -> bool:
    try:
        config.update({name: value}, source, replace=True, dry_run=True)
    except ConfigError:
        return False
    return True


def _named(resource: ConfigResource) -> str:
    if resource == ALL_BROKERS:
        return "all brokers"
    return f"{resource.type.name.lower().replace('_', ' ')} {resource.name!r}"
