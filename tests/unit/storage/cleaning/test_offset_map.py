"""The map from keys to the offsets of their newest records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.cleaning.offset_map import NO_OFFSET, SLOT_BYTES, OffsetMap

KEYS = st.binary(max_size=40)


def test_a_slot_is_24_bytes_and_nine_tenths_of_them_are_used():
    found = OffsetMap(24 * 1_000_003, 0.9)
    assert found.slots == 1_000_003  # a prime, so that every step visits all slots
    assert found.keys_max == 900_002
    assert len(found._words) * found._words.itemsize == 24 * 1_000_003 == SLOT_BYTES * found.slots


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**62))))
def test_it_says_what_was_put_last(puts):
    offsets = OffsetMap(SLOT_BYTES * 200, 0.9)
    expected: dict[bytes, int] = {}
    for key, offset in puts:
        assert offsets.put(key, offset)
        expected[key] = offset
    assert {key: offsets.get(key) for key in expected} == expected
    assert offsets.count == len(expected)
    assert offsets.get(b"another key, longer than all that are drawn: 40 bytes") == NO_OFFSET


@given(st.lists(KEYS, unique=True, min_size=12, max_size=30))
def test_when_it_is_full_it_takes_no_new_key_but_newer_offsets_of_known_ones(keys):
    offsets = OffsetMap(SLOT_BYTES * 11, 0.9)
    taken = [key for number, key in enumerate(keys) if offsets.put(key, number)]
    assert taken == keys[: offsets.keys_max] == keys[:9]
    assert all(offsets.put(key, 1000 + number) for number, key in enumerate(taken))
    assert [offsets.get(key) for key in taken] == [1000 + number for number in range(9)]
    assert all(offsets.get(key) == NO_OFFSET for key in keys[9:])


@given(st.dictionaries(KEYS, st.integers(0, 200), max_size=40), st.integers(0, 100), st.integers(0, 100))
def test_a_bit_for_each_offset_tells_which_are_the_newest_of_a_key(newest, first, count):
    offsets = OffsetMap(SLOT_BYTES * 100, 0.9)
    for key, offset in newest.items():
        offsets.put(key, offset)
    bits = offsets.newest(first, first + count)
    marked = {first + at for at in range(len(bits) * 8) if bits[at >> 3] >> (at & 7) & 1}
    assert marked == {offset for offset in newest.values() if first <= offset < first + count}


@pytest.mark.parametrize("bytes_max", [0, 24, 100])
def test_even_the_smallest_has_room_for_a_key_and_an_end_to_every_search(bytes_max):
    offsets = OffsetMap(bytes_max, 1.0)
    assert offsets.put(b"a", 1)
    while offsets.put(b"%d" % offsets.count, 7):
        pass
    assert offsets.get(b"not there") == NO_OFFSET
