"""The topics in which coordinators keep their state. They come to be when the first client looks for a coordinator.

In a cluster they have as many replicas as the settings say, or they are not created: a topic that was made while one
broker was up would have one replica for ever, and its offsets would go with that broker. Who has no cluster around it
makes do with one.
"""

from ottla.broker.config import BrokerConfig
from ottla.controller.commands import NewTopic

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"

_ALONE = 1


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """How the topic is to be created. The controller refuses it while there are too few brokers."""
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name,
            config.offsets_topic_num_partitions,
            _replicas(config, config.offsets_topic_replication_factor),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    assert name == TRANSACTION_STATE, "there are two internal topics"
    replicas = _replicas(config, config.transaction_state_log_replication_factor)
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


def _replicas(config: BrokerConfig, wanted: int) -> int:
    """A broker whose metadata nobody shares is the only one there will be."""
    return wanted if config.has_shared_store else _ALONE
