"""A small partition on disk, and one way to run `ottla log dump` on it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log

NOW = 1_700_000_000_000
SEGMENT = "00000000000000000000"


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def rows(self) -> list[dict[str, str]]:
        """The lines of tab-separated output under the last line of names, by name."""
        lines = [line.split("\t") for line in self.out.splitlines() if not line.startswith("# ")]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def dump(*args: object) -> Ran:
    result = CliRunner().invoke(cli, ["log", "dump", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def record(offset: int, key: bytes | None = b"k", value: bytes | None = b"v", **options: Any) -> Record:
    return Record(offset, NOW + offset, key, value, **options)


def batches(count: int = 4) -> list[bytes]:
    """Batches of two records each, one behind the other."""
    return [build([record(2 * i), record(2 * i + 1)], leader_epoch=3) for i in range(count)]


def write(directory: Path, name: str, data: bytes) -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


def partition(directory: Path) -> Path:
    """What a Log leaves behind: plain, compressed, idempotent, transactional batches, and all files beside them."""
    config = TopicConfig({"index.interval.bytes": "0"})
    log = Log.open(OsFiles(), str(directory / "orders-0"), config)
    log.append(build([record(0), record(1)]), 5, NOW)
    log.append(build([record(0), record(1)], codec=Codec.GZIP), 5, NOW)
    log.append(
        build([record(4)], producer_id=9, producer_epoch=1, base_sequence=0, is_transactional=True), 6, NOW
    )
    abort = build_marker(
        ControlType.ABORT, producer_id=9, producer_epoch=1, coordinator_epoch=7, timestamp=NOW + 5
    )
    log.append(abort, 6, NOW, client=False)
    log.roll()
    log.close()
    return directory / "orders-0"
