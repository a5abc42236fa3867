"""Records in JSON, as the other end of a pipe prints them."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.reading.encoders import json_lines
from ottla.cli.sending.inputs import Block
from ottla.cli.sending.json_records import JsonRecords
from ottla.client.records import ConsumerRecord

data = st.none() | st.binary(max_size=20) | st.text(st.characters(exclude_categories=["Cs"])).map(str.encode)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
records = st.builds(
    ConsumerRecord,
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    data,
    data,
    st.lists(st.tuples(names, data), max_size=3).map(tuple),
)


@given(st.lists(records, max_size=6))
def test_what_consume_prints_is_what_produce_reads(printed):
    pieces = json_lines(printed).split(b"\n")[:-1]
    parcels, fault = JsonRecords()(Block("-", 1, pieces, 0))
    assert fault is None
    read = [each for parcel in parcels for each in parcel.records]
    assert [(each.topic, each.partition, each.timestamp_ms, each.key, each.value) for each in read] == [
        (each.topic, each.partition, each.timestamp, each.key, each.value) for each in printed
    ]
    assert [each.headers for each in read] == [tuple(each.headers) for each in printed]
    for parcel in parcels:
        assert len({(each.topic, each.partition) for each in parcel.records}) == 1


def test_blank_lines_are_no_records_and_places_are_those_of_lines():
    pieces = [b"", b'{"value": "a"}', b"  ", b'{"value": "b", "headers": {"x": "1"}}']
    (parcel,), fault = JsonRecords()(Block("-", 1, pieces, 0))
    assert list(parcel.places) == [1, 3] and fault is None
    assert parcel.records[1].headers == (("x", b"1"),)
