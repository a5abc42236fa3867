"""A client that sends to every partition all the time, and notes when each send is acknowledged.

It has one record under way in each partition, so the longest time between two acknowledgements of a partition is how
long that partition could not be written to. An idempotent producer does it all: what it sends is in the histories, and
is judged with the rest.
"""

import bisect
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from ottla.testing.history import History, HistoryClient, Key, Pending, Send
from tests.chaos.history_load import IDEMPOTENT, Progress, Settings, place

BEAT_SECONDS = 0.05
POLL_SECONDS = 0.02
END_SECONDS_MAX = 120.0


class Gap(NamedTuple):
    """How long a partition was not to be written to."""

    seconds: float
    key: Key


class Pulse:
    """One value for each key, again and again."""

    def __init__(
        self, server: str, everything: History, committed: History, keys: Sequence[Key], settings: Settings
    ) -> None:
        self._producer = Producer({"bootstrap.servers": server, **IDEMPOTENT, "linger.ms": 0, **settings})
        self._keys = keys
        self._clients: dict[Key, list[HistoryClient]] = {
            key: [everything.client(), committed.client()] for key in keys
        }
        self._open: dict[Key, list[Pending]] = {}
        self._next: dict[Key, float] = dict.fromkeys(keys, 0.0)
        self._numbers = itertools.count()
        self._acknowledged: defaultdict[Key, list[float]] = defaultdict(list)
        self.errors: list[str] = []

    def run(self, progress: Progress) -> None:
        while not progress.is_over:
            for key in self._keys:
                if key not in self._open and self._next[key] <= time.monotonic():
                    self._beat(key, progress)
            self._producer.poll(POLL_SECONDS)
        assert self._producer.flush(END_SECONDS_MAX) == 0
        assert not self.errors, self.errors

    def _beat(self, key: Key, progress: Progress) -> None:
        value = f"pulse:{next(self._numbers)}"
        self._next[key] = time.monotonic() + BEAT_SECONDS
        self._open[key] = [client.send(key, value) for client in self._clients[key]]

        def note(error: KafkaError | None, message: Message) -> None:
            self._end(key, value, error, message)
            progress.add("beats")

        to = place(key)
        self._producer.produce(to.topic, value, partition=to.partition, on_delivery=note)

    def _end(self, key: Key, value: str, error: KafkaError | None, message: Message) -> None:
        opened = self._open.pop(key)
        if error is not None:
            self.errors.append(error.name())
            for each in opened:
                each.info(error.name())
            return
        offset = message.offset()
        send = Send(key, value, offset if offset is not None and offset >= 0 else None)
        for each in opened:
            each.ok([send])
        self._acknowledged[key].append(time.monotonic())

    def has_reached_all(self, since: float) -> bool:
        """Was something acknowledged in every partition since then?"""
        return all(times and times[-1] > since for times in map(self._times, self._keys))

    def longest_gap(self, since: float) -> Gap:
        """Between two acknowledgements of a partition, of which the second came after `since`."""
        gaps = [Gap(0.0, "")]
        for key in self._keys:
            times = self._times(key)
            first = max(bisect.bisect_right(times, since) - 1, 0)
            gaps += [Gap(after - before, key) for before, after in pairwise(times[first:])]
        return max(gaps)

    def _times(self, key: Key) -> list[float]:
        return self._acknowledged[key][:]
