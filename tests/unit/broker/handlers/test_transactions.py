"""Producer ids and transactions, as producers and other brokers ask for them."""

import errno

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.producer_ids import ProducerIds
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnRequest,
    WriteTxnMarkersRequest,
)
from ottla.records.builder import build
from ottla.records.record import Record
from tests.unit.broker.handlers.coordinating import coordinating, scenario
from tests.unit.broker.handlers.fakes import ask, refusal
from tests.unit.broker.handlers.logs import broker_of, led_partition

NOW = 1_700_000_000_000


@pytest.fixture
def broker():
    broker = broker_of(led_partition())
    blocks = iter([range(4000, 4002), range(5000, 5002)])

    async def allocate():
        return next(blocks)

    broker.producer_ids = ProducerIds(allocate)
    return broker


def init(transactional_id=None, **how):
    return {"transactional_id": transactional_id, "transaction_timeout_ms": 1000, **how}


@pytest.mark.parametrize("version", range(7))
def test_every_producer_gets_an_id_of_its_own(broker, version):
    given = [ask(broker, "InitProducerId", version, **init()) for _ in range(3)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in given] == [
        (0, 4000, 0),
        (0, 4001, 0),
        (0, 5000, 0),
    ]


def test_a_producer_that_brings_an_old_id_gets_a_new_one(broker):
    given = ask(broker, "InitProducerId", 3, **init(producer_id=77, producer_epoch=3))
    assert (given.producer_id, given.producer_epoch) == (4000, 0)


@pytest.mark.parametrize("half", [{"producer_id": 7}, {"producer_epoch": 7}])
def test_id_and_epoch_come_together(broker, half):
    assert refusal(broker, "InitProducerId", 3, **init(**half)) == 42


def test_an_empty_transactional_id_is_none(broker):
    assert refusal(broker, "InitProducerId", 4, **init("")) == 42


def test_ids_are_for_those_who_may_write_something(broker):
    broker.authorizer.deny(Operation.IDEMPOTENT_WRITE)
    assert refusal(broker, "InitProducerId", 4, **init()) == 0
    broker.authorizer.deny(Operation.WRITE)
    assert refusal(broker, "InitProducerId", 4, **init()) == 31
    assert refusal(broker, "InitProducerId", 4, **init("mine")) == 53


def test_without_a_controller_there_are_no_ids(broker):
    async def fail():
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "gone")

    broker.producer_ids = ProducerIds(fail)
    assert refusal(broker, "InitProducerId", 4, **init()) == 41


# --- transactional ids --------------------------------------------------------------------------------------------


class Owner:
    """A producer with a transactional id."""

    def __init__(self, client, transactional_id="mine"):
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id = self.epoch = -1

    async def init(self, version=4, **how):
        fields = init(self.transactional_id, **{"transaction_timeout_ms": 60_000, **how})
        given = await self.client.ask("InitProducerId", version, **fields)
        if given.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = given.producer_id, given.producer_epoch
        return given

    @property
    def me(self):
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def add(self, version=3, **topics):
        """The codes by partition."""
        response = await self.client.ask(
            "AddPartitionsToTxn",
            version,
            **{f"v3_and_below_{name}": value for name, value in self.me.items()},
            v3_and_below_topics=[AddedTopic(name=name, partitions=at) for name, at in topics.items()],
        )
        return results(response.results_by_topic_v3_and_below)

    async def end(self, version=4, committed=True):
        return await self.client.ask("EndTxn", version, **self.me, committed=committed)

    async def state(self):
        asked = await self.client.ask("DescribeTransactions", 0, transactional_ids=[self.transactional_id])
        (found,) = asked.transaction_states
        return found.transaction_state, {(t.topic, index) for t in found.topics for index in t.partitions}


def results(topics):
    return [
        (topic.name, each.partition_index, ErrorCode(each.partition_error_code))
        for topic in topics
        for each in topic.results_by_partition
    ]


@scenario
async def test_whoever_asks_last_owns_the_id():
    async with coordinating("tea") as client:
        first, second = Owner(client), Owner(client)
        await first.init()
        await second.init()
        assert first.producer_id == second.producer_id
        assert (first.epoch, second.epoch) == (0, 1)
        fenced, old = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        for version, code in [(0, old), (1, old), (2, fenced), (3, fenced)]:
            assert await first.add(version, tea=[0]) == [("tea", 0, code)]
            assert (await first.end(version)).error_code == code
            added = await client.ask("AddOffsetsToTxn", version, **first.me, group_id="readers")
            assert added.error_code == code
        await second.init()
        expected = {"producer_id": first.producer_id, "producer_epoch": first.epoch}
        for version, code in [(3, old), (4, fenced)]:
            assert (await first.init(version, **expected)).error_code == code


@scenario
async def test_a_transactional_id_in_every_version():
    async with coordinating() as client:
        owner = Owner(client)
        for version in range(7):
            given = await owner.init(version)
            assert (given.error_code, given.producer_epoch) == (ErrorCode.NONE, version)


@scenario
async def test_absurd_timeouts_are_refused():
    async with coordinating() as client:
        for timeout_ms in (0, -1, 900_001, 2**31 - 1):
            given = await Owner(client).init(transaction_timeout_ms=timeout_ms)
            assert given.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
            assert (given.producer_id, given.producer_epoch) == (-1, -1)
        assert (await Owner(client).state())[0] == ""


@scenario
async def test_an_id_that_is_not_theirs_opens_nothing():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        client.node.authorizer.deny(Operation.WRITE, "mine")
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (await owner.init()).error_code == denied
        assert await owner.add(tea=[0, 1]) == [("tea", 0, denied), ("tea", 1, denied)]
        assert (await owner.end()).error_code == denied
        assert (await client.ask("AddOffsetsToTxn", 3, **owner.me, group_id="g")).error_code == denied
        assert await owner.state() == ("Empty", set())


@scenario
async def test_without_an_id_there_is_no_transaction():
    async with coordinating("tea") as client:
        nobody = Owner(client, "")
        invalid = ErrorCode.INVALID_REQUEST
        assert await nobody.add(tea=[0]) == [("tea", 0, invalid)]
        assert (await nobody.end()).error_code == invalid
        assert (await client.ask("AddOffsetsToTxn", 3, **nobody.me, group_id="g")).error_code == invalid
        stranger = Owner(client, "unheard-of")
        assert await stranger.add(tea=[0]) == [("tea", 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]


# --- partitions of a transaction ----------------------------------------------------------------------------------


@scenario
async def test_partitions_are_added_in_every_version_of_clients():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        for version in range(4):
            assert await owner.add(version, tea=[version % 2]) == [("tea", version % 2, ErrorCode.NONE)]
        assert await owner.state() == ("Ongoing", {("tea", 0), ("tea", 1)})


@scenario
async def test_one_partition_that_cannot_be_added_keeps_the_others_out():
    async with coordinating("tea", "gin") as client:
        owner = Owner(client)
        await owner.init()
        client.node.authorizer.deny(Operation.WRITE, "gin")
        others = ErrorCode.OPERATION_NOT_ATTEMPTED
        assert await owner.add(nowhere=[0], tea=[0, 7], gin=[0]) == [
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("tea", 0, others),
            ("tea", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("gin", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
        assert await owner.add(tea=[0], __consumer_offsets=[0]) == [
            ("tea", 0, others),
            ("__consumer_offsets", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
        assert await owner.state() == ("Empty", set())


async def ask_as_broker(client, version, *transactions):
    return await client.ask("AddPartitionsToTxn", version, transactions=list(transactions))


def of_broker(owner, *, verify_only=False, **topics):
    return AddPartitionsToTxnRequest.Transaction(
        **owner.me,
        verify_only=verify_only,
        topics=[AddedTopic(name=name, partitions=at) for name, at in topics.items()],
    )


@scenario
async def test_brokers_add_and_verify_many_transactions_at_once():
    async with coordinating("tea") as client:
        ours, yours = Owner(client, "ours"), Owner(client, "yours")
        await ours.init()
        await yours.init()
        await yours.add(tea=[1])
        response = await ask_as_broker(
            client,
            5,
            of_broker(ours, tea=[0], __consumer_offsets=[1]),
            of_broker(yours, verify_only=True, tea=[0, 1]),
            of_broker(Owner(client, "unheard-of"), tea=[0]),
            of_broker(ours, nowhere=[0], tea=[1]),
        )
        assert response.error_code == ErrorCode.NONE
        assert [
            (each.transactional_id, results(each.topic_results)) for each in response.results_by_transaction
        ] == [
            ("ours", [("tea", 0, ErrorCode.NONE), ("__consumer_offsets", 1, ErrorCode.NONE)]),
            ("yours", [("tea", 0, ErrorCode.TRANSACTION_ABORTABLE), ("tea", 1, ErrorCode.NONE)]),
            ("unheard-of", [("tea", 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING)]),
            (
                "ours",
                [
                    ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    ("tea", 1, ErrorCode.OPERATION_NOT_ATTEMPTED),
                ],
            ),
        ]
        assert (await ours.state())[1] == {("tea", 0), ("__consumer_offsets", 1)}
        assert (await yours.state())[1] == {("tea", 1)}


@scenario
async def test_who_is_no_broker_asks_about_nobody_elses_transaction():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        client.node.authorizer.deny(Operation.CLUSTER_ACTION)
        response = await ask_as_broker(client, 4, of_broker(owner, tea=[0]))
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert response.results_by_transaction == []
        assert await owner.state() == ("Empty", set())


@scenario
async def test_the_offsets_of_a_group_are_a_partition_like_any_other():
    async with coordinating() as client:
        owner = Owner(client)
        await owner.init()
        for version in range(5):
            added = await client.ask("AddOffsetsToTxn", version, **owner.me, group_id="readers")
            assert added.error_code == ErrorCode.NONE
        index = client.node.groups.partition_of("readers")
        assert await owner.state() == ("Ongoing", {("__consumer_offsets", index)})
        client.node.authorizer.deny(Operation.READ, "readers")
        added = await client.ask("AddOffsetsToTxn", 4, **owner.me, group_id="readers")
        assert added.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# --- the end ------------------------------------------------------------------------------------------------------


@scenario
async def test_a_transaction_ends_as_its_owner_says():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        for version in range(5):
            for committed, state in [(True, "CompleteCommit"), (False, "CompleteAbort")]:
                await owner.add(tea=[0])
                assert (await owner.end(version, committed)).error_code == ErrorCode.NONE
                assert await owner.state() == (state, set())


@scenario
async def test_newer_clients_go_on_with_another_epoch():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        await owner.add(tea=[0])
        ended = await owner.end(5)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, owner.producer_id, 1)
        assert await owner.add(tea=[0]) == [("tea", 0, ErrorCode.PRODUCER_FENCED)]


@scenario
async def test_newer_clients_begin_the_next_transaction_while_the_markers_of_the_last_are_written():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        assert await written(owner) == ErrorCode.NONE
        client.broker.disk.fail_next(
            "write", errno.ENOSPC, after=1
        )  # the outcome passes, the marker does not
        ended = await owner.end(5)
        assert (await owner.state())[0] == "PrepareCommit"
        owner.producer_id, owner.epoch = ended.producer_id, ended.producer_epoch
        assert await written(owner) == ErrorCode.NONE
        assert (await owner.state())[0] == "Ongoing"


async def written(owner):
    """The code for a batch that announces its partition by itself."""
    part = ProduceRequest.Topic.Partition(
        index=0, records=transactional_batch(owner.producer_id, owner.epoch)
    )
    response = await owner.client.ask(
        "Produce",
        12,
        transactional_id=owner.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.Topic(name="tea", partition_data=[part])],
    )
    return response.responses[0].partition_responses[0].error_code


def transactional_batch(producer_id, epoch):
    return build(
        [Record(0, NOW, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )


def marker(producer_id, epoch, *, committed=False, **topics):
    topic = WriteTxnMarkersRequest.Marker.Topic
    return WriteTxnMarkersRequest.Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[topic(name=name, partition_indexes=at) for name, at in topics.items()],
        coordinator_epoch=0,
    )


def marked(response):
    return [
        (each.producer_id, topic.name, part.partition_index, ErrorCode(part.error_code))
        for each in response.markers
        for topic in each.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", range(3))
@scenario
async def test_markers_end_what_hangs(version):
    async with coordinating("tea") as client:
        partition = client.node.replicas.get("tea", 0)
        partition.append(transactional_batch(7, 3), 1, NOW)
        assert partition.log.producers.get(7).txn_first_offset == 0
        response = await client.ask(
            "WriteTxnMarkers",
            version,
            markers=[marker(7, 3, tea=[0], nowhere=[1]), marker(8, 0, committed=True, tea=[1])],
        )
        assert marked(response) == [
            (7, "tea", 0, ErrorCode.NONE),
            (7, "nowhere", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (8, "tea", 1, ErrorCode.NONE),
        ]
        assert partition.log.producers.get(7).txn_first_offset == -1


@scenario
async def test_markers_are_written_by_those_who_may():
    async with coordinating("tea") as client:
        authorizer = client.node.authorizer
        authorizer.deny(Operation.CLUSTER_ACTION)
        fields = {"markers": [marker(7, 3, tea=[0])]}
        assert marked(await client.ask("WriteTxnMarkers", 1, **fields)) == [(7, "tea", 0, ErrorCode.NONE)]
        authorizer.deny(Operation.ALTER)
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert marked(await client.ask("WriteTxnMarkers", 1, **fields)) == [(7, "tea", 0, denied)]
        assert client.node.replicas.get("tea", 0).log.end_offset == 1


@scenario
async def test_without_a_coordinator_everybody_is_sent_elsewhere():
    async with coordinating("tea") as client:
        owner = Owner(client)
        await owner.init()
        client.node.transactions.close()
        code = ErrorCode.NOT_COORDINATOR
        assert (await owner.init()).error_code == code
        assert await owner.add(tea=[0]) == [("tea", 0, code)]
        assert (await owner.end()).error_code == code
        index = client.node.groups.partition_of("g")
        assert TopicPartition("__consumer_offsets", index) in client.node.replicas.partitions
        assert (await client.ask("AddOffsetsToTxn", 3, **owner.me, group_id="g")).error_code == code
