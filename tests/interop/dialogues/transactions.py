"""Transactions: who owns an id, what belongs to a transaction, how it ends, and what is told about it."""

from typing import Any

from ottla.core.errors import ErrorCode
from ottla.protocol.messages.groups import FindCoordinatorRequest
from ottla.protocol.messages.transactions import (
    AddedTopic,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from tests.interop.dialogues.groups import ready
from tests.interop.dialogues.talk import Talk

TRANSACTION = 1
_BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


def _init(transactional_id: str | None, timeout_ms: int = 60_000, **how: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **how)


async def _owner(talk: Talk, transactional_id: str) -> dict[str, Any]:
    """An owner of the id, as requests name it."""
    find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    await talk.until(lambda found: found.coordinators[0].error_code == 0, find)
    while (given := await talk.peer.send(_init(transactional_id), 4)).error_code in _BUSY:
        pass
    assert given.error_code == 0, given
    talk.known[given.producer_id] = f"producer of {transactional_id}"
    return {
        "transactional_id": transactional_id,
        "producer_id": given.producer_id,
        "producer_epoch": given.producer_epoch,
    }


def _add(owner: dict[str, Any], **topics: list[int]) -> AddPartitionsToTxnRequest:
    named = [AddedTopic(name=name, partitions=at) for name, at in topics.items()]
    old = {f"v3_and_below_{name}": value for name, value in owner.items()}
    return AddPartitionsToTxnRequest(**old, v3_and_below_topics=named)


def _add_many(*each: tuple[dict[str, Any], bool, dict[str, list[int]]]) -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnRequest.Transaction
    return AddPartitionsToTxnRequest(
        transactions=[
            transaction(
                **owner,
                verify_only=verify_only,
                topics=[AddedTopic(name=name, partitions=at) for name, at in topics.items()],
            )
            for owner, verify_only, topics in each
        ]
    )


async def _idle(talk: Talk, transactional_id: str) -> None:
    """Wait for the markers of a transaction that has ended."""
    await talk.until(
        lambda found: not found.transaction_states[0].transaction_state.startswith("Prepare"),
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
    )


async def owners(talk: Talk) -> None:
    """InitProducerId of transactional ids."""
    owner = await _owner(talk, "owned")
    for label, request in {
        "empty": _init(""),
        "no time": _init("owned", 0),
        "negative time": _init("owned", -1),
        "too much time": _init("owned", 900_001),
    }.items():
        await talk.ask(label, request)
    await talk.ask("next", _init("owned"))
    last = await talk.peer.send(_init("owned"), 4)
    producer_id, epoch = last.producer_id, last.producer_epoch
    for label, id, expected in (
        ("id only", producer_id, -1),
        ("epoch only", -1, 0),
        ("old epoch", producer_id, 0),
        ("epoch ahead", producer_id, epoch + 9),
        ("another id", producer_id + 1000, 0),
    ):
        await talk.ask(label, _init("owned", producer_id=id, producer_epoch=expected), since=3)
    await talk.ask("goes on", _init("owned", producer_id=producer_id, producer_epoch=epoch), since=3, until=3)
    await talk.ask(
        "once more", _init("owned", producer_id=producer_id, producer_epoch=epoch), since=3, until=3
    )
    await talk.ask("replaced", EndTxnRequest(**owner, committed=True))


async def parts(talk: Talk) -> None:
    """AddPartitionsToTxn, AddOffsetsToTxn."""
    await talk.create("txn_written", 2)
    await ready(talk, "readers")
    owner = await _owner(talk, "adding")
    stranger = {**owner, "transactional_id": "stranger"}
    other = {**owner, "producer_id": owner["producer_id"] + 1000}
    old = {**owner, "producer_epoch": owner["producer_epoch"] + 5}
    empty = {**owner, "transactional_id": ""}
    for label, who, topics in (
        ("nobody", stranger, {"txn_written": [0]}),
        ("another producer", other, {"txn_written": [0]}),
        ("another epoch", old, {"txn_written": [0]}),
        ("empty id", empty, {"txn_written": [0]}),
        ("no topic", owner, {"txn_written": [0], "nowhere": [0]}),
        ("no partition", owner, {"txn_written": [0, 9]}),
        ("internal", owner, {"txn_written": [0], "__consumer_offsets": [0]}),
        ("nothing", owner, {}),
        ("usual", owner, {"txn_written": [0]}),
        ("more", owner, {"txn_written": [1, 0]}),
    ):
        await talk.ask(label, _add(who, **topics), until=3)
        for verify_only in (True, False):
            if label != "empty id":
                request = _add_many((who, verify_only, topics))
                await talk.ask(f"{label} {verify_only}", request, since=4)
        request = AddOffsetsToTxnRequest(**who, group_id="readers")
        await talk.ask(label, request)
    await talk.ask("end", EndTxnRequest(**owner, committed=True), last=False, until=4, since=4)


async def ends(talk: Talk) -> None:
    """EndTxn, and what is told before and after."""
    await talk.create("txn_ended", 2)
    for version in range(6):
        for committed in (True, False):
            name = f"end-{version}-{committed}"
            owner = await _owner(talk, name)
            request = EndTxnRequest(**owner, committed=committed)
            at = {"since": version, "until": version}
            await talk.ask(f"{name} early", request, **at)
            if version == 5:
                await _idle(talk, name)
                owner = await _owner(talk, name)
                request = EndTxnRequest(**owner, committed=committed)
            added = await talk.peer.send(_add(owner, txn_ended=[0]), 3)
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
            await talk.ask(f"{name} open", DescribeTransactionsRequest(transactional_ids=[name]))
            await talk.ask(name, request, **at)
            await _idle(talk, name)
            await talk.ask(f"{name} ended", DescribeTransactionsRequest(transactional_ids=[name]))
            await talk.ask(f"{name} again", request, **at)
            request.committed = not committed
            await talk.ask(f"{name} other", request, **at)
    owner = await _owner(talk, "ending")
    for label, how in {
        "nobody": {"transactional_id": "nobody"},
        "empty": {"transactional_id": ""},
        "another producer": {"producer_id": owner["producer_id"] + 1000},
        "another epoch": {"producer_epoch": 7},
    }.items():
        await talk.ask(label, EndTxnRequest(**{**owner, **how}, committed=True))


async def offsets(talk: Talk) -> None:
    """TxnOffsetCommit."""
    await talk.create("txn_consumed", 2)
    for group_id in ("readers", ""):
        await ready(talk, group_id)
    owner = await _owner(talk, "offsets")
    topic = TxnOffsetCommitRequest.Topic

    def commit(who: dict[str, Any], *places: tuple[str, int], group_id: str = "readers", **how: Any) -> Any:
        topics = [
            topic(
                name=name,
                partitions=[
                    topic.Partition(partition_index=index, committed_offset=4, committed_metadata=None)
                    for each, index in places
                    if each == name
                ],
            )
            for name in dict.fromkeys(name for name, _ in places)
        ]
        return TxnOffsetCommitRequest(**{**who, "group_id": group_id, "topics": topics, **how})

    await talk.ask("unannounced", commit(owner, ("txn_consumed", 0)), until=4)
    await talk.ask("unannounced mixed", commit(owner, ("txn_consumed", 0), ("nowhere", 0)), until=4)
    await talk.ask("for readers", AddOffsetsToTxnRequest(**owner, group_id="readers"))
    for label, request in {
        "usual": commit(owner, ("txn_consumed", 0)),
        "mixed": commit(owner, ("nowhere", 0), ("txn_consumed", 0), ("txn_consumed", 9)),
        "nothing": commit(owner),
        "empty group": commit(owner, ("txn_consumed", 0), group_id=""),
        "another epoch": commit({**owner, "producer_epoch": 7}, ("txn_consumed", 0)),
        "another producer": commit(
            {**owner, "producer_id": owner["producer_id"] + 1000}, ("txn_consumed", 0)
        ),
        "nobody": commit({**owner, "transactional_id": "nobody"}, ("txn_consumed", 0)),
    }.items():
        await talk.ask(label, request)
    for label, how in {
        "generation": {"generation_id": 3},
        "member": {"member_id": "ghost"},
        "both": {"member_id": "ghost", "generation_id": 3},
        "static": {"member_id": "ghost", "generation_id": 3, "group_instance_id": "i"},
    }.items():
        await talk.ask(label, commit(owner, ("txn_consumed", 0), **how), since=3)


async def told(talk: Talk) -> None:
    """DescribeTransactions, ListTransactions, WriteTxnMarkers."""
    await talk.create("txn_told", 2)
    owner = await _owner(talk, "telling")
    idle = await _owner(talk, "told-idle")
    await talk.peer.send(_add(owner, txn_told=[0, 1]), 3)
    for label, names in {
        "open": ["telling"],
        "idle": ["told-idle"],
        "nobody": ["unheard-of"],
        "empty": [""],
        "twice": ["telling", "telling"],
        "none": [],
    }.items():
        await talk.ask(label, DescribeTransactionsRequest(transactional_ids=names))
    both = [owner["producer_id"], idle["producer_id"]]
    for label, how in {
        "usual": {},
        "ongoing": {"state_filters": ["Ongoing"]},
        "unknown": {"state_filters": ["Jolly", "Ongoing"]},
        "lower case": {"state_filters": ["ongoing"]},
        "only unknown": {"state_filters": ["Jolly"]},
        "one": {"producer_id_filters": both[:1]},
    }.items():
        asked = {"state_filters": [], "producer_id_filters": both, **how}
        await talk.ask(label, ListTransactionsRequest(**asked))
    for duration in (0, 3_600_000, -5):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=both, duration_filter=duration
        )
        await talk.ask(f"longer than {duration}", request, since=1)
    for pattern in ("tell.*", "told", "", "("):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=both, transactional_id_pattern=pattern
        )
        await talk.ask(f"like {pattern}", request, since=2)
    marker = WriteTxnMarkersRequest.Marker
    for label, topics in {"written": {"txn_told": [1]}, "nowhere": {"nowhere": [0]}, "no topics": {}}.items():
        named = [marker.Topic(name=name, partition_indexes=at) for name, at in topics.items()]
        wanted = marker(
            producer_id=owner["producer_id"],
            producer_epoch=owner["producer_epoch"],
            transaction_result=False,
            topics=named,
            coordinator_epoch=0,
        )
        await talk.ask(label, WriteTxnMarkersRequest(markers=[wanted]))
    await talk.ask("no markers", WriteTxnMarkersRequest(markers=[]))


ALL = (owners, parts, ends, offsets, told)
