"""CompactTopics: who may ask, what is refused, and that each partition is answered for by itself."""

from typing import NamedTuple

from ottla.broker.authorizer import Operation
from ottla.broker.config import BrokerConfig
from ottla.broker.handlers.asking import PARTITIONS_MAX
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.protocol.messages.compaction import CompactTopicsRequest
from tests.unit.broker.handlers.fakes import ask
from tests.unit.broker.handlers.logs import broker_of, led_partition

COMPACTED = {"cleanup.policy": "compact"}


class Status(NamedTuple):
    state: str = "waiting"
    done_bytes: int = 10
    total_bytes: int = 200
    first_dirty_offset: int = 3
    end_offset: int = 9
    dirty_ratio: float = 0.75
    runs: int = 4
    last_error: str | None = None
    last_run_ms: int = 1_700_000_000_000
    bytes_before: int = 300
    bytes_after: int = 100
    records_before: int = 30
    records_after: int = 10


class Cleaning:
    """Says what a test wants it to, and remembers what it was asked for."""

    def __init__(self):
        self.requested = []
        self.refuses = None

    def request(self, place):
        if self.refuses is not None:
            raise self.refuses
        self.requested.append(tuple(place))

    def status(self, place):
        return Status()


def broker_with(*partitions):
    broker = broker_of(*partitions)
    broker.cleaning, broker.node_id = Cleaning(), 1
    return broker


def compact(broker, *topics, start=True):
    """The answers, by topic and partition."""
    asked = [CompactTopicsRequest.Topic(name=name, partitions=[*at]) for name, *at in topics]
    found = ask(broker, "CompactTopics", 0, topics=asked, start=start)
    return {(topic.name, row.partition_index): row for topic in found.topics for row in topic.partitions}


def test_a_compacted_topic_is_compacted_and_told_how_far_it_is():
    broker = broker_with(led_partition(settings=COMPACTED))
    row = compact(broker, ("orders", 0))["orders", 0]
    assert row.error_code == ErrorCode.NONE
    assert {name: getattr(row, name) for name in Status._fields} == Status()._asdict()
    assert broker.cleaning.requested == [("orders", 0)]


def test_to_look_starts_nothing_and_needs_no_policy():
    broker = broker_with(led_partition())
    row = compact(broker, ("orders", 0), start=False)["orders", 0]
    assert (row.error_code, row.state, broker.cleaning.requested) == (0, "waiting", [])


def test_a_topic_that_is_not_compacted_is_refused_with_the_way_out():
    broker = broker_with(led_partition())
    row = compact(broker, ("orders", 0))["orders", 0]
    assert row.error_code == ErrorCode.INVALID_CONFIG
    assert row.error_message == (
        "topic orders is not compacted: its cleanup.policy is delete; "
        "set it to compact, or to compact,delete, and ask again"
    )
    assert broker.cleaning.requested == []


def test_a_topic_that_is_deleted_from_as_well_is_compacted():
    broker = broker_with(led_partition(settings={"cleanup.policy": "delete,compact"}))
    assert compact(broker, ("orders", 0))["orders", 0].error_code == ErrorCode.NONE


def test_each_partition_is_answered_for_by_itself_in_the_order_of_the_question():
    theirs = led_partition("theirs", leader=2, replicas=(1, 2), settings=COMPACTED)
    broker = broker_with(led_partition("mine", settings=COMPACTED), theirs)
    found = compact(broker, ("theirs", 0), ("mine", 1, 0), ("no where", 0))
    assert {place: ErrorCode(row.error_code).name for place, row in found.items()} == {
        ("theirs", 0): "NOT_LEADER_OR_FOLLOWER",
        ("mine", 1): "UNKNOWN_TOPIC_OR_PARTITION",
        ("mine", 0): "NONE",
        ("no where", 0): "INVALID_TOPIC_EXCEPTION",
    }
    assert list(found) == [("theirs", 0), ("mine", 1), ("mine", 0), ("no where", 0)]


def test_a_broker_whose_cleaner_is_off_says_so():
    broker = broker_with(led_partition(settings=COMPACTED))
    broker.config = BrokerConfig({"log.cleaner.enable": "false"})
    row = compact(broker, ("orders", 0))["orders", 0]
    assert row.error_code == ErrorCode.INVALID_CONFIG
    assert row.error_message == "broker 1 compacts nothing: its log.cleaner.enable is false"
    assert compact(broker, ("orders", 0), start=False)["orders", 0].error_code == ErrorCode.NONE
    assert broker.cleaning.requested == []


def test_what_the_cleaner_refuses_is_passed_on():
    broker = broker_with(led_partition(settings=COMPACTED))
    broker.cleaning.refuses = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    row = compact(broker, ("orders", 0))["orders", 0]
    assert (row.error_code, row.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


def test_to_start_needs_alter_and_to_look_needs_describe():
    broker = broker_with(led_partition(settings=COMPACTED))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.authorizer.deny(Operation.ALTER, "orders")
    assert compact(broker, ("orders", 0))["orders", 0].error_code == denied
    assert compact(broker, ("orders", 0), start=False)["orders", 0].error_code == ErrorCode.NONE
    broker.authorizer.deny(Operation.DESCRIBE)
    for name in ("orders", "nowhere"):  # who may not see a topic does not learn whether it exists
        assert compact(broker, (name, 0), start=False)[name, 0].error_code == denied
    assert broker.cleaning.requested == []


def test_too_many_partitions_are_no_request():
    try:
        compact(broker_with(), ("orders", *range(PARTITIONS_MAX + 1)))
    except ProtocolError as error:
        assert f"{PARTITIONS_MAX} are allowed" in str(error)
    else:
        raise AssertionError("it was answered")
