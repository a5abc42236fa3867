"""A process that acknowledges only what is flushed, killed in the middle: everything it acknowledged is there."""

import os
import random
import signal
import subprocess
import sys

from ottla.records.batch import iter_batches, records_of
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log

ROUNDS = 3
SETTINGS = {"segment.bytes": "4096", "index.interval.bytes": "200", "flush.messages": "1"}

WRITER = f"""
import asyncio, sys
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.flushing import GroupCommit
from ottla.storage.log import Log

files = OsFiles(handles_max=6)
log = Log.open(files, sys.argv[1], TopicConfig({SETTINGS!r}))
commit = GroupCommit(log, files)

async def write(name):
    for number in range(10**9):
        value = f"{{name}}-{{number}}-{{log.end_offset}}"
        appended = log.append(build([Record(0, 1000, None, value.encode())]), 0, 2000)
        await commit.settle(appended.last_offset + 1, 2000)
        print(appended.first_offset, value, flush=True)

async def main():
    await asyncio.gather(*(write(name) for name in "abcd"))

asyncio.run(main())
"""


def acknowledged_until_killed(directory: str, count: int) -> dict[int, bytes]:
    """What the writer said it had made to last, before and while it was being killed."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, directory], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(count)]
        os.kill(writer.pid, signal.SIGKILL)
        lines += writer.stdout.readlines()
    whole = (line.split() for line in lines if line.endswith("\n"))
    return {int(offset): value.encode() for offset, value in whole}


def test_nothing_acknowledged_is_missing_after_kill_9(tmp_path):
    directory = str(tmp_path / "orders-0")
    source = random.Random(9)
    acknowledged: dict[int, bytes] = {}
    for _ in range(ROUNDS):
        acknowledged |= acknowledged_until_killed(directory, source.randint(5, 60))
        log = Log.open(OsFiles(), directory, TopicConfig(SETTINGS))
        found = {}
        offset = 0
        while data := log.read(offset, 1 << 20).read():
            for position, header in iter_batches(data):
                found |= {r.offset: r.value for r in records_of(data, position)}
                offset = header.next_offset
        log.abandon()
        assert {o: found.get(o) for o in acknowledged} == acknowledged
    assert len(acknowledged) >= ROUNDS * 5
