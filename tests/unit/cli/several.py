"""Several real brokers in a thread of their own, for commands that are called as from a shell."""

import contextlib

from ottla.controller.commands import NewTopic
from ottla.core.errors import KafkaError
from ottla.core.loop_thread import LoopThread
from tests.unit.broker import several
from tests.unit.broker.controlled import until


class Several:
    """A cluster of `tests.unit.broker.several`, called from another thread."""

    def __init__(self, thread, cluster):
        self._thread, self.cluster = thread, cluster

    def run(self, work):
        return self._thread.run(work)

    @property
    def address(self):
        """Of all brokers that live."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.cluster.nodes.values())

    def create(self, topic, *assignments, **configs):
        """A topic whose partitions have these replicas."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}

        async def work():
            wanted = NewTopic(topic, assignments=dict(enumerate(assignments)), configs=named)
            results = await self.cluster.controller.controller.create_topics([wanted])
            if isinstance(results[topic], KafkaError):
                raise results[topic]
            await until(lambda: all(topic in node.metadata.topics for node in self.cluster.nodes.values()))

        self.run(work())
        self.until_in_sync(topic)

    def state(self, topic, partition=0):
        """As the controller knows it."""

        async def work():
            return self.cluster.controller.metadata.topics[topic].partitions[partition]

        return self.run(work())

    def until_in_sync(self, topic):
        """Every broker knows that all replicas that live are in sync."""

        def is_so():
            alive = self.cluster.nodes.keys()
            return all(
                set(state.isr) >= set(state.replicas) & alive and state.leader in alive
                for node in self.cluster.nodes.values()
                for state in node.metadata.topics[topic].partitions
            )

        self.run(until(is_so))

    def until(self, is_so):
        """The condition is looked at in the brokers' thread."""
        self.run(until(is_so))

    def kill(self, node_id):
        """Returns when the others know, and one of them is the controller."""
        self.run(self.cluster.kill(node_id))
        self._settle()

    def stop(self, node_id):
        self.run(self.cluster.stop(node_id))
        self._settle()

    def _settle(self):
        self.run(self.cluster.agreed())
        self.until(lambda: any(node.controller.is_controller for node in self.cluster.nodes.values()))

    def start(self, node_id):
        self.run(self.cluster.start(node_id))
        self.run(self.cluster.agreed())

    def led_by(self, topic, leader, partition=0):
        """Wait until every broker knows who leads."""

        def is_so():
            return all(
                node.metadata.topics[topic].partitions[partition].leader == leader
                for node in self.cluster.nodes.values()
            )

        self.run(until(is_so))


@contextlib.contextmanager
def several_brokers(count=3, **settings):
    """Brokers 0, 1, ... until the block ends."""
    thread = LoopThread("several-brokers")
    stack = contextlib.AsyncExitStack()

    async def begin():
        return await stack.enter_async_context(several.cluster_of(count, **settings))

    try:
        cluster = thread.run(begin())
        try:
            yield Several(thread, cluster)
        finally:
            thread.run(stack.aclose())
    finally:
        thread.end()
