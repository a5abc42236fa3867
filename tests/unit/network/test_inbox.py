"""Frames come out as they went in, however the bytes were cut on their way."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.network.inbox import KEPT_BYTES_MAX, RECEIVE_BYTES, Inbox

SIZES = st.sampled_from(
    [0, 1, 3, 100, 5000, RECEIVE_BYTES - 5, RECEIVE_BYTES - 4, RECEIVE_BYTES - 3, 200_000]
)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(inbox: Inbox, data: bytes, piece_sizes=(1 << 30,)) -> list[bytes]:
    frames, position, turn = [], 0, 0
    while position < len(data):
        room = inbox.room()
        count = min(piece_sizes[turn % len(piece_sizes)], len(room), len(data) - position)
        room[:count] = data[position : position + count]
        frames += [bytes(frame) for frame in inbox.arrived(count)]
        position, turn = position + count, turn + 1
    return frames


@given(st.lists(SIZES, max_size=6), st.lists(st.sampled_from([1, 2, 4, 7, 1000, 65_536, 10**9]), min_size=1))
def test_frames_come_out_as_they_went_in(sizes, piece_sizes):
    piece_sizes = [max(piece, sum(sizes) // 2000) for piece in piece_sizes]
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert feed(Inbox(), b"".join(map(framed, bodies)), piece_sizes) == bodies


def test_a_large_frame_is_received_where_it_stays():
    inbox = Inbox()
    data = framed(bytes(1_000_000))
    inbox.room()[:10] = data[:10]
    assert list(inbox.arrived(10)) == []
    room = inbox.room()
    assert len(room) == 1_000_000 - 6, "room for the rest of this frame and nothing else"
    room[:] = b"x" * len(room)
    (frame,) = inbox.arrived(len(room))
    assert frame.obj is room.obj


def test_a_frame_may_be_kept_while_others_arrive():
    inbox = Inbox()
    for size in (100, 300_000):
        kept = []
        for letter in (b"a", b"b", b"c"):
            data = framed(letter * size)
            position = 0
            while position < len(data):
                room = inbox.room()[: len(data) - position]
                room[:] = data[position : position + len(room)]
                position += len(room)
                kept += inbox.arrived(len(room))
        assert [bytes(frame[:1]) for frame in kept] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_size_that_cannot_be_is_refused_before_there_is_a_buffer(size):
    inbox = Inbox(frame_bytes_max=1000)
    inbox.room()[:4] = struct.pack(">i", size)
    with pytest.raises(ProtocolError, match=f"frame of {size} bytes, 1000 allowed"):
        list(inbox.arrived(4))


def large_frame(inbox: Inbox, body: bytes) -> memoryview:
    data, frames = framed(body), []
    while data:
        room = inbox.room()[: len(data)]
        room[:] = data[: len(room)]
        data = data[len(room) :]
        frames += inbox.arrived(len(room))
    (frame,) = frames
    assert isinstance(frame, memoryview)
    return frame


def test_memory_of_frames_that_are_done_with_takes_the_next():
    inbox = Inbox()
    first = large_frame(inbox, b"a" * 300_000)
    inbox.recycle()
    second = large_frame(inbox, b"b" * 200_000)
    assert second == b"b" * 200_000
    assert second.obj is first.obj


def test_a_frame_that_somebody_may_still_look_at_keeps_its_memory():
    inbox = Inbox()
    first = large_frame(inbox, b"a" * 300_000)
    inbox.recycle()
    second = large_frame(inbox, b"b" * 300_000)  # in the place of the first, and not given back
    third = large_frame(inbox, b"c" * 300_000)
    assert first.obj is second.obj is not third.obj
    assert second == b"b" * 300_000


def test_what_is_under_way_is_not_given_back():
    inbox = Inbox()
    large_frame(inbox, b"a" * 300_000)
    inbox.recycle()
    inbox.room()[:10] = framed(b"b" * 300_000)[:10]
    assert list(inbox.arrived(10)) == []
    inbox.recycle()  # of frames that have come, there is none
    rest = inbox.room()
    rest[:] = b"b" * len(rest)
    (frame,) = inbox.arrived(len(rest))
    other = large_frame(inbox, b"c" * 300_000)
    assert frame == b"b" * 300_000
    assert other.obj is not frame.obj


@pytest.mark.parametrize("size", [KEPT_BYTES_MAX + 1, 400_000])
def test_no_memory_is_kept_that_is_too_large_or_too_small(size):
    inbox = Inbox()
    first = large_frame(inbox, b"a" * size)
    inbox.recycle()
    assert large_frame(inbox, b"b" * 500_000).obj is not first.obj
