import os

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.directories import METADATA_NAME, Directories, stored_node_id
from ottla.core.errors import ConfigError, ProtocolError
from ottla.metadata.embedded import MEMORY
from ottla.storage.files import OsFiles
from ottla.storage.lock import DirectoryInUseError
from ottla.storage.meta import ADOPTED, METADATA_DIRECTORY, Meta, read_meta, write_meta
from ottla.testing.disk import SimDisk


def directories(files, *paths, node_id=1):
    return Directories(files, BrokerConfig({"log.dirs": ",".join(map(str, paths)), "node.id": node_id}))


def test_directories_are_made_and_locked_until_they_are_released():
    disk = SimDisk()
    ours = directories(disk, "a", "b/c")
    assert ours.lock() == ["a", "b/c"]
    with pytest.raises(DirectoryInUseError):
        directories(disk, "b/c").lock()
    ours.release()
    ours.release()
    assert directories(disk, "b/c").lock() == ["b/c"]


def test_a_directory_that_is_named_twice_is_one():
    assert directories(SimDisk(), "a", "b", "a").lock() == ["a", "b"]


def test_a_directory_that_is_spelled_in_two_ways_is_one(tmp_path):
    (tmp_path / METADATA_DIRECTORY).mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    spelled = [f"{tmp_path}/", f"{tmp_path}", f"{tmp_path}/link", f"{tmp_path}/./"]
    for other in spelled:
        settings = {"log.dirs": ",".join(spelled), "metadata.log.dir": other, "node.id": 1}
        ours = Directories(OsFiles(), BrokerConfig(settings))
        assert ours.lock() == spelled[:1]
        assert ours.kafka_metadata() == other
        ours.release()


def test_a_second_broker_is_refused_and_told_who_was_first(tmp_path):
    first, second = directories(OsFiles(), tmp_path), directories(OsFiles(), tmp_path / "new", tmp_path)
    first.lock()
    with pytest.raises(
        DirectoryInUseError, match=rf"{tmp_path} is in use by process {os.getpid()}$"
    ) as caught:
        second.lock()
    assert caught.value.pid == os.getpid()
    second.release()
    directories(OsFiles(), tmp_path / "new").lock()
    first.release()


def test_the_store_lies_in_the_first_directory():
    assert directories(OsFiles(), "/data/a", "/data/b").metadata_path == f"/data/a/{METADATA_NAME}"
    assert directories(SimDisk(), "a").metadata_path == MEMORY


def test_a_directory_that_cannot_be_made_is_left_out(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    ours = directories(OsFiles(), tmp_path / "good", tmp_path / "file" / "below")
    assert ours.lock() == [str(tmp_path / "good")]
    assert list(ours.unusable) == [str(tmp_path / "file" / "below")]
    ours.sign("cluster-1")
    ours.release()


def test_without_the_first_directory_there_is_no_start(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    ours = directories(OsFiles(), tmp_path / "file" / "below", tmp_path / "good")
    with pytest.raises(ConfigError, match="first log directory"):
        ours.lock()
    ours.release()


def test_without_any_directory_there_is_no_start(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ConfigError, match=f"no log directory can be used: {tmp_path}/file/below"):
        directories(OsFiles(), tmp_path / "file" / "below").lock()


def test_new_directories_are_signed_each_with_an_id_of_its_own():
    disk = SimDisk()
    ours = directories(disk, "a", "b", node_id=3)
    ours.lock()
    ours.sign("cluster-1")
    first, second = read_meta(disk, "a"), read_meta(disk, "b")
    assert (first.node_id, first.cluster_id) == (second.node_id, second.cluster_id) == (3, "cluster-1")
    assert first.directory_id != second.directory_id
    ours.sign("cluster-1")
    assert read_meta(disk, "a") == first, "a signature stays"


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [
        (Meta(2, "cluster-1"), "b belongs to broker 2, this one is 1"),
        (Meta(1, "cluster-2"), "b belongs to cluster cluster-2, this broker is in cluster-1"),
        (Meta(2, "cluster-1", version=0), "b belongs to broker 2, this one is 1"),
    ],
)
def test_the_directory_of_somebody_else_is_refused_and_nothing_is_signed(meta, complaint):
    disk = SimDisk()
    ours = directories(disk, "a", "b")
    ours.lock()
    write_meta(disk, "b", meta)
    with pytest.raises(ConfigError, match=complaint):
        ours.sign("cluster-1")
    assert read_meta(disk, "a") is None
    assert read_meta(disk, "b") == meta


def test_a_signature_that_names_nobody_is_anybodys():
    disk = SimDisk()
    ours = directories(disk, "a")
    ours.lock()
    write_meta(disk, "a", Meta(None, None))
    ours.sign("cluster-1")


def test_a_signature_that_makes_no_sense_is_refused():
    disk = SimDisk()
    ours = directories(disk, "a")
    ours.lock()
    write_meta(disk, "a", Meta(1, "cluster-1", version=9))
    with pytest.raises(ProtocolError, match=r"a/meta.properties: version 9"):
        ours.sign("cluster-1")


@pytest.mark.parametrize("content", [None, b""])
def test_without_the_store_that_knows_their_topics_signed_directories_are_refused_and_left_as_they_are(
    tmp_path, content
):
    store, ours = tmp_path / "a" / METADATA_NAME, directories(OsFiles(), tmp_path / "a", tmp_path / "b")
    for path in ours.paths:
        OsFiles().make_directory(path)
    write_meta(OsFiles(), ours.paths[1], Meta(1, "cluster-1"))
    if content is not None:
        store.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"b belongs to cluster cluster-1, but {store}.* is not there"):
        ours.lock()
    ours.release()
    assert store.exists() == (content is not None)
    store.write_bytes(b"SQLite")
    assert ours.lock() == ours.paths
    ours.release()


# --- directories of Apache Kafka --------------------------------------------------------------------------------------


def kafka_in(path, *, version=1, has_metadata=True):
    (path / METADATA_DIRECTORY if has_metadata else path).mkdir(parents=True)
    write_meta(OsFiles(), str(path), Meta(7, "cluster-of-kafka", version=version))
    return path


def test_a_directory_of_kafka_is_found_and_may_be_taken_over_once(tmp_path):
    place = kafka_in(tmp_path / "kafka")
    ours = directories(OsFiles(), tmp_path / "first", place)
    assert ours.lock() == [str(tmp_path / "first"), str(place)]
    assert ours.kafka_metadata() == str(place)
    ours.release()
    (place / ADOPTED).write_text("{}")
    with pytest.raises(ConfigError, match=rf"first/{METADATA_NAME}, .* is not there: bring it back"):
        ours.lock()
    ours.release()


def test_metadata_of_kafka_may_lie_elsewhere_but_not_twice(tmp_path):
    logs, elsewhere = kafka_in(tmp_path / "logs", has_metadata=False), kafka_in(tmp_path / "metadata")
    config = BrokerConfig({"log.dirs": str(logs), "metadata.log.dir": str(elsewhere)})
    assert Directories(OsFiles(), config).kafka_metadata() == str(elsewhere)
    assert directories(OsFiles(), logs).kafka_metadata() is None
    (logs / METADATA_DIRECTORY).mkdir()
    with pytest.raises(
        ConfigError, match=f"have metadata of Apache Kafka: a broker has one {METADATA_DIRECTORY}"
    ):
        Directories(OsFiles(), config).kafka_metadata()


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (0, "with ZooKeeper, which has all that is known of its topics"),
        (1, f"with its {METADATA_DIRECTORY}"),
    ],
)
def test_a_directory_of_kafka_without_its_metadata_is_refused_untouched(tmp_path, version, reason):
    place = kafka_in(tmp_path / "kafka", version=version, has_metadata=False)
    ours = directories(OsFiles(), place, node_id=7)
    with pytest.raises(ConfigError, match=f"{reason}.*Nothing was changed"):
        ours.lock()
    ours.release()
    assert sorted(os.listdir(place)) == [".lock", "meta.properties"]


def test_a_broker_without_a_number_has_that_of_its_directories(tmp_path):
    empty, damaged, place = tmp_path / "empty", tmp_path / "damaged", kafka_in(tmp_path / "kafka")
    damaged.mkdir()
    (damaged / "meta.properties").write_text("version=99")
    assert stored_node_id([str(empty), str(damaged)]) is None
    assert stored_node_id([str(empty), str(damaged), str(place)]) == 7


def test_with_a_store_elsewhere_any_directory_may_fail_and_nothing_of_kafkas_is_taken_over(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    settings = {"log.dirs": f"{blocked}/a,{tmp_path}/b", "zookeeper.connect": "zk:2181"}
    directories = Directories(OsFiles(), BrokerConfig(settings))
    assert directories.lock() == [f"{tmp_path}/b"]
    directories.release()
    (tmp_path / "b" / METADATA_DIRECTORY).mkdir()
    with pytest.raises(ConfigError, match=r"not by one of the ZooKeeper at zk:2181\. Nothing was changed"):
        directories.lock()
    directories.release()


def test_the_store_of_another_cluster_is_named(tmp_path):
    write_meta(OsFiles(), str(tmp_path), Meta(1, "cluster-2"))
    directories = Directories(
        OsFiles(), BrokerConfig({"log.dirs": str(tmp_path), "zookeeper.connect": "zk:2181"})
    )
    directories.lock()
    with pytest.raises(ConfigError, match="this broker is in cluster-1, as the ZooKeeper at zk:2181 says"):
        directories.sign("cluster-1")
    directories.release()
