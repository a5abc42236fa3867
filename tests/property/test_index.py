"""An index of entries that grow, against a plain sorted list."""

import struct
from bisect import bisect_right

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.storage import index as index_module
from ottla.storage.index import CorruptIndex, SortedEntries
from ottla.testing.disk import SimDisk

LAYOUT = struct.Struct(">qI")
PATH = "d/0.timeindex"
SMALL_PAGE = 60  # five entries, so that a run crosses many pages


class SmallPages(SortedEntries):
    def __init__(self, disk: SimDisk) -> None:
        super().__init__(disk, PATH, LAYOUT, 1 << 20)
        self._per_page = SMALL_PAGE // LAYOUT.size


class IndexAgainstList(RuleBasedStateMachine):
    """Whatever was appended, flushed, cut and loaded again: look-ups agree with a list."""

    def __init__(self) -> None:
        super().__init__()
        self.page_bytes, index_module.PAGE_BYTES = index_module.PAGE_BYTES, SMALL_PAGE
        self.disk = SimDisk()
        self.disk.make_directory("d")
        self.model: list[tuple[int, int]] = []

    def teardown(self) -> None:
        index_module.PAGE_BYTES = self.page_bytes

    @initialize()
    def create(self) -> None:
        self.index = SmallPages(self.disk)
        self.index.create()

    @rule(steps=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2**32 - 1)), min_size=1, max_size=12))
    def append(self, steps: list[tuple[int, int]]) -> None:
        for step, value in steps:
            key = (self.model[-1][0] if self.model else 0) + step
            self.index.append(key, value)
            self.model.append((key, value))

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.model) + 1))
        self.index.truncate(count)
        del self.model[count:]

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule(padding=st.integers(0, 40))
    def reload(self, padding: int) -> None:
        """Another process reads the file, perhaps with the room that Kafka allocates ahead."""
        self.index.close()
        if padding:
            file = self.disk.open(PATH)
            file.truncate(file.size() + padding * LAYOUT.size)
        self.index = SmallPages(self.disk)
        self.index.load()

    @rule(extra=st.integers(1, LAYOUT.size - 1))
    def reload_an_odd_size(self, extra: int) -> None:
        self.index.close()
        file = self.disk.open(PATH)
        size = file.size()
        file.truncate(size + extra)
        self.index = SmallPages(self.disk)
        try:
            self.index.load()
            raise AssertionError("an odd size was accepted")
        except CorruptIndex:
            file.truncate(size)
            self.index.load()

    @rule(data=st.data())
    def reload_unsorted_pages(self, data: st.DataObject) -> None:
        self.index.close()
        assume(len(self.model) > 5)
        page = data.draw(st.integers(1, (len(self.model) - 1) // 5))
        file = self.disk.open(PATH)
        good = file.read_at(page * SMALL_PAGE, 8)
        file.write_at(page * SMALL_PAGE, struct.pack(">q", self.model[(page - 1) * 5][0]))
        self.index = SmallPages(self.disk)
        try:
            self.index.load()
            raise AssertionError("pages out of order were accepted")
        except CorruptIndex:
            file.write_at(page * SMALL_PAGE, good)
            self.index.load()

    @rule(key=st.integers(-5, 3000))
    def floor(self, key: int) -> None:
        assert self.index.floor(key) == bisect_right(self.model, key, key=lambda e: e[0]) - 1

    @rule(data=st.data())
    def floor_of_a_known_key(self, data: st.DataObject) -> None:
        assume(self.model)
        number = data.draw(st.integers(0, len(self.model) - 1))
        assert self.index.floor(self.model[number][0]) == number
        assert self.index.entry(number) == self.model[number]

    @invariant()
    def count_and_last_agree(self) -> None:
        if hasattr(self, "index"):
            assert self.index.count == len(self.model)
            assert self.index.last == (self.model[-1] if self.model else None)


TestIndexAgainstList = IndexAgainstList.TestCase
TestIndexAgainstList.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
