"""`kafka-consumer-perf-test` on a broker of ours: the shape of its lines, and when it gives up."""

import re

import pytest

from ottla.cli.classic.consumer_perf import _Read, rates, strftime_pattern
from ottla.cli.classic.java import Illegal
from ottla.cli.main import main
from ottla.client import Producer
from ottla.testing import Broker

HEAD = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
LINE = re.compile(
    rf"{TIME}, {TIME}, \d+\.\d{{4}}, \d+\.\d{{4}}, (\d+), \d+\.\d{{4}}, \d+, \d+, \d+\.\d{{4}}, \d+\.\d{{4}}"
)


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for number in range(1000):
                producer.send("topic-xxx", b"x" * 1024, key=b"%d" % number)
        yield broker.bootstrap_server


@pytest.fixture
def run(server, capsys):
    def once(line):
        code = main(["kafka-consumer-perf-test.sh", *line.replace("@", server).split()])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return once


def test_a_command_line_of_old_prints_a_header_and_a_line(run):
    code, out, err = run("--topic topic-xxx --messages 1000 --broker-list @")
    assert (code, err) == (0, "")
    assert out[0] == "Warning: --messages is deprecated. Use --num-records instead."
    assert out[1] == HEAD
    assert LINE.fullmatch(out[2])[1] == "1000" and len(out) == 3


def test_it_gives_up_after_the_timeout_and_says_what_there_was(run):
    code, out, _ = run(
        "--topic topic-xxx --num-records 2000 --bootstrap-server @ --timeout 100 --hide-header"
    )
    assert code == 0
    assert out[0].startswith(
        "WARNING: Exiting before consuming the expected number of records: timeout (100 ms)"
    )
    assert LINE.fullmatch(out[1])[1] == "1000"


def test_details_are_a_line_for_every_interval_and_metrics_come_last(run):
    line = "--include topic-.* --num-records 1000 --bootstrap-server @ --show-detailed-stats --reporting-interval 1"
    code, out, _ = run(f"{line} --print-metrics")
    assert code == 0
    assert out[0] == HEAD.replace("start.time, end.time", "time, threadId")
    assert re.fullmatch(rf"{TIME}, 0(, [\d.]+){{8}}", out[1])
    assert any(
        re.fullmatch(r"consumer-metrics:records-consumed-total:\{client-id=.*\} +: 1000.000", each)
        for each in out
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--topic t --num-records 5", 'Missing required argument "[bootstrap-server]"'),
        (
            "--bootstrap-server @ --num-records 5",
            "Exactly one of the following arguments is required: [topic], [include]",
        ),
        (
            "--bootstrap-server @ --topic t",
            "Exactly one of the following arguments is required: [messages], [num-records]",
        ),
        ("--bootstrap-server @ --topic t --num-records 1 --date-format q", "Illegal pattern character 'q'"),
        (
            "--bootstrap-server @ --topic t --num-records 1 --reporting-interval 0",
            "Reporting interval must be greater",
        ),
    ],
)
def test_what_makes_no_sense_is_said(run, line, complaint):
    code, _, err = run(line)
    assert code == 1 and err.startswith(complaint)


def test_rates_are_of_the_interval_and_amounts_of_all():
    before, now = _Read(100, 1 << 20, 500), _Read(300, 3 << 20, 600)
    assert rates(before, now, 0.5) == "3.0000, 4.0000, 300, 400.0000, 100, 400, 5.0000, 500.0000"
    assert rates(_Read(0, 0, 0), _Read(0, 0, 0), 0.0) == "0.0000, 0.0000, 0, 0.0000, 0, 0, 0.0000, 0.0000"


def test_patterns_of_java_become_those_of_python():
    assert strftime_pattern("yyyy-MM-dd HH:mm:ss:SSS") == "%Y-%m-%d %H:%M:%S:%f"
    assert strftime_pattern("yy.M.d 'at' h''a 100%") == "%y.%m.%d at %I'%p 100%%"
    with pytest.raises(Illegal):
        strftime_pattern("b")
