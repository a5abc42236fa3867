"""The life of a consumer group: what its members have, what they read, and that nobody reads what another did.

All is quiet before anything changes: the members have committed what they read. So a record is read a second time only
if the member that had it died without committing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tests.interop.brokers import eventually
from tests.interop.clients.client import Record
from tests.interop.clients.members import Member

if TYPE_CHECKING:
    from tests.interop.clients.confluent import ConfluentKafka

PARTITIONS = 6
Join = Callable[..., Member]


class GroupLife:
    """Members of one group on one topic, present and past."""

    def __init__(self, control: "ConfluentKafka", join: Join, topic: str, group: str) -> None:
        self.topic, self.group = topic, group
        self.members: list[Member] = []
        self._all: list[Member] = []
        self._control, self._join = control, join
        self._produced = 0
        self.may_repeat = False
        """Set when members may be interrupted before they commit: then every record is read at least once."""
        self._twice: Counter[str] = Counter()
        """What members that died had not committed, and others therefore read again."""

    def join(self, client_name: str, **how: str) -> Member:
        member = self._join(client_name, self.group, [self.topic], **how)
        self.members.append(member)
        self._all.append(member)
        return member

    def close(self, member: Member) -> None:
        self.members.remove(member)
        member.close()

    def kill(self, member: Member) -> None:
        self.members.remove(member)
        self._twice.update(each.value for each in member.news)
        member.kill()

    def has_settled(self, *sizes: int) -> None:
        """The members come to share the partitions like this, and every partition has one of them."""
        wanted = {(self.topic, number) for number in range(PARTITIONS)}

        def is_shared() -> bool:
            has = [each.assignment for each in self.members]
            covered = set().union(*has) == wanted and sum(map(len, has)) == PARTITIONS
            return covered and sorted(map(len, has)) == sorted(sizes)

        assert eventually(is_shared), told(self.members)

    def reads(self, count: int = 60, commit: Iterable[Member] | None = None) -> None:
        """`count` new records are read, each by the member that has its partition; then these members commit."""
        numbers = range(self._produced, self._produced + count)
        self._produced += count
        self._control.produce(
            self.topic, [Record(each % PARTITIONS, None, str(each).encode()) for each in numbers]
        )
        self.has_read_everything()
        for member in self.members:
            ours = [each for each in member.news if int(each.value) in numbers]
            assert self.may_repeat or {(each.topic, each.partition) for each in ours} <= member.assignment, (
                member
            )
        for member in self.members if commit is None else commit:
            member.commit()

    def has_read_everything(self) -> None:
        """Once, but for what died uncommitted. Also what came too often is seen here, one step later at most."""
        wanted = Counter(str(number) for number in range(self._produced)) + self._twice
        assert eventually(lambda: not wanted - self._found()), told(self.members)
        assert self.may_repeat or not self._found() - wanted, f"{self._found() - wanted} too often"

    def _found(self) -> Counter[str]:
        return Counter(each.value for member in self._all for each in member.seen)


def told(members: Sequence[Member]) -> str:
    return "\n".join(str(each) for each in members)


def members_come_go_and_die(life: GroupLife, client_name: str, **how: str) -> None:
    """Two share, a third comes, one goes, one dies, all go, and another takes up where they stopped."""
    first, second = life.join(client_name, **how), life.join(client_name, **how)
    life.has_settled(3, 3)
    life.reads()
    third = life.join(client_name, **how)
    life.has_settled(2, 2, 2)
    life.reads()
    life.close(first)
    life.has_settled(3, 3)
    life.reads()
    life.reads(commit=[third])
    life.kill(second)
    life.has_settled(6)
    life.reads()
    life.close(third)
    life.join(client_name, **how)
    life.has_settled(6)
    life.reads()
