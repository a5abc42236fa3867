"""As much of a broker as producers and readers need: real partitions, real sessions, and a client without a socket."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from functools import wraps

from ottla.broker.apis import SERVED, handler_of
from ottla.broker.call import Call
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.metrics import BrokerMetrics, TopicMeters
from ottla.broker.stepping import begin
from ottla.core.clock import SystemClock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.watermark import Watermark
from ottla.protocol.apis import APIS
from ottla.protocol.codec import decode_exactly, encode_bytes
from ottla.protocol.schema import declaration
from ottla.storage.flushing import GroupCommit
from ottla.storage.reading import Slice
from tests.unit.broker.handlers import fakes, logs


def scenario(test):
    """Run a test that waits."""

    @wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 60))

    return inner


class Replicas(logs.Replicas):
    """Partitions that can be synced, can go, and can be on a disk that has failed."""

    def __init__(self, partitions):
        super().__init__()
        self.partitions = {each.topic_partition: each for each in partitions}
        self._commits = {}
        for each in partitions:
            self.commit_of(each.log).on_synced = each.synced

    def commit_of(self, log):
        return self._commits.setdefault(log, GroupCommit(log, log.files))

    def drop(self, partition):
        del self.partitions[partition.topic_partition]
        partition.stop()

    def note_failure(self, partition):
        if partition.log.failure is not None:
            super().note_failure(partition)

    def get(self, topic, index):
        if TopicPartition(topic, index) in self.failed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk has failed")
        return super().get(topic, index)


class Watching:
    """An observer that writes down what it is told."""

    def __init__(self):
        self.seen = []

    def appended(self, partition, appended, size):
        self.seen.append(("appended", str(partition), appended.first_offset, appended.last_offset))

    def fetched(self, partition, offset, size):
        self.seen.append(("fetched", str(partition), offset))


def serving(*partitions, nodes=()):
    """A broker, number 1, that has these partitions."""
    broker = logs.broker_of(*partitions)
    if nodes:
        broker.metadata.update(brokers=nodes)
    broker.replicas = Replicas(partitions)
    broker.clock = SystemClock()
    broker.node_id = 1
    broker.metrics = BrokerMetrics()
    broker.topic_meters = TopicMeters(broker.metrics)
    broker.observers = []
    broker.stopping = Watermark()
    broker.fetch_sessions = FetchSessions(10)
    broker.openers = ThreadPoolExecutor(1)
    return broker


class Connection(fakes.Connection):
    def __init__(self):
        super().__init__()
        self.appending = None
        self.closed = []

    def close(self, reason=None):
        self.closed.append(reason)


class Client:
    """Requests go both ways through the codec, and are begun in the order in which they are posted."""

    def __init__(self, broker, client_id="test"):
        self.broker = broker
        self.connection = Connection()
        self._client_id = client_id

    def post(self, request, version):
        """A future of the answer; the request is under way when this returns."""
        key = declaration(type(request)).api_key
        assert SERVED[key].min_version <= version <= SERVED[key].max_version
        asked = decode_exactly(type(request), encode_bytes(request, version), version)
        answer = handler_of(key)(self.broker, Call(self.connection, key, version, 1, self._client_id), asked)
        if inspect.iscoroutine(answer):
            answer = begin(answer)
        return asyncio.ensure_future(_answered(APIS[key], answer, version))

    async def send(self, request, version):
        return await self.post(request, version)


async def _answered(api, answer, version):
    if isinstance(answer, asyncio.Future):
        answer = await answer
    if answer is None:
        return None
    if api.name == "Fetch":
        for topic in answer.responses:
            for partition in topic.partitions:
                if isinstance(partition.records, Slice):
                    partition.records = partition.records.read()
    return decode_exactly(api.response, encode_bytes(answer, version), version)
