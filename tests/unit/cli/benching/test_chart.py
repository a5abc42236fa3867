"""The picture of a curve: a PNG that others can read, with the lines where they belong."""

import struct
import zlib

import pytest

from ottla.cli.benching import font
from ottla.cli.benching.canvas import Canvas
from ottla.cli.benching.chart import COLORS, HEIGHT, WIDTH, Series, Words, chart, nice_ticks, powers

WORDS = Words("Title", "subtitle", "x", "y")


def read_png(data):
    """Rows of pixels, by the rules of the specification."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(kind + body),)
        chunks.append((kind, body))
        at += 12 + size
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert rest == [8, 2, 0, 0, 0]
    raw = zlib.decompress(chunks[1][1])
    stride = 1 + 3 * width
    assert len(raw) == stride * height
    rows = []
    for start in range(0, len(raw), stride):
        assert raw[start] == 0, "rows are stored without a filter"
        row = raw[start + 1 : start + stride]
        rows.append([tuple(row[index : index + 3]) for index in range(0, len(row), 3)])
    return rows


def test_a_picture_reads_back_as_it_was_drawn():
    canvas = Canvas(7, 5, (1, 2, 3))
    canvas.box(2, 1, 3, 2, (200, 100, 50))
    rows = read_png(canvas.png())
    assert (len(rows[0]), len(rows)) == (7, 5)
    for y in range(5):
        for x in range(7):
            inside = 2 <= x < 5 and 1 <= y < 3
            assert rows[y][x] == canvas.pixel(x, y) == ((200, 100, 50) if inside else (1, 2, 3))


def test_what_falls_outside_is_not_drawn():
    canvas = Canvas(4, 4)
    before = canvas.png()
    canvas.box(-5, -5, 3, 3, (0, 0, 0))
    canvas.box(9, 0, 3, 3, (0, 0, 0))
    canvas.disc(-20, 2, 3, (0, 0, 0))
    canvas.line((-9, -9), (-5, 30), (0, 0, 0), 2)
    canvas.text("far", 50, 50, (0, 0, 0))
    assert canvas.png() == before


@pytest.mark.parametrize("end", [(18, 2), (2, 18), (18, 18), (18, 9), (9, 18), (2, 2)])
def test_a_line_is_solid_from_end_to_end_in_every_direction(end):
    canvas = Canvas(21, 21)
    canvas.line((2, 2), end, (0, 0, 0), 3)
    for part in range(11):
        x, y = (2 + (to - 2) * part / 10 for to in end)
        assert canvas.pixel(round(x), round(y)) == (0, 0, 0)
    assert canvas.pixel(20, 0) == (255, 255, 255)


def test_edges_are_smooth():
    canvas = Canvas(21, 21)
    canvas.disc(10, 10, 6, (0, 0, 0))
    shades = {canvas.pixel(x, y)[0] for x in range(21) for y in range(21)}
    assert {0, 255} < shades


def test_every_printable_character_has_a_glyph_of_its_own():
    seen = {}
    for code in range(32, 127):
        glyph = tuple(font.dots(chr(code)))
        assert all(0 <= x < font.WIDTH and 0 <= y < font.HEIGHT for x, y in glyph)
        seen.setdefault(glyph, []).append(chr(code))
    alike = [same for same in seen.values() if len(same) > 1]
    assert alike == [["0", "O"]]
    assert font.dots("\u00e4") == font.dots("\u4e2d"), "what has none is a box"


def test_text_is_as_wide_as_it_says_and_can_stand_upright():
    flat, upright = Canvas(60, 60), Canvas(60, 60)
    flat.text("Hg", 10, 30, (0, 0, 0), 2)
    upright.text("Hg", 30, 40, (0, 0, 0), 2, upright=True)
    black = lambda canvas: {  # noqa: E731  a name for a line
        (x, y) for x in range(60) for y in range(60) if canvas.pixel(x, y) == (0, 0, 0)
    }
    across = [x for x, _ in black(flat)]
    assert max(across) - min(across) + 1 == font.width_of("Hg", 2)
    assert {(30 + y - 30, 49 - x) for x, y in black(flat)} == black(upright)


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (7, [0, 2, 4, 6, 8]),
        (100, [0, 20, 40, 60, 80, 100]),
        (302.9, [0, 100, 200, 300, 400]),
        (0.012, [0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012]),
    ],
)
def test_ticks_are_round_numbers_that_reach_the_highest(highest, ticks):
    assert nice_ticks(highest) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("places", "shown"),
    [
        ([1], [1, 2]),
        ([1, 2, 4], [1, 2, 4]),
        ([1, 5, 10], [1, 2, 4, 8, 16]),
        ([3, 200], [2, 4, 8, 16, 32, 64, 128, 256]),
    ],
)
def test_the_axis_has_the_powers_of_two_around_all_places(places, shown):
    assert powers(places) == shown


def test_both_lines_are_where_their_values_are():
    rows = read_png(chart([1, 2, 4], [Series("up", [0, 50, 100]), Series("down", [100, 50, 0])], WORDS))
    assert (len(rows[0]), len(rows)) == (WIDTH, HEIGHT)
    for color, (left, right) in zip(COLORS, [(520, 110), (110, 520)], strict=True):
        assert rows[left][120] == color, "the first point"
        assert rows[right][940] == color, "the last point"


def test_one_place_and_no_throughput_can_be_drawn():
    read_png(chart([1], [Series("none", [0.0])], WORDS))
    read_png(chart([200], [Series("a", [1.5]), Series("b", [0.1])], WORDS))
