"""`kafka-producer-perf-test`: the lines that people parse, and what it refuses."""

import asyncio
import re

import pytest

from ottla.cli.classic.producer_perf_stats import Stats, Throttle, steady_state
from ottla.cli.main import main
from tests.unit.cli.nouns import asked, broker, topic  # noqa: F401 - fixtures

WINDOW = r"\d+ records sent, \d+\.\d records/sec \(\d+\.\d\d MB/sec\), \d+\.\d ms avg latency, \d+\.\d ms max latency\."
TOTAL = (
    r"\d+ records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


@pytest.fixture
def perf(broker, topic, capfd):  # noqa: F811 - the fixtures
    def run(*words, servers=True):
        where = ["--bootstrap-server", broker.bootstrap_server] if servers else []
        code = main(["kafka-producer-perf-test.sh", "--topic", topic, *where, *words])
        return code, *capfd.readouterr()

    return run


def test_the_line_of_the_old_books_runs_as_it_is_written(perf, broker, topic):  # noqa: F811
    words = ["--num-records", "1000", "--record-size", "1024", "--throughput", "100000", "--producer-props"]
    code, out, err = perf(*words, f"bootstrap.servers={broker.bootstrap_server}", "acks=1", servers=False)
    warning, total = out.splitlines()
    assert (code, err) == (0, "")
    assert warning == (
        "Option --producer-props has been deprecated and will be removed in a future version. "
        "Use --command-property instead."
    )
    assert re.fullmatch(TOTAL, total) and total.startswith("1000 records sent")
    found = broker.records(topic, timeout=0)
    assert len(found) == 1000 and all(re.fullmatch(rb"[A-Z]{1024}", each.value) for each in found)


def test_a_line_for_every_interval_and_one_without_the_warmup(perf):
    words = "--num-records 30 --record-size 10 --throughput 100 --reporting-interval 50 --warmup-records 10"
    code, out, _ = perf(*words.split())
    first, *windows, total, steady = out.splitlines()
    assert code == 0
    assert (
        first == "Warmup first 10 records. Steady state results will print after the complete test summary."
    )
    assert windows and all(re.fullmatch(WINDOW, line) for line in windows)
    assert re.fullmatch(TOTAL, total) and total.startswith("30 records sent")
    assert re.fullmatch(TOTAL, steady.replace("steady state ", "")) and steady.startswith(
        "20 steady state records"
    )


def test_payloads_come_from_a_file_or_are_numbers(perf, broker, topic, tmp_path):  # noqa: F811
    path = tmp_path / "payloads"
    path.write_text("one;two;three;")
    words = "--num-records 20 --throughput -1"
    code, out, _ = perf(*words.split(), "--payload-file", str(path), "--payload-delimiter", ";")
    assert (code, out.splitlines()[:2]) == (
        0,
        [f"Reading payloads from: {path}", "Number of records read: 3"],
    )
    assert {each.value for each in broker.records(topic, timeout=0)} <= {b"one", b"two", b"three"}
    assert perf(*words.split(), "--payload-monotonic")[0] == 0
    numbers = {b"%d" % number for number in range(20)}
    assert numbers <= {each.value for each in broker.records(topic, timeout=0)}


def test_transactions_are_committed_one_after_the_other(perf, broker, topic):  # noqa: F811
    words = "--num-records 20 --record-size 10 --throughput 200 --transaction-duration-ms 20 --print-metrics"
    code, out, _ = perf(*words.split())
    assert code == 0
    assert re.search(r"\nMetric Name +Value\nproducer-metrics:batches-retried:", out)
    assert len(broker.records(topic, timeout=0)) == 20


def test_records_that_are_too_large_are_told_and_none_is_counted(perf):
    code, out, err = perf("--num-records", "2", "--record-size", "2000000", "--throughput", "-1")
    assert (code, err.count("org.apache.kafka.common.errors.RecordTooLargeException: ")) == (0, 2)
    assert out.startswith(
        "0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max"
    )


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("--num-records 1 --record-size 1", "argument --throughput is required"),
        ("--num-records 1 --throughput -1", "payload-file --payload-monotonic is required"),
        ("--num-records 0 --record-size 1 --throughput -1", "--num-records should be greater than zero."),
        ("--num-records 1 --record-size 0 --throughput -1", "--record-size should be greater than zero."),
        ("--num-records 1 --record-size 1 --throughput -1 --warmup-records 1", "--num-records."),
        ("--num-records 1 --record-size 1 --payload-monotonic --throughput -1", "argument --record-size"),
        (
            "--num-records 1 --record-size 1 --throughput -1 --producer-props a=b --command-property a=b",
            "cannot be specified together.",
        ),
    ],
)
def test_what_makes_no_sense_is_told_below_the_usage(perf, words, end):
    code, out, err = perf(*words.split())
    assert (code, out) == (1, "")
    assert err.startswith("usage: kafka-producer-perf-test\n")
    assert end.replace(" ", "") in err.replace(" ", "").replace("\n", "")


def test_a_word_without_a_value_is_no_property(perf):
    words = "--num-records 1 --record-size 1 --throughput -1 --command-property"
    code, _, err = perf(*words.split(), "acks")
    assert (code, err) == (1, "java.lang.IllegalArgumentException: Invalid property: acks\n")
    code, _, err = perf(*words.split(), "acks=1", servers=False)
    assert (code, "Missing required configuration" in err) == (1, True)


def test_without_words_it_shows_its_help(capfd):
    assert main(["kafka-producer-perf-test"]) == 0
    assert capfd.readouterr().out.startswith("usage: kafka-producer-perf-test\n")


def test_half_of_the_latencies_are_let_go_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("ottla.cli.classic.producer_perf_stats._KEPT_MAX", 100)
    stats = Stats(10**9, is_quiet=True)
    for number in range(1000):
        stats.record(0.0, number / 1000, 10, 100)
    assert stats.count == 10_000
    marks = [int(each) for each in re.findall(r"(\d+) ms \d", steady_state(stats))]
    assert all(abs(found - wanted) <= 30 for found, wanted in zip(marks, (500, 950, 990, 999), strict=True))


def test_without_a_limit_nobody_is_held_back():
    assert asyncio.run(Throttle(-1).allowed(10**9, 50)) == 50
    assert asyncio.run(Throttle(10**9).allowed(0, 50)) in range(1, 51)
