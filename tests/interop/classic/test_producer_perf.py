"""The producer's performance test and Apache's own: the same lines, apart from what was measured."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.classic.compare import Did, lines, ours, running
from tests.oracles.apache_tools import ApacheTools

NO_BROKER = """
    kafka-producer-perf-test
    kafka-producer-perf-test --help
    kafka-producer-perf-test --version
    kafka-producer-perf-test --bogus
    kafka-producer-perf-test --topic t
    kafka-producer-perf-test --topic t --num-records 1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1
    kafka-producer-perf-test --topic t --num-records x --throughput -1 --record-size 1
    kafka-producer-perf-test --topic t --num-records 0 --throughput -1 --record-size 1 --bootstrap-server a:1
    kafka-producer-perf-test --topic t --num-records 1 --throughput x --record-size 1 --bootstrap-server a:1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 0 --bootstrap-server a:1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --payload-file x
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --bootstrap-server a:1 word
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --reporting-interval 0
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --warmup-records 1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --transaction-duration-ms 0
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --transactional-id
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --producer-props a
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --producer-props a=b
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --producer.config /nope
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --command-config /nope
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --bootstrap-server nonsense
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --payload-file /nope --bootstrap-server a:1
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --producer-props a=b \
        --command-property c=d
    kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --producer.config a \
        --command-config b
"""
MEASURED = """
    kafka-producer-perf-test --topic t --num-records 500 --throughput -1 --record-size 100 -B
    kafka-producer-perf-test --topic t --num-records 50 --throughput 1000 --record-size 10 \
        --producer-props bootstrap.servers=@S acks=1
    kafka-producer-perf-test --topic t --num-records 500 --throughput -1 --record-size 100 -B --warmup-records 100
    kafka-producer-perf-test --topic t --num-records 50 --throughput -1 --payload-monotonic -B
    kafka-producer-perf-test --topic t --num-records 50 --throughput -1 --payload-file @D/payloads -B
    kafka-producer-perf-test --topic t --num-records 50 --throughput -1 --payload-file @D/empty -B
    kafka-producer-perf-test --topic t --num-records 50 --throughput -1 --record-size 10 -B --transactional-id me
    kafka-producer-perf-test --topic t --num-records 2 --throughput -1 --record-size 2000000 -B
    kafka-producer-perf-test --topic t --num-records 2 --throughput -1 --record-size 10 -B --producer-props acks=7
"""


@pytest.fixture(params=["ottla", "apache"], scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param) as address:
        yield address


def shape(did: Did) -> Did:
    """Without what depends on the machine."""
    out = re.sub(r"(?<= sent, )[\d.]+|(?<=\()[\d.]+(?= MB)|[\d.]+(?= ms )", "?", did.out)
    out = re.sub(
        r"^\d+ records sent, \? records/sec \(\? MB/sec\), \? ms avg latency, \? ms max latency\.\n",
        "",
        out,
        flags=re.M,
    )
    return Did(
        did.code, out, did.err.partition("\n")[0].partition(": The message is")[0].partition(": a record")[0]
    )


def compare(
    text: str, tools: ApacheTools, capfd: pytest.CaptureFixture[str], server: str, files: str
) -> None:
    differing = []
    for words in lines(text, server, files):
        theirs, mine = Did(*tools.run(*words)), ours(words, capfd)
        is_usage = theirs.err.startswith("usage:")
        if shape(theirs) != shape(mine) or (is_usage and theirs.err.strip() != mine.err.strip()):
            differing.append(f"{' '.join(words)}\n  Apache: {theirs}\n  ours:   {mine}")
    assert not differing, "\n".join(differing)


def test_command_lines_that_reach_nobody(tools: ApacheTools, capfd: pytest.CaptureFixture[str]) -> None:
    compare(NO_BROKER, tools, capfd, "", "")


def test_what_is_measured_is_printed_in_the_same_lines(
    server: str, tools: ApacheTools, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "payloads").write_text("one\ntwo\n\nfour\n")
    (tmp_path / "empty").write_text("")
    compare(MEASURED, tools, capfd, server, str(tmp_path))
