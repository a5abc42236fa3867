"""Command lines of the tools that administer."""

import pytest

from ottla.cli.classic.admin_parser import AdminParser, forbid, has, require, servers_in
from ottla.cli.classic.parser import Refused
from ottla.core.errors import ConfigError


@pytest.fixture
def parser():
    made = AdminParser("kafka-something", "It does something.", "Oh: ")
    made.connection()
    made.flag("--list", help="Lists.")
    made.option("--topic", help="100% a topic.")
    made.options("--config", help="A setting.")
    return made


def test_values_are_what_follows_even_with_dashes(parser):
    found = parser.read(["--topic", "--list", "--config", "-1", "--config=a=b"])
    assert (found.topic, found.config, found.list) == ("--list", ["-1", "a=b"], False)
    assert found.words == ["--topic", "--list", "--config", "-1", "--config=a=b"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--topic", "a", "--topic", "b"],
            "Found multiple arguments for option topic, but you asked for only one",
        ),
        (["--topic"], "Option topic requires an argument"),
        (["--bogus"], "bogus is not a recognized option"),
        (["--li"], "li is not a recognized option"),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_words_of_apache(parser, words, sentence):
    with pytest.raises(Refused, match=f"^Oh: {sentence}$") as refused:
        parser.read(words)
    assert not refused.value.shows_help


def test_options_may_be_required_or_exclude_each_other(parser):
    found = parser.read(["--list", "--topic", ""])
    assert has(found, "topic")
    assert not has(found, "config")
    require(found, "topic", "list")
    forbid(found, "list", "config")
    with pytest.raises(Refused, match=r'^Missing required argument "\[config\]"$'):
        require(found, "config")
    with pytest.raises(Refused, match=r'^Option "\[list\]" can\'t be used with option "\[topic\]"$'):
        forbid(found, "list", "topic")


@pytest.mark.parametrize("option", ["--bootstrap-server", "--broker-list"])
def test_servers_need_ports(parser, option):
    assert servers_in(parser.read([option, "a:1,[::1]:2, b:3"])) == "a:1,[::1]:2, b:3"
    with pytest.raises(ConfigError, match=r"^Invalid url in bootstrap.servers: b$"):
        servers_in(parser.read([option, "a:1,b"]))
    with pytest.raises(Refused, match=r'^Missing required argument "\[bootstrap-server\]"$'):
        servers_in(parser.read([]))
