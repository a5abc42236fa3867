"""What goes on in the cluster while it is broken: topics of their own for each fault, and clients that write to them.

Idempotent and transactional producers, readers of both isolation levels and groups of both protocols, all of them
librdkafka's, write down what they do and see. In the end everything is read once more from the beginning, the groups
read on until they have committed the last record, and the checker judges.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.checker import Report, check
from ottla.testing.history import Action, History, Key, Outcome
from ottla.testing.history_file import write_history
from tests.chaos.histories import judged_apart, sends_of
from tests.chaos.history_load import QUICKLY, Progress, Sender, Settings, Transactor
from tests.chaos.history_readers import Group, Member, Reader, Reading
from tests.cluster.pulse import Pulse

REPLICAS, IN_SYNC_MIN = 3, 2
PARTITIONS = {"orders": 3, "payments": 2}
CLIENTS_MAX = 12
ADMIN_SECONDS = 60
WRITTEN_BEFORE_A_FAULT = 20  # acknowledgements of the pulse, and one transaction
_END = "transactions: "
WANTED_ENDS = frozenset(_END + end for end in ("ok", "ok too late", "fail aborted", "fail late: _FENCED"))
CLIENT: Settings = {
    # A host that is cut off answers nobody, and refuses nobody: whoever waits for it finds out by the clock.
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 1000,
    "topic.metadata.refresh.interval.ms": 1000,
}


class Load:
    """The clients of one fault. Run it with `running`, then ask `verdict`."""

    def __init__(self, server: str, name: str) -> None:
        self.topics = {f"{name}-{topic}": count for topic, count in PARTITIONS.items()}
        self.keys: list[Key] = [f"{topic}-{n}" for topic, count in self.topics.items() for n in range(count)]
        self.everything, self.committed = History(), History()
        self.progress = Progress()
        self.transactional_ids = [f"{name}-writer", f"{name}-copier"]
        self._name, self._server = name, server
        self.pulse = Pulse(server, self.everything, self.committed, self.keys, CLIENT)
        self.groups = [
            Group(server, f"{name}-{protocol}", protocol, keys=self.keys, settings=CLIENT)
            for protocol in ("classic", "consumer")
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """While this is open the clients do what they do; at its end all that was written has been read."""
        self._create_topics(self.topics)
        with ThreadPoolExecutor(CLIENTS_MAX) as pool:
            members = [Member(group, self.committed) for group in self.groups for _ in range(2)]
            writers = [pool.submit(client.run, self.progress) for client in self._clients()]
            joined = [pool.submit(member.run, self.progress) for member in members]
            self.progress.clients += [*writers, *joined]
            try:
                yield
                self._finish(writers)
            finally:
                self.progress.is_over = True
                for group in self.groups:
                    group.is_over = True
        for client in joined:
            client.result()

    def _clients(self) -> list[Pulse | Sender | Transactor | Reader]:
        histories, to = (self.everything, self.committed), {"keys": self.keys, "settings": CLIENT}
        first, second = self.transactional_ids
        return [
            self.pulse,
            Sender(self._server, "sender", *histories, **to),
            Transactor(self._server, first, *histories, **to),
            Transactor(self._server, second, *histories, Reading(self._server, **to), **to),
            Reader(self._server, self.everything, "read_uncommitted", **to),
            Reader(self._server, self.committed, "read_committed", **to),
        ]

    def create_ballast(self) -> str:
        """A topic of one partition that nobody reads. It goes with the others."""
        topic = f"{self._name}-ballast"
        self._create_topics({topic: 1})
        self.topics[topic] = 1
        return topic

    def _create_topics(self, partitions: Mapping[str, int]) -> None:
        settings = {"min.insync.replicas": str(IN_SYNC_MIN)}
        topics = [NewTopic(topic, n, REPLICAS, config=settings) for topic, n in partitions.items()]
        admin = self._admin()
        for future in admin.create_topics(topics, operation_timeout=ADMIN_SECONDS).values():
            future.result()

    def delete_topics(self) -> None:
        admin = self._admin()
        for future in admin.delete_topics(list(self.topics), operation_timeout=ADMIN_SECONDS).values():
            future.result()

    def _admin(self) -> AdminClient:
        """A new one each time: one that is older may take somebody for the controller who is not any more. It must be
        kept until it has answered."""
        return AdminClient({"bootstrap.servers": self._server, **QUICKLY, **CLIENT})

    def flow(self) -> None:
        """Return when every partition takes records, and transactions end."""
        since = time.monotonic()
        self.progress.wait_for("transactions", 1)
        self.progress.wait_for("beats", WRITTEN_BEFORE_A_FAULT)
        self.progress.wait(lambda: self.pulse.has_reached_all(since))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What the groups have committed before, they have committed after."""
        with ExitStack() as stack:
            for group in self.groups:
                stack.enter_context(group.watched())
            yield

    def _finish(self, writers: list[Future[None]]) -> None:
        self.progress.is_over = True
        self.progress.wait(lambda: all(each.done() for each in writers))
        to = {"keys": self.keys, "settings": CLIENT}
        Reader(self._server, self.everything, "read_uncommitted", **to).read_to_the_end()
        last = Reader(self._server, self.committed, "read_committed", **to)
        last.read_to_the_end()
        self.progress.wait(lambda: all(group.has_reached(last.ends) for group in self.groups))

    def verdict(self) -> dict[str, Report]:
        histories = judged_apart(self.everything, self.committed, self.groups)
        return {name: check(history) for name, history in histories.items()}

    def forgotten(self) -> list[str]:
        """Commits of groups that were acknowledged, and then not found."""
        return [sentence for group in self.groups for sentence in group.forgotten]

    def seen_errors(self) -> dict[str, int]:
        """Ends of transactions that nobody wanted, and that the client did not deal with itself."""
        ends = {kind: count for kind, count in self.progress.counts.items() if kind.startswith(_END)}
        return {kind.removeprefix(_END): n for kind, n in ends.items() if kind not in WANTED_ENDS}

    def acknowledged(self) -> int:
        """Records, those of aborted transactions included."""
        return sum(
            len(sends_of(each))
            for each in self.everything
            if each.action is Action.SEND and each.outcome is Outcome.OK
        )

    def write(self, path: Path) -> None:
        write_history(self.everything, path / "everything.history")
        write_history(self.committed, path / "committed.history")
