"""The command line of `ottla log repair`."""

import sys
from typing import Any

import click

from ottla.cli.inspection.files import GuardedFiles, ReadOnlyFiles, is_in_use
from ottla.cli.inspection.progress import Bar, bytes_below
from ottla.cli.inspection.shared import directory_of, fields_of
from ottla.cli.session import json_option
from ottla.cli.tables import document, printable, say
from ottla.storage.inspection.directory import Inspection, inspect
from ottla.storage.inspection.findings import Finding, Findings, Severity
from ottla.storage.inspection.partition import Scope
from ottla.storage.inspection.plan import Kind, Step, plan
from ottla.storage.inspection.quarantine import SUFFIX
from ottla.storage.inspection.repair import lock_of, repair_all


@click.command()
@click.argument("directory", metavar="DIR")
@click.option("--apply", "applies", is_flag=True, help="Do it. Without this, only say what would be done.")
@json_option
def repair(directory: str, applies: bool, as_json: bool) -> None:
    """Put a log directory, or one partition, right again. No broker may be running on it.

    Indexes, transaction indexes and snapshots are rebuilt from the segments; a tail that was never finished is cut;
    a segment with damage in it is rewritten without the damaged bytes; checkpoints that make no sense are replaced by
    what is safe. What is whole stays readable at its offsets. Whatever is taken away is copied first to a file
    *.quarantine beside the partitions, and no such file is ever deleted.

    Without --apply nothing is changed, and exit code 1 means that something is to be done. With it, exit code 1 means
    that something is left that only you can put right.

    --json: {"directory", "applied", "steps": [{"kind", "file", "what"}], "left": [{"severity", "file", "position",
    "end", "reason"}]}.
    """
    directory = directory_of(directory, of_logs=True)
    if applies:
        _apply(directory, as_json)
    else:
        _plan(directory, as_json)


def _plan(directory: str, as_json: bool) -> None:
    found, left = _look(directory)
    steps = plan(found)
    if as_json:
        document(
            {"directory": directory, "applied": False, "steps": [_fields(step) for step in steps], "left": []}
        )
    else:
        for step in steps:
            _print(step)
        say(f"{directory}: {_counted(steps)}")
        if is_in_use(directory):
            say(f"{directory} is in use by a broker: stop it first, and look again")
    if steps or any(finding.severity is not Severity.NOTE for finding in left):
        raise click.exceptions.Exit(1)


def _counted(steps: list[Step]) -> str:
    if not steps:
        return "nothing to do"
    left = sum(step.kind is Kind.BY_HAND for step in steps)
    return f"{len(steps) - left} things to do with --apply, {left} left to you"


def _apply(directory: str, as_json: bool) -> None:
    files = GuardedFiles()
    if is_in_use(directory):
        raise click.ClickException(f"{directory} is in use by a broker; stop it first")
    lock = lock_of(files, directory)
    done: list[Step] = []

    def tell(step: Step) -> None:
        done.append(step)
        if not as_json:
            _print(step)

    try:
        found, _ = _look(directory)
        repair_all(files, found, tell)
        _, left = _look(directory)
    finally:
        lock.close()
    left = [finding for finding in left if finding.severity is not Severity.NOTE]
    if as_json:
        steps = [_fields(step) for step in done]
        document(
            {"directory": directory, "applied": True, "steps": steps, "left": [fields_of(f) for f in left]}
        )
    else:
        for finding in left:
            say(f"left: {finding}")
        has_kept = any(name.endswith(SUFFIX) for name in files.names(found.directory))
        kept = f"; what was taken away is in {found.directory}/*{SUFFIX}" if done and has_kept else ""
        say(f"{directory}: {len(done)} things done, {len(left)} left{kept}")
    if left:
        raise click.exceptions.Exit(1)


def _look(directory: str) -> tuple[Inspection, list[Finding]]:
    left: list[Finding] = []
    bar = Bar("looking", bytes_below(directory))
    try:
        files = ReadOnlyFiles(follows_links=False)
        return inspect(files, directory, Scope(Findings(left.append), progress=bar)), left
    finally:
        bar.close()


def _fields(step: Step) -> dict[str, Any]:
    return {"kind": step.kind.value, "file": step.path, "what": step.what}


def _print(step: Step) -> None:
    sys.stdout.write(f"{printable(str(step))}\n")
    sys.stdout.flush()
