"""A client that runs in a process of its own, for as long as the tests do: verbs go in as lines of JSON.

Records travel in files, because JSON has no bytes. A JVM takes a second to start, so it starts once.
"""

import itertools
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.interop.clients.client import Record, Refused, read_records, write_records


class RemoteClient:
    """Has every verb; which ones its program knows is the program's affair."""

    def __init__(self, command: Sequence[str], bootstrap_server: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ottla-interop-")
        self._numbers = itertools.count()
        self._complaints = Path(self._directory.name) / "stderr.txt"
        with self._complaints.open("w") as complaints:
            self._process = subprocess.Popen(
                [*command, bootstrap_server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                encoding="utf-8",
            )
        self.version = self._ask("version")

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._directory.cleanup()

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transactional_id: str | None = None,
        commit: bool = True,
    ) -> None:
        self._give(
            "produce",
            records,
            topic=topic,
            codec=codec,
            acks=acks,
            idempotent=idempotent,
            transactional_id=transactional_id,
            commit=commit,
        )

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        begin = {str(partition): offset for partition, offset in starts.items()}
        return self._take("consume", topic=topic, starts=begin, count=count, isolation=isolation)

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]:
        return self._take("group_consume", topic=topic, group=group, count=count)

    def sender(self) -> "RemoteTransactional":
        return RemoteTransactional(self, self._ask("txn_open", transactional_id=None))

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> "RemoteTransactional":
        number = self._ask("txn_open", transactional_id=transactional_id, timeout_ms=timeout_ms)
        return RemoteTransactional(self, number)

    def _give(self, verb: str, records: Sequence[Record], **arguments: Any) -> None:
        path = self._path()
        with path.open("wb") as target:
            write_records(target, records)
        try:
            self._ask(verb, file=str(path), **arguments)
        finally:
            path.unlink()

    def _take(self, verb: str, **arguments: Any) -> list[Record]:
        path = self._path()
        self._ask(verb, file=str(path), **arguments)
        found = read_records(path.read_bytes())
        path.unlink()
        return found

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
    ) -> None:
        self._ask(
            "create_topic", topic=topic, partitions=partitions, configs=dict(configs), replicas=replicas
        )

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def list_topics(self) -> set[str]:
        return set(self._ask("list_topics"))

    def partition_count(self, topic: str) -> int:
        return self._ask("partition_count", topic=topic)

    def topic_configs(self, topic: str) -> dict[str, str]:
        return self._ask("topic_configs", topic=topic)

    def alter_config(self, topic: str, key: str, value: str) -> None:
        self._ask("alter_config", topic=topic, key=key, value=value)

    def create_partitions(self, topic: str, count: int) -> None:
        self._ask("create_partitions", topic=topic, count=count)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._ask("delete_records", topic=topic, partition=partition, before=before)

    def describe_cluster(self) -> list[str]:
        return self._ask("describe_cluster")

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        start, end = self._ask("watermarks", topic=topic, partition=partition)
        return start, end

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        return self._ask("offset_for_time", topic=topic, partition=partition, timestamp=timestamp)

    def offset_of_newest(self, topic: str, partition: int) -> int:
        return self._ask("offset_of_newest", topic=topic, partition=partition)

    def log_dir_sizes(self, topic: str) -> dict[int, int]:
        return {int(partition): size for partition, size in self._ask("log_dir_sizes", topic=topic).items()}

    def active_producers(self, topic: str, partition: int) -> int:
        return self._ask("active_producers", topic=topic, partition=partition)

    def _path(self) -> Path:
        return Path(self._directory.name) / f"records-{next(self._numbers)}"

    def _ask(self, verb: str, **arguments: Any) -> Any:
        """The answer to one verb, or what the broker refused it with."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"verb": verb, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client's process ended: {self._complaints.read_text()[-2000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer.get("code", -1), answer["error"])
        return answer["result"]


class RemoteTransactional:
    """A producer that lives in the client's process, under a number. One without a transactional id can but `send`."""

    def __init__(self, client: RemoteClient, number: int) -> None:
        self._client, self._number = client, number

    def begin(self) -> None:
        self._client._ask("txn_begin", txn=self._number)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        self._client._give("txn_send", records, txn=self._number, topic=topic)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {str(partition): offset for partition, offset in offsets.items()}
        self._client._ask("txn_offsets", txn=self._number, group=group, topic=topic, offsets=wanted)

    def commit(self) -> None:
        self._client._ask("txn_commit", txn=self._number)

    def abort(self) -> None:
        self._client._ask("txn_abort", txn=self._number)

    def close(self) -> None:
        self._client._ask("txn_close", txn=self._number)
