"""Stdout in pieces: whoever reads it may hang up."""

import io
import os

import pytest

from ottla.cli.reading.output import Output


@pytest.fixture
def pipe():
    """Something to write to, and the descriptor of its other end."""
    there, here = os.pipe()
    with os.fdopen(here, "w") as stream:
        yield stream, there


def test_everything_is_out_when_write_returns(pipe):
    stream, there = pipe
    output = Output(stream)
    output.write(b"\xfftea\n")
    assert os.read(there, 100) == b"\xfftea\n"
    assert output.size == 5 and not output.is_terminal
    output.check()
    os.close(there)


def test_a_reader_that_has_gone_is_noticed_without_writing(pipe):
    stream, there = pipe
    output = Output(stream)
    output.check()
    os.close(there)
    with pytest.raises(BrokenPipeError):
        output.check()


def test_a_stream_of_text_will_do():
    stream = io.StringIO()
    output = Output(stream)
    output.write("čaj\n".encode())
    output.check()
    assert stream.getvalue() == "čaj\n"
