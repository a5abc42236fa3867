"""A directory of Apache Kafka becomes ours: whole, once, and not at all where something would be lost."""

import asyncio
import functools
import json
import logging
import shutil
import struct
import uuid

import pytest

from ottla.broker.adoption import examine
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import Configs
from ottla.broker.stored import load_cluster, load_context
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.paths import PRODUCER_ID_BLOCK, ClusterIdNode, ProducerIdBlockNode
from ottla.metadata.store import StoreUnavailable
from ottla.protocol.messages import cluster_metadata as records
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.files import OsFiles
from ottla.storage.meta import ADOPTED, METADATA_DIRECTORY, Meta, read_meta, write_meta
from ottla.testing.broker import AsyncBroker
from tests.unit.metadata.kraft_files import (
    CLUSTER_ID,
    DIRECTORY_ID,
    NODE_ID,
    batch,
    broker,
    make_partitions,
    partition,
    recorded,
    setting,
    topic,
    write_directory,
)

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
ORDERS_0 = TopicPartition("orders", 0)


def scenario(test):
    """Run a test that waits."""

    @functools.wraps(test)
    def inner(*args, **how):
        asyncio.run(test(*args, **how))

    return inner


def judged(directory, *others, log_dirs=(), **settings):
    """What would be taken over, as a broker sees it that is not given a number of its own."""
    values = {"node.id": NODE_ID, "log.dirs": str(directory)} | {
        k.replace("_", "."): v for k, v in settings.items()
    }
    paths = [str(path) for path in (directory, *others, *log_dirs)]
    return examine(OsFiles(), str(directory), paths, Configs(BrokerConfig(values)), NOW_MS)


async def taken_over(directory, **settings):
    store = await EmbeddedStore.open(MEMORY)
    adoption = judged(directory, **settings)
    await adoption.take_over(store, OsFiles(), NODE_ID)
    return store


def one_topic(directory, *more, partitions=(ORDERS_0,)):
    return write_directory(directory, broker(), topic(), partition(), *more, partitions=partitions)


# --- what is taken over -----------------------------------------------------------------------------------------------


@scenario
async def test_topics_settings_and_epochs_are_those_of_the_old_cluster(tmp_path):
    directory = recorded(tmp_path)
    found = judged(directory, adoption_ignore_acls=True)
    for each in found.image.topics.values():
        make_partitions(
            directory, *(TopicPartition(each.name, i) for i in each.partitions), topic_id=each.topic_id
        )
    store = await taken_over(directory, adoption_ignore_acls=True)
    cluster = await load_cluster(store, ClusterIdNode.decode((await store.get(ClusterIdNode.path)).data))
    assert cluster.cluster_id == CLUSTER_ID
    assert cluster.topics == {each.name: each.topic_id for each in found.image.topics.values()}
    assert cluster.configs == {
        ConfigResource(ResourceType.BROKER, ""): {
            "log.retention.ms": "123456789",
            "min.insync.replicas": "1",
        },
        ConfigResource(ResourceType.TOPIC, "orders"): {"retention.ms": "-1"},
        ConfigResource(ResourceType.TOPIC, "late"): {"segment.bytes": "2000000"},
    }
    context = await load_context(store, NODE_ID, 1, 0)
    states = {state.topic_partition: state for state in context.states()}
    assert len(states) == 7
    assert {(s.leader, s.leader_epoch, s.isr, s.replicas) for s in states.values()} == {(4, 1, (4,), (4,))}


@scenario
async def test_the_epoch_of_a_log_that_is_ahead_of_the_metadata_is_not_given_again(tmp_path):
    directory = one_topic(tmp_path)
    (directory / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    context = await load_context(await taken_over(directory), NODE_ID, 1, 0)
    assert [state.leader_epoch for state in context.states()] == [9]


@scenario
async def test_producer_ids_go_on_where_nobody_has_been(tmp_path):
    used = 1 << 60
    directory = one_topic(tmp_path, records.ProducerIdsRecord(broker_id=NODE_ID, next_producer_id=used))
    store = await taken_over(directory)
    assert ProducerIdBlockNode.decode((await store.get(PRODUCER_ID_BLOCK)).data).last + 1 == used
    directory = one_topic(
        tmp_path / "second", records.ProducerIdsRecord(broker_id=NODE_ID, next_producer_id=1000)
    )
    store = await taken_over(directory)
    assert ProducerIdBlockNode.decode((await store.get(PRODUCER_ID_BLOCK)).data).last + 1 == NOW_MS << 12


@scenario
async def test_a_broker_starts_in_it_keeps_its_ids_and_does_not_take_over_twice(tmp_path, caplog):
    directory = one_topic(tmp_path, setting("orders", "retention.ms", "-1"))
    config = {"node.id": NODE_ID, "log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    before = {path.name: path.read_bytes() for path in (directory / METADATA_DIRECTORY).iterdir()}
    for start in (1, 2):
        caplog.clear()
        node = Broker(BrokerConfig(config))
        with caplog.at_level(logging.WARNING):
            await node.start()
        assert node.cluster_id == CLUSTER_ID
        assert node.configs.topic("orders").retention_ms == -1
        assert list(node.replicas.partitions) == [ORDERS_0]
        assert ("took over cluster" in caplog.text) == (start == 1)
        assert "belong to no topic" not in caplog.text
        await node.stop()
    assert read_meta(OsFiles(), str(directory)) == Meta(NODE_ID, CLUSTER_ID, DIRECTORY_ID)
    assert {path.name: path.read_bytes() for path in (directory / METADATA_DIRECTORY).iterdir()} == before


@scenario
async def test_a_broker_of_the_test_kit_has_the_number_of_its_directory(tmp_path):
    async with AsyncBroker(data_dir=one_topic(tmp_path)) as node:
        assert node.node.node_id == NODE_ID
        assert list(node.node.replicas.partitions) == [ORDERS_0]


@scenario
async def test_a_crash_before_the_end_starts_it_again(tmp_path):
    directory = one_topic(tmp_path)

    class Failing(EmbeddedStore):
        async def multi(self, ops):
            raise StoreUnavailable("the power is gone")

    path = str(tmp_path / "ottla-metadata.db")
    store = await Failing.open(path)
    with pytest.raises(StoreUnavailable):
        await judged(directory).take_over(store, OsFiles(), NODE_ID)
    await store.close()
    assert not (directory / ADOPTED).exists()
    store = await EmbeddedStore.open(path)
    await judged(directory).take_over(store, OsFiles(), NODE_ID)
    assert await store.children("/brokers/topics") == ["orders"]
    (directory / ADOPTED).unlink()  # the power goes once more, between the two
    await judged(directory).take_over(store, OsFiles(), NODE_ID)
    assert (directory / ADOPTED).exists()
    (directory / ADOPTED).unlink()  # ... and Kafka is started before we are
    log = directory / METADATA_DIRECTORY / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + batch([setting("orders", "retention.ms", "1")], 3))
    with pytest.raises(ConfigError, match=r"Apache Kafka has run in .* since Ottla took it over"):
        await judged(directory).take_over(store, OsFiles(), NODE_ID)
    await store.close()


@scenario
async def test_what_belongs_to_no_topic_keeps_its_records_too(tmp_path):
    """A recovery that meets an epoch which a killed broker had not noted would cut them."""
    directory = one_topic(tmp_path)
    make_partitions(directory, TopicPartition("stray", 0), topic_id=uuid.UUID(int=9))
    rows = [build([Record(epoch, 0, None, b"v")], base_offset=epoch, leader_epoch=epoch) for epoch in (0, 1)]
    log = directory / "stray-0" / f"{0:020}.log"
    log.write_bytes(b"".join(rows))
    (directory / "stray-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    async with AsyncBroker(data_dir=directory):
        pass
    assert log.read_bytes() == b"".join(rows)
    assert not (directory / METADATA_DIRECTORY / "leader-epoch-checkpoint").exists()


@scenario
async def test_a_store_of_another_cluster_is_not_taken_for_its_own(tmp_path):
    config = {"node.id": NODE_ID, "log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    node = Broker(BrokerConfig(config))
    await node.start()
    await node.stop()
    (tmp_path / "meta.properties").unlink()
    directory = one_topic(tmp_path)
    with pytest.raises(ConfigError, match=f"belongs to cluster {CLUSTER_ID}, this broker is in "):
        await Broker(BrokerConfig(config)).start()
    assert not (directory / ADOPTED).exists()


@scenario
async def test_what_kafka_changes_afterwards_is_noticed(tmp_path):
    directory = one_topic(tmp_path)
    await taken_over(directory)
    assert judged(directory) is None
    log = directory / METADATA_DIRECTORY / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + batch([topic("new")], 3))
    with pytest.raises(ConfigError, match=r"Apache Kafka has run in .* since Ottla took it over"):
        judged(directory)
    (directory / ADOPTED).write_text(json.dumps({"version": 0}))
    with pytest.raises(ConfigError, match="makes no sense"):
        judged(directory)


@pytest.mark.parametrize("nonsense", ["", "[]", '{"file":"f","size":Infinity}', '{"file":"f","size":null}'])
def test_a_marker_that_makes_no_sense_is_refused_with_a_sentence(tmp_path, nonsense):
    directory = one_topic(tmp_path)
    (directory / ADOPTED).write_text(nonsense)
    with pytest.raises(ConfigError, match=f"{ADOPTED} makes no sense"):
        judged(directory)


def test_keys_that_mean_nothing_here_are_left_out_by_name(tmp_path, caplog):
    directory = one_topic(
        tmp_path,
        setting("orders", "confluent.tier.enable", "true"),
        setting("orders", "retention.ms", "-1"),
        setting("", "listener.name.ssl.keystore.password", "secret", 4),
        setting("9", "log.retention.ms", "1", 4),
        setting("x", "y", "z", 77),
    )
    assert judged(directory).settings == {
        ConfigResource(ResourceType.TOPIC, "orders"): {"retention.ms": "-1"}
    }
    assert "confluent.tier.enable, which was set for topic orders in Apache Kafka, is left out" in caplog.text
    assert "keystore.password, which was set for broker in" in caplog.text
    assert "secret" not in caplog.text


def test_settings_that_contradict_each_other_are_refused(tmp_path):
    """A start would drop all of them together, and with them what keeps the records."""
    more = {"retention.ms": "-1", "min.compaction.lag.ms": "1000", "max.compaction.lag.ms": "10"}
    directory = one_topic(tmp_path, *(setting("orders", key, value) for key, value in more.items()))
    with pytest.raises(
        ConfigError, match=r"the settings of topic orders .*: min\.compaction\.lag\.ms is above"
    ):
        judged(directory)


def test_a_partition_that_was_never_made_is_told_and_starts_empty(tmp_path, caplog):
    assert judged(one_topic(tmp_path, partition(1))) is not None
    assert "1 partitions of Apache Kafka have no directory, and start empty: orders-1" in caplog.text


def test_metadata_may_be_a_copy_of_what_controllers_have(tmp_path, caplog):
    directory = one_topic(tmp_path)
    (directory / METADATA_DIRECTORY / "quorum-state").unlink()
    assert judged(directory) is not None
    assert "the metadata is a copy" in caplog.text


def test_what_is_not_supported_is_counted(tmp_path, caplog):
    judged(recorded(tmp_path), adoption_ignore_acls=True)
    assert (
        "Apache Kafka had 1 ACLs, 1 SCRAM credentials, 1 quotas, which are not supported yet" in caplog.text
    )


# --- what is refused --------------------------------------------------------------------------------------------------


def test_acls_are_not_forgotten_unless_somebody_says_so(tmp_path):
    with pytest.raises(
        ConfigError, match=r"1 ACLs, which are not supported yet: .* adoption\.ignore\.acls=true"
    ):
        judged(recorded(tmp_path))


def test_another_number_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"belongs to broker 4, this one is 3: start it with node\.id=4"):
        judged(one_topic(tmp_path), node_id=3)


def test_directories_of_two_clusters_are_refused(tmp_path):
    (tmp_path / "b").mkdir()
    write_meta(OsFiles(), str(tmp_path / "b"), Meta(NODE_ID, "another", uuid.uuid4()))
    with pytest.raises(ConfigError, match=r"/b belongs to cluster another, but .*/a to "):
        judged(one_topic(tmp_path / "a"), tmp_path / "b")


def test_a_partition_in_two_directories_is_refused(tmp_path):
    (tmp_path / "b").mkdir()
    make_partitions(tmp_path / "b", ORDERS_0)
    with pytest.raises(ConfigError, match=r"orders-0 is in .*/a/orders-0 and in .*/b/orders-0"):
        judged(one_topic(tmp_path / "a"), tmp_path / "b")


def test_a_log_directory_that_is_not_named_is_missed(tmp_path):
    other = uuid.UUID(int=4000)
    directory = write_directory(
        tmp_path, broker(log_dirs=[DIRECTORY_ID, other]), topic(), partition(), partitions=[ORDERS_0]
    )
    with pytest.raises(ConfigError, match=r"had 2 log directories, and 1 of them are not named here"):
        judged(directory)


def test_a_partition_that_is_missing_is_refused_where_nobody_knows_the_directories(tmp_path):
    directory = write_directory(
        tmp_path, broker(log_dirs=[]), topic(), partition(), partition(1), partitions=[ORDERS_0]
    )
    with pytest.raises(
        ConfigError, match=r"1 partitions are in none of the directories \(orders-1, for one\)"
    ):
        judged(directory)


def test_a_directory_of_an_earlier_topic_of_that_name_is_not_its_own(tmp_path):
    directory = write_directory(tmp_path, broker(log_dirs=[]), topic(), partition())
    make_partitions(directory, ORDERS_0, topic_id=uuid.UUID(int=5000))
    with pytest.raises(ConfigError, match="1 partitions are in none of the directories"):
        judged(directory)


@pytest.mark.parametrize(
    ("replicas", "isr", "elr", "voters", "is_whole"),
    [
        ([4, 5], [4, 5], None, [4], True),  # it decided alone, and was in sync
        ([4, 5], [], [4], [4], True),
        ([4, 5], [5], None, [4], False),  # the other one has more
        ([5], [5], None, [4], False),
        ([4, 5], [4, 5], None, [4, 5], False),  # others may have decided something since
        ([4], [4], None, [4, 5], True),
        ([4], [], None, [4], True),  # whatever is known of it: nobody else has any of it
    ],
)
def test_records_on_other_brokers_are_not_given_up(tmp_path, replicas, isr, elr, voters, is_whole):
    state = partition(replicas=replicas, isr=isr, eligible_leader_replicas=elr)
    directory = write_directory(tmp_path, broker(), broker(5), topic(), state, partitions=[ORDERS_0])
    text = json.dumps({"currentVoters": [{"voterId": each} for each in voters]})
    (directory / METADATA_DIRECTORY / "quorum-state").write_text(text)
    if is_whole:
        assert judged(directory) is not None
    else:
        with pytest.raises(
            ConfigError, match=r"1 partitions have replicas on other brokers.*orders-0, for one"
        ):
            judged(directory)


@pytest.mark.parametrize("state", [1, 2])
def test_a_cluster_on_its_way_from_zookeeper_is_refused(tmp_path, state):
    with pytest.raises(ConfigError, match="still on its way from ZooKeeper"):
        judged(one_topic(tmp_path, records.ZkMigrationStateRecord(zk_migration_state=state)))


def test_metadata_of_a_newer_kafka_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be taken over from Apache Kafka: .* of kind 99"):
        judged(one_topic(tmp_path, b"\x01\x63\x00"))


def test_records_in_remote_storage_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"remote\.storage\.enable=true of topic orders is not understood"):
        judged(one_topic(tmp_path, setting("orders", "remote.storage.enable", "true")))


@pytest.mark.parametrize("left", [None, b"", batch([topic()])[:-1]])
def test_partitions_of_which_the_metadata_says_nothing_are_not_set_aside(tmp_path, left):
    directory = one_topic(tmp_path)
    log = directory / METADATA_DIRECTORY / f"{0:020}.log"
    log.unlink()
    if left is not None:
        log.write_bytes(left)
    with pytest.raises(ConfigError, match=r"is empty, but 1 partitions are here \(orders-0, for one\)"):
        judged(directory)
    (directory / "orders-0" / "partition.metadata").unlink()
    (directory / "orders-0").rmdir()
    assert judged(directory) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        [topic(), partition(1)],
        [topic()],
        [topic("a/b"), partition()],
        [topic("__cluster_metadata"), partition()],
        [topic(), partition(), topic(topic_id=uuid.UUID(int=9)), partition(topic_id=uuid.UUID(int=9))],
    ],
)
def test_topics_that_cannot_be_are_refused_before_anything_is_written(tmp_path, wrong):
    with pytest.raises(ConfigError, match=r"the topic .* of Apache Kafka .*: it cannot be taken over"):
        judged(write_directory(tmp_path, broker(), *wrong))


def test_metadata_that_is_no_directory_is_refused_with_a_sentence(tmp_path):
    directory = one_topic(tmp_path)
    shutil.rmtree(directory / METADATA_DIRECTORY)
    (directory / METADATA_DIRECTORY).touch()
    with pytest.raises(ConfigError, match=r"cannot be taken over from Apache Kafka: .*Not a directory"):
        judged(directory)


def test_metadata_without_a_cluster_is_refused(tmp_path):
    directory = one_topic(tmp_path)
    (directory / "meta.properties").unlink()
    with pytest.raises(ConfigError, match=r"no meta\.properties with a cluster\.id"):
        judged(directory)


# --- retention --------------------------------------------------------------------------------------------------------


def with_records(directory, age_ms, *more, index=True):
    """One partition with one segment, whose newest record is this old."""
    one_topic(directory, *more)
    newest = NOW_MS - age_ms
    (directory / "orders-0" / f"{0:020}.log").write_bytes(batch([b"value"]))
    entries = (
        struct.pack(">qi", newest - 5, 0) + struct.pack(">qi", newest, 1) + bytes(24)
    )  # as a crash leaves it
    (directory / "orders-0" / f"{0:020}.timeindex").write_bytes(entries if index else b"")
    return directory


@pytest.mark.parametrize("index", [True, False])
def test_records_that_the_default_would_delete_need_a_word(tmp_path, index):
    directory = with_records(tmp_path, 8 * DAY_MS, index=index)
    with pytest.raises(
        ConfigError, match=r"1 topics \(orders, for one\) have records that log\.retention\.ms"
    ):
        judged(directory)
    assert judged(directory, log_retention_hours="1") is not None


@pytest.mark.parametrize(
    "word",
    [
        setting("orders", "retention.ms", "1000"),
        setting("orders", "cleanup.policy", "compact"),
        setting("", "log.retention.ms", "1000", 4),
        setting(str(NODE_ID), "log.retention.ms", "1000", 4),
    ],
)
def test_what_was_said_of_retention_in_the_old_cluster_holds(tmp_path, word):
    assert judged(with_records(tmp_path, 8 * DAY_MS, word)) is not None


@pytest.mark.parametrize("key", ["log.retention.bytes", "log.cleaner.delete.retention.ms"])
def test_a_word_about_something_else_is_none(tmp_path, key):
    directory = with_records(tmp_path, 8 * DAY_MS, setting("", key, "1000000000", 4))
    with pytest.raises(ConfigError, match=r"have records that log\.retention\.ms, which nobody has set"):
        judged(directory)


def test_records_that_the_default_keeps_for_now_need_no_word_but_it_is_told_for_how_long(tmp_path, caplog):
    """The old cluster may have kept them for longer: nobody should learn that when they are gone."""
    directory = with_records(tmp_path, 6 * DAY_MS)
    assert judged(directory) is not None
    assert "records of 1 topics (orders, for one) are kept for 7 days, the default" in caplog.text
    caplog.clear()
    assert judged(directory, log_retention_hours="168") is not None
    assert "are kept for" not in caplog.text
