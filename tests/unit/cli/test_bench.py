"""`ottla bench` against a broker: it measures, and leaves nothing behind."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from ottla.cli.benching.clients import values_of
from ottla.cli.benching.progress import Bar
from ottla.cli.main import main
from ottla.client import Admin
from ottla.testing import Broker
from tests.unit.cli.states import Asked, runner

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        made = Asked(running.bootstrap_server)
        made.create("orders", 2)
        made.produce("orders", 10)
        yield running


@pytest.fixture
def ottla(broker, capsys):
    return runner(capsys, broker.bootstrap_server)


def topics(broker):
    with Admin(bootstrap_servers=broker.bootstrap_server) as admin:
        return set(admin.list_topics())


LATENCIES = {"mean", "p50", "p95", "p99", "p99_9", "max"}


def test_producing_is_measured_in_a_topic_that_is_gone_afterwards(ottla, broker):
    found = ottla("bench", "produce", "--records", "500", "--size", "1KiB", "--partitions", "3", "--json")
    assert found.code == 0
    assert found.json["topic"].startswith("ottla-bench-3-")
    assert (found.json["records"], found.json["size"]) == (500, 1024)
    assert found.json["records_per_second"] > 0
    assert found.json["mb_per_second"] == pytest.approx(found.json["records_per_second"] / 1024)
    assert found.json["latency_ms"].keys() == LATENCIES
    assert topics(broker) == {"orders"}


def test_settings_of_the_producer_are_flags_or_come_from_the_session(ottla):
    flags = ("--batch", "16KiB", "--linger", "1ms", "--acks", "1", "--compression", "gzip")
    assert ottla("bench", "produce", "--records", "50", *flags).code == 0
    assert ottla("bench", "produce", "--records", "50", "-X", "compression.type=lz4").code == 0
    wrong = ottla("bench", "produce", "--records", "5", "--acks", "7")
    assert wrong.code != 0
    assert "acks" in wrong.err


def test_records_can_be_kept_to_a_rate(ottla):
    found = ottla("bench", "produce", "--records", "20", "--rate", "200", "--json").json
    assert found["records_per_second"] <= 250


def test_the_table_has_a_line_of_names(ottla):
    names, row = ottla("bench", "produce", "--records", "10").out.splitlines()
    assert names.split("\t")[:5] == ["topic", "records", "seconds", "records_per_second", "mb_per_second"]
    assert "p99_9_ms" in names.split("\t")
    assert len(row.split("\t")) == len(names.split("\t"))


def test_consuming_reads_what_is_there(ottla):
    found = ottla("bench", "consume", "orders", "--json").json
    assert (found["topic"], found["records"]) == ("orders", 10)
    assert ottla("bench", "consume", "orders", "--records", "3", "--json").json["records"] >= 3


def test_consuming_without_a_topic_fills_one_first(ottla, broker):
    found = ottla("bench", "consume", "--records", "300", "--partitions", "4", "--json").json
    assert (found["records"], found["latency_ms"].keys()) == (300, LATENCIES)
    assert topics(broker) == {"orders"}


def test_one_record_at_a_time_goes_there_and_back(ottla, broker):
    found = ottla("bench", "e2e", "--records", "30", "--json").json
    assert found["records"] == 30
    assert found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["p99_9"]
    assert topics(broker) == {"orders"}


def test_the_curve_has_a_line_for_each_count_and_a_picture(ottla, broker, tmp_path):
    found = ottla(
        *("bench", "partitions", "--counts", "4,1,2,2", "--records", "100", "--png", tmp_path / "curve.png")
    )
    assert found.code == 0
    lines = [line.split("\t") for line in found.out.splitlines()]
    assert lines[0] == ["partitions", "produce_mb_per_second", "consume_mb_per_second"]
    assert [line[0] for line in lines[1:]] == ["1", "2", "4"]
    assert all(float(each) > 0 for line in lines[1:] for each in line[1:])
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert found.err == f"the curve is in {tmp_path / 'curve.png'}\n"
    assert topics(broker) == {"orders"}


def test_the_curve_is_a_document_for_programs(ottla):
    found = ottla("bench", "partitions", "--counts", "1,3", "--records", "50", "--size", "10", "--json").json
    assert (found["records"], found["size"]) == (50, 10)
    assert [point["partitions"] for point in found["points"]] == [1, 3]


@pytest.mark.parametrize("command", ["produce", "consume", "e2e"])
def test_a_mistyped_topic_is_not_made(ottla, broker, command):
    found = ottla("bench", command, "ordres")
    assert found.code == 4
    assert "ordres" in found.err
    assert topics(broker) == {"orders"}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["partitions", "--counts", "1,x"], "write numbers with commas between them"),
        (["partitions", "--counts", "0"], "numbers between 1 and 100000 are needed"),
        (["partitions", "--counts", ""], "numbers between 1 and 100000 are needed"),
        (["produce", "--size", "big"], "'big' is no number of bytes"),
        (["produce", "--linger", "later"], "is no duration"),
        (["produce", "--records", "0"], "--records"),
    ],
)
def test_what_makes_no_sense_gets_one_sentence(ottla, args, sentence):
    found = ottla("bench", *args)
    assert (found.code, found.out) == (2, "")
    assert sentence in found.err


def test_nobody_answers_is_said_at_once(capsys):
    assert main(["bench", "produce", "-b", "localhost:1", "--timeout", "2"]) == 6
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_topics_are_deleted_also_if_it_is_interrupted(broker, ending):
    words = ["bench", "partitions", "--records", "100000000", "-b", broker.bootstrap_server]
    process = subprocess.Popen([*OTTLA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not any(name.startswith("ottla-bench-1-") for name in topics(broker)):
            assert time.monotonic() < deadline
            assert process.poll() is None
        process.send_signal(ending)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "")
    assert topics(broker) == {"orders"}


def test_values_differ_and_have_their_size():
    for size in (0, 1, 7, 100):
        values = values_of(size)
        assert {len(next(values)) for _ in range(40)} == {size}
    values = values_of(100)
    assert len({next(values) for _ in range(16)}) > 8


def test_a_bar_is_for_terminals_only():
    stream = io.StringIO()
    bar = Bar(stream=stream)
    bar.begin("writing", 10)
    bar.is_at(5)
    bar.close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("is_quiet", "is_drawn"), [(False, True), (True, False)])
def test_a_terminal_sees_how_far_it_is_unless_it_wants_quiet(monkeypatch, is_quiet, is_drawn):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = pty.openpty()
    try:
        with open(writing, "w", closefd=False) as stream:
            bar = Bar(is_quiet=is_quiet, stream=stream)
            bar.begin("writing", 10)
            bar.is_at(5)
            bar.close()
            stream.write("end")
        assert (b"writing" in os.read(reading, 65536)) == is_drawn
    finally:
        os.close(reading)
        os.close(writing)


def test_json_is_one_line(ottla):
    assert json.loads(ottla("bench", "e2e", "--records", "1", "--json").out.splitlines()[0])["records"] == 1
