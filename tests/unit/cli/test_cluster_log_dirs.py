"""`ottla cluster log-dirs` shows where brokers keep their logs."""

from ottla.cli.cluster_log_dirs import rows_of
from ottla.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_a_directory_has_replicas_bytes_and_room(ottla, asked, topic):
    asked.produce(topic, 7, partition=1)
    (row,) = ottla("cluster", "log-dirs", "--topic", topic).rows
    assert (row["broker"], row["state"], row["replicas"], row["moving_in"]) == ("1", "online", "2", "0")
    assert int(row["bytes"]) > 0
    assert int(row["total_bytes"]) >= int(row["usable_bytes"]) > 0


def test_every_replica_has_a_line_if_one_wants(ottla, topic):
    rows = ottla("cluster", "log-dirs", "--replicas", "--topic", topic, "--broker", "1").rows
    assert [(row["topic"], row["partition"], row["moving_in"]) for row in rows] == [
        (topic, "0", "-"),
        (topic, "1", "-"),
    ]


def test_the_document_has_directories_within_brokers(ottla, topic):
    (told,) = ottla("cluster", "log-dirs", "--json", "--topic", topic).json["brokers"]
    (directory,) = told["directories"]
    assert (told["broker"], directory["state"], directory["error"]) == (1, "online", None)
    assert directory["replicas"][0] == {
        "topic": topic,
        "partition": 0,
        "bytes": 0,
        "offset_lag": 0,
        "moving_in": False,
    }


def test_a_broker_that_is_not_there_is_not_found(ottla):
    ran = ottla("cluster", "log-dirs", "--broker", "77")
    assert (ran.code, ran.err) == (4, "ottla: there is no broker '77'\n")


def test_a_directory_may_be_out_of_use_or_closed_to_newcomers():
    place = TopicPartition("t", 0)
    found = {
        1: {
            "/b": LogDirDescription("/b", {}, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")),
            "/a": LogDirDescription("/a", {place: ReplicaInfo(5, 0, True)}, is_cordoned=True),
        }
    }
    first, second = rows_of(found)
    assert (first["directory"], first["state"], first["bytes"]) == ("/a", "cordoned", 5)
    assert (second["state"], "the disk is gone" in second["error"]) == ("offline", True)
    assert rows_of(found, ["other"])[0]["replicas"] == []


def test_a_topic_that_is_not_there_is_not_found(ottla, topic):
    ran = ottla("cluster", "log-dirs", "--topic", f"{topic}x")
    assert (ran.code, ran.out, f"did you mean '{topic}'" in ran.err) == (4, "", True)
