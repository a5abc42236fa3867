"""Inputs cut into records, however they come in."""

import asyncio
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.remote import Failed
from ottla.cli.sending import inputs
from ottla.cli.sending.inputs import Input, blocks


class Chunks:
    """An input that comes in these chunks."""

    path = "-"

    def __init__(self, chunks):
        self._chunks = list(chunks)

    async def read(self):
        return self._chunks.pop(0) if self._chunks else b""


async def gathered(source, end=b"\n", size_max=100):
    return [block async for block in blocks(source, end, size_max)]


@given(
    st.lists(st.binary(min_size=1, max_size=12), max_size=12), st.sampled_from([b"\n", b"ab", b"\x00\x00"])
)
def test_pieces_are_those_of_the_whole_however_it_is_cut(chunks, end):
    found = asyncio.run(gathered(Chunks(chunks), end))
    whole = b"".join(chunks).split(end)
    if not whole[-1]:
        whole.pop()
    assert [piece for block in found for piece in block.pieces] == whole
    first = 1
    for block in found:
        assert block.first == first
        first += len(block.pieces)


def test_what_has_no_end_is_refused_before_it_fills_the_memory():
    with pytest.raises(Failed, match="line 2 has more than 100 bytes"):
        asyncio.run(gathered(Chunks([b"a\n", b"x" * 90, b"x" * 90, b"x" * 90])))


def test_a_pipe_is_read_while_others_go_on(monkeypatch):
    ours, theirs = os.pipe()

    async def run():
        with open(ours) as file:
            monkeypatch.setattr("sys.stdin", file)
            source = Input()
            assert source.size is None and not source.is_terminal
            reading = asyncio.create_task(gathered(source))
            await asyncio.sleep(0)
            assert not reading.done()
            writer = threading.Thread(target=lambda: (os.write(theirs, b"a\nb\nc"), os.close(theirs)))
            writer.start()
            found = await reading
            writer.join()
            return [piece for block in found for piece in block.pieces]

    assert asyncio.run(run()) == [b"a", b"b", b"c"]


def test_who_waits_for_a_pipe_can_be_called_off(monkeypatch):
    ours, theirs = os.pipe()

    async def run():
        with open(ours) as file:
            monkeypatch.setattr("sys.stdin", file)
            reading = asyncio.create_task(gathered(Input()))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    try:
        asyncio.run(run())
    finally:
        os.close(theirs)


def test_devices_that_nobody_waits_for_and_files_are_read(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" * 10)

    async def run(where):
        source = Input(where)
        try:
            return [piece for block in await gathered(source) for piece in block.pieces], source.size
        finally:
            source.close()

    assert asyncio.run(run(os.devnull)) == ([], None)
    assert asyncio.run(run(str(path))) == ([b"a"] * 10, 20)
    with pytest.raises(Failed, match="is a directory"):
        Input(str(tmp_path))


def test_what_cannot_be_read_is_named():
    async def run():
        source = Input("/proc/self/mem")
        try:
            await source.read()
        finally:
            source.close()

    with pytest.raises(Failed, match="/proc/self/mem cannot be read: Input/output error"):
        asyncio.run(run())


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_long_piece_is_put_together_once(end):
    cutter = inputs.Cutter(end)
    assert [piece for _ in range(20_000) for piece in cutter.cut(b"x" * 4096)] == []
    assert cutter.held_size == 20_000 * 4096
    assert [len(piece) for piece in cutter.cut(end + b"y")] == [20_000 * 4096]
    assert cutter.rest() == b"y"


def test_a_place_is_named_with_its_file():
    assert inputs.Block("-", 3, [], 0).place(4) == "line 7"
    assert inputs.Block("a.txt", 1, [], 0).place(0, "record") == "a.txt, record 1"
