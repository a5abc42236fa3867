"""Which topics a KIP-848 group reads, and who shall read which of their partitions.

Pure: members, patterns and topics come in, a hash or targets come out. The hash is what the group remembers of its
topics; when it comes out different, the group starts a new epoch.
"""

import functools
import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.assignors import registry
from ottla.assignors.spec import Assign, MemberSpec
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import NOTHING, Member, Partitions
from ottla.groups.consumer_regex import matching
from ottla.groups.group import Topics

Resolve = Callable[[str], frozenset[str]]
"""The topics that a pattern stands for."""

_SETTINGS_MAX = 8  # lists of assignors to remember; a broker has one


@functools.lru_cache(maxsize=_SETTINGS_MAX)
def assignors(names: tuple[str, ...]) -> Mapping[str, Assign[uuid.UUID]]:
    """The coordinator's assignors by name, the default first."""
    return registry.server_side(names)


def check_assignor(name: str | None, names: Sequence[str]) -> None:
    """Raises UNSUPPORTED_ASSIGNOR for one that the broker does not have."""
    known = assignors(tuple(names))
    if name is not None and name not in known:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {name!r:.100}, only {', '.join(known)}"
        )


def preferred_assignor(members: Iterable[Member], names: Sequence[str]) -> str:
    """What most members ask for; where it is even, what the settings name first. Who does not care has no vote."""
    known = list(assignors(tuple(names)))
    votes = Counter(member.assignor for member in members if member.assignor in known)
    return max(known, key=lambda name: votes[name])


def topics_of(members: Iterable[Member], resolve: Resolve) -> frozenset[str]:
    """All names that somebody subscribes to, whether there is such a topic or not."""
    found: set[str] = set()
    for names in {member.topic_names for member in members}:
        found |= names
    for regex in {member.topic_regex for member in members}:
        if regex is not None:
            found |= resolve(regex)
    return frozenset(found)


def resolved(regex: str, topics: Topics) -> frozenset[str]:
    """The topics that match as of now."""
    return matching(regex, topics.topics)


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """64 bits that change when one of these topics comes, goes, is replaced or grows; 0 when there are none.

    Every broker must come to the same, in every version: it is written into the log.
    """
    known = sorted((image.name, image) for name in names if (image := topics.topics.get(name)) is not None)
    if not known:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, image in known:
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded + image.topic_id.bytes)
        digest.update(len(image.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def targets_for(
    members: Mapping[str, Member],
    before: Mapping[str, Partitions],
    resolve: Resolve,
    topics: Topics,
    assign: Assign[uuid.UUID],
) -> Mapping[str, Partitions]:
    """Who shall have what, by member id. `before` is what they should have had: an assignor may keep to it."""

    @functools.cache
    def ids(names: frozenset[str], regex: str | None) -> frozenset[uuid.UUID]:
        names = names if regex is None else names | resolve(regex)
        return frozenset(topics.topics[name].topic_id for name in names if name in topics.topics)

    specs = {
        member.id: MemberSpec(
            ids(member.topic_names, member.topic_regex),
            before.get(member.id, NOTHING),
            member.instance_id,
            member.rack_id,
        )
        for member in members.values()
    }
    wanted = frozenset[uuid.UUID]().union(*{spec.subscribed for spec in specs.values()})
    counts = {topic_id: _partition_count(topic_id, topics) for topic_id in wanted}
    return assign(specs, counts)


def _partition_count(topic_id: uuid.UUID, topics: Topics) -> int:
    image = topics.topic_of_id.get(topic_id)
    return len(image.partitions) if image is not None else 0
