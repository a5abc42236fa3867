"""The segments of one log, oldest first. There is always at least one, and the last one is the active one."""

from bisect import bisect_right
from collections.abc import Iterator

from ottla.storage.segment import Segment


class Segments:
    def __init__(self, segments: list[Segment]) -> None:
        assert segments, "a log has at least one segment"
        self._segments = segments
        self._base_offsets = [s.base_offset for s in segments]
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def size(self) -> int:
        return sum(s.size for s in self._segments)

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self.active.base_offset, "segments follow each other"
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segment that would hold `offset`, and those behind it."""
        at = max(0, bisect_right(self._base_offsets, offset) - 1)
        while at < len(self._segments):
            yield self._segments[at]
            at += 1

    def ending_by(self, offset: int) -> int:
        """How many of them, counted from the oldest, are followed by one that starts at `offset` or before it."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def end_of(self, segment: Segment, log_end_offset: int) -> int:
        """Where the next segment starts, or the log ends."""
        at = bisect_right(self._base_offsets, segment.base_offset)
        return self._base_offsets[at] if at < len(self._base_offsets) else log_end_offset

    def drop_first(self, count: int) -> list[Segment]:
        """Take the oldest ones out; the active one stays."""
        assert count < len(self._segments), "the active segment stays"
        dropped, self._segments = self._segments[:count], self._segments[count:]
        del self._base_offsets[:count]
        return dropped

    def replace(self, old: list[Segment], segment: Segment) -> None:
        """Let one stand for neighbours of which the first starts where it does; the active one stays."""
        at = self._segments.index(old[0])
        assert self._segments[at : at + len(old)] == old, "neighbours are replaced"
        assert self.active not in old and segment.base_offset == old[0].base_offset
        self._segments[at : at + len(old)] = [segment]
        self._base_offsets[at : at + len(old)] = [segment.base_offset]

    def drop_from(self, offset: int) -> list[Segment]:
        """Take out the segments that start at `offset` or later, except the very first."""
        keep = max(1, bisect_right(self._base_offsets, offset - 1))
        dropped, self._segments = self._segments[keep:], self._segments[:keep]
        del self._base_offsets[keep:]
        self.active = self._segments[-1]
        return dropped

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Start over with one segment."""
        dropped, self._segments = self._segments, [segment]
        self._base_offsets = [segment.base_offset]
        self.active = segment
        return dropped
