"""What a running broker tells its operator: lines for people, or one JSON document per line for machines.

What is told goes to stderr. Clients choose their names, so whatever a message quotes is escaped: nobody can write a
second line, or move the cursor of a terminal.
"""

import logging
import sys
import time
from typing import Any, Literal

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}


def set_up(level: str, style: Literal["text", "json"]) -> None:
    """Send everything from `level` on to stderr. What was set up before is replaced."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if style == "text" else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123 WARNING ottla.network.server: what happened`, in local time."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_CONTROLS)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """`time` in UTC, `level`, `logger`, `message`, and `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        import json  # here, because few ask for it

        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        document: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document)
