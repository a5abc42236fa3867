import pytest
from kazoo import exceptions
from kazoo.protocol import serialization as wire

from ottla.metadata import zookeeper_requests as requests
from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    Set,
    StoreError,
    StoreUnavailable,
)

ZXID = 0x1_0000_0007


def reply(*parts: bytes) -> bytes:
    """What a server answers to a transaction."""
    done = wire.MultiHeader(-1, True, -1).serialize()
    return wire.reply_header_struct.pack(5, ZXID, 0) + b"".join(parts) + bytes(done)


def part(type_: int, body: bytes = b"") -> bytes:
    return bytes(wire.MultiHeader(type_, False, 0).serialize()) + body


def stat(version: int) -> bytes:
    return wire.stat_struct.pack(1, ZXID, 0, 0, version, 0, 0, 0, 0, 0, 0)


def results(*parts: bytes):
    return requests._Transaction.deserialize(reply(*parts), wire.reply_header_struct.size)


def test_a_transaction_has_creation_ids_versions_and_nothing_else():
    answer = results(
        part(wire.Create.type, wire.write_string("/a")),
        part(wire.SetData.type, stat(7)),
        part(wire.CheckVersion.type),
        part(wire.Delete.type),
        part(wire.Create.type, wire.write_string("/b")),
    )
    assert answer == [ZXID, 7, 0, 0, ZXID]
    assert requests.failure(answer) is None


@pytest.mark.parametrize("place", range(3))
def test_of_a_transaction_that_failed_the_operation_is_named_that_did(place):
    codes = [0] * place + [exceptions.BadVersionError.code] + [-2] * (2 - place)
    answer = results(*(part(-1, wire.int_struct.pack(code)) for code in codes))
    index, error = requests.failure(answer)
    assert (index, type(error)) == (place, exceptions.BadVersionError)


def test_where_no_operation_says_why_the_first_is_named():
    assert requests.failure([exceptions.RuntimeInconsistency()])[0] == 0


@pytest.mark.parametrize(
    "theirs, ours",
    [
        (exceptions.NoNodeError, NoNode),
        (exceptions.NodeExistsError, NodeExists),
        (exceptions.BadVersionError, BadVersion),
        (exceptions.NotEmptyError, NotEmpty),
        (exceptions.NoChildrenForEphemeralsError, EphemeralParent),
        (exceptions.SessionExpiredError, SessionLost),
        (exceptions.ConnectionClosedError, SessionLost),
        (exceptions.ConnectionLoss, StoreUnavailable),
        (exceptions.OperationTimeoutError, StoreUnavailable),
        (exceptions.NoAuthError, StoreError),
    ],
)
def test_every_refusal_has_its_word_in_the_contract(theirs, ours):
    assert type(requests.refusal(theirs(), "/a")) is ours


def test_as_many_operations_as_a_controller_writes_at_once_fit_into_a_request():
    path = "/brokers/topics/" + "t" * 249 + "/partitions/99999/state"
    writes = [Check("/controller_epoch", 1), *(Create(path, b"d" * 200) for _ in range(1_000))]
    requests.transaction(writes, "/kafka/clusters/one")
    with pytest.raises(StoreError, match="bytes in one change"):
        requests.transaction([Set(path, b"d" * 800, 3) for _ in range(1_000)], "")


@pytest.mark.parametrize(
    "root, path, full",
    [("", "/", "/"), ("", "/a", "/a"), ("/kafka", "/", "/kafka"), ("/kafka", "/a/b", "/kafka/a/b")],
)
def test_paths_lie_below_the_root(root, path, full):
    assert requests.below(root, path) == full


def test_an_operation_becomes_a_request_of_its_kind():
    ops = [Create("/a", b"1", True), Set("/a", b"2", 0), Check("/a", 1), Delete("/a")]
    kinds = [type(requests._request(op, op.path)) for op in ops]
    assert kinds == [wire.Create, wire.SetData, wire.CheckVersion, wire.Delete]
    assert requests._request(ops[0], "/a").flags == 1
