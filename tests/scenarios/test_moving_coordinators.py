"""Coordinators that move with the leadership of their partitions: nothing that was acknowledged is lost, and whoever
asks the wrong broker is sent on with Kafka's codes."""

import asyncio
import contextlib

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from ottla.protocol.messages.transactions import AddedTopic, DescribeProducersRequest, TxnOffsetCommitRequest
from tests.unit.broker.several import cluster_of
from tests.unit.broker.spread import GROUP, PLACES, SHARED, TRANSACTION, Client, Owner, scenario

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
RANGE = [JoinGroupRequest.Protocol(name="range", metadata=b"")]


@contextlib.asynccontextmanager
async def clients_of(cluster, count):
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Client(cluster)) for _ in range(count)]


class Member:
    """Of the classic group "g0"."""

    def __init__(self, client):
        self.client = client
        self.me = {"group_id": "g0", "member_id": ""}
        self.generation = -1

    async def ask(self, name, version, **fields):
        return await self.client.insist(
            lambda: self.client.coordinator("g0", GROUP),
            lambda each: each.error_code,
            name,
            version,
            **self.me,
            **fields,
        )

    async def join(self):
        asked = {
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        joined = await self.ask("JoinGroup", 5, **asked)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.me["member_id"] = joined.member_id
            joined = await self.ask("JoinGroup", 5, **asked)
        if joined.error_code == ErrorCode.NONE:
            self.me["member_id"], self.generation = joined.member_id, joined.generation_id
        return joined

    async def sync(self):
        given = [SyncGroupRequest.Assignment(member_id=self.me["member_id"], assignment=b"all")]
        return await self.ask("SyncGroup", 3, generation_id=self.generation, assignments=given)

    async def beat(self):
        return (await self.ask("Heartbeat", 3, generation_id=self.generation)).error_code

    @property
    def credentials(self):
        return {"member_id": self.me["member_id"], "generation_id_or_member_epoch": self.generation}


async def in_state(state, client, third):
    """A group in that state: who may commit there, and what waits, on a connection of its own."""
    if state == "Empty":
        return {}, []
    if state == "Consumer":
        return await new_protocol(client), []
    member = Member(client)
    await member.join()
    if state == "CompletingRebalance":
        return None, []
    await member.sync()
    if state == "Stable":
        return member.credentials, []
    joining = asyncio.ensure_future(Member(third).join())  # waits for the first, which does not come again
    while await member.beat() != ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0.002)
    return member.credentials, [joining]


async def new_protocol(client):
    """A member of the consumer protocol, alone in its group."""
    joined = await client.insist(
        lambda: client.coordinator("g0", GROUP),
        lambda each: each.error_code,
        "ConsumerGroupHeartbeat",
        0,
        group_id="g0",
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["tea"],
        topic_partitions=[],
    )
    assert joined.error_code == ErrorCode.NONE
    return {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.member_epoch}


class Committer:
    """Commits one offset after the other, and knows which were acknowledged."""

    def __init__(self, client, credentials):
        self.acknowledged = self.tried = 0
        self.refused = ErrorCode.NONE
        self._client, self._credentials = client, credentials

    async def run(self):
        while True:
            self.tried += 1
            code = await self._client.commit("g0", self.tried, **self._credentials)
            if code:
                self.refused = ErrorCode(code)
                return
            self.acknowledged = self.tried


@pytest.mark.parametrize(
    "state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Consumer"]
)
@scenario
async def test_a_group_coordinator_that_dies_with_a_commit_under_way_loses_no_offset(state):
    async with cluster_of(3, **SHARED) as cluster, clients_of(cluster, 3) as (client, other, third):
        await client.create()
        assert await client.commit("g0", 0) == ErrorCode.NONE
        credentials, waiting = await in_state(state, client, third)
        committer = Committer(other, credentials or {})
        if credentials is not None:
            committing = asyncio.ensure_future(committer.run())
            while committer.acknowledged < 3:
                await asyncio.sleep(0.001)
        await cluster.kill(await client.coordinator("g0", GROUP))
        if credentials is not None:
            before = committer.acknowledged
            while committer.acknowledged < before + 3 and not committing.done():
                await asyncio.sleep(0.001)
            committing.cancel()
            await asyncio.wait([committing])
        for each in waiting:
            each.cancel()
            await asyncio.wait([each])
        found = await client.offset("g0")
        assert committer.acknowledged <= found <= committer.tried
        assert committer.refused == ErrorCode.NONE
        if state == "Stable":
            described = await client.ask(
                await client.coordinator("g0", GROUP), "DescribeGroups", 5, groups=["g0"]
            )
            assert described.groups[0].group_state == "Stable", (
                "its members are known to the next coordinator"
            )


@scenario
async def test_who_waits_for_a_rebalance_is_sent_elsewhere_when_leadership_goes():
    settings = {**SHARED, "group_initial_rebalance_delay_ms": 600_000}
    async with cluster_of(3, **settings) as cluster, Client(cluster) as client:
        await client.create()
        who = await client.coordinator("g0", GROUP)
        fields = {"group_id": "g0", "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
        fields |= {"member_id": "", "protocol_type": "consumer", "protocols": RANGE}
        while (  # it may not know yet that it leads
            joining := asyncio.ensure_future(client.ask(who, "JoinGroup", 3, **fields))
        ) and (await asyncio.wait([joining], timeout=0.05))[0]:
            assert joining.result().error_code in (NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await cluster.nodes[who].to_controller.controlled_shutdown()
        assert (await joining).error_code == NOT_COORDINATOR
        assert (await client.ask(who, "JoinGroup", 3, **fields)).error_code == NOT_COORDINATOR
        assert await client.coordinator("g0", GROUP) != who


@scenario
async def test_a_coordinator_that_takes_over_forgets_offsets_of_deleted_topics_also_if_it_is_not_the_controller():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        await client.create("rum")
        controller = cluster.controller.node_id
        group = await _coordinated_away_from(client, controller)
        assert await client.commit(group, 5, TopicPartition("rum", 0)) == ErrorCode.NONE
        assert await client.commit(group, 7) == ErrorCode.NONE
        for node in cluster.nodes.values():  # as if the coordinator died before it could note the deletion
            node.metadata.on_update = lambda changed, deleted: None
        await cluster.controller.controller.delete_topics(["rum"])
        while any("rum" in node.metadata.topics for node in cluster.nodes.values()):
            await asyncio.sleep(0.002)
        await cluster.kill(await client.coordinator(group, GROUP))
        assert await client.offset(group) == 7
        assert await client.coordinator(group, GROUP) != controller
        await client.create_anew("rum")
        assert await client.offset(group, TopicPartition("rum", 0)) == -1


async def _coordinated_away_from(client, controller):
    """A group whose first two coordinators are other brokers."""
    await client.coordinator("g0", GROUP)
    await client.known("__consumer_offsets")
    node = client.cluster.nodes[controller]
    for number in range(10):
        image = node.metadata.topics["__consumer_offsets"]
        if image.partitions[node.groups.partition_of(f"g{number}")].replicas[2] == controller:
            return f"g{number}"
    raise AssertionError("replicas are not spread")


# --- the wrong broker ---------------------------------------------------------------------------------------------


def _added():
    return [AddedTopic(name="tea", partitions=[0])]


OWNER = {"producer_id": 1, "producer_epoch": 0}
COMMITTED = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
WRONG = {
    "OffsetFetch": (
        7,
        {"group_id": "g0", "topics": [OffsetFetchRequest.Topic(name="tea", partition_indexes=[0])]},
        lambda told: told.error_code,
    ),
    "OffsetCommit": (
        8,
        {
            "group_id": "g0",
            "topics": [
                OffsetCommitRequest.Topic(
                    name="tea", partitions=[OffsetCommitRequest.Topic.Partition(**COMMITTED)]
                )
            ],
        },
        lambda told: told.topics[0].partitions[0].error_code,
    ),
    "Heartbeat": (3, {"group_id": "g0", "generation_id": 1, "member_id": "m"}, lambda told: told.error_code),
    "LeaveGroup": (
        3,
        {"group_id": "g0", "members": [LeaveGroupRequest.Member(member_id="m")]},
        lambda told: told.error_code,
    ),
    "DescribeGroups": (5, {"groups": ["g0"]}, lambda told: told.groups[0].error_code),
    "DeleteGroups": (2, {"groups_names": ["g0"]}, lambda told: told.results[0].error_code),
    "ConsumerGroupDescribe": (
        0,
        {"group_ids": ["g0"], "include_authorized_operations": False},
        lambda told: told.groups[0].error_code,
    ),
    "TxnOffsetCommit": (
        3,
        {
            "transactional_id": "mine",
            "group_id": "g0",
            **OWNER,
            "topics": [
                TxnOffsetCommitRequest.Topic(
                    name="tea", partitions=[TxnOffsetCommitRequest.Topic.Partition(**COMMITTED)]
                )
            ],
        },
        lambda told: told.topics[0].partitions[0].error_code,
    ),
    "InitProducerId": (
        4,
        {"transactional_id": "mine", "transaction_timeout_ms": 1_000},
        lambda told: told.error_code,
    ),
    "EndTxn": (4, {"transactional_id": "mine", **OWNER, "committed": True}, lambda told: told.error_code),
    "AddOffsetsToTxn": (
        3,
        {"transactional_id": "mine", **OWNER, "group_id": "g0"},
        lambda told: told.error_code,
    ),
    "AddPartitionsToTxn": (
        3,
        {
            "v3_and_below_transactional_id": "mine",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": _added(),
        },
        lambda told: told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
    ),
    "DescribeTransactions": (
        0,
        {"transactional_ids": ["mine"]},
        lambda told: told.transaction_states[0].error_code,
    ),
}


@scenario
async def test_whoever_asks_the_wrong_broker_is_told_that_it_does_not_coordinate():
    settings = {**SHARED, "transaction_partition_verification_enable": False}
    async with cluster_of(3, **settings) as cluster, Client(cluster) as client:
        await client.create()
        groups, transactions = (
            await client.coordinator("g0", GROUP),
            await client.coordinator("mine", TRANSACTION),
        )
        for name, (version, fields, code) in WRONG.items():
            is_of_group = "group" in " ".join(fields) and name != "AddOffsetsToTxn"
            right = groups if is_of_group else transactions
            for node_id in cluster.nodes:
                if node_id != right:
                    told = code(await client.ask(node_id, name, version, **fields))
                    assert (name, told) == (name, NOT_COORDINATOR)


@scenario
async def test_groups_and_transactions_are_listed_by_their_coordinators_and_described_there():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        names = [f"g{number}" for number in range(6)]
        for name in names:
            assert await client.commit(name, 1) == ErrorCode.NONE
            await Owner(client, name).init()
        listed: dict[str, int] = {}
        owned: dict[str, int] = {}
        for node_id in cluster.nodes:
            told = await client.ask(node_id, "ListGroups", 4, states_filter=[])
            assert told.error_code == ErrorCode.NONE
            listed |= dict.fromkeys((each.group_id for each in told.groups), node_id)
            told = await client.ask(node_id, "ListTransactions", 0, state_filters=[], producer_id_filters=[])
            assert told.error_code == ErrorCode.NONE
            owned |= dict.fromkeys((each.transactional_id for each in told.transaction_states), node_id)
        assert listed == {name: await client.coordinator(name, GROUP) for name in names}
        assert owned == {name: await client.coordinator(name, TRANSACTION) for name in names}
        for name in names:
            told = await client.ask(owned[name], "DescribeTransactions", 0, transactional_ids=[name])
            assert told.transaction_states[0].transaction_state == "Empty"


@scenario
async def test_everybody_names_the_same_coordinator_and_where_its_listener_is():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        for key_type in (GROUP, TRANSACTION):
            who = await client.coordinator("any", key_type)
            await client.known("__consumer_offsets" if key_type == GROUP else "__transaction_state")
            for node_id in cluster.nodes:
                told = await client.ask(node_id, "FindCoordinator", 3, key="any", key_type=key_type)
                assert (told.node_id, told.host, told.port) == (who, "127.0.0.1", cluster.nodes[who].port)


@scenario
async def test_producers_are_described_by_the_leader_only():
    async with cluster_of(3, **SHARED) as cluster, Client(cluster) as client:
        await client.create()
        owner = await Owner(client).init()
        await owner.send("x", PLACES[0])
        leader = await client.leader(PLACES[0])
        topics = [
            DescribeProducersRequest.Topic(name="tea", partition_indexes=[0, 9]),
            DescribeProducersRequest.Topic(name="rum", partition_indexes=[0]),
        ]
        for node_id in cluster.nodes:
            told = await client.ask(node_id, "DescribeProducers", 0, topics=topics)
            codes = [part.error_code for topic in told.topics for part in topic.partitions]
            known = ErrorCode.NONE if node_id == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == [known, unknown, unknown]


# --- internal topics ------------------------------------------------------------------------------------------------


@scenario
async def test_the_first_broker_of_a_cluster_makes_no_internal_topic_that_would_die_with_it():
    async with cluster_of(1, **SHARED) as cluster, Client(cluster) as client:
        for node_id in (1, 2):
            told = await client.ask(0, "FindCoordinator", 3, key="any", key_type=GROUP)
            assert told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert "__consumer_offsets" not in cluster.nodes[0].metadata.topics
            await cluster.start(node_id)
        await cluster.agreed()
        await client.coordinator("any", GROUP)
        image = cluster.nodes[0].metadata.topics["__consumer_offsets"]
        assert {len(state.replicas) for state in image.partitions} == {3}
