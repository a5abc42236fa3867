"""Command lines as Apache's tools read them: joptsimple's rules and joptsimple's complaints.

An option is `--name value` or `--name=value`, may be shortened as far as it stays unambiguous, and may be repeated
where the tool says so. What makes no sense is said on stderr, in front of the list of options, and the exit code is 1.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


class Refused(Exception):
    """The command line makes no sense, or the tool has said why not. `shows_help` puts the options below it.

    With `is_help` it is what was asked for, and goes to stdout.
    """

    def __init__(self, sentence: str, *, shows_help: bool = True, is_help: bool = False) -> None:
        super().__init__(sentence)
        self.shows_help, self.is_help = shows_help, is_help


class ClassicParser(argparse.ArgumentParser):
    """Declares the options of one tool.

    `flag` is there or not, `option` has a value, `options` may be repeated and is a list. A dash in a name is an
    underscore in the result, a dot as well; what was not said is None, False or [].
    """

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=name, description=description, add_help=False, allow_abbrev=True)
        self.add_argument("--help", action="store_true", help="Print usage information.")
        self.add_argument("--version", action="store_true", help="Display Kafka version.")

    def flag(self, *names: str, help: str) -> None:
        self.add_argument(*names, action="store_true", help=_plain(help))

    def option(self, *names: str, help: str, metavar: str = "String", **how: Any) -> None:
        self.add_argument(*names, help=_plain(help), metavar=f"<{metavar}>", **how)

    def options(self, *names: str, help: str, metavar: str = "String", **how: Any) -> None:
        self.add_argument(
            *names, help=_plain(help), metavar=f"<{metavar}>", action="append", default=[], **how
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises Refused."""
        known, unknown = self.parse_known_args(list(words))
        for word in unknown:
            if word.startswith("-") and word != "-":
                raise Refused(f"{word.lstrip('-').partition('=')[0]} is not a recognized option")
        return known

    def error(self, message: str) -> NoReturn:
        name = message.removeprefix("argument ").partition(":")[0].split("/")[0].lstrip("-")
        if "expected one argument" in message:
            raise Refused(f"Option {name} requires an argument")
        if "ambiguous option" in message:
            word = message.removeprefix("ambiguous option: ").split()[0].lstrip("-")
            raise Refused(f"{word} is not a recognized option")
        if "invalid" in message and "value" in message:
            raise Refused(
                f"Cannot parse argument '{message.rpartition(': ')[2].strip(chr(39))}' of option {name}"
            )
        raise Refused(message)

    def print_options(self) -> None:
        """The list of options, on stderr."""
        self.print_help(sys.stderr)


def _plain(text: str) -> str:
    return text.replace("%", "%%")
