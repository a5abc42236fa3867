"""What keeps a cluster from being healthy, said in a sentence."""

import asyncio

import pytest

from ottla.core.ids import TopicPartition
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.testing.cluster_view import NOBODY, ClusterView, PartitionView, held_by


def view(brokers=(1, 2, 3), controller=1, leader=2, isr=(1, 2, 3)) -> ClusterView:
    partition = PartitionView(leader, 0, (1, 2, 3), tuple(isr))
    return ClusterView(frozenset(brokers), controller, {TopicPartition("orders", 4): partition})


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (view(), None),
        (view(brokers=(1, 2)), "broker 3 is not registered"),
        (view(controller=NOBODY), "there is no controller"),
        (view(controller=9), "there is no controller"),
        (view(leader=NOBODY), "nobody leads orders-4"),
        (view(leader=9), "nobody leads orders-4"),
        (view(isr=(2, 3)), "broker 1 is not in sync in orders-4"),
    ],
)
def test_the_first_trouble_is_named(seen, said):
    assert seen.trouble([1, 2, 3]) == said


def test_an_empty_store_is_a_cluster_without_anybody():
    async def scenario() -> None:
        store = await EmbeddedStore.open(MEMORY)
        assert await held_by(store) == (frozenset(), NOBODY, {})
        await store.close()

    asyncio.run(scenario())
