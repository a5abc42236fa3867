"""A chart: some lines over an axis of powers of two, with a legend, as a PNG."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.cli.benching.canvas import Canvas, Color
from ottla.cli.benching.font import ASCENT, width_of

WIDTH, HEIGHT = 1000, 600
_LEFT, _RIGHT, _TOP, _BOTTOM = 100, 40, 110, 80
_INK, _PALE_INK, _GRID, _AXIS = (34, 40, 49), (104, 112, 122), (228, 231, 235), (120, 128, 138)
_PAPER = (255, 255, 255)
COLORS: list[Color] = [(0, 114, 178), (213, 94, 0)]
"""Blue and vermilion: those who see few colours can tell them apart."""
_TICKS = 6
_LABEL, _TITLE = 2, 3


class Series(NamedTuple):
    """One line: a name, and a value for every place on the x axis."""

    name: str
    values: Sequence[float]


class Words(NamedTuple):
    """What is written around the lines."""

    title: str
    subtitle: str
    x: str
    y: str


def chart(places: Sequence[int], series: Sequence[Series], words: Words) -> bytes:
    """The PNG. Places are positive, and in ascending order."""
    canvas = Canvas(WIDTH, HEIGHT, _PAPER)
    ticks = nice_ticks(max((max(each.values, default=0) for each in series), default=0))
    scales = _Scales(places, ticks[-1])
    _draw_frame(canvas, scales, ticks, words)
    for each, color in zip(series, COLORS, strict=False):
        points = [
            (scales.x(place), scales.y(value)) for place, value in zip(places, each.values, strict=True)
        ]
        for start, end in pairwise(points):
            canvas.line(start, end, color, 3)
        for x, y in points:
            canvas.disc(x, y, 6.5, _PAPER)
            canvas.disc(x, y, 5, color)
    _draw_legend(canvas, series)
    return canvas.png()


def nice_ticks(highest: float) -> list[float]:
    """From 0 to just above the highest, in steps of 1, 2 or 5 times a power of ten."""
    rough = (highest or 1.0) / _TICKS
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)
    return [number * step for number in range(math.ceil((highest or 1.0) / step) + 1)]


def powers(places: Sequence[int]) -> list[int]:
    """The powers of two that the axis shows, from at or below the first place to at or above the last."""
    low = math.floor(math.log2(min(places)))
    high = max(low + 1, math.ceil(math.log2(max(places))))
    return [2**power for power in range(low, high + 1)]


class _Scales:
    """Where a value is on the canvas."""

    def __init__(self, places: Sequence[int], highest: float) -> None:
        self.powers = powers(places)
        self._low, self._high = math.log2(self.powers[0]), math.log2(self.powers[-1])
        self._highest = highest

    def x(self, place: float) -> float:
        part = (math.log2(place) - self._low) / (self._high - self._low)
        return _LEFT + 20 + part * (WIDTH - _LEFT - _RIGHT - 40)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self._highest * (HEIGHT - _TOP - _BOTTOM)


def _draw_frame(canvas: Canvas, scales: _Scales, ticks: Sequence[float], words: Words) -> None:
    """Grid, axes, ticks and everything that is written, but for the legend."""
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    for tick in ticks:
        y = round(scales.y(tick))
        canvas.box(_LEFT, y, right - _LEFT, 1, _GRID)
        label = f"{tick:,.10g}"
        canvas.text(label, _LEFT - 14 - width_of(label, _LABEL), y + 7, _PALE_INK, _LABEL)
        canvas.box(_LEFT - 6, y, 6, 1, _AXIS)
    for power in scales.powers:
        x = round(scales.x(power))
        canvas.box(x, _TOP, 1, bottom - _TOP, _GRID)
        canvas.box(x, bottom, 1, 7, _AXIS)
        label = f"{power:,}"
        canvas.text(label, x - width_of(label, _LABEL) // 2, bottom + 28, _PALE_INK, _LABEL)
    canvas.box(_LEFT, bottom, right - _LEFT, 1, _AXIS)
    canvas.box(_LEFT, _TOP, 1, bottom - _TOP, _AXIS)
    canvas.text(words.title, _LEFT, 42, _INK, _TITLE)
    canvas.text(words.subtitle, _LEFT, 72, _PALE_INK, _LABEL)
    middle = (_LEFT + right) // 2 - width_of(words.x, _LABEL) // 2
    canvas.text(words.x, middle, HEIGHT - 18, _INK, _LABEL)
    middle = (_TOP + bottom) // 2 + width_of(words.y, _LABEL) // 2
    canvas.text(words.y, 28, middle, _INK, _LABEL, upright=True)


def _draw_legend(canvas: Canvas, series: Sequence[Series]) -> None:
    """In the corner above the lines, from the right."""
    x = WIDTH - _RIGHT
    for each, color in reversed(list(zip(series, COLORS, strict=False))):
        x -= width_of(each.name, _LABEL)
        canvas.text(each.name, x, _TOP - 14, _INK, _LABEL)
        x -= 46
        y = _TOP - 14 - ASCENT
        canvas.line((x, y), (x + 32, y), color, 3)
        canvas.disc(x + 16, y, 5, color)
        x -= 28
