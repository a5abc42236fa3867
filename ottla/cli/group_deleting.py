"""Deleting groups, or what they have committed for some topics: what `ottla group delete` does.

A group that has members is left alone, and that is said.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.group_resetting import check_empty
from ottla.cli.outcomes import ask_first, counted, finish, settled, unknown
from ottla.cli.remote import NOT_FOUND, UNREACHABLE, Admin, Failed, failed
from ottla.cli.session import session
from ottla.cli.tables import document, say, show
from ottla.cli.targets import Partitions
from ottla.client.admin.group_offsets import delete_group_offsets, list_group_offsets
from ottla.client.admin.group_values import GroupDescription
from ottla.client.admin.groups import delete_groups, describe_groups, list_groups
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

_GOING = ["group", "state", "members", "offsets"]
_OFFSETS = ["group", "topic", "partition", "offset"]


class Going(NamedTuple):
    """A group, and what it has committed, or why that cannot be told."""

    group: GroupDescription
    offsets: Mapping[TopicPartition, int] | Failed

    def row(self) -> dict[str, Any]:
        return {
            "group": self.group.group_id,
            "state": self.group.state,
            "members": len(self.group.members),
            "offsets": None if isinstance(self.offsets, Failed) else len(self.offsets),
        }


async def delete_them(
    admin: Admin,
    names: Sequence[str],
    scope: Sequence[Partitions],
    if_exists: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Say what would go, ask, and delete: the groups, or with a scope what they have committed there."""
    going, missing = await _look(admin, names, if_exists)
    job = _Offsets(admin, going, scope) if scope else _Groups(admin, going)
    failures = [*missing, *job.refused]
    if not job.rows or dry_run:
        return _outcome(job, [], failures, dry_run, as_json)
    if not yes:
        for sentence in job.sentences():
            say(sentence)
    ask_first(job.question(), yes)
    done, more = await job.delete()
    return _outcome(job, done, [*failures, *more], dry_run, as_json)


async def _look(admin: Admin, names: Sequence[str], if_exists: bool) -> tuple[list[Going], list[Failed]]:
    found = await settled(describe_groups(admin, names))
    failures = dict(found.failures)
    absent = [name for name, why in failures.items() if why.exit_code == NOT_FOUND]
    known = await list_groups(admin) if absent and not if_exists else {}
    for name in absent:
        if if_exists:
            del failures[name]
        else:
            failures[name] = unknown("group", name, known)
    going = [Going(each, await _committed(admin, name)) for name, each in found.done.items()]
    return going, list(failures.values())


async def _committed(admin: Admin, group: str) -> dict[TopicPartition, int] | Failed:
    """A group goes whether or not its offsets are known. Raises `Failed` only if nobody answers: the next group would
    wait as long for nothing."""
    try:
        found = await list_group_offsets(admin, group)
    except KafkaError as error:
        why = failed(error)
        if why.exit_code == UNREACHABLE:
            raise why from error
        return why
    return {place: each.offset for place, each in sorted(found.items()) if each is not None}


# --- groups -----------------------------------------------------------------------------------------------------------


class _Groups:
    """Groups that are to go as a whole."""

    name, columns = "groups", _GOING

    def __init__(self, admin: Admin, going: Sequence[Going]) -> None:
        self._admin = admin
        self.refused: list[Failed] = []
        self._going: list[Going] = []
        for each in going:
            try:
                check_empty(each.group, "delete it")
                self._going.append(each)
            except Failed as why:
                self.refused.append(why)
        self.rows = [each.row() for each in self._going]

    def sentences(self) -> list[str]:
        return [
            f"{row['group']} would go: {row['state']},"
            f" {'an unknown number of offsets' if row['offsets'] is None else counted(row['offsets'], 'offset')}"
            for row in self.rows
        ]

    def question(self) -> str:
        return f"Delete {counted(len(self.rows), 'group')}?"

    async def delete(self) -> tuple[list[dict[str, Any]], list[Failed]]:
        names = [each.group.group_id for each in self._going]
        gone = await settled(delete_groups(self._admin, names), names)
        return [row for row in self.rows if row["group"] in gone.done], list(gone.failures.values())


# --- offsets ----------------------------------------------------------------------------------------------------------


class _Offsets:
    """Offsets of some topics that are to go; the groups stay."""

    name, columns = "offsets", _OFFSETS

    def __init__(self, admin: Admin, going: Sequence[Going], scope: Sequence[Partitions]) -> None:
        self._admin = admin
        self.refused: list[Failed] = []
        self.rows: list[dict[str, Any]] = []
        for each in going:
            if isinstance(each.offsets, Failed):
                self.refused.append(each.offsets)
            else:
                self._choose(each.group.group_id, each.offsets, scope)

    def _choose(self, group: str, offsets: Mapping[TopicPartition, int], scope: Sequence[Partitions]) -> None:
        """What is meant of a group's offsets, each once; what is named and not there is refused."""
        meant: set[TopicPartition] = set()
        for topic, numbers in scope:
            committed = {place for place in offsets if place.topic == topic}
            wanted = committed if numbers is None else {TopicPartition(topic, each) for each in numbers}
            missing = [f"{topic}:{place.partition}" for place in sorted(wanted - committed)]
            if missing or not wanted:
                sentence = f"group {group!r} has committed nothing for {', '.join(missing) or topic}"
                self.refused.append(Failed(sentence, NOT_FOUND))
            meant |= wanted & committed
        self.rows += [
            {"group": group, "topic": place.topic, "partition": place.partition, "offset": offsets[place]}
            for place in sorted(meant)
        ]

    def sentences(self) -> list[str]:
        return [
            f"{row['group']} would forget offset {row['offset']} of {row['topic']}:{row['partition']}"
            for row in self.rows
        ]

    def question(self) -> str:
        return f"Delete {counted(len(self.rows), 'offset')}?"

    async def delete(self) -> tuple[list[dict[str, Any]], list[Failed]]:
        done: list[dict[str, Any]] = []
        failures: list[Failed] = []
        for group in dict.fromkeys(row["group"] for row in self.rows):
            rows = {
                TopicPartition(row["topic"], row["partition"]): row
                for row in self.rows
                if row["group"] == group
            }
            try:
                await delete_group_offsets(self._admin, group, rows)
                done += rows.values()
            except PartialFailure as error:
                done += [row for place, row in rows.items() if place not in error.errors]
                failures += [_why(why, group, place) for place, why in error.errors.items()]
            except KafkaError as error:
                failures.append(failed(error))
        return done, failures


def _why(error: KafkaError, group: str, place: TopicPartition) -> Failed:
    if error.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return Failed(
            f"{place.topic}:{place.partition}: members of group {group!r} subscribe to {place.topic}: stop them first"
        )
    return failed(error)


def _outcome(
    job: _Groups | _Offsets,
    done: Sequence[Mapping[str, Any]],
    failures: Sequence[Failed],
    dry_run: bool,
    as_json: bool,
) -> int:
    rows = [{**row, "deleted": row in done} for row in job.rows]

    def show_all() -> None:
        if as_json:
            document({"dry_run": dry_run, job.name: rows, "failures": [why.message for why in failures]})
        elif dry_run:
            show(rows, job.columns)
            if not session().is_quiet:
                say(f"nothing was deleted; without --dry-run these {job.name} would be")
        else:
            told = [{**row, "outcome": "deleted" if row["deleted"] else "failed"} for row in rows]
            show(told, [*job.columns, "outcome"])

    return finish(failures, is_some_done=bool(done) or (dry_run and bool(rows)), show=show_all)
