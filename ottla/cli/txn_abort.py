"""`ottla txn abort`: end a transaction by force, in one of two ways.

By transactional id, the coordinator does it: a new epoch fences the producer, and what it had open is aborted in every
partition. In one partition, the marker is written past every coordinator, for a transaction that none of them knows.
To do that to one that a coordinator does know would tear it: so that is refused.
"""

import click

from ottla.cli import completing
from ottla.cli.remote import NOT_FOUND, Cluster, Failed, asking, check, connection_options
from ottla.cli.session import json_option
from ottla.cli.tables import document
from ottla.cli.txn_look import place_of
from ottla.cli.txn_state import (
    OPEN_STATES,
    Producer,
    Transaction,
    described,
    is_under_way,
    owners,
    partitions_of,
    producers,
)
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.transactions import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@click.command()
@click.argument("place", metavar="[TOPIC:PARTITION]", required=False, shell_complete=completing.topics)
@click.option(
    "--start-offset", type=click.IntRange(0), help="Where the transaction starts in that partition."
)
@click.option("--producer-id", type=click.IntRange(0), help="Instead of --start-offset: whose it is.")
@click.option("--producer-epoch", type=click.IntRange(0, 2**15 - 1), help="With --producer-id.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(0, 2**31 - 1),
    help="With --producer-id: that of the producer's last marker.  [default: 0]",
)
@click.option(
    "--transactional-id", metavar="ID", help="Instead of a partition: fence the producer of this id."
)
@click.option(
    "--force", is_flag=True, help="Abort in one partition even what a coordinator knows to be open."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@connection_options
@click.pass_context
def abort(
    ctx: click.Context,
    place: str | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    transactional_id: str | None,
    force: bool,
    yes: bool,
    as_json: bool,
    bootstrap_server: str,
    timeout: float,
) -> int:
    """End a transaction by force.

    `ottla txn abort orders:0 --start-offset 4711` ends one that hangs in a partition, as `ottla txn find-hanging`
    shows it. `ottla txn abort --transactional-id ID` fences a producer through its coordinator, which aborts
    whatever the producer has open.

    --json: {"topic", "partition", "producer_id", "producer_epoch", "start_offset"}; with --transactional-id
    {"transactional_id", "was", "producer_id", "producer_epoch"}.
    """
    stamp = (producer_id, producer_epoch, coordinator_epoch)
    if transactional_id is not None:
        if place is not None or start_offset is not None or stamp != (None, None, None) or force:
            raise click.UsageError("--transactional-id goes alone: it means all partitions of that id", ctx)
        return asking(bootstrap_server, timeout, lambda asked: _fence(asked, transactional_id, yes, as_json))
    where = _place(ctx, place)
    if (start_offset is None) == (producer_id is None) or (producer_id is None) != (producer_epoch is None):
        raise click.UsageError("say --start-offset, or --producer-id and --producer-epoch", ctx)
    if start_offset is not None and coordinator_epoch is not None:
        raise click.UsageError("--coordinator-epoch goes with --producer-id", ctx)

    async def work(asked: Cluster) -> int:
        if start_offset is not None:
            target = await _starting_at(asked, where, start_offset)
        else:
            assert producer_id is not None and producer_epoch is not None, "checked above"
            target = Producer(where, producer_id, producer_epoch, -1, -1, coordinator_epoch or 0, None)
        return await _mark(asked, target, force=force, yes=yes, as_json=as_json)

    return asking(bootstrap_server, timeout, work)


def _place(ctx: click.Context, place: str | None) -> TopicPartition:
    if place is None:
        raise click.UsageError("name a partition as in orders:0, or say --transactional-id", ctx)
    topic, partition = place_of(place)
    if partition is None:
        raise click.UsageError(f"name one partition of {topic}, as in {topic}:0", ctx)
    return TopicPartition(topic, partition)


def _confirm(question: str, yes: bool) -> None:
    """Raises `Failed` unless somebody says yes."""
    if yes:
        return
    try:
        is_wanted = click.confirm(question, err=True)
    except click.Abort:
        raise click.UsageError("nobody is there to ask; say --yes") from None
    if not is_wanted:
        raise Failed("nothing was done")


# --- in one partition, past the coordinators ----------------------------------------------------------------------


async def _starting_at(cluster: Cluster, place: TopicPartition, start_offset: int) -> Producer:
    await partitions_of(cluster, place.topic, place.partition)
    found, failures = await producers(cluster, [place])
    for why in failures.values():
        raise Failed(f"{place.topic}:{place.partition}: {why.message}", why.exit_code)
    for each in found:
        if each.start_offset == start_offset:
            return each
    starts = ", ".join(str(each.start_offset) for each in found if each.start_offset is not None) or "none"
    raise Failed(
        f"no open transaction starts at offset {start_offset} of {place.topic}:{place.partition}; "
        f"open ones start at: {starts}",
        NOT_FOUND,
    )


async def _mark(cluster: Cluster, target: Producer, *, force: bool, yes: bool, as_json: bool) -> int:
    place = target.place
    name = f"{place.topic}:{place.partition}"
    if not force:
        known = (await owners(cluster, [target.producer_id])).get(target.producer_id, ())
        if is_under_way(target, known):
            ids = ", ".join(each.transactional_id for each in known)
            raise Failed(
                f"a coordinator knows that transaction, as {ids}: `ottla txn abort --transactional-id` ends it "
                "in all its partitions; --force would tear it"
            )
    _confirm(f"Abort the transaction of producer {target.producer_id} in {name}?", yes)
    await _write_marker(cluster, target)
    if as_json:
        document(
            {
                "topic": place.topic,
                "partition": place.partition,
                "producer_id": target.producer_id,
                "producer_epoch": target.producer_epoch,
                "start_offset": target.start_offset,
            }
        )
    else:
        click.echo(f"aborted: the transaction of producer {target.producer_id} in {name}")
    return 0


async def _write_marker(cluster: Cluster, target: Producer) -> None:
    place = target.place
    wanted = WriteTxnMarkersRequest.Marker
    marker = wanted(
        producer_id=target.producer_id,
        producer_epoch=target.producer_epoch,
        transaction_result=False,
        topics=[wanted.Topic(name=place.topic, partition_indexes=[place.partition])],
        coordinator_epoch=max(0, target.coordinator_epoch),  # -1: this producer has no marker there yet
    )

    async def once() -> None:
        (leader,) = await cluster.leaders([place])
        about = f"{place.topic}:{place.partition}"
        if leader < 0:
            raise Failed(f"{about}: nobody leads it, or it does not exist", NOT_FOUND)
        answer: WriteTxnMarkersResponse = await cluster.ask(leader, WriteTxnMarkersRequest(markers=[marker]))
        rows = [row for each in answer.markers for topic in each.topics for row in topic.partitions]
        if not rows:
            raise Failed(f"{about}: the leader did not say whether it wrote the marker")
        check(rows[0].error_code, about)

    await cluster.patiently(once)


# --- by transactional id, through its coordinator -----------------------------------------------------------------


async def _fence(cluster: Cluster, transactional_id: str, yes: bool, as_json: bool) -> int:
    found = await described(cluster, transactional_id)
    if found.state == "PrepareCommit":
        raise Failed(f"{transactional_id!r} is being committed: its outcome is decided")
    open_or_not = "abort its transaction" if found.state in OPEN_STATES else "it has no open transaction"
    _confirm(f"Fence producer {found.producer_id} of {transactional_id!r} ({open_or_not})?", yes)
    fenced = await _init(cluster, found)
    if as_json:
        document(
            {
                "transactional_id": transactional_id,
                "was": found.state,
                "producer_id": fenced.producer_id,
                "producer_epoch": fenced.producer_epoch,
            }
        )
    else:
        aborted = "its transaction is aborted" if found.state in OPEN_STATES else "it had nothing open"
        click.echo(f"fenced: {transactional_id!r}; {aborted}")
    return 0


async def _init(cluster: Cluster, found: Transaction) -> InitProducerIdResponse:
    """What a new producer of that id would do; with the old one's timeout, since the coordinator keeps that."""
    request = InitProducerIdRequest(
        transactional_id=found.transactional_id, transaction_timeout_ms=max(1, found.timeout_ms)
    )

    async def once() -> InitProducerIdResponse:
        answer: InitProducerIdResponse = await cluster.ask(found.coordinator, request)
        check(answer.error_code, f"transactional id {found.transactional_id!r}")
        return answer

    return await cluster.patiently(once)
