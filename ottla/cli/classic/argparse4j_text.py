"""Usage and help of command lines as argparse4j prints them: 75 columns, both margins straight."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.classic.argparse4j import Argparse4jParser, Argument

WIDTH = 75
_HELP_COLUMN = 25
_PROG_MAX = 30  # a longer beginning of the usage has a line of its own
_PIECE = re.compile(r"[^\s-]*(?:-+(?=[^\s\d])|-*[^\s-]+|-+)?\s*")  # lines end at blanks, and behind dashes


def justified(text: str, offset: int = 0, indent: str = "", first: str = "") -> str:
    """The text in lines, all but the last as wide as can be. `offset` columns of the first are taken already."""
    done: list[str] = []
    line, width = first, offset + len(first)
    for piece in filter(None, _PIECE.findall(text)):
        if width + len(piece) > WIDTH and line.strip():
            done.append(_stretched(line, WIDTH - (offset if not done else 0)))
            line, width = indent, len(indent)
        line += piece
        width += len(piece)
    return "\n".join([*done, line.rstrip() if done else line])


def _stretched(line: str, width: int) -> str:
    """Blanks are doubled in the middle first."""
    body = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    words = re.split("( +)", body)  # every other one is a gap
    gaps = len(words) // 2
    missing = width - len(indent) - len(body)
    if not gaps or missing <= 0:
        return indent + body
    every, more = divmod(missing, gaps)
    start = (gaps - more + 1) // 2
    for gap in range(gaps):
        words[2 * gap + 1] += " " * (every + (start <= gap < start + more))
    return indent + "".join(words)


# --- the usage --------------------------------------------------------------------------------------------------------


def usage(parser: "Argparse4jParser") -> str:
    """`usage: tool [-h] --option VALUE ...`, with as much in a line as there is room for."""
    head = f"usage: {parser.shown_prog}"
    if len(head) + 1 > _PROG_MAX:
        return "\n".join([head, *_filled(_pieces(parser), "       ", "       ")])
    indent = " " * (len(head) + 1)
    return "\n".join(_filled(_pieces(parser), head + " ", indent))


def _filled(pieces: Sequence[str], first: str, indent: str) -> list[str]:
    lines, line, is_empty = [], first, True
    for piece in pieces:
        if not is_empty and len(line) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line, is_empty = indent, True
        line += piece if is_empty else f" {piece}"
        is_empty = False
    return [*lines, line]


def _pieces(parser: "Argparse4jParser") -> list[str]:
    alone = {each for group in parser.groups if group.is_exclusive for each in group.arguments}
    found = [*parser.above(), *(_piece(each) for each in parser.arguments if each not in alone)]
    for group in parser.groups:
        if group.is_exclusive:
            opens, closes = "()" if group.is_required else "[]"
            words = [each.shown for each in group.arguments]
            words[0] = opens + words[0]
            words[-1] += closes
            found += [*(f"{word} |" for word in words[:-1]), words[-1]]
    if parser.commands:
        found.append(f"{parser.commands_metavar} ...")
    return found


def _piece(argument: "Argument") -> str:
    return argument.shown if argument.required else f"[{argument.shown}]"


# --- the help ---------------------------------------------------------------------------------------------------------


def help_text(parser: "Argparse4jParser") -> str:
    """What `-h` prints."""
    grouped = {each for group in parser.groups for each in group.arguments}
    parts = [usage(parser)]
    if parser.text:
        parts.append(justified(parser.text))
    rows = [_row(each.listed, _help(each), 2) for each in parser.arguments if each not in grouped]
    parts.append("\n".join(["optional arguments:", *rows]))
    for group in parser.groups:
        if group.title and group.text:
            parts.append(f"{group.title}:\n{justified(group.text, indent='  ', first='  ')}")
        elif group.title:
            parts.append(f"{group.title}:")
        elif group.text:
            parts.append(justified(group.text, indent="  ", first="  "))
        parts.append("\n".join(_row(each.listed, _help(each), 2) for each in group.arguments))
    if parser.commands:
        words = [_row(each.name, each.help, 4) for each in parser.commands.values()]
        parts.append("\n".join([f"{parser.commands_title}:", f"  {parser.commands_metavar}", *words]))
    return "\n\n".join(parts)


def _help(argument: "Argument") -> str:
    return argument.help


def _row(name: str, text: str, indent: int) -> str:
    head = f"{'':{indent}}{name}"
    space = " " * _HELP_COLUMN
    if not text:
        return head
    if len(head) + 2 > _HELP_COLUMN:
        return f"{head}\n{justified(text, indent=space, first=space)}"
    return f"{head:{_HELP_COLUMN}}{justified(text, offset=_HELP_COLUMN, indent=space)}"
