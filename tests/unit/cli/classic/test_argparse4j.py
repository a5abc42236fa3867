"""Command lines as argparse4j reads them; what it prints about them is compared with Apache's own in tests/interop."""

import pytest

from ottla.cli.classic.argparse4j import Argparse4jParser, NotOfType, float_, integer, long
from ottla.cli.classic.argparse4j_text import justified
from ottla.cli.classic.parser import Refused


@pytest.fixture
def parser():
    made = Argparse4jParser("kafka-tool", "What it is for.", prog="tool.sh", version="1.2")
    made.argument("--server", metavar="host:port", required=True, help="where")
    made.argument("--props", metavar="K=V", nargs="+", help="settings")
    made.argument("--loud", nargs=0, help="say more")
    one = made.exclusive("One of them.", required=True)
    one.argument("--size", type=integer, help="bytes")
    one.argument("--file", help="a file")
    return made


@pytest.fixture
def commands():
    made = Argparse4jParser("kafka-tool", prog="tool.sh")
    made.argument("--server", metavar="host:port", required=True)
    listing = made.command("list", "list things")
    listing.argument("--older-than", type=long)
    made.command("lift", "lift things")
    return made


def refusal(parser, *words):
    with pytest.raises(Refused) as refused:
        parser.read(words)
    assert not refused.value.shows_help
    return refused.value


def complaint(parser, *words):
    return " ".join(str(refusal(parser, *words)).partition("tool.sh: error:")[2].split())


def test_values_are_read(parser):
    found = parser.read(["--server", "a:1", "--props", "a=b", "c=d", "--loud", "--size=-5"])
    assert (found.server, found.props, found.loud, found.size, found.file) == (
        "a:1",
        ["a=b", "c=d"],
        True,
        -5,
        None,
    )
    assert (found.help, found.version) == (False, False)


def test_options_may_be_shortened(parser):
    found = parser.read(["--ser", "a:1", "--fi=x", "--lo"])
    assert (found.server, found.file, found.loud) == ("a:1", "x", True)


def test_the_version_ends_it(parser):
    assert parser.read(["-v"]).version == "1.2"
    assert parser.read(["--server", "a", "--version", "--size", "x"]).version == "1.2"


def test_help_is_for_stdout(parser):
    refused = refusal(parser, "--server", "a", "-h")
    assert refused.is_help
    assert str(refused).splitlines() == [
        "usage: tool.sh [-h] [-v] --server host:port [--props K=V [K=V ...]]",
        "               [--loud] (--size SIZE | --file FILE)",
        "",
        "What it is for.",
        "",
        "optional arguments:",
        "  -h, --help             show this help message and exit",
        "  -v, --version          show the version  of  this  Kafka distribution and",
        "                         exit",
        "  --server host:port     where",
        "  --props K=V [K=V ...]  settings",
        "  --loud                 say more",
        "",
        "  One of them.",
        "",
        "  --size SIZE            bytes",
        "  --file FILE            a file",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--size", "1"], "argument --server is required"),
        (["--server", "a"], "one of the arguments --size --file is required"),
        (["--server"], "argument --server: expected one argument"),
        (["--server", "-x"], "argument --server: expected one argument"),
        (["--props"], "argument --props: expected 1 argument(s)"),
        (["--size", "x"], "argument --size: could not convert 'x' to Integer (For input string: \"x\")"),
        (["--size", "1", "--file", "x"], "argument --file: not allowed with argument --size"),
        (["--loud=yes"], "argument --loud: ignore implicit argument 'yes'"),
        (["--bogus"], "unrecognized arguments: '--bogus'"),
        (["-x"], "unrecognized arguments: '-x'"),
        (["--server", "a", "some", "words"], "unrecognized arguments: 'some words'"),
        (["--", "--server"], "unrecognized arguments: '--server'"),
    ],
)
def test_what_makes_no_sense_is_refused(parser, words, sentence):
    assert complaint(parser, *words) == sentence


def test_a_shortened_option_that_means_two_is_ambiguous(parser):
    assert complaint(parser, "--s", "a") == "ambiguous option: --s could match --server, --size"


def test_numbers_have_bounds(parser):
    assert complaint(parser, "--size", "2147483648").startswith("argument --size: could not convert")
    assert (long("9223372036854775807"), float_("1.5")) == (2**63 - 1, 1.5)


def test_a_command_has_options_of_its_own(commands):
    found = commands.read(["--server", "a", "list", "--older-than", "-1"])
    assert (found.command, found.older_than, found.server) == ("list", -1, "a")
    assert commands.read(["--server", "a", "lif"]).command == "lift"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--server", "a"], "too few arguments"),
        (["list"], "argument --server is required"),
        (["bogus"], "invalid choice: 'bogus' (choose from 'list', 'lift')"),
        (["--server", "a", "list", "--bogus"], "unrecognized arguments: '--bogus'"),
    ],
)
def test_commands_that_make_no_sense_are_refused(commands, words, sentence):
    assert complaint(commands, *words) == sentence


def test_the_usage_of_a_command_says_what_the_tool_requires(commands):
    usage = str(refusal(commands, "list", "-h")).splitlines()[0]
    assert usage == "usage: tool.sh --server host:port list [-h] [--older-than OLDER_THAN]"


def test_who_lists_the_options_of_tools_finds_those_of_commands(commands):
    names = {name for action in commands._actions for name in action.option_strings}
    assert {"--server", "--older-than", "--help"} <= names


def test_both_margins_are_straight():
    text = justified("one two three four five six seven eight nine ten eleven twelve " * 3)
    *lines, _ = text.splitlines()
    assert all(len(line) == 75 for line in lines)
    assert (
        " ".join(text.split())
        == ("one two three four five six seven eight nine ten eleven twelve " * 3).strip()
    )


def test_lines_may_end_behind_a_dash():
    first, second = justified("a" * 60 + " some-" + "b" * 20).splitlines()
    assert first.endswith("some-")
    assert second == "b" * 20


@pytest.mark.parametrize("text", ["9" * 5000, str(2**63), "1_0", ""])
def test_a_number_that_java_does_not_have_is_none(text):
    with pytest.raises(NotOfType, match="could not convert"):
        long(text)
    assert long("-" + "0" * 30 + "7") == -7
