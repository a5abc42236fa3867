"""kcat: the command line tool, with the librdkafka that Debian ships. One process per verb."""

import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.clients.client import WAIT_SECONDS_MAX, Record, Refused, Unavailable

_BUILD = Path(__file__).parents[3] / "build" / "interop"
_KEY_END, _RECORD_END = "<=key=>", "<=record=>"
_FORMAT = r"%p %o %T %K %S %h\n%k%s\n"
_CODES = {"Unknown topic or partition": 3, "Message size too large": 10}


class Kcat:
    def __init__(self, bootstrap_server: str, *options: str) -> None:
        self._bootstrap = bootstrap_server
        self._command = ["kcat", "-b", bootstrap_server, "-m", "20", *options]
        shown = _run(["kcat", "-V"], b"").decode()
        tool, library = re.findall(r"Version ([\d.]+)", shown), re.findall(r"librdkafka ([\d.]+)", shown)
        self.version = f"{tool[0]}, librdkafka {library[0]}"

    def close(self) -> None:
        """Nothing stays open."""

    def as_of(self, kafka: str) -> "Kcat":
        """The same tool, which does not ask the broker for versions and takes it for this old Kafka."""
        return Kcat(
            self._bootstrap, "-X", "api.version.request=false", "-X", f"broker.version.fallback={kafka}"
        )

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
        """One process for each run of records that share partition, headers and tombstone.

        Partitions come one after the other, which changes no order that a topic knows.
        """
        is_idempotent = idempotent or transactional_id is not None
        settings = [f"acks={acks}", f"enable.idempotence={str(is_idempotent).lower()}"]
        if transactional_id:
            settings.append(f"transactional.id={transactional_id}")
        options = [option for each in settings for option in ("-X", each)]
        sorted_records = sorted(records, key=lambda each: each.partition)
        runs = itertools.groupby(
            sorted_records, lambda each: (each.partition, each.headers, each.value is None)
        )
        for (partition, headers, is_tombstone), run in runs:
            command = [*self._command, "-P", "-t", topic, "-p", str(partition), "-z", codec, *options]
            command += ["-D", _RECORD_END, "-K", _KEY_END]
            for name, value in headers:
                command += ["-H", f"{name}={(value or b'').decode()}"]
            _run([*command, "-Z"] if is_tombstone else command, b"".join(_line(each) for each in run))

    def sender(self) -> "KcatSender":
        """With -E it does not mind that a broker is down, and ends well if all was delivered."""
        return KcatSender(Kcat(self._bootstrap, "-E"))

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        """A process reads one partition, or all of them, from the beginning; several from elsewhere to their end."""
        common = [*self._command, "-C", "-E", "-q", "-t", topic, "-f", _FORMAT]
        common += ["-X", f"isolation.level={isolation}"]
        if len(starts) > 1 and not any(starts.values()):
            return _parse(_run([*common, "-o", "beginning", "-c", str(count)], b""))
        if len(starts) == 1:
            ((partition, offset),) = starts.items()
            return _parse(_run([*common, "-p", str(partition), "-o", str(offset), "-c", str(count)], b""))
        found: list[Record] = []
        for partition, offset in starts.items():
            found += _parse(_run([*common, "-p", str(partition), "-o", str(offset), "-e"], b""))
        return found[:count]

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]:
        command = [*self._command, "-q", "-f", _FORMAT, "-X", "auto.offset.reset=earliest", "-c", str(count)]
        return _parse(_run([*command, "-G", group, topic], b""))

    def list_topics(self) -> set[str]:
        return {each["topic"] for each in self._metadata()["topics"]}

    def partition_count(self, topic: str) -> int:
        return len(self._metadata("-t", topic)["topics"][0]["partitions"])

    def describe_cluster(self) -> list[str]:
        return [each["name"] for each in self._metadata()["brokers"]]

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        shown = _run([*self._command, "-Q", "-t", f"{topic}:{partition}:{timestamp}"], b"").decode()
        offset = int(re.findall(r"offset (-?\d+)", shown)[0])
        return offset if offset >= 0 else None

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        questions = [f"{topic}:{partition}:{time}" for time in (-2, -1)]
        shown = [_run([*self._command, "-Q", "-t", each], b"").decode() for each in questions]
        start, end = (int(re.findall(r"offset (-?\d+)", each)[0]) for each in shown)
        return start, end

    def _metadata(self, *options: str) -> dict:
        return json.loads(_run([*self._command, "-L", "-J", *options], b""))


class KcatSender:
    """The tool tells only when it ends whether records were delivered, so it is started anew for each few."""

    def __init__(self, kcat: Kcat) -> None:
        self._kcat = kcat

    def send(self, topic: str, records: Sequence[Record]) -> None:
        self._kcat.produce(topic, records, idempotent=True)

    def close(self) -> None:
        """Nothing stays open."""


def prepare() -> None:
    """Install kcat where that is allowed."""
    if shutil.which("kcat"):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable("kcat is not installed, and only root can install it")
    _BUILD.mkdir(parents=True, exist_ok=True)
    with (_BUILD / "kcat.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        for command in (["apt-get", "install", "-y", "-q", "kcat"], ["apt-get", "update", "-q"]) * 2:
            if shutil.which("kcat"):
                return
            subprocess.run(command, capture_output=True, timeout=120)
    raise Unavailable("apt-get could not install kcat")


def _line(record: Record) -> bytes:
    key = b"" if record.key is None else record.key + _KEY_END.encode()
    return key + (record.value or b"") + _RECORD_END.encode()


def _parse(shown: bytes) -> list[Record]:
    found, start = [], 0
    while start < len(shown):
        end = shown.index(b"\n", start)
        partition, offset, timestamp, key_size, value_size, headers = shown[start:end].split(b" ", 5)
        key_end = end + 1 + max(int(key_size), 0)
        value_end = key_end + max(int(value_size), 0)
        found.append(
            Record(
                int(partition),
                None if int(key_size) < 0 else shown[end + 1 : key_end],
                None if int(value_size) < 0 else shown[key_end:value_end],
                tuple(_header(each) for each in headers.decode().split(",") if each),
                int(timestamp),
                int(offset),
            )
        )
        start = value_end + 1
    return found


def _header(text: str) -> tuple[str, bytes | None]:
    name, _, value = text.partition("=")
    return name, None if value == "NULL" else value.encode()


def _run(command: list[str], data: bytes) -> bytes:
    done = subprocess.run(command, input=data, capture_output=True, timeout=WAIT_SECONDS_MAX)
    if done.returncode or (b"ERROR" in done.stderr and "-E" not in command):
        shown = done.stderr.decode()
        raise Refused(next((code for text, code in _CODES.items() if text in shown), -1), shown.strip())
    return done.stdout
