"""Thousands of segments in one directory, and few descriptors for them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.storage import many_segments
from tests.unit.storage.many_segments import BATCHES_EACH

LIMIT = 200  # descriptors; what is asked of them in the large is 2,000 for 10,000 segments
ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import json, random, resource, sys
path, limit, handles = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
from ottla.storage.files import OsFiles
from ottla.storage.log_directory import LogDirectory
from tests.unit.storage.many_segments import NOW, PARTITION, settings

files, config = OsFiles(handles, syncs=False), settings()

def descriptors():
    return len(files.names("/dev/fd"))

seen = {"before": descriptors()}
directory = LogDirectory.open(files, path, lambda topic: config)
log = directory.logs[PARTITION]
seen["opened"] = descriptors()
seen |= {"was_clean": directory.was_clean, "segments": len(log.segments), "end": log.end_offset}
source = random.Random(7)
offsets = [source.randrange(log.end_offset) for _ in range(2 * limit)] + [0, log.end_offset - 1]
seen["is_found"] = all(log.read(o, 100).read()[:8] == o.to_bytes(8, "big") for o in offsets)
seen["read"] = descriptors()
seen["by_time"] = log.offset_by_time(NOW + 5).offset
config.update({"retention.ms": "1000"})
deleted = 0
while count := log.delete_old(NOW + 10**9, count_max=50):
    deleted += count
seen |= {"deleted": deleted, "start": log.log_start_offset, "retained": descriptors()}
log.remove_doomed(2**62)
seen["left"] = len(log.segments)
directory.close(1)
seen["closed"] = descriptors()
print(json.dumps(seen))
"""


@pytest.mark.parametrize(
    ("count", "handles"), [(2000, LIMIT // 2), (500, 10 * LIMIT)], ids=["bounded", "until none is left"]
)
def test_thousands_of_segments_are_opened_read_and_deleted_with_few_descriptors(tmp_path, count, handles):
    end = many_segments.make(str(tmp_path), count)
    assert end == count * BATCHES_EACH
    command = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path), str(LIMIT), str(handles)]
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert (seen["was_clean"], seen["segments"], seen["end"]) == (True, count + 1, end)
    assert seen["opened"] <= seen["before"] + 8, "nothing but sizes is looked at"
    assert (seen["is_found"], seen["by_time"]) == (True, 5)
    assert max(seen["read"], seen["retained"]) <= min(LIMIT, seen["before"] + handles + 8)
    assert (seen["deleted"], seen["start"], seen["left"]) == (count, end, 1)
    assert seen["closed"] == seen["before"]
    assert len(os.listdir(tmp_path / "orders-0")) <= 7
