"""A classic tool and Apache's own, side by side: they must print the same.

Each command line runs with both on the same broker. What only looks is run with one after the other, and all of stdout
must be the same. What changes something runs on things of its own: in its words, `%` is `a` for Apache's tool and `o`
for ours, and so it is in what they print, where the ids of the two topics differ as well. Of stderr, the first line
counts: behind it, Apache's tools print stack traces, or lists of options that are ours in ours.

In the words, `-B` is `--bootstrap-server` with the broker, `@S` is the broker, `@D` a directory with files.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from ottla.cli.main import main
from ottla.testing import Broker
from tests.oracles.apache_kafka import apache_kafka
from tests.oracles.apache_tools import ApacheTools, Unavailable


class Did(NamedTuple):
    """What a tool did, and where that is seen from."""

    code: int
    out: str
    err: str


@contextmanager
def running(kind: str, config: dict[str, str] | None = None) -> Iterator[str]:
    """A broker, ours or Apache's; its address. `config` is as in a server.properties."""
    try:
        with Broker(config=config) if kind == "ottla" else apache_kafka(config) as broker:
            yield broker.bootstrap_server
    except Unavailable as error:
        pytest.skip(str(error))


def lines(text: str, server: str, files: str) -> Iterator[list[str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        words = shlex.split(line.replace("-B", f"--bootstrap-server {server}"))
        yield [word.replace("@S", server).replace("@D", files) for word in words]


def ours(words: list[str], capfd: pytest.CaptureFixture[str]) -> Did:
    capfd.readouterr()
    code = main(words)
    return Did(code, *capfd.readouterr())


def alike(did: Did, letter: str) -> Did:
    """What counts, without what must differ if the line was about a thing of its own, called `letter`."""
    out, err = _without_trace(did.out), did.err.partition("\n")[0]
    err = err.replace(
        "[[config], [bootstrap-server]]", "[[bootstrap-server], [config]]"
    )  # as a HashSet has them
    if "low_watermark" in out:
        out = "".join(sorted(out.splitlines(True)))  # Java's immutable maps have another order in every JVM
    if letter:
        out = re.sub(r"TopicId: \S{22}", "TopicId: ?", out)
        out, err = (re.sub(rf"(?<=-){letter}\b", "%", each) for each in (out, err))
    return Did(did.code, out, err)


def _without_trace(out: str) -> str:
    """Some tools print Java's stack traces to stdout, behind their own sentence."""
    return re.sub(r"(?ms)^(Error: ([^\n]*)\n)[\w.$]+: \2\n.*", r"\1", out)


def compare(
    text: str, tools: ApacheTools, capfd: pytest.CaptureFixture[str], server: str = "", files: str = ""
) -> None:
    """Each line with Apache's tool, then with ours."""
    differing = []
    for words in lines(text, server, files):
        apache, mine = ([word.replace("%", letter) for word in words] for letter in "ao")
        expected, found = Did(*tools.run(*apache)), ours(mine, capfd)
        is_own = apache != mine
        if alike(found, "o" if is_own else "") != alike(expected, "a" if is_own else ""):
            differing.append(f"{' '.join(words)}\n  Apache: {expected}\n  ours:   {found}")
    assert not differing, "\n".join(differing)
