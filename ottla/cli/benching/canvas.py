"""A picture of pixels: boxes, smooth lines and discs, text, and the bytes of a PNG in the end.

Lines and discs are smooth because a pixel on an edge gets as much of the colour as it is covered. Coordinates are
pixels from the top left; what falls outside is not drawn.
"""

import math
import struct
import zlib

from ottla.cli.benching import font

Color = tuple[int, int, int]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUECOLOR, _BIT_DEPTH = 2, 8


class Canvas:
    """Draw, then ask for the `png`."""

    def __init__(self, width: int, height: int, background: Color = (255, 255, 255)) -> None:
        self.width, self.height = width, height
        self._pixels = bytearray(bytes(background) * (width * height))

    def pixel(self, x: int, y: int) -> Color:
        at = 3 * (y * self.width + x)
        red, green, blue = self._pixels[at : at + 3]
        return red, green, blue

    def blend(self, x: int, y: int, color: Color, amount: float) -> None:
        """Mix as much of the colour into a pixel as it is covered, between 0 and 1."""
        if amount <= 0 or not (0 <= x < self.width and 0 <= y < self.height):
            return
        at, kept = 3 * (y * self.width + x), 1 - min(amount, 1.0)
        for index, part in enumerate(color):
            self._pixels[at + index] = round(self._pixels[at + index] * kept + part * (1 - kept))

    def box(self, left: int, top: int, width: int, height: int, color: Color) -> None:
        for y in range(max(0, top), min(self.height, top + height)):
            begin, end = max(0, left), min(self.width, left + width)
            if begin < end:
                self._pixels[3 * (y * self.width + begin) : 3 * (y * self.width + end)] = bytes(color) * (
                    end - begin
                )

    def line(
        self, start: tuple[float, float], end: tuple[float, float], color: Color, thickness: float
    ) -> None:
        """With round ends. Only pixels near the line are looked at, column by column or row by row."""
        (x0, y0), (x1, y1) = start, end
        is_steep = abs(y1 - y0) > abs(x1 - x0)
        along, across = ((y0, y1), (x0, x1)) if is_steep else ((x0, x1), (y0, y1))
        length = math.hypot(x1 - x0, y1 - y0)
        if not length:
            self.disc(x0, y0, thickness / 2, color)
            return
        slope = (across[1] - across[0]) / (along[1] - along[0])
        reach = thickness / 2 + 1
        near = reach * math.hypot(1, slope)  # measured across, the line is the thicker the more it leans
        for step in range(math.floor(min(along) - reach), math.ceil(max(along) + reach) + 1):
            middle = across[0] + (step - along[0]) * slope
            for side in range(math.floor(middle - near), math.ceil(middle + near) + 1):
                x, y = (side, step) if is_steep else (step, side)
                self.blend(x, y, color, thickness / 2 + 0.5 - _distance(x, y, start, end, length))

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        for row in range(math.floor(y - radius - 1), math.ceil(y + radius + 1) + 1):
            for column in range(math.floor(x - radius - 1), math.ceil(x + radius + 1) + 1):
                self.blend(column, row, color, radius + 0.5 - math.hypot(column - x, row - y))

    def text(
        self, text: str, x: float, y: float, color: Color, scale: int = 2, *, upright: bool = False
    ) -> None:
        """From the left end of its base line; `upright` is turned to the left, and read from below."""
        for index, character in enumerate(text):
            for column, row in font.dots(character):
                along = (index * (font.WIDTH + 1) + column) * scale
                above = (font.ASCENT - row) * scale
                if upright:
                    self.box(round(x) - above, round(y) - along - scale, scale, scale, color)
                else:
                    self.box(round(x) + along, round(y) - above, scale, scale, color)

    def png(self) -> bytes:
        """Eight bits for each of red, green and blue. Rows are stored as they are: most pixels are alike anyway."""
        header = struct.pack(">IIBBBBB", self.width, self.height, _BIT_DEPTH, _TRUECOLOR, 0, 0, 0)
        stride = 3 * self.width
        rows = b"".join(
            b"\0" + self._pixels[start : start + stride] for start in range(0, len(self._pixels), stride)
        )
        return b"".join(
            [
                _SIGNATURE,
                _chunk(b"IHDR", header),
                _chunk(b"IDAT", zlib.compress(rows, 9)),
                _chunk(b"IEND", b""),
            ]
        )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _distance(
    x: float, y: float, start: tuple[float, float], end: tuple[float, float], length: float
) -> float:
    """Of a point from a line between two others."""
    (x0, y0), (x1, y1) = start, end
    part = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / (length * length)
    part = min(1.0, max(0.0, part))
    return math.hypot(x - x0 - part * (x1 - x0), y - y0 - part * (y1 - y0))
