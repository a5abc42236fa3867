"""Transcripts: text files of blocks, as etcd's raft has them.

    # A comment, as long as it likes.
    command with words and name=value
    another command
    ----
    what came of them

Blocks are separated by empty lines. With OTTLA_REWRITE=1 what came of them is written to the file: then read the diff.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

DASHES = "----"


class Words:
    """The words of a command: a verb, flags as `name=value`, and the rest in order."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.verb, *words = line.split()
        self.flags = dict(word.split("=", 1) for word in words if "=" in word)
        self.rest = [word for word in words if "=" not in word]

    def number(self, name: str, default: int) -> int:
        return int(self.flags.get(name, default))


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Comments and commands of each block."""
    for block in re.split(r"\n\n+", text.strip()):
        lines = block.partition(f"\n{DASHES}")[0].splitlines()
        comments = [line for line in lines if line.startswith("#")]
        yield comments, [line for line in lines if not line.startswith("#")]


def retold(
    text: str, run: Callable[[Words], Iterator[str]], after: Callable[[], Iterator[str]] | None = None
) -> str:
    """The same transcript, with what comes of its commands today; `after` has something to add to each block."""
    told = []
    for comments, commands in blocks(text):
        said = [line for command in commands for line in run(Words(command))]
        said += after() if after is not None and commands else []
        told.append("\n".join([*comments, *commands, *([DASHES, *said] if commands else [])]))
    return "\n\n".join(told) + "\n"


def check(
    path: Path, run: Callable[[Words], Iterator[str]], after: Callable[[], Iterator[str]] | None = None
) -> None:
    """The file tells what happens."""
    text = path.read_text()
    seen = retold(text, run, after)
    if os.environ.get("OTTLA_REWRITE"):
        path.write_text(seen)
    else:
        assert seen == text
