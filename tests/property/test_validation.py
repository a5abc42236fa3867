"""The quick way to place a batch gives what the thorough one gives, or nothing."""

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from ottla.core.errors import KafkaError
from ottla.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER, HEADER_SIZE
from ottla.records.checksum import crc32c
from ottla.storage import validation
from ottla.storage.config import TopicConfig

NOW = 1_700_000_000_000
TOPICS = [
    TopicConfig({}),
    TopicConfig({"max.message.bytes": "100"}),
    TopicConfig({"message.timestamp.type": "LogAppendTime"}),
    TopicConfig({"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}),
]
numbers = st.sampled_from([-1, 0, 1, 2, 4, 5, 7, 8, 16, 32, 64, 2**15 - 1])
times = st.sampled_from([-1, 0, NOW - 5000, NOW - 1, NOW, NOW + 5000, NOW + 10**9])


@st.composite
def batches(draw) -> bytearray:
    """A header in which each number may be odd, some bytes behind it, and mostly the right checksum."""
    body = draw(st.binary(min_size=0, max_size=60))
    length = HEADER_SIZE - 12 + len(body) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    delta = draw(numbers)
    data = bytearray(
        HEADER.pack(
            *(draw(numbers), length, draw(numbers), draw(st.sampled_from([2, 2, 2, 2, 1, 0, 3])), 0),
            *(draw(numbers), delta, draw(times), draw(times)),
            *(
                draw(numbers),
                draw(numbers),
                draw(numbers),
                draw(st.sampled_from([delta + 1, delta + 1, 0, 3])),
            ),
        )
        + body
    )
    if draw(st.sampled_from([True, True, True, False])):
        struct.pack_into(">I", data, CRC_AT, crc32c(data, ATTRIBUTES_AT))
    return data


def placed(data: bytearray, config: TopicConfig, *, client: bool):
    try:
        return validation.place(memoryview(data), 77, 5, config, NOW, client=client), bytes(data)
    except KafkaError as error:
        return error.code


@given(batches(), st.sampled_from(TOPICS), st.booleans())
@example(bytearray(), TOPICS[0], True)
def test_both_ways_to_place_a_batch_agree(data, config, client):
    quickly = placed(bytearray(data), config, client=client)
    quick_way, validation._place_usual = validation._place_usual, lambda *_: None
    try:
        thoroughly = placed(bytearray(data), config, client=client)
    finally:
        validation._place_usual = quick_way
    assert quickly == thoroughly
