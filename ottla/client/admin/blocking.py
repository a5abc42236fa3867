"""The admin client for programs without an event loop: the calls of `AsyncAdmin`, which wait for their answers.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic("orders", partitions=6)

It may be used by many threads at once. A loop in a thread of its own does the work.
"""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

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
from ottla.client.admin.admin import AsyncAdmin
from ottla.client.admin.routes import Client
from ottla.client.errors import ClosedError, IllegalStateError
from ottla.client.parameters import AdminParameters
from ottla.core.loop_thread import LoopThread

P = ParamSpec("P")
R = TypeVar("R")


def blocking(
    call: Callable[Concatenate[Client, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Admin", P], R]:
    """The call of an area as a method that waits; its parameters stay what they are."""

    @functools.wraps(call)
    def method(self: "Admin", /, *args: P.args, **options: P.kwargs) -> R:
        return self._run(call(self._admin, *args, **options))

    return method


class Admin:
    """Asks brokers and changes what they keep. Settings are Kafka's, with underscores; all are in the reference."""

    def __init__(self, **settings: Unpack[AdminParameters]) -> None:
        self._admin = AsyncAdmin(**settings)
        self.config = self._admin.config
        self._thread = LoopThread("ottla-admin", patience_seconds=None)
        self._is_closed = False

    def close(self) -> None:
        """Close all connections, and end the thread. What is under way fails."""
        if not self._is_closed:
            self._is_closed = True
            if self._thread.is_ours:
                self._thread.run(self._admin.close())
                self._thread.end()

    def start(self) -> None:
        """Connect to some broker, which the first call would do otherwise."""
        self._run(self._admin.start())

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        reason: Exception | None = None
        if self._is_closed:
            reason = ClosedError("the admin client was closed")
        elif not self._thread.is_ours:
            reason = IllegalStateError(
                "the admin client belongs to the process that this one was forked from"
            )
        if reason is not None:
            work.close()
            raise reason
        return self._thread.run(work)

    create_topics = blocking(topics.create_topics)
    create_topic = blocking(topics.create_topic)
    delete_topics = blocking(topics.delete_topics)
    delete_topic = blocking(topics.delete_topic)
    list_topics = blocking(topics.list_topics)
    describe_topics = blocking(topics.describe_topics)
    describe_topic = blocking(topics.describe_topic)
    create_partitions = blocking(topics.create_partitions)

    delete_records = blocking(partitions.delete_records)
    elect_leaders = blocking(partitions.elect_leaders)
    alter_partition_reassignments = blocking(partitions.alter_partition_reassignments)
    list_partition_reassignments = blocking(partitions.list_partition_reassignments)
    list_offsets = blocking(partitions.list_offsets)
    compact_partitions = blocking(compaction.compact_partitions)

    describe_configs = blocking(configs.describe_configs)
    incremental_alter_configs = blocking(configs.incremental_alter_configs)
    alter_configs = blocking(configs.alter_configs)
    list_config_resources = blocking(configs.list_config_resources)

    describe_cluster = blocking(cluster.describe_cluster)
    describe_features = blocking(cluster.describe_features)
    update_features = blocking(cluster.update_features)
    unregister_broker = blocking(cluster.unregister_broker)
    describe_metadata_quorum = blocking(cluster.describe_metadata_quorum)

    describe_log_dirs = blocking(log_dirs.describe_log_dirs)
    alter_replica_log_dirs = blocking(log_dirs.alter_replica_log_dirs)

    list_groups = blocking(groups.list_groups)
    describe_groups = blocking(groups.describe_groups)
    describe_group = blocking(groups.describe_group)
    delete_groups = blocking(groups.delete_groups)
    delete_group = blocking(groups.delete_group)
    remove_group_members = blocking(groups.remove_group_members)

    list_group_offsets = blocking(group_offsets.list_group_offsets)
    alter_group_offsets = blocking(group_offsets.alter_group_offsets)
    delete_group_offsets = blocking(group_offsets.delete_group_offsets)

    list_share_group_offsets = blocking(share_offsets.list_share_group_offsets)
    alter_share_group_offsets = blocking(share_offsets.alter_share_group_offsets)
    delete_share_group_offsets = blocking(share_offsets.delete_share_group_offsets)

    describe_producers = blocking(transactions.describe_producers)
    list_transactions = blocking(transactions.list_transactions)
    describe_transactions = blocking(transactions.describe_transactions)
    abort_transaction = blocking(transactions.abort_transaction)
    fence_producers = blocking(transactions.fence_producers)

    create_acls = blocking(acls.create_acls)
    describe_acls = blocking(acls.describe_acls)
    delete_acls = blocking(acls.delete_acls)

    describe_client_quotas = blocking(quotas.describe_client_quotas)
    alter_client_quotas = blocking(quotas.alter_client_quotas)

    describe_user_scram_credentials = blocking(scram.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(scram.alter_user_scram_credentials)

    create_delegation_token = blocking(tokens.create_delegation_token)
    renew_delegation_token = blocking(tokens.renew_delegation_token)
    expire_delegation_token = blocking(tokens.expire_delegation_token)
    describe_delegation_token = blocking(tokens.describe_delegation_token)
