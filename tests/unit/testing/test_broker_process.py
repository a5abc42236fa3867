"""A broker does not outlive the program that started it, however that ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

PATIENCE_S = 60
PROGRAM = """
import sys
from ottla.testing.cluster import Cluster
cluster = Cluster(nodes=1)
cluster.open()
cluster.pause(1)
print(cluster.node(1).pid, cluster.node(1).data_dir, flush=True)
{then}
"""


def is_alive(pid: int) -> bool:
    """A zombie that nobody has looked after is dead."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def until_dead(pid: int) -> None:
    nothing = threading.Event()
    for _ in range(PATIENCE_S * 50):
        if not is_alive(pid):
            return
        nothing.wait(0.02)
    os.kill(pid, signal.SIGKILL)
    pytest.fail(f"the broker {pid} has outlived its parent")


def running(then: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(then=then)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a child at once that its parent has died"
)
def test_a_broker_dies_with_a_program_that_is_killed():
    with running("sys.stdin.read()") as program:
        pid, data_dir = program.stdout.readline().split()
        program.kill()
    until_dead(int(pid))
    subprocess.run(["rm", "-rf", os.path.dirname(data_dir)], check=True)  # nobody was left to do it


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_program_that_forgets_its_cluster_ends_and_leaves_nothing():
    with running("") as program:
        pid, data_dir = program.stdout.readline().split()
    assert program.returncode == 0
    until_dead(int(pid))
    assert not os.path.exists(data_dir)
