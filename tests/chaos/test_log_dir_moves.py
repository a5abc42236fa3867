"""`kill -9` of a broker whose replicas are moving between its directories, under load: each record that it acknowledged
is there, once, in its place, and each replica lies in one directory.

OTTLA_CHAOS_ROUNDS asks for more rounds. In every other one the broker syncs before it acknowledges.
"""

import os
import random
import threading
from collections import Counter
from pathlib import Path

from ottla.core.errors import ErrorCode, OttlaError
from tests.chaos.load import PARTITIONS, Load
from tests.chaos.processes import BrokerProcess, values_in
from tests.scenarios.log_dirs import move, names, replicas, wait_until_in

ROUNDS = int(os.environ.get("OTTLA_CHAOS_ROUNDS", "3"))
SYNCED = {"log.flush.interval.messages": 1}


class Mover:
    """Sends replicas back and forth, in a thread of its own, whatever becomes of the broker meanwhile."""

    def __init__(self, port: int, paths: list[Path], chance: random.Random) -> None:
        self._port, self._paths, self._chance = port, paths, chance
        self._stop = threading.Event()
        self.answers: Counter[int] = Counter()
        self.crashed: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="mover")
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self.crashed == []

    def _run(self) -> None:
        while not self._stop.wait(self._chance.random() / 50):
            try:
                path, number = self._chance.choice(self._paths), self._chance.randrange(PARTITIONS)
                self.answers[move(self._port, "orders", number, path)] += 1
            except (OttlaError, OSError, TimeoutError):
                continue  # it was killed, or is not up yet
            except Exception as error:
                self.crashed.append(error)
                return


def test_nothing_is_lost_or_doubled_by_kill_9_in_the_middle_of_moves(tmp_path):
    chance = random.Random(113)
    paths = [tmp_path / "one", tmp_path / "two"]
    settings = {
        "log.dirs": ",".join(map(str, paths)),
        "num.partitions": PARTITIONS,
        "log.segment.bytes": 1 << 20,
        "log.segment.delete.delay.ms": 3_600_000,  # what has moved is counted in the end
    }
    with BrokerProcess(paths[0], settings) as broker:
        load = Load(broker.bootstrap_server)
        load.wait_for(100)
        mover = Mover(broker.port, paths, chance)
        try:
            for number in range(ROUNDS):
                load.wait_for(chance.randint(500, 5_000))
                broker.kill()
                broker.settings = settings | SYNCED if number % 2 == 0 else settings
                broker.start()
        finally:
            mover.finish()
            load.finish()
        settle(broker.port, paths)
        assert broker.terminate() == 0, broker.errors
    check(load, paths)
    moves = sum(len(names(path, "delete")) for path in paths)
    assert load.refused == {} and moves >= ROUNDS and mover.answers[ErrorCode.NONE] > ROUNDS


def settle(port: int, paths: list[Path]) -> None:
    """Let every move end: each replica is asked to go somewhere, and waited for."""
    for number in range(PARTITIONS):
        target = paths[number % 2]
        assert move(port, "orders", number, target) == ErrorCode.NONE
        wait_until_in(port, "orders", number, target)
    assert all(len(places) == 1 for places in replicas(port).values())


def check(load: Load, paths: list[Path]) -> None:
    assert not any(names(path, state) for path in paths for state in ("future", "stray"))
    found = [values_in(path) for path in paths]
    for partition, acknowledged in load.acknowledged.items():
        (values,) = [each[partition] for each in found if partition in each]
        assert list(values) == list(range(len(values))), f"{partition} has a hole"
        assert {offset: values.get(offset) for offset in acknowledged} == acknowledged
        assert len(set(values.values())) == len(values), f"{partition} has records twice"
