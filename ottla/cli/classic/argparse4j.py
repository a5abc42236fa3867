"""Command lines as those of Apache's tools read them that use argparse4j: kafka-transactions, kafka-producer-perf-test.

    parser = Argparse4jParser("kafka-transactions", "What it is for.", prog="kafka-transactions.sh")
    parser.argument("--bootstrap-server", metavar="host:port", required=True, help="where the cluster is")
    listing = parser.command("list", "list transactions")
    listing.argument("--duration-filter", type=long, help="milliseconds")

`argument` takes `type` (`integer`, `long`, `float_`, default text), `required`, `nargs="+"` or 0 for a flag, `default`.
`group` and `exclusive` return something with `argument`, too. `read` returns a namespace with the values and, where
there are commands, `command`. What makes no sense raises `Refused` with the usage and the complaint, all in lines of 75
columns with both margins straight, as argparse4j sets them; `-h` raises one that is meant for stdout. A tool that uses
this has `needs_words=False`, since it answers for itself when there are no words.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ottla.cli.classic.argparse4j_text import help_text, justified, usage
from ottla.cli.classic.parser import ClassicParser, Refused

_NEGATIVE = re.compile(r"-\d+(\.\d+)?")
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_WHOLE = re.compile(r"[+-]?0*[0-9]{1,19}")


class NotOfType(Exception):
    """A value is none of its type: which type that is, and why."""


def _whole(text: str, name: str, maximum: int) -> int:
    if not _WHOLE.fullmatch(text) or not -maximum - 1 <= int(text) <= maximum:
        raise NotOfType(f"could not convert '{text}' to {name} (For input string: \"{text}\")")
    return int(text)


def integer(text: str) -> int:
    """Java's Integer."""
    return _whole(text, "Integer", _INT_MAX)


def long(text: str) -> int:
    """Java's Long."""
    return _whole(text, "Long", _LONG_MAX)


def float_(text: str) -> float:
    """Java's Double."""
    try:
        return float(text.strip().removesuffix("f").removesuffix("d"))
    except ValueError:
        raise NotOfType(f"could not convert '{text}' to Double (For input string: \"{text}\")") from None


class Argument(NamedTuple):
    """One option."""

    names: tuple[str, ...]
    dest: str
    metavar: str
    type: Callable[[str], Any]
    nargs: int | str | None
    required: bool
    default: Any
    help: str
    does: str = "store"
    """`help` and `version` end the reading."""

    @property
    def name(self) -> str:
        """As complaints name it."""
        return "/".join(self.names)

    @property
    def shown(self) -> str:
        """With the place of its value."""
        if self.nargs == 0:
            return self.names[-1] if len(self.names) == 1 else self.names[0]
        values = f"{self.metavar} [{self.metavar} ...]" if self.nargs == "+" else self.metavar
        return f"{self.names[0]} {values}"

    @property
    def listed(self) -> str:
        """As the help lists it: all names."""
        if self.nargs == 0:
            return ", ".join(self.names)
        values = f"{self.metavar} [{self.metavar} ...]" if self.nargs == "+" else self.metavar
        return ", ".join(f"{name} {values}" for name in self.names)


class Group:
    """Options under a title of their own; of an exclusive one only one may be said."""

    def __init__(
        self, parser: "Argparse4jParser", title: str, text: str, *, exclusive: bool, required: bool
    ) -> None:
        self._parser = parser
        self.title, self.text = title, text
        self.is_exclusive, self.is_required = exclusive, required
        self.arguments: list[Argument] = []

    def argument(self, *names: str, **how: Any) -> None:
        self._parser.argument(*names, group=self, **how)


class Command(NamedTuple):
    """A word that has options of its own."""

    name: str
    help: str
    parser: "Argparse4jParser"


class Argparse4jParser(ClassicParser):
    """The options of one tool, or of one of its commands."""

    def __init__(
        self,
        name: str,
        description: str = "",
        *,
        prog: str = "",
        version: str = "",
        under: "Argparse4jParser | None" = None,
    ) -> None:
        super().__init__(name, description)
        self.shown_prog = prog or name
        self.text = description
        self._version, self._under, self.word = version, under, name if under else ""
        self.arguments: list[Argument] = [_flag(("-h", "--help"), "show this help message and exit", "help")]
        if version:
            told = "show the version of this Kafka distribution and exit"
            self.arguments.append(_flag(("-v", "--version"), told, "version"))
        self.groups: list[Group] = []
        self.commands: dict[str, Command] = {}
        self.commands_title, self.commands_metavar = "commands", "COMMAND"

    # --- declarations -------------------------------------------------------------------------------------------

    def argument(
        self,
        *names: str,
        help: str = "",
        metavar: str = "",
        type: Callable[[str], Any] = str,
        nargs: int | str | None = None,
        required: bool = False,
        default: Any = None,
        group: Group | None = None,
    ) -> None:
        dest = names[-1].lstrip("-").replace("-", "_").replace(".", "_")
        if nargs == 0:
            default = False
        shown = metavar or dest.upper()
        made = Argument(names, dest, shown, type, nargs, required, default, help)
        self.arguments.append(made)
        if group is not None:
            group.arguments.append(made)
        (self._under or self)._offer(made)

    def _offer(self, made: Argument) -> None:
        """For what lists the options of all tools: completion and the reference."""
        known = {name for action in self._actions for name in action.option_strings}
        if known.isdisjoint(made.names):
            if made.nargs == 0:
                self.add_argument(*made.names, action="store_true", help=made.help.replace("%", "%%"))
            else:
                text = made.help.replace("%", "%%")
                self.add_argument(*made.names, metavar=f"<{made.metavar}>", nargs=made.nargs, help=text)

    def group(self, title: str, text: str = "") -> Group:
        self.groups.append(Group(self, title, text, exclusive=False, required=False))
        return self.groups[-1]

    def exclusive(self, text: str = "", *, required: bool = False, title: str = "") -> Group:
        self.groups.append(Group(self, title, text, exclusive=True, required=required))
        return self.groups[-1]

    def command(self, name: str, help: str, description: str = "") -> "Argparse4jParser":
        made = Argparse4jParser(name, description, prog=self.shown_prog, under=self)
        self.commands[name] = Command(name, help, made)
        return made

    # --- what is said about it ----------------------------------------------------------------------------------

    def above(self) -> list[str]:
        """What stands before the options in the usage: what the tool requires, and the command."""
        if self._under is None:
            return []
        return [*(each.shown for each in self._under.arguments if each.required), self.word]

    def fail(self, complaint: str) -> Refused:
        text = justified(f"{self.shown_prog}: error: {complaint}\n")  # its end takes a column, too
        return Refused(f"{usage(self)}\n{text.rstrip()}", shows_help=False)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises Refused."""
        found = argparse.Namespace(help=False, version=False, words=list(words))
        return self._read(list(words), found)

    def _read(self, words: list[str], found: argparse.Namespace) -> argparse.Namespace:
        for each in self.arguments:
            if each.does == "store":
                setattr(found, each.dest, each.default)
        said: dict[Argument, str] = {}
        rest = _Words(words)
        for word in rest:
            if rest.is_open and _is_option(word):
                for argument, name, value in self._named(word):
                    if argument.does != "store":
                        return self._answer(argument, found)
                    self._check_alone(argument, name, said)
                    setattr(found, argument.dest, self._value(argument, name, value, rest))
                    said[argument] = name
            elif word == "--" and rest.is_open:
                rest.is_open = False
            elif self.commands:
                return self._finish(self._go_on(word, rest, found), said)
            else:
                raise self.fail(f"unrecognized arguments: '{' '.join([word, *rest.words])}'")
        if self.commands:
            raise self.fail("too few arguments")
        return self._finish(found, said)

    def _go_on(self, word: str, rest: "_Words", found: argparse.Namespace) -> argparse.Namespace:
        near = [name for name in self.commands if name.startswith(word)]
        name = word if word in self.commands else near[0] if len(near) == 1 else ""
        if not name:
            known = ", ".join(f"'{each}'" for each in self.commands)
            if near:
                told = ", ".join(near)
                raise self.fail(f"ambiguous command: {word} could match {told}")
            raise self.fail(f"invalid choice: '{word}' (choose from {known})")
        found = self.commands[name].parser._read(rest.words, found)
        found.command = name
        return found

    def _answer(self, argument: Argument, found: argparse.Namespace) -> argparse.Namespace:
        if argument.does == "help":
            raise Refused(help_text(self), shows_help=False, is_help=True)
        found.version = self._version
        return found

    def _finish(self, found: argparse.Namespace, said: dict[Argument, str]) -> argparse.Namespace:
        if found.version:
            return found
        for each in reversed(self.arguments):  # as argparse4j has it: the last one that is missing is named
            if each.required and each not in said:
                raise self.fail(f"argument {each.name} is required")
        for group in self.groups:
            if group.is_required and not any(each in said for each in group.arguments):
                names = " ".join(each.name for each in group.arguments)
                raise self.fail(f"one of the arguments {names} is required")
        return found

    def _named(self, word: str) -> Iterator[tuple[Argument, str, str | None]]:
        """The options that a word names, with the value that stands in it: `--name=value`, `-hv`."""
        name, equals, value = word.partition("=")
        for each in self.arguments:
            if name in each.names:
                yield each, name, value if equals else None
                return
        if not word.startswith("--"):
            yield from self._letters(word)
            return
        near = [(each, full) for each in self.arguments for full in each.names if full.startswith(name)]
        if not near:
            raise self.fail(f"unrecognized arguments: '{word}'")
        if len(near) > 1:
            raise self.fail(
                f"ambiguous option: {name} could match {', '.join(sorted(full for _, full in near))}"
            )
        yield near[0][0], near[0][1], value if equals else None

    def _letters(self, word: str) -> Iterator[tuple[Argument, str, str | None]]:
        for place, letter in enumerate(word[1:], 2):
            each = next((each for each in self.arguments if f"-{letter}" in each.names), None)
            if each is None:
                raise self.fail(f"unrecognized arguments: '{word}'")
            if each.nargs != 0:
                yield each, f"-{letter}", word[place:] or None
                return
            yield each, f"-{letter}", None

    def _check_alone(self, argument: Argument, name: str, said: dict[Argument, str]) -> None:
        for group in self.groups:
            if group.is_exclusive and argument in group.arguments:
                for other in group.arguments:
                    if other in said and other is not argument:
                        raise self.fail(f"argument {argument.name}: not allowed with argument {other.name}")

    def _value(self, argument: Argument, name: str, value: str | None, rest: "_Words") -> Any:
        if argument.nargs == 0:
            if value is not None:
                raise self.fail(f"argument {argument.name}: ignore implicit argument '{value}'")
            return True
        values = [value] if value is not None else rest.values(1 if argument.nargs is None else None)
        if not values:
            missing = "one argument" if argument.nargs is None else "1 argument(s)"
            raise self.fail(f"argument {argument.name}: expected {missing}")
        try:
            read = [argument.type(each) for each in values]
        except NotOfType as error:
            raise self.fail(f"argument {argument.name}: {error}") from None
        return read if argument.nargs == "+" else read[0]


class _Words:
    """The words that are left. `is_open` until `--`: behind it nothing is an option."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.is_open = True

    def __iter__(self) -> Iterator[str]:
        while self.words:
            yield self.words.pop(0)

    def values(self, count: int | None) -> list[str]:
        """Those that come now and are no options, up to so many."""
        found: list[str] = []
        while self.words and not _is_option(self.words[0]) and self.words[0] != "--" and len(found) != count:
            found.append(self.words.pop(0))
        return found


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and word != "--" and not _NEGATIVE.fullmatch(word)


def _flag(names: tuple[str, ...], help: str, does: str) -> Argument:
    return Argument(names, names[-1].lstrip("-"), "", str, 0, False, False, help, does)
