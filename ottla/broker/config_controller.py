"""What can be set about the controller, and about leaving it in peace. Kafka's names, defaults and bounds."""

from ottla.core.config import Config, Duration, Key, Long, at_least, between

_INT_MAX = 2**31 - 1


class ControllerConfig(Config):
    """The settings that the controller obeys, and those of a broker that is about to leave."""

    controlled_shutdown_enable = Key(
        "controlled.shutdown.enable",
        bool,
        True,
        doc="Let other brokers lead what this one leads before it stops. A broker that is alone just stops.",
    )
    controlled_shutdown_max_retries = Key(
        "controlled.shutdown.max.retries",
        int,
        3,
        at_least(0),
        doc="How often the controller is asked again, while this broker still leads something.",
    )
    controlled_shutdown_retry_backoff_ms = Key(
        "controlled.shutdown.retry.backoff.ms",
        Duration,
        5_000,
        at_least(0),
        doc="How long to wait before the controller is asked again.",
    )
    controller_socket_timeout_ms = Key(
        "controller.socket.timeout.ms",
        Duration,
        30_000,
        between(1, _INT_MAX),
        doc="How long the controller waits for a broker's answer before it asks again over another connection.",
    )
    auto_leader_rebalance_enable = Key(
        "auto.leader.rebalance.enable",
        bool,
        True,
        doc="Give brokers that are back the leadership that they had.",
    )
    leader_imbalance_check_interval_seconds = Key(
        "leader.imbalance.check.interval.seconds",
        Long,
        300,
        at_least(1),
        doc="How often the controller looks whether the first replica of each partition leads it.",
    )
    leader_imbalance_per_broker_percentage = Key(
        "leader.imbalance.per.broker.percentage",
        int,
        10,
        at_least(0),
        doc="How much of what a broker should lead others may lead, before it gets it back.",
    )

    @property
    def rebalance_seconds(self) -> float | None:
        """How often leadership is looked at; None if it is not."""
        enabled = self.auto_leader_rebalance_enable
        return float(self.leader_imbalance_check_interval_seconds) if enabled else None
