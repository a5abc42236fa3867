"""What the four commands have in common: their argument, and how a finding is printed."""

import os
import sys
from collections import Counter
from typing import Any

import click

from ottla.cli.inspection.files import ReadOnlyFiles
from ottla.cli.tables import is_for_people, printable
from ottla.storage.inspection.directory import holds_logs
from ottla.storage.inspection.findings import Finding, Severity

COLORS = {Severity.DAMAGE: "red", Severity.STALE: "yellow", Severity.NOTE: "cyan"}
COLUMNS = ("severity", "file", "position", "end", "reason")


def directory_of(path: str, *, of_logs: bool = False) -> str:
    """The argument DIR, which must be a directory; with something of a log in it, if it is to be `of_logs`."""
    if not os.path.isdir(path):
        what = "is no directory" if os.path.lexists(path) else "does not exist"
        raise click.UsageError(f"{path} {what}")
    path = path.rstrip("/") or "/"
    if os.path.islink(path) or os.path.basename(path) in (".", ".."):
        path = os.path.realpath(path)  # its name, and what lies above it, matter
    if of_logs and not holds_logs(ReadOnlyFiles(), path):
        raise click.UsageError(f"{path} holds no log: no segment, no partition, no checkpoint")
    return path


def fields_of(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "file": finding.path,
        "position": finding.position,
        "end": finding.end,
        "reason": finding.reason,
    }


def print_finding(finding: Finding) -> None:
    """A line: for people as a sentence, elsewhere as tab-separated fields."""
    if is_for_people():
        click.secho(f"{finding.severity.value:7}", fg=COLORS[finding.severity], nl=False)
        sys.stdout.write(f"{printable(str(finding))}\n")
    else:
        fields = ("-" if value is None else printable(str(value)) for value in fields_of(finding).values())
        sys.stdout.write("\t".join(fields) + "\n")
    sys.stdout.flush()


def print_columns() -> None:
    if not is_for_people():
        sys.stdout.write("\t".join(COLUMNS) + "\n")


def counted(counts: Counter[Severity]) -> str:
    """How often something was found, in words."""
    names = {Severity.DAMAGE: "damage", Severity.STALE: "stale", Severity.NOTE: "notes"}
    return ", ".join(f"{counts[severity]} {name}" for severity, name in names.items())
