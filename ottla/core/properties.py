"""The .properties syntax of Java, which server.properties and meta.properties are written in.

One `key=value` per line. The separator is `=`, `:` or blanks; `#` or `!` opens a comment line; a backslash at
the end of a line continues it; `\\t`, `\\n`, `\\uXXXX` and so on are escapes. The last value of a key wins.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ottla.core.errors import ConfigError

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")  # str.splitlines() would also split at form feeds and U+2028
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES = {control: f"\\{letter}" for letter, control in _CONTROLS.items()}


def parse_properties(text: str, where: str = "properties") -> dict[str, str]:
    """Every key with its value, in the order of the file. `where` names the file in a ConfigError."""
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _ENTRY.fullmatch(line)
        assert match, "every line has a key, if only an empty one"
        try:
            entries[_unescape(match[1])] = _unescape(match[2])
        except ValueError as error:
            raise ConfigError(f"{where}, line {number}: {error}") from None
    return entries


def format_properties(entries: Mapping[str, object], comments: Iterable[str] = ()) -> str:
    """The text of a file that reads back as `entries`, in plain ASCII. Each comment must be a single line."""
    lines = [f"#{comment}" for comment in comments]
    lines += [f"{_escape(key, key=True)}={_escape(str(value))}" for key, value in entries.items()]
    return "".join(f"{line}\n" for line in lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and empty ones; numbered by their first."""
    pending, first, continued = "", 0, False
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not (continued and pending):
            pending, first, continued = "", number, False
            if line.startswith(("#", "!")):
                continue
        continued = _is_continued(line)
        pending += line[:-1] if continued else line
        if pending and not continued:
            yield first, pending
    if pending and continued:
        yield first, pending


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_replacement, text)
    try:  # two escapes may form one character beyond U+FFFF
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("a \\uXXXX escape is one half of a surrogate pair") from None


def _replacement(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    if escaped == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return _CONTROLS.get(escaped, escaped)


def _escape(text: str, *, key: bool = False) -> str:
    parts = []
    for index, char in enumerate(text):
        if char in _NAMES:
            parts.append(_NAMES[char])
        elif char in "\\=:#!" or (char == " " and (key or index == 0)):
            parts.append("\\" + char)
        elif " " <= char <= "~":
            parts.append(char)
        else:
            units = char.encode("utf-16-be")
            parts += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(parts)
