"""What waits to be sent: buffers and stretches of files, in order and without a byte too many in memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.network.parts import CHUNK_BYTES, BufferPool, Outbox, ShortRead, held_bytes, is_buffer
from tests.unit.network.wire import Pattern, pattern

SMALL = 64 * 1024


class Cut(Pattern):
    """A file that became shorter than the stretch that was promised of it."""

    def read_into(self, start, buffer):
        return super().read_into(start, buffer[: len(buffer) // 2])


def drain(outbox, buffer_bytes=CHUNK_BYTES):
    """Everything that comes out, as a connection takes it out."""
    pieces = []
    while outbox:
        piece = outbox.take_buffer()
        if piece is None:
            buffer = memoryview(bytearray(buffer_bytes))
            piece = buffer[: outbox.fill(buffer)]
        pieces.append(bytes(piece))
    return pieces


parts = st.lists(
    st.one_of(
        st.binary(max_size=50),
        st.binary(max_size=50).map(bytearray),
        st.binary(max_size=50).map(memoryview),
        st.sampled_from([SMALL - 1, SMALL, SMALL + 1]).map(lambda size: pattern(1, size)),
        st.tuples(
            st.integers(0, 9), st.sampled_from([0, 1, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, 3_000_000])
        ).map(lambda pair: Pattern(*pair)),
    ),
    max_size=8,
)


def content(part):
    if is_buffer(part):
        return bytes(part)
    buffer = memoryview(bytearray(part.size))
    part.read_into(0, buffer)
    return bytes(buffer)


@settings(deadline=None, max_examples=50)
@given(st.lists(parts, max_size=3), st.sampled_from([100_000, CHUNK_BYTES, CHUNK_BYTES + SMALL]))
def test_all_parts_come_out_in_order_whatever_they_are(replies, buffer_bytes):
    outbox = Outbox()
    for reply in replies:
        outbox.put(reply)
    pieces = drain(outbox, buffer_bytes)
    assert b"".join(pieces) == b"".join(content(part) for reply in replies for part in reply)
    assert outbox.held_bytes == 0
    assert not outbox


@settings(deadline=None)
@given(parts)
def test_what_is_held_in_memory_is_counted_and_stretches_are_not(reply):
    outbox = Outbox()
    outbox.put(reply)
    assert outbox.held_bytes == held_bytes(reply) == sum(len(part) for part in reply if is_buffer(part))


def test_a_small_reply_with_a_stretch_is_one_write():
    outbox = Outbox()
    outbox.put([b"head", Pattern(1, 100_000), b"tail"])
    assert len(drain(outbox)) == 1


def test_a_large_buffer_is_not_copied():
    outbox, large = Outbox(), bytes(SMALL)
    outbox.put([large, b"rest"])
    assert outbox.take_buffer() is large


def test_a_buffer_alone_is_not_copied():
    outbox, alone = Outbox(), bytearray(b"reply")
    outbox.put([alone])
    assert outbox.take_buffer() is alone


def test_no_more_of_a_file_is_read_than_a_chunk_at_a_time():
    outbox, buffer = Outbox(), memoryview(bytearray(CHUNK_BYTES * 2))
    outbox.put([Pattern(1, CHUNK_BYTES * 3)])
    assert outbox.fill(buffer) == CHUNK_BYTES


def test_a_file_that_is_shorter_than_promised_is_an_error():
    outbox = Outbox()
    outbox.put([b"head", Cut(1, 1000)])
    with pytest.raises(ShortRead, match="ends 500 bytes early"):
        outbox.fill(memoryview(bytearray(CHUNK_BYTES)))


def test_what_was_half_sent_is_forgotten_with_the_rest():
    outbox, buffer = Outbox(), memoryview(bytearray(CHUNK_BYTES))
    outbox.put([Pattern(1, CHUNK_BYTES * 2)])
    outbox.fill(buffer)
    outbox.clear()
    assert (bool(outbox), outbox.held_bytes) == (False, 0)
    outbox.put([Pattern(2, 100), b"."])
    assert b"".join(drain(outbox)) == pattern(2, 100) + b"."


def test_a_buffer_that_came_back_is_given_out_again_and_no_other():
    pool = BufferPool(kept_max=2)
    one, two = pool.take(), pool.take()
    assert one is not two
    pool.give_back(one)
    assert pool.take() is one
    assert len(one) == pool.buffer_bytes > CHUNK_BYTES


def test_no_more_free_buffers_are_kept_than_allowed():
    pool = BufferPool(kept_max=2)
    for buffer in [pool.take() for _ in range(5)]:
        pool.give_back(buffer)
    kept = [pool.take(), pool.take()]
    third = pool.take()
    assert all(third is not buffer for buffer in kept)
    assert not pool._free
