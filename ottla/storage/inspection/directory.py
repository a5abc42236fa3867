"""A log directory looked at whole: its partitions, and the checkpoints that speak of them.

The checkpoints are read first and the segments after them, so that what a running broker adds in between can only make
the logs longer than the checkpoints say.
"""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.core.errors import ProtocolError
from ottla.core.ids import PartitionDirectory, TopicPartition, format_id
from ottla.storage import checkpoints
from ottla.storage.files import Files
from ottla.storage.inspection.findings import Findings
from ottla.storage.inspection.layout import looks_like_a_partition, read_small, said_of, why
from ottla.storage.inspection.live import diagnose_in_use
from ottla.storage.inspection.partition import Diagnosis, Scope, diagnose
from ottla.storage.meta import read_meta

NAMES = checkpoints.OFFSETS


@dataclass(slots=True)
class Checkpoints:
    """The offset checkpoints of a log directory as they are."""

    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    """Names of those that make no sense."""
    beyond: list[tuple[str, TopicPartition]] = field(default_factory=list)
    """Entries that no log bears out."""

    def of(self, name: str, partition: TopicPartition | None) -> int | None:
        return None if partition is None else self.offsets.get(name, {}).get(partition)


@dataclass(slots=True)
class Inspection:
    """A directory and what is known of it."""

    directory: str
    """Of `log.dirs`, or the one above a single partition."""
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    partitions: dict[str, Diagnosis] = field(default_factory=dict)
    bad_ids: list[str] = field(default_factory=list)
    """Partitions whose topic id cannot be right."""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    by_hand: dict[str, str] = field(default_factory=dict)
    """What only its owner can put right, and why."""

    def leave(self, path: str, reason: str, findings: Findings) -> None:
        self.by_hand[path] = reason
        findings.damage(path, None, reason)


def holds_logs(files: Files, directory: str) -> bool:
    """Is there anything of a log in the directory: segments, partitions, checkpoints?"""
    if looks_like_a_partition(files, directory) or any(partition_names(files, directory)):
        return True
    return any(files.exists(f"{directory}/{name}") for name in (*NAMES, checkpoints.META_PROPERTIES))


def partition_names(files: Files, directory: str) -> Iterator[tuple[str, PartitionDirectory]]:
    for name in files.names(directory):
        if (found := PartitionDirectory.parse(name)) is not None:
            yield name, found


def log_directory_of(files: Files, directory: str) -> str:
    """The directory whose checkpoints and lock count: this one, or the one above a partition."""
    if not looks_like_a_partition(files, directory):
        return directory
    return directory.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")


def live_partition(name: str) -> TopicPartition | None:
    """The partition of which the checkpoints speak, if a directory has this name; None for one that is out of use."""
    found = PartitionDirectory.parse(name)
    return found.partition if found is not None and found.state == "live" else None


def inspect(files: Files, directory: str, scope: Scope) -> Inspection:
    """Look at a log directory, or at one partition's directory and what the one above says of it."""
    directory = directory.rstrip("/") or "/"
    found = Inspection(log_directory_of(files, directory))
    if found.directory != directory:
        _read_checkpoints(files, found, Findings())
        found.checkpoints.broken, found.by_hand = [], {}  # they are not what was asked for
        _look_at(files, found, directory, directory.rpartition("/")[2], scope)
        return found
    _read_checkpoints(files, found, scope.findings)
    names = list(partition_names(files, directory))
    _meta(files, found, scope.findings)
    passed_by: dict[str, list[str]] = {}
    for name, parsed in names:
        if parsed.state == "live":
            _look_at(files, found, f"{directory}/{name}", name, scope)
        else:
            passed_by.setdefault(parsed.state, []).append(name)
    for state, passed in passed_by.items():
        scope.findings.note_all(directory, passed, f"not in use ({state}), and not looked at")
    _compare_ids(found, scope.findings)
    _check_names(found, {parsed.partition for _, parsed in names}, scope.findings)
    return found


def _look_at(files: Files, found: Inspection, directory: str, name: str, scope: Scope) -> None:
    try:
        diagnosis = (diagnose_in_use if scope.in_use else diagnose)(files, directory, scope)
    except NotADirectoryError:
        scope.findings.note(
            directory, None, "has the name of a partition and is no directory; nobody reads it"
        )
        return
    except OSError as error:
        if not (scope.in_use and isinstance(error, FileNotFoundError)):
            found.leave(directory, why(error), scope.findings)
        return
    found.partitions[name] = diagnosis
    _topic_id(files, found, directory, name, scope.findings)
    if (partition := live_partition(name)) is not None and not diagnosis.by_hand:
        _hold_against(found, partition, diagnosis, scope.findings)


def _read_checkpoints(files: Files, found: Inspection, findings: Findings) -> None:
    for name in NAMES:
        path = f"{found.directory}/{name}"
        try:
            if files.exists(path):
                read_small(files, path)
                found.checkpoints.offsets[name] = checkpoints.read_offsets(files, path)
        except ProtocolError as error:
            found.checkpoints.broken.append(name)
            findings.damage(path, None, said_of(path, error))
        except OSError as error:
            found.leave(path, why(error), findings)


def _hold_against(
    found: Inspection, partition: TopicPartition, diagnosis: Diagnosis, findings: Findings
) -> None:
    """What the checkpoints say of a partition, and what its log says."""
    known = found.checkpoints
    end = diagnosis.end_offset
    said = {name: known.of(name, partition) for name in NAMES}
    for name, offset in said.items():
        if offset is None or offset <= end:
            continue
        known.beyond.append((name, partition))
        path, what = f"{found.directory}/{name}", f"{partition} is at {offset}, and its log ends at {end}"
        if name == checkpoints.RECOVERY_POINT:
            findings.damage(path, None, f"{what}: what was once on the disk is missing")
        elif name == checkpoints.LOG_START:
            findings.damage(path, None, f"{what}: nothing of it could be read")
        elif name == checkpoints.CLEANER:
            findings.stale(path, None, what)
        else:
            findings.note(path, None, what)


def _check_names(found: Inspection, here: set[TopicPartition], findings: Findings) -> None:
    for name, offsets in found.checkpoints.offsets.items():
        if gone := sorted(offsets.keys() - here):
            what = str(gone[0]) if len(gone) == 1 else f"{len(gone)} partitions such as {gone[0]}"
            findings.note(f"{found.directory}/{name}", None, f"knows {what}, not to be found here")


def _meta(files: Files, found: Inspection, findings: Findings) -> None:
    path = f"{found.directory}/{checkpoints.META_PROPERTIES}"
    try:
        if files.exists(path):
            read_small(files, path)
            read_meta(files, found.directory)
    except ProtocolError as error:
        found.leave(path, said_of(path, error), findings)
    except OSError as error:
        found.leave(path, why(error), findings)


def _topic_id(files: Files, found: Inspection, directory: str, name: str, findings: Findings) -> None:
    path = f"{directory}/{checkpoints.PARTITION_METADATA}"
    try:
        if files.exists(path):
            read_small(files, path)
            if (topic_id := checkpoints.read_partition_metadata(files, directory)) is not None:
                found.topic_ids[name] = topic_id
    except ProtocolError as error:
        found.bad_ids.append(name)
        findings.damage(path, None, said_of(path, error))
    except OSError as error:
        found.leave(path, why(error), findings)


def _compare_ids(found: Inspection, findings: Findings) -> None:
    """Partitions of one topic have one id. Where two disagree nobody can tell who is right; of three, two can."""
    by_topic: dict[str, dict[str, uuid.UUID]] = {}
    for name, topic_id in found.topic_ids.items():
        by_topic.setdefault(name.rpartition("-")[0], {})[name] = topic_id
    for ids in by_topic.values():
        usual, votes = Counter(ids.values()).most_common(1)[0]
        for name, topic_id in ids.items():
            if topic_id != usual or votes * 2 == len(ids):
                path = f"{found.directory}/{name}/{checkpoints.PARTITION_METADATA}"
                reason = f"says topic id {format_id(topic_id)}, and that of another partition differs"
                if votes * 2 > len(ids):
                    found.bad_ids.append(name)
                    findings.damage(path, None, reason)
                else:
                    found.leave(path, reason, findings)
