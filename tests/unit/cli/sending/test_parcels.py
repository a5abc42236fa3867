"""Lines as records, and records gathered for the way."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.sending.inputs import Block
from ottla.cli.sending.parcels import KeyedLines, Lines, Record, parcels_of

lines = st.lists(st.binary(max_size=6), max_size=20)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 2)), max_size=20))
def test_parcels_are_runs_of_one_place_and_leave_nothing_out(places):
    records = [Record(None, b"%d" % at, (), topic, number) for at, (topic, number) in enumerate(places)]
    found = parcels_of(records, range(len(records)))
    assert [each for parcel in found for each in parcel.records] == records
    assert [place for parcel in found for place in parcel.places] == list(range(len(records)))
    targets = [{(each.topic, each.partition) for each in parcel.records} for parcel in found]
    assert all(len(each) == 1 for each in targets)
    assert all(one != other for one, other in itertools.pairwise(targets))


@given(lines, st.sampled_from([b":", b"::", b"\x00"]))
def test_keys_and_values_put_together_are_the_lines_up_to_the_first_without_a_key(pieces, separator):
    parcels, fault = KeyedLines(separator, None)(Block("-", 1, pieces, 0))
    good = [
        key + separator + value for each in parcels for key, value in zip(each.keys, each.values, strict=True)
    ]
    count = next((at for at, piece in enumerate(pieces) if separator not in piece), len(pieces))
    assert good == pieces[:count]
    assert (fault.place if fault else len(pieces)) == count


@given(lines)
def test_lines_are_values_and_the_marker_is_none(pieces):
    parcels, fault = Lines(b"k", b"")(Block("-", 1, pieces, 0))
    assert fault is None
    values = [value for each in parcels for value in each.values]
    assert values == [piece or None for piece in pieces]
    assert all(key == b"k" for each in parcels for key in each.keys)


def test_the_first_of_a_parcel():
    (parcel,), _ = KeyedLines(b":", None)(Block("-", 1, [b"a:1", b"b:2"], 0))
    assert parcel.cut(1) == parcel._replace(places=range(1), values=[b"1"], keys=[b"a"])
