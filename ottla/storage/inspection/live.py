"""A partition that a broker is using, looked at: while that happens compaction may put other segments in the place of
some. What was found then is no damage; the partition is looked at again."""

from ottla.storage.files import Files
from ottla.storage.inspection.findings import Finding, Findings, Severity
from ottla.storage.inspection.partition import Diagnosis, Scope, diagnose
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_of

TRIES = 5
_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def diagnose_in_use(files: Files, directory: str, scope: Scope) -> Diagnosis:
    """As `diagnose`. Where nothing stays as it is for long enough, notes are all that is told."""
    progress = scope.progress
    for _ in range(TRIES):
        told: list[Finding] = []
        findings = Findings(told.append)
        before = _closed(files, directory)
        found = diagnose(files, directory, scope._replace(findings=findings, progress=progress))
        progress = _nobody  # they were counted once
        if findings.is_clean or before == _closed(files, directory):
            break
    else:
        told = [finding for finding in told if finding.severity is Severity.NOTE]
        scope.findings.note(directory, None, "its segments change too fast to be judged: a broker runs here")
    for finding in told:
        scope.findings.add(*finding)
    return found


def _closed(files: Files, directory: str) -> dict[str, int]:
    """The files of all segments but the last, which grows, with their sizes."""
    found = {}
    names = files.names(directory)
    last = max((base for name in names if (base := offset_of(name, LOG_SUFFIX)) is not None), default=-1)
    for name in names:
        if any((base := offset_of(name, suffix)) is not None and base != last for suffix in _SUFFIXES):
            try:
                found[name] = files.size(f"{directory}/{name}")
            except FileNotFoundError:
                continue
    return found


def _nobody(count: int) -> None:
    pass
