"""Two log directories on one simulated disk, and a move between them without a broker, step by step."""

import uuid

from ottla.core.ids import TopicPartition
from ottla.storage import checkpoints
from ottla.storage.future import FutureLog
from ottla.storage.log_directory import LogDirectory
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, config

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=4711)


class LazyDisk(SimDisk):
    """Names of directories, too, last only when the directory around them is synced."""

    def __init__(self):
        super().__init__()
        self._renamed = []

    def rename(self, source, target):
        is_directory = source in self._directories
        super().rename(source, target)
        if is_directory:
            self._renamed.append((source, target))

    def sync_directory(self, path):
        super().sync_directory(path)
        self._renamed = [each for each in self._renamed if each[0].rpartition("/")[0] != path]

    def crash(self, source):
        forgotten, self._renamed = self._renamed, []
        kept = {}
        for before, after in forgotten:  # of those in one directory, the first ones happened
            parent = before.rpartition("/")[0]
            kept[parent] = kept.get(parent, True) and source.random() < 0.5
            if not kept[parent]:
                self._directories[before] = self._directories.pop(after)
        super().crash(source)


def opened(disk, **settings):
    """Both directories."""
    shared = config(**settings)
    return [LogDirectory.open(disk, path, lambda topic: shared) for path in ("one", "two")]


def begun(source, target):
    future = FutureLog(ORDERS, source.logs[ORDERS], source, target)
    for step in future.begin(TOPIC_ID):
        step()
    future.opened()
    return future


def copy(future):
    """Everything that there is now; how many steps it took."""
    count = 0
    while (step := future.next_step(NOW)) is not None:
        step()
        count += 1
    return count


def settle(future):
    copy(future)
    future.begin_settling()()
    for step in future.target.begin_checkpoint(*checkpoints.OFFSETS, always=True):
        step()


def finish(future):
    """Put it in place; what the log was made of is out of the way on return."""
    while not future.catches_up(NOW):
        settle(future)
    old = future.take_place()
    future.source.retire(ORDERS, old)
    future.source.checkpoint()
    return old


def content(log):
    """The bytes of all its segments, one behind the other."""
    return b"".join(segment.file.read_at(0, segment.size) for segment in log.segments)
