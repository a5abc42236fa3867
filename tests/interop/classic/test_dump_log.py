"""`kafka-dump-log` and Apache's own print the same: of files that our broker or Apache's wrote, and of damaged ones."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.classic.compare import compare
from tests.interop.classic.coordinator_files import coordinator_log
from tests.interop.classic.dumped_files import DAMAGE, damaged, old_messages, segments, written_by

LOOKS = ("", "--deep-iteration", "--print-data-log", "--print-data-log --skip-record-metadata")
CHECKS = ("", "--verify-index-only", "--index-sanity-check")
WORDS = """
    kafka-dump-log --help
    kafka-dump-log --version
    kafka-dump-log --bogus
    kafka-dump-log --print-data-log
    kafka-dump-log --files
    kafka-dump-log --files ,
    kafka-dump-log --files @D/nothing
    kafka-dump-log --files @D/nothing/00000000000000000000.log
    kafka-dump-log --files @D/nothing/00000000000000000000.index
    kafka-dump-log --files @D/nothing/00000000000000000000.timeindex
    kafka-dump-log --files @D/nothing/00000000000000000000.txnindex
    kafka-dump-log --files @D/nothing/00000000000000000000.snapshot
    kafka-dump-log --files @D/nothing/word.log
    kafka-dump-log --files @D/nothing/word.index
    kafka-dump-log --files @D/ok/leader-epoch-checkpoint,,@D/ok,@D/ok/partition.metadata
    kafka-dump-log --files @D/ok/00000000000000000000.index --files @D/ok/00000000000000000000.log
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes many
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes -1
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes 0
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes 1000 some more words
    kafka-dump-log --files=@D/ok/00000000000000000000.log --max-bytes=1000 --deep-iteration
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes 1000 --deep
    kafka-dump-log --files @D/ok/00000000000000000000.index --max-message-size 20
    kafka-dump-log --files @D/ok/00000000000000000000.index --max-message-size -1
    kafka-dump-log --files @D/ok/00000000000000000000.index --max-message-size many
    kafka-dump-log --files @D/ok/00000000000000000000.log --max-bytes 1000 --value-decoder-class
    kafka-dump-log --files @D/ok/00000000000000000000.log --value-decoder-class no.such.Decoder
    kafka-dump-log --files @D/ok/00000000000000000000.log --value-decoder-class org.apache.kafka.tools.api.LongDecoder
    kafka-dump-log --files @D/ok/00000000000000000000.log --key-decoder-class org.apache.kafka.tools.api.LongDecoder
    kafka-dump-log --files @D/ok/00000000000000000000.log --offsets-decoder --max-bytes 1000
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    segments(directory / "ok")
    damaged(directory / "ok", directory)
    old_messages(directory)
    coordinator_log(directory)
    return directory


@pytest.fixture(scope="module", params=["ottla", "apache"])
def broker_files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with written_by(request.param, tmp_path_factory.mktemp(request.param)) as directory:
        yield directory


def dumps(paths: list[Path]) -> str:
    """Every file in every way that makes sense for its kind."""
    lines = []
    for path in paths:
        ways = LOOKS if path.suffix == ".log" else CHECKS if "index" in path.suffix else ("",)
        lines += [f"kafka-dump-log --files {path} {way}" for way in ways]
    return "\n".join(lines)


def found(directory: Path, *patterns: str) -> list[Path]:
    return list(itertools.chain.from_iterable(sorted(directory.glob(each)) for each in patterns))


def test_command_lines_are_read_alike(tools, files, capfd):
    compare(WORDS, tools, capfd, files=str(files))


def test_segments_indexes_and_snapshots_look_alike(tools, files, capfd):
    compare(dumps(found(files, "ok/0*")), tools, capfd)


def test_several_files_look_alike_together(tools, files, capfd):
    paths = ",".join(map(str, found(files, "index-offsets/0*", "times-order/0*", "hole/0*.log")))
    compare(f"kafka-dump-log --deep-iteration --files {paths}", tools, capfd)


def test_messages_of_old_formats_look_alike(tools, files, capfd):
    compare(dumps(found(files, "old-*/0*")), tools, capfd)


def test_damage_looks_alike(tools, files, capfd):
    paths = [min((files / name).glob(f"*{suffix}")) for name, (suffix, _) in DAMAGE.items()]
    beside = [
        path.with_suffix(each) for path in paths if path.suffix == ".log" for each in (".index", ".timeindex")
    ]
    compare(dumps(paths + beside), tools, capfd)


def test_what_coordinators_and_controllers_keep_looks_alike(tools, files, capfd):
    compare(
        """
        kafka-dump-log --offsets-decoder --files @D/offsets/00000000000000000000.log
        kafka-dump-log --offsets-decoder --skip-record-metadata --files @D/offsets/00000000000000000000.log
        kafka-dump-log --transaction-log-decoder --files @D/transactions/00000000000000000000.log
        kafka-dump-log --share-group-state-decoder --files @D/shares/00000000000000000000.log
        kafka-dump-log --cluster-metadata-decoder --files @D/metadata/00000000000000000000.log
        kafka-dump-log --remote-log-metadata-decoder --files @D/remote/00000000000000000000.log
        """,
        tools,
        capfd,
        files=str(files),
    )


def test_what_a_broker_wrote_looks_alike(tools, broker_files, capfd):
    compare(dumps(found(broker_files, "pa*/0*", "plain*/0*")), tools, capfd)
    compare(
        """
        kafka-dump-log --offsets-decoder --files @D/__consumer_offsets-0/00000000000000000000.log
        kafka-dump-log --transaction-log-decoder --files @D/__transaction_state-0/00000000000000000000.log
        """,
        tools,
        capfd,
        files=str(broker_files),
    )


def test_what_apaches_controllers_wrote_looks_alike(tools, tmp_path, capfd):
    with written_by("apache", tmp_path) as directory:
        paths = found(
            directory, "*.checkpoint", "__cluster_metadata-0/*.log", "__cluster_metadata-0/*.checkpoint"
        )
    assert paths
    for decoder in ("", "--deep-iteration", "--cluster-metadata-decoder"):
        compare("\n".join(f"kafka-dump-log --files {each} {decoder}" for each in paths), tools, capfd)
