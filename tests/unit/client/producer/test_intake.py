"""Records on their way into a batch: interceptors, then serializers, then the partitioner, each of them once."""

import itertools
from typing import Any

import pytest

from ottla.client.errors import RecordTooLargeError, SerializationError
from ottla.client.metadata import Metadata, Node, PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.config import producer_config
from ottla.client.producer.intake import Intake, tidy_headers
from ottla.client.records import ProducerRecord
from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError
from ottla.core.ids import NULL_ID, TopicPartition


def intake_of(partitions: int = 3, **given: Any) -> tuple[Intake, Accumulator, Metadata]:
    config = producer_config(given)
    metadata, accumulator = Metadata(), Accumulator(config, lambda: None)
    metadata.learn_brokers([Node(1, "x", 1)])
    learn(metadata, partitions)
    return Intake(config, metadata, accumulator), accumulator, metadata


def learn(metadata: Metadata, partitions: int) -> None:
    rows = tuple(PartitionInfo("t", number, 1, 0) for number in range(partitions))
    metadata.topics["t"] = TopicInfo("t", NULL_ID, rows)


def form(
    intake: Intake,
    value: Any = b"v",
    key: Any = None,
    headers: Any = None,
    partition: Any = None,
    at: Any = 5,
):
    return intake.form("t", value, key, headers, partition, at)


def rows(accumulator: Accumulator, partition: int) -> list[Any]:
    queue = accumulator.queue(TopicPartition("t", partition))
    return [row for batch in queue.waiting for row in batch.rows]


def test_interceptors_come_before_serializers_and_those_before_the_partitioner():
    heard: list[tuple[str, Any]] = []

    class Intercept:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            heard.append(("interceptor", record.value))
            return record._replace(value=record.value + 1)

    def serialize(value: int) -> bytes:
        heard.append(("serializer", value))
        return b"%d" % value

    class Choose:
        def partition(self, record, topic, cluster):
            heard.append(("partitioner", (record.value, record.value_bytes)))
            return 2

    intake, accumulator, _ = intake_of(
        interceptors=[Intercept, Intercept()], value_serializer=serialize, partitioner=Choose
    )
    assert intake.place(form(intake, 1)) is not None
    assert heard == [("interceptor", 1), ("interceptor", 2), ("serializer", 3), ("partitioner", (3, b"3"))]
    assert rows(accumulator, 2) == [(5, None, b"3", ())]


def test_an_interceptor_that_fails_or_returns_nothing_or_has_half_of_the_methods_changes_nothing(caplog):
    class Bad:
        def on_send(self, record):
            raise ZeroDivisionError

    class Watches:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_acknowledgement(self, metadata, error):
            self.heard.append((metadata, error))

    watches = Watches()
    intake, accumulator, _ = intake_of(interceptors=[Bad(), watches])
    delivery = intake.place(form(intake, partition=0))
    assert rows(accumulator, 0) == [(5, None, b"v", ())]
    error = KafkaError(ErrorCode.INVALID_RECORD, "no")
    delivery._batch.finish(error)
    assert watches.heard == [(None, error)]
    assert "ZeroDivisionError" in caplog.text


def test_keys_choose_the_partition_and_records_without_one_stay_together_for_a_batch():
    intake, accumulator, _ = intake_of(batch_size=500)
    for _ in range(10):
        intake.place(form(intake, key=b"same"))
    counts = [len(rows(accumulator, number)) for number in range(3)]
    assert sorted(counts) == [0, 0, 10]
    intake, accumulator, _ = intake_of(batch_size=500)
    places = [intake.place(form(intake))._batch.partition.partition for _ in range(200)]
    changes = sum(one != other for one, other in itertools.pairwise(places))
    assert set(places) == {0, 1, 2}
    assert changes < 15


def test_without_its_topic_or_partition_a_record_is_placed_later():
    intake, accumulator, metadata = intake_of(1)
    formed = form(intake, partition=1)
    with pytest.raises(StaleMetadataError, match="has 1 partitions, and no number 1"):
        intake.place(formed)
    learn(metadata, 2)
    assert intake.place(formed) is not None
    metadata.topics.clear()
    with pytest.raises(StaleMetadataError, match="not known yet"):
        intake.place(form(intake))
    assert len(rows(accumulator, 1)) == 1


def test_a_topic_that_grows_is_used_whole():
    intake, _, metadata = intake_of(1)
    intake.place(form(intake, key=b"1"))
    learn(metadata, 50)
    places = {intake.place(form(intake, key=b"%d" % each))._batch.partition.partition for each in range(200)}
    assert len(places) > 30


@pytest.mark.parametrize("chosen", [-1, 3, None, "1", 1.5])
def test_a_partitioner_must_name_a_partition(chosen):
    intake, _, _ = intake_of(partitioner=lambda *_: chosen)
    with pytest.raises(KafkaError, match="the partitioner chose"):
        intake.place(form(intake))


def test_a_partitioner_that_fails_is_named_whatever_it_raises():
    def fail(*_: Any) -> int:
        raise StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, "mine")

    intake, _, _ = intake_of(partitioner=fail)
    with pytest.raises(KafkaError, match="the partitioner failed") as caught:
        intake.place(form(intake))
    assert not isinstance(caught.value, StaleMetadataError)


def test_headers_in_every_form():
    expected = (("a", b"1"), ("b", None), ("a", b"text"))
    assert tidy_headers([("a", b"1"), ("b", None), ("a", "text")]) == expected
    assert tidy_headers((["a", memoryview(b"1")], ("b", None), ("a", bytearray(b"text")))) == expected
    assert tidy_headers({"a": b"1"}) == (("a", b"1"),)
    assert tidy_headers(iter([("a", b"1")])) == (("a", b"1"),)


@pytest.mark.parametrize(
    "headers", [[(1, b"")], [("a", 1)], [("a",)], ["abc"], 5, [None], [("\ud800", b"")]], ids=repr
)
def test_headers_that_cannot_be(headers):
    intake, _, _ = intake_of()
    with pytest.raises(SerializationError, match="header"):
        form(intake, headers=headers)


@pytest.mark.parametrize("timestamp", [1.5, -1, 2**63, "now", True])
def test_timestamps_that_cannot_be(timestamp):
    intake, _, _ = intake_of()
    with pytest.raises(SerializationError, match="not whole milliseconds since 1970"):
        form(intake, at=timestamp)


def test_limits_are_named():
    for limits, name in (
        ({"max_request_size": 100}, "max.request.size"),
        ({"buffer_memory": 100}, "buffer.memory"),
    ):
        intake, _, _ = intake_of(**limits)
        with pytest.raises(RecordTooLargeError, match=rf"takes 121 bytes, more than {name} \(100\)"):
            form(intake, b"-" * 100)
        assert form(intake, b"-" * 79)[2] == 100


def put(
    intake: Intake,
    value: Any = b"v",
    key: Any = None,
    headers: Any = None,
    partition: Any = None,
    at: Any = None,
):
    return intake.put("t", value, key, headers, partition, at)


@pytest.mark.parametrize("key", [b"", b"anna", b"key-17"])
def test_the_short_way_leads_where_the_long_one_does(key):
    intake, accumulator, _ = intake_of()
    intake.place(form(intake, b"long", key))
    assert put(intake, b"short", key) is not None
    (first, second) = next(found for number in range(3) if (found := rows(accumulator, number)))
    assert first[1:] == (key, b"long", ()) and second[1:] == (key, b"short", ())
    assert second[0] > 1_600_000_000_000


def test_records_without_a_key_stay_on_the_short_way_for_as_long_as_a_batch_takes():
    intake, accumulator, _ = intake_of(batch_size=200)
    assert put(intake) is None, "the topic was never seen"
    intake.place(form(intake))
    taken = sum(put(intake) is not None for _ in range(100))
    assert 1 <= taken < 10 and put(intake) is None, "it is time for another partition"
    assert [len(rows(accumulator, number)) for number in range(3)].count(0) == 2


@pytest.mark.parametrize(
    "record",
    [
        {"value": "text"},
        {"value": None},
        {"value": bytearray(b"v")},
        {"key": "anna"},
        {"headers": [("a", b"1")]},
        {"at": 5},
        {"partition": 3},
        {"partition": -1},
        {"value": bytes(2_000_000)},
    ],
)
def test_what_is_special_does_not_go_the_short_way(record):
    intake, accumulator, _ = intake_of()
    intake.place(form(intake))
    assert put(intake, **record) is None
    assert accumulator.used_records == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"value_serializer": "string"},
        {"key_serializer": "string"},
        {"partitioner": "random"},
        {"interceptors": [object()]},
    ],
)
def test_who_has_more_to_say_about_records_has_no_short_way(settings):
    intake, _, _ = intake_of(**settings)
    intake.place(form(intake, value="v" if "value_serializer" in settings else b"v"))
    assert put(intake) is None


def test_the_short_way_ends_with_the_room_and_with_news_of_the_topic():
    intake, accumulator, metadata = intake_of(buffer_max_records=2)
    intake.place(form(intake, key=b"k"))
    assert put(intake, key=b"k") is not None
    assert put(intake, key=b"k") is None
    assert accumulator.used_records == 2
    accumulator.release(accumulator.unfinished())
    learn(metadata, 5)
    assert put(intake, key=b"k") is None, "its partitions are others now"
