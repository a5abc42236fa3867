"""The topics in which coordinators keep their state. They come to be when the first client looks for a coordinator."""

from ottla.broker.config import BrokerConfig
from ottla.controller.commands import NewTopic

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"


def internal_topic(name: str, config: BrokerConfig, brokers: int) -> NewTopic:
    """How the topic is to be created in a cluster of so many brokers.

    It has as many replicas as are wanted, or as there are brokers: one that starts alone must not wait for others.
    """
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            min(config.offsets_topic_replication_factor, brokers),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    assert name == TRANSACTION_STATE, "there are two internal topics"
    replicas = min(config.transaction_state_log_replication_factor, brokers)
    return NewTopic(
        name,
        config.transaction_state_log_num_partitions,
        replicas,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
