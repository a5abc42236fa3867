"""Loading applies every record in order, whatever lies between."""

from ottla.broker.loading import RECORDS_AT_A_TIME, Loader
from ottla.core.clock import Moment
from ottla.protocol.messages.record_types import TRANSACTION_STATE, encode_key, encode_value
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.replication.machine import Entry, Producer
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk
from tests.unit.broker.handlers.logs import led_partition
from tests.unit.broker.handlers.serving import scenario
from tests.unit.broker.machines import Names, named
from tests.unit.storage.helpers import NOW


def record(name, *, key=None, value=b"unset", offset=0):
    entry = named(name)
    key = encode_key(entry.key) if key is None else key
    return Record(offset, NOW, key, encode_value(entry.value) if value == b"unset" else value)


def log_with(*batches):
    partition = led_partition("names")
    for data in batches:
        partition.append(data, -1, NOW, client=False)
    return partition.log


async def loaded(log):
    names = Names(0, Moment(0, 0))
    loader = Loader(log, TRANSACTION_STATE, names)
    await loader.load()
    return names, loader


@scenario
async def test_records_tombstones_and_compressed_batches_are_applied_in_order():
    log = log_with(
        build([record("a"), record("b", offset=1)]),
        build([record("a", value=None)]),
        build([record("c")], codec=Codec.GZIP),
    )
    names, loader = await loaded(log)
    assert (list(names.names), loader.records, loader.skipped) == (["b", "c"], 4, 0)


@scenario
async def test_more_than_one_turn_of_records_is_loaded_whole():
    count = RECORDS_AT_A_TIME * 2 + 3
    log = log_with(*(build([record(f"name-{number}")]) for number in range(count)))
    names, _ = await loaded(log)
    assert len(names.names) == count


@scenario
async def test_entries_of_transactions_come_with_their_producer_and_markers_with_their_outcome():
    producer = {"producer_id": 7, "producer_epoch": 1}
    log = log_with(
        build([record("a")], **producer, base_sequence=0, is_transactional=True),
        build_marker(ControlType.ABORT, **producer, coordinator_epoch=0, timestamp=NOW),
        build_marker(ControlType.COMMIT, **producer, coordinator_epoch=0, timestamp=NOW),
    )
    names, _ = await loaded(log)
    assert names.names == {"a": Producer(7, 1)}
    assert names.ends == [(Producer(7, 1), False), (Producer(7, 1), True)]


@scenario
async def test_what_makes_no_sense_is_passed_over_and_the_rest_is_loaded(caplog):
    strange = [
        record("x", key=b""),
        record("x", key=b"\x00\x63from a newer Kafka"),
        record("x", value=b"\x7f\xff"),
        record("x", value=b""),
        record("x", key=b"\x00\x00\xff\xff"),
    ]
    log = log_with(
        *(build([each]) for each in strange), build([Record(0, NOW, None, b"")]), build([record("a")])
    )
    names, loader = await loaded(log)
    assert (list(names.names), loader.skipped) == (["a"], 5)
    assert "passed over" in caplog.text


@scenario
async def test_a_record_that_the_machine_cannot_bear_does_not_keep_the_others_from_loading():
    class Delicate(Names):
        def apply(self, entry: Entry, producer: Producer | None) -> None:
            if entry.key.transactional_id == "bad":
                raise KeyError("bad")
            super().apply(entry, producer)

    names = Delicate(0, Moment(0, 0))
    log = log_with(build([record("bad")]), build([record("good")]))
    await Loader(log, TRANSACTION_STATE, names).load()
    assert list(names.names) == ["good"]


@scenario
async def test_a_log_whose_end_was_compacted_away_is_loaded_up_to_there():
    disk, config = SimDisk(), TopicConfig({"cleanup.policy": "compact"})
    log = Log.open(disk, "d/names-0", config)
    log.append(build([record("a")]), 0, NOW, client=False)
    size = log.segments.active.size
    log.append(build([record("b", value=None)]), 0, NOW, client=False)
    log.roll()
    log.close()
    disk.open("d/names-0/00000000000000000000.log").truncate(size)
    log = Log.open(disk, "d/names-0", config, clean=True, recovery_point=2)
    assert log.end_offset == 2
    names, loader = await loaded(log)
    assert (list(names.names), loader.records) == (["a"], 1)
