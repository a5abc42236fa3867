"""Members of consumer groups, each a process of its own: it can be killed, and nothing of it lives on in the tests.

A member reads whatever it is given and tells at once what it got; it commits when it is told to, and never by itself.
Its program takes lines of JSON: first what to subscribe to and how, then `commit` and `close`. It answers in lines too:
`assigned` with all partitions it has now, `records`, `committed`, `failed`.
"""

import importlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from tests.interop.brokers import eventually
from tests.interop.clients.client import WAIT_SECONDS_MAX
from tests.interop.clients.table import CLIENTS

TIMEOUTS = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
"""Of a classic member. Those of the consumer protocol are the broker's to set."""


class Seen(NamedTuple):
    """A record that a member was given."""

    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """What a member has told so far; a thread listens to it."""

    def __init__(
        self, client_name: str, bootstrap_server: str, group: str, topics: Sequence[str], **how: Any
    ) -> None:
        entry = CLIENTS[client_name]
        module = importlib.import_module(f"tests.interop.clients.{entry.module}")
        self.client_name = client_name
        self.assignment: set[tuple[str, int]] = set()
        self.rebalances = 0
        """How often the group gave it partitions, the same ones included."""
        self.seen: list[Seen] = []
        self.failures: list[str] = []
        self.commits = 0
        self._committed = 0
        self._last_words = ""
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 closed by `_end`, it outlives this function
        self._process = subprocess.Popen(
            [*module.member_command(*entry.arguments), bootstrap_server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._say(group=group, topics=list(topics), pattern=how.pop("pattern", None), settings=_named(how))

    @property
    def news(self) -> list[Seen]:
        """What it read since it last committed."""
        return self.seen[self._committed :]

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def commit(self) -> None:
        """Commit all that it has told of."""
        before, failures, count = self.commits, len(self.failures), len(self.seen)
        self._say(verb="commit")
        assert eventually(
            lambda: self.commits > before or len(self.failures) > failures or not self.is_alive
        ), self
        assert self.commits > before, self
        self._committed = count

    def close(self) -> None:
        """Leave the group, as a program does that ends."""
        self._say(verb="close")
        assert self._process.wait(WAIT_SECONDS_MAX) == 0, self
        self._end()

    def kill(self) -> None:
        """End without a word, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._end()

    def __str__(self) -> str:
        told = f"has {sorted(self.assignment)}, read {len(self.seen)}, failed {self.failures}"
        return f"{self.client_name} {told}\n{self._complained()[-2000:]}"

    def _complained(self) -> str:
        if not self._complaints.closed:
            self._complaints.seek(0)
            self._last_words = self._complaints.read()
        return self._last_words

    def _say(self, **what: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            told = json.loads(line)
            if "assigned" in told:
                self.rebalances = told["rebalances"]
                self.assignment = {(topic, partition) for topic, partition in told["assigned"]}
            elif "records" in told:
                self.seen += [Seen(*each) for each in told["records"]]
            elif "committed" in told:
                self.commits += 1
            else:
                self.failures.append(told["failed"])

    def _end(self) -> None:
        if self._complaints.closed:
            return
        assert self._process.stdin and self._process.stdout
        self._listener.join(WAIT_SECONDS_MAX)
        self._process.stdout.close()
        self._complained()
        self._complaints.close()
        with suppress(BrokenPipeError):  # what was not written yet has no reader any more
            self._process.stdin.close()


def _named(how: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in how.items()}


@contextmanager
def members_of(bootstrap_server: str) -> Iterator[Callable[..., Member]]:
    """Makes members; those that are left in the end are killed."""
    made: list[Member] = []

    def join(client_name: str, group: str, topics: Sequence[str], **how: Any) -> Member:
        made.append(Member(client_name, bootstrap_server, group, topics, **how))
        return made[-1]

    try:
        yield join
    finally:
        for each in made:
            each.kill()
