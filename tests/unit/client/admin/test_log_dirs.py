"""A replica that moves to another directory of its broker."""

import asyncio

from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.core.ids import TopicPartition
from tests.unit.client.admin.brokers import admin_of_a_broker


def test_a_replica_moves_to_another_directory(tmp_path):
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    place = TopicPartition("orders", 0)

    async def run():
        async with admin_of_a_broker(**{"log.dirs": ",".join(paths)}) as (admin, _):
            await admin.create_topic("orders", 1, 1)
            (node_id,) = directories = await admin.describe_log_dirs()
            (here,) = [path for path in paths if place in directories[node_id][path].replicas]
            (there,) = {*paths} - {here}
            await admin.alter_replica_log_dirs({TopicPartitionReplica(*place, node_id): there})
            while True:
                found = (await admin.describe_log_dirs([node_id], partitions=[place]))[node_id]
                if list(found[there].replicas.values()) == [(0, 0, False)]:
                    break
            assert found[here].replicas == {}

    asyncio.run(run())
