"""Clients at work while brokers come and go: each produces without a pause, and a member of a group reads it all.

A worker never sends a value twice. So what the log holds twice was doubled between the client and its broker; a value
that the client gave up may be there once, or not at all.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from tests.interop.brokers import eventually
from tests.interop.clients.client import Client, Record, Sender
from tests.interop.clients.members import TIMEOUTS, Member

PARTITIONS = 3
PAUSE_SECONDS = 0.1
CLASSIC = {key.replace(".", "_"): value for key, value in TIMEOUTS.items()}
CONSUMER = {"group_protocol": "consumer"}
Join = Callable[[], Member]


def keyed(values: Sequence[str]) -> list[Record]:
    """One after the other to all partitions."""
    return [
        Record(number % PARTITIONS, f"key {number % 5}".encode(), value.encode())
        for number, value in enumerate(values)
    ]


class Worker:
    """`troubles` are what must not be; `reasons` are what the client said when it gave records up."""

    def __init__(self, client: Client, topic: str, join: Join | None) -> None:
        self.acknowledged: list[str] = []
        self.given_up: list[str] = []
        self.reasons: list[str] = []
        self.troubles: list[str] = []
        self._client, self._topic, self._join = client, topic, join
        self._member = join() if join is not None else None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def goes_on(self, when: str) -> None:
        """Two more rounds are acknowledged and read. Each goes to all partitions, so to all brokers that lead."""
        wanted = len(self.acknowledged) + 2 * PARTITIONS
        if self.troubles:
            return
        if not eventually(lambda: len(self.acknowledged) >= wanted):
            self.troubles.append(f"{when} nothing was acknowledged any more: {self.reasons[-1:]}")
        elif not self._has_read(self.acknowledged[:wanted]):
            self.troubles.append(f"{when} the group did not go on: {self._member}")

    def commits(self) -> None:
        if self._member is not None and not self.troubles:
            self._member.commit()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def judge(self) -> None:
        """When all is quiet: a second member takes up where the first one committed, and nothing is lost or doubled."""
        if self._member is not None and self._join is not None and not self.troubles:
            self._hand_over(self._member, self._join)
        held = self._held()
        if lost := set(self.acknowledged) - set(held):
            self.troubles.append(f"acknowledged and lost: {sorted(lost)[:5]}, {len(lost)} in all")
        if doubled := [value for value, count in held.items() if count > 1]:
            self.troubles.append(f"doubled: {sorted(doubled)[:5]}, {len(doubled)} in all")
        if strange := set(held) - {*self.acknowledged, *self.given_up}:
            self.troubles.append(f"never sent: {sorted(strange)[:5]}")

    def _hand_over(self, first: Member, join: Join) -> None:
        if not self._has_read(self.acknowledged):
            self.troubles.append(f"the group has not read everything: {first}")
            return
        first.commit()
        first.close()
        second, last = join(), [f"last {number}" for number in range(2 * PARTITIONS)]
        self._client.produce(self._topic, keyed(last), idempotent=True)
        self.acknowledged += last
        if not eventually(lambda: set(last) <= {each.value for each in second.seen}):
            self.troubles.append(f"a second member did not go on: {second}")
        if again := {each.value for each in second.seen} - {*last, *self.given_up}:
            self.troubles.append(f"committed, and read again: {sorted(again)[:5]}")
        second.close()

    def _held(self) -> Counter[str]:
        """What the log holds, as the client itself reads it."""
        spans = [self._client.watermarks(self._topic, number) for number in range(PARTITIONS)]
        starts = {number: start for number, (start, _) in enumerate(spans)}
        found = self._client.consume(self._topic, starts, sum(end - start for start, end in spans))
        return Counter((each.value or b"").decode() for each in found)

    def _has_read(self, values: Sequence[str]) -> bool:
        member = self._member
        if member is None:
            return True
        wanted = set(values)
        return eventually(lambda: wanted <= {each.value for each in member.seen} or not member.is_alive) and (
            member.is_alive
        )

    def _produce(self) -> None:
        """A producer that gave up is replaced: kafkajs uses the sequence numbers again of what it gave up."""
        numbers = itertools.count()
        while not self._is_over.is_set():
            try:
                with closing(self._client.sender()) as sender:
                    self._send_with(sender, numbers)
            except Exception as error:  # whatever a client calls it
                self.reasons.append(repr(error))

    def _send_with(self, sender: Sender, numbers: Iterator[int]) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            number = next(numbers)
            values = [f"{number} {partition}" for partition in range(PARTITIONS)]
            self.given_up += values
            sender.send(self._topic, keyed(values))
            del self.given_up[-PARTITIONS:]
            self.acknowledged += values
