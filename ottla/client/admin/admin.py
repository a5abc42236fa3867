"""The admin client on the running event loop: one flat list of calls.

    async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("orders", partitions=6)
        await admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.LATEST})

Each call is a function of its area's module. Calls for many things return a value for each, and raise `PartialFailure`
if some of them failed: its `results` have a value or an error for every one. Calls for one thing raise that thing's
error. Everything is tried again, while it may help, for `timeout_ms`, or else for `default_api_timeout_ms`.
"""

from typing import Unpack

from ottla.client.admin import (
    acls,
    cluster,
    compaction,
    configs,
    group_offsets,
    groups,
    log_dirs,
    partitions,
    quotas,
    scram,
    share_offsets,
    tokens,
    topics,
    transactions,
)
from ottla.client.admin.routes import Routes
from ottla.client.config import AdminConfig
from ottla.client.parameters import AdminParameters
from ottla.client.settings import read_settings


class AsyncAdmin:
    """Asks brokers and changes what they keep. Settings are Kafka's, with underscores; all are in the reference."""

    def __init__(self, **settings: Unpack[AdminParameters]) -> None:
        self.config = read_settings(AdminConfig, settings)
        self._routes = Routes(self.config)

    async def start(self) -> None:
        """Connect to some broker, which the first call would do otherwise."""
        routes = self._routes
        await routes.patient(routes.cluster.any_peer, routes.deadline(None), "no broker was reached")

    async def close(self) -> None:
        """Close all connections. What is under way fails."""
        await self._routes.cluster.close()

    async def __aenter__(self) -> "AsyncAdmin":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    create_topics = topics.create_topics
    create_topic = topics.create_topic
    delete_topics = topics.delete_topics
    delete_topic = topics.delete_topic
    list_topics = topics.list_topics
    describe_topics = topics.describe_topics
    describe_topic = topics.describe_topic
    create_partitions = topics.create_partitions

    delete_records = partitions.delete_records
    elect_leaders = partitions.elect_leaders
    alter_partition_reassignments = partitions.alter_partition_reassignments
    list_partition_reassignments = partitions.list_partition_reassignments
    list_offsets = partitions.list_offsets
    compact_partitions = compaction.compact_partitions

    describe_configs = configs.describe_configs
    incremental_alter_configs = configs.incremental_alter_configs
    alter_configs = configs.alter_configs
    list_config_resources = configs.list_config_resources

    describe_cluster = cluster.describe_cluster
    describe_features = cluster.describe_features
    update_features = cluster.update_features
    unregister_broker = cluster.unregister_broker
    describe_metadata_quorum = cluster.describe_metadata_quorum

    describe_log_dirs = log_dirs.describe_log_dirs
    alter_replica_log_dirs = log_dirs.alter_replica_log_dirs

    list_groups = groups.list_groups
    describe_groups = groups.describe_groups
    describe_group = groups.describe_group
    delete_groups = groups.delete_groups
    delete_group = groups.delete_group
    remove_group_members = groups.remove_group_members

    list_group_offsets = group_offsets.list_group_offsets
    alter_group_offsets = group_offsets.alter_group_offsets
    delete_group_offsets = group_offsets.delete_group_offsets

    list_share_group_offsets = share_offsets.list_share_group_offsets
    alter_share_group_offsets = share_offsets.alter_share_group_offsets
    delete_share_group_offsets = share_offsets.delete_share_group_offsets

    describe_producers = transactions.describe_producers
    list_transactions = transactions.list_transactions
    describe_transactions = transactions.describe_transactions
    abort_transaction = transactions.abort_transaction
    fence_producers = transactions.fence_producers

    create_acls = acls.create_acls
    describe_acls = acls.describe_acls
    delete_acls = acls.delete_acls

    describe_client_quotas = quotas.describe_client_quotas
    alter_client_quotas = quotas.alter_client_quotas

    describe_user_scram_credentials = scram.describe_user_scram_credentials
    alter_user_scram_credentials = scram.alter_user_scram_credentials

    create_delegation_token = tokens.create_delegation_token
    renew_delegation_token = tokens.renew_delegation_token
    expire_delegation_token = tokens.expire_delegation_token
    describe_delegation_token = tokens.describe_delegation_token
