"""The command line of `ottla log verify`."""

import click

from ottla.cli.inspection.files import ReadOnlyFiles, is_in_use
from ottla.cli.inspection.progress import Bar, bytes_below
from ottla.cli.inspection.shared import (
    counted,
    directory_of,
    fields_of,
    print_columns,
    print_finding,
)
from ottla.cli.session import json_option
from ottla.cli.tables import document, say
from ottla.storage.inspection.directory import Inspection, inspect
from ottla.storage.inspection.findings import Finding, Findings, Severity
from ottla.storage.inspection.partition import Scope


@click.command()
@click.argument("directory", metavar="DIR")
@json_option
@click.option("--quiet", is_flag=True, help="No notes: only damage and what is stale.")
def verify(directory: str, as_json: bool, quiet: bool) -> None:
    """Check all files of a log directory, or of one partition, against each other and their checksums.

    DIR is a directory of log.dirs, or the directory of one partition. It is only read: a broker may be running, and
    the file system may be read-only. Every batch, every index entry, transaction indexes, producer snapshots, leader
    epochs and checkpoints are looked at.

    What is found is damage (bytes are not what was written), stale (an index or a snapshot that disagrees with the
    segment; a broker or `ottla log repair` makes it again), or a note. While a broker runs, what it is writing at the
    end of a log is a note. Exit code 1 means that there is damage, or something stale.

    --json: {"directory", "is_clean", "in_use", "counts": {"damage", "stale", "note"}, "partitions": [{"partition",
    "segments", "batches", "bytes", "first_offset", "end_offset"}], "findings": [{"severity", "file", "position", "end",
    "reason"}]}.
    """
    directory = directory_of(directory, of_logs=True)
    in_use = is_in_use(directory)
    bar = Bar("verifying", bytes_below(directory))
    told: list[Finding] = []

    def tell(finding: Finding) -> None:
        if quiet and finding.severity is Severity.NOTE:
            return
        if as_json:
            told.append(finding)
        else:
            bar.pause()
            print_finding(finding)

    findings = Findings(tell)
    if not as_json:
        print_columns()
    try:
        found = inspect(ReadOnlyFiles(), directory, Scope(findings, in_use=in_use, progress=bar))
    finally:
        bar.close()
    if as_json:
        document(_document(directory, in_use, found, findings, told))
    else:
        if in_use:
            say(f"{directory} is in use by a broker: what it is writing just now is not judged")
        say(f"{directory}: {_summary(found)}: {counted(findings.counts)}")
    if not findings.is_clean:
        raise click.exceptions.Exit(1)


def _summary(found: Inspection) -> str:
    partitions = found.partitions.values()
    return (
        f"{len(partitions)} partitions, {sum(len(p.segments) for p in partitions)} segments,"
        f" {sum(p.batches for p in partitions)} batches, {sum(p.bytes for p in partitions)} bytes"
    )


def _document(
    directory: str, in_use: bool, found: Inspection, findings: Findings, told: list[Finding]
) -> dict[str, object]:
    return {
        "directory": directory,
        "is_clean": findings.is_clean,
        "in_use": in_use,
        "counts": {severity.value: findings.counts[severity] for severity in Severity},
        "partitions": [
            {
                "partition": name,
                "segments": len(seen.segments),
                "batches": seen.batches,
                "bytes": seen.bytes,
                "first_offset": seen.start_offset,
                "end_offset": seen.end_offset,
            }
            for name, seen in found.partitions.items()
        ],
        "findings": [fields_of(finding) for finding in told],
    }
