"""`kafka-run-class`: tools by the names of their classes."""

import pytest

from ottla.cli.classic.names import CLASSIC
from ottla.cli.classic.run_class import CLASSES, NAMELESS, USAGE
from ottla.cli.classic.running import KAFKA_VERSION
from ottla.cli.main import main

WITHOUT_CLASS = {"kafka-run-class", "kafka-server-stop"}


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main(["kafka-run-class", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_every_tool_has_a_class_and_every_class_a_tool():
    assert set(CLASSES.values()) == CLASSIC.keys() - WITHOUT_CLASS


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_runs_its_tool(run, capsys, name):
    code = main([CLASSES[name], "--version"])
    captured = capsys.readouterr()
    assert run(name, "--version") == (code, captured.out, captured.err)
    assert "Could not find" not in captured.err


@pytest.mark.parametrize("name", sorted(NAMELESS))
def test_tools_that_have_no_script_are_run_by_their_class_alone(run, name):
    assert run(name, "--version")[:2] == (0, f"{KAFKA_VERSION}\n")


@pytest.mark.parametrize("package", ["kafka.tools", "kafka.tool", "org.apache.kafka.tools"])
def test_an_index_is_dumped_under_every_name_that_its_tool_had(run, tmp_path, package):
    (tmp_path / f"{'0' * 20}.log").touch()
    index = tmp_path / f"{'0' * 20}.index"
    index.touch()
    assert run(f"{package}.DumpLogSegments", "--files", index) == (
        0,
        f"Dumping {index}\n{index} is empty.\n",
        "",
    )


def test_what_stands_before_the_class_is_for_a_java_that_is_not_there(run):
    assert run("-name", "topics", "-loggc", "kafka.admin.TopicCommand", "--version")[0] == 0


def test_a_class_that_nobody_knows_cannot_be_loaded(run):
    code, out, err = run("kafka.tools.Nothing", "--help")
    assert (code, out) == (1, "")
    assert err.startswith(
        "Error: Could not find or load main class kafka.tools.Nothing\n"
        "Caused by: java.lang.ClassNotFoundException: kafka.tools.Nothing\n"
    )
    assert "kafka.tools.DumpLogSegments" in err


def test_without_a_class_it_says_how_it_is_used(run):
    assert run() == (1, f"{USAGE}\n", "")
    assert run("-daemon") == (1, f"{USAGE}\n", "")
