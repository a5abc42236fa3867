"""The answer of any API that carries one error, in the shape that Kafka gives it.

A struct that has an error code of its own holds the error, and its lists stay empty; one that has none hands it on
to the items of its list, one for each item of the request. So a client finds the error where it looks for it:
at the topic, the partition, the group. What the rule gets wrong stands in the tables below.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from ottla.core.errors import KafkaError
from ottla.protocol.apis import api_of
from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import NULL_UUID, TEXT, UUID_BYTES, ArrayOf, Fixed, StructOf, WireType

_ERROR_CODES: Final = ("error_code", "partition_error_code")

# What names an item, and must come back with its error. Names in one row mean the same thing. Other fields that request
# and response share do not come back: the high watermark of a fetching follower is not ours.
_IDENTITIES: Final = (
    ("name", "topic", "topic_name"),
    ("index", "partition", "partition_index", "partition_id"),
    ("topic_id",),
    ("group_id",),
    ("key",),
    ("resource_type",),
    ("resource_name",),
    ("transactional_id",),
    ("producer_id",),
    ("entity",),
    ("user",),
)
_SAME_AS: Final = {name: row for row in _IDENTITIES for name in row}

# These put the error on top and, for clients that look there, at every item as well.
_TWICE: Final = {
    "Metadata",
    "Fetch",
    "LeaderAndIsr",
    "StopReplica",
    "ElectLeaders",
    "AlterPartitionReassignments",
}
_TOPIC_IDS_SINCE = (
    13  # from here on a failed Fetch names no partitions: its topic ids may be the very problem
)

# "Nothing" where it is not zero and no default says so.
_NOTHING: Final[dict[str, dict[str, Any]]] = {
    "ProduceResponse.Topic.Partition": {"base_offset": -1},
    "FetchResponse.Topic.Partition": {"high_watermark": -1, "records": b""},
    "DeleteRecordsResponse.Topic.Partition": {"low_watermark": -1},
    "OffsetFetchResponse.Topic.Partition": {"committed_offset": -1, "metadata": ""},
    "FindCoordinatorResponse": {"node_id": -1, "port": -1},
    "FindCoordinatorResponse.Coordinator": {"node_id": -1, "port": -1},
    "InitProducerIdResponse": {"producer_epoch": -1},
}


def refuse(request: object, error: KafkaError, version: int) -> Any:
    """The response to `request` that says `error` wherever a client of this version looks for it.

    A ProduceRequest with acks=0 gets one too; that nobody waits for it is for the caller to know.
    """
    key = declaration(type(request)).api_key
    assert key is not None, "only requests are refused"
    api = api_of(key)
    refusal = _Refusal(error, version)
    if api.name == "Fetch":
        return refusal.fetch(request, api.response)
    items = _ITEMS[api.name](request, version) if api.name in _ITEMS else refusal.items_of(request)
    return refusal.struct(api.response, None, items, everywhere=api.name in _TWICE)


class _Refusal:
    """One error in one version, on its way through a response."""

    def __init__(self, error: KafkaError, version: int) -> None:
        self.code = error.code
        self.message = error.detail or error.code.meaning
        self.version = version

    def fetch(self, request: Any, response: type[Any]) -> Any:
        """The error on top is essential: an incremental fetch may name no partitions at all."""
        items = request.topics if self.version < _TOPIC_IDS_SINCE else []
        made = self.struct(response, None, items, everywhere=True)
        made.session_id = request.session_id
        return made

    def struct(self, cls: type[Any], named: Any, items: Sequence[Any], *, everywhere: bool = False) -> Any:
        """A struct of the response for `named`, an item of the request; `items` are what lies below that."""
        present = [each for each in declaration(cls).fields if self.version in each.versions]
        has_code = any(each.name in _ERROR_CODES for each in present)
        below = None if has_code and not everywhere else self._list_that_errs(present)
        values: dict[str, Any] = {}
        for each in present:
            if each is below:
                values[each.name] = [self._item(each, item) for item in items]
            else:
                self._fill(values, cls, each, named)
        for each in declaration(cls).fields:
            if each.name not in values and not each.has_default:
                values[each.name] = self._zero(each)
        return cls(**values)

    def _fill(self, values: dict[str, Any], cls: type[Any], each: Field, named: Any) -> None:
        if each.name in _ERROR_CODES:
            values[each.name] = int(self.code)
        elif each.name == "error_message":
            values[each.name] = self.message
        elif each.name in _NOTHING.get(cls.__qualname__, {}):
            values[each.name] = _NOTHING[cls.__qualname__][each.name]
        elif named is not None and each.name in _SAME_AS:
            found = _identity(named, each)
            if found is not None:
                values[each.name] = found

    def _item(self, below: Field, item: Any) -> Any:
        assert isinstance(below.type, ArrayOf) and isinstance(below.type.element, StructOf)
        return self.struct(below.type.element.cls, item, self.items_of(item))

    def items_of(self, asked: Any) -> Sequence[Any]:
        """What a request, or a part of it, asks about: its first list. A null list asks about nothing by name."""
        if not hasattr(type(asked), "__declaration__"):
            return []
        for each in declaration(type(asked)).fields:
            if self.version in each.versions and isinstance(each.type, ArrayOf):
                return getattr(asked, each.name) or []
        return []

    def _list_that_errs(self, fields: Sequence[Field]) -> Field | None:
        return next((each for each in fields if self._errs(each.type)), None)

    def _errs(self, kind: WireType) -> bool:
        """Is this a list whose items, or their items, have error codes?"""
        if not isinstance(kind, ArrayOf) or not isinstance(kind.element, StructOf):
            return False
        inner = [each for each in declaration(kind.element.cls).fields if self.version in each.versions]
        return any(each.name in _ERROR_CODES or self._errs(each.type) for each in inner)

    def _zero(self, each: Field) -> Any:
        if self.version in each.nullable:
            return None
        match each.type:
            case ArrayOf():
                return []
            case StructOf(cls):
                return self.struct(cls, None, [])
            case Fixed(code=code):
                return NULL_UUID if each.type == UUID_BYTES else False if code == "?" else 0
        return "" if each.type == TEXT else b""


def _identity(named: Any, each: Field) -> Any:
    """What `named` calls itself under this field's name, or None."""
    if not hasattr(named, "__dict__") and not hasattr(
        type(named), "__declaration__"
    ):  # a bare name or number
        return named if isinstance(named, str) == (each.type == TEXT) else None
    return next((getattr(named, name) for name in _SAME_AS[each.name] if hasattr(named, name)), None)


def _partitions_to_lead(request: Any, version: int) -> Sequence[Any]:
    """The question is grouped by topic since v2, the answer since v5."""
    if version >= 5:
        return list(request.topic_states)
    flat = [
        SimpleNamespace(topic_name=topic.topic_name, partition_index=state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return [*request.ungrouped_partition_states, *flat]


def _replicas_to_stop(request: Any, version: int) -> Sequence[Any]:
    named = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    flat = [SimpleNamespace(topic_name=topic, partition_index=index) for topic, index in named]
    return [*request.ungrouped_partitions, *flat]


def _users_to_alter(request: Any, version: int) -> Sequence[Any]:
    changes = [*request.deletions, *request.upsertions]
    return [SimpleNamespace(user=name) for name in dict.fromkeys(change.name for change in changes)]


# Requests whose answer does not run along their first list.
_ITEMS: Final[dict[str, Callable[[Any, int], Sequence[Any]]]] = {
    "LeaderAndIsr": _partitions_to_lead,
    "StopReplica": _replicas_to_stop,
    "AlterReplicaLogDirs": lambda request, version: [topic for each in request.dirs for topic in each.topics],
    "AlterUserScramCredentials": _users_to_alter,
    "DescribeLogDirs": lambda request, version: [],  # it answers by directory
}
