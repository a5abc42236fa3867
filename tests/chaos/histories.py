"""Which parts of what clients wrote down are judged on their own.

Groups are judged apart from the other readers: what one of them never read it has skipped, whoever else may have read
it. They have the writes of all, and their own reads.
"""

from collections.abc import Iterable

from ottla.testing.history import History, Operation, Send
from tests.chaos.history_readers import Group


def judged_apart(
    everything: History, committed: History, groups: Iterable[Group]
) -> dict[str, list[Operation]]:
    """The histories by the name under which each is judged."""
    groups = list(groups)
    members = {process for group in groups for process in group.processes}
    found = {
        "read_uncommitted": list(everything),
        "read_committed": [each for each in committed if each.process not in members],
    }
    writes = [each._replace(steps=sends_of(each)) for each in committed if sends_of(each)]
    for group in groups:
        reads = [each for each in committed if each.process in group.processes]
        name = f"a group, {group.settings['group.protocol']}"
        found[name] = sorted(writes + reads, key=lambda each: each.number)
    return found


def sends_of(operation: Operation) -> tuple[Send, ...]:
    return tuple(step for step in operation.steps if isinstance(step, Send))
