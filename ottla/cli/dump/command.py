"""The command line of `ottla log dump`."""

import os
import sys

import click

from ottla.cli.dump.decoders import DECODERS, Decoder, decoder_of, offsets_decoder, transactions_decoder
from ottla.cli.dump.files import Dumped, expand
from ottla.cli.dump.indexes import Check
from ottla.cli.dump.output import JsonOutput, Output, TableOutput, TsvOutput
from ottla.cli.dump.readers import read
from ottla.cli.dump.rows import Problem
from ottla.cli.dump.segments import Options
from ottla.cli.session import session
from ottla.records.compression import OUTPUT_BYTES_MAX

_INTERNAL: dict[str, Decoder] = {"offsets": offsets_decoder, "transactions": transactions_decoder}
_DECODER = click.Choice(list(DECODERS))


@click.command()
@click.argument("paths", nargs=-1, metavar="FILES...")
@click.option(
    "--files", "listed", metavar="A,B,...", help="Files in one argument, as kafka-dump-log takes them."
)
@click.option("--deep-iteration", is_flag=True, help="Show every record instead of every batch.")
@click.option(
    "--print-data-log", is_flag=True, help="Show keys, values and headers too. Implies --deep-iteration."
)
@click.option("--key-decoder", type=_DECODER, default="string", show_default=True, help="How to show keys.")
@click.option(
    "--value-decoder", type=_DECODER, default="string", show_default=True, help="How to show values."
)
@click.option(
    "--offsets-decoder",
    "internal",
    flag_value="offsets",
    help="Read records of __consumer_offsets. Implies --print-data-log.",
)
@click.option(
    "--transaction-log-decoder",
    "internal",
    flag_value="transactions",
    help="Read records of __transaction_state. Implies --print-data-log.",
)
@click.option(
    "--skip-record-metadata", is_flag=True, help="With --print-data-log: keys, values and headers only."
)
@click.option(
    "--verify-index-only", is_flag=True, help="Check every index entry against its segment; show none."
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Check the order of index entries and where the last one leads; show none.",
)
@click.option(
    "--max-bytes",
    metavar="N",
    type=click.IntRange(0),
    help="Show only batches within the first N bytes of a segment.",
)
@click.option(
    "--max-message-size",
    metavar="N",
    type=click.IntRange(1),
    default=OUTPUT_BYTES_MAX,
    show_default=True,
    help="Do not read, or decompress to, more bytes than this at once.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per line: for each batch, record or entry."
)
def dump(
    paths: tuple[str, ...],
    listed: str | None,
    deep_iteration: bool,
    print_data_log: bool,
    key_decoder: str,
    value_decoder: str,
    internal: str | None,
    skip_record_metadata: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_bytes: int | None,
    max_message_size: int,
    as_json: bool,
) -> None:
    """Print the files of a log in readable form: segments, indexes, producer snapshots, checkpoints.

    FILES are .log, .index, .timeindex, .txnindex and .snapshot files, leader-epoch-checkpoint, partition.metadata
    and the checkpoints of a log directory. A directory stands for all such files in it. They are only read, whether
    or not a broker has them open.

    On a terminal the output is a table; elsewhere, or with NO_COLOR set, it is tab-separated. Exit code 1 means that
    a file is damaged, missing, or an index contradicts its segment: what could be read was printed.

    --json: a line {"type", "file", ...} for each batch, record, entry or problem, with what the type has.
    """
    targets = list(expand(path for path in (*paths, *(listed or "").split(",")) if path))
    if not targets:
        raise click.UsageError("name at least one file or directory")
    shows_data = print_data_log or internal is not None
    options = Options(
        deep=deep_iteration or shows_data,
        data=shows_data,
        metadata=not (skip_record_metadata and shows_data),
        bytes_max=max_bytes,
        message_bytes_max=max_message_size,
        decoder=_INTERNAL.get(internal or "") or decoder_of(key_decoder, value_decoder),
    )
    check = Check.ALL if verify_index_only else Check.LAST if index_sanity_check else Check.SHOW
    output = _output(as_json or session().is_json)
    damaged = [target for target in targets if not _dump(target, options, check, output)]
    if damaged:
        raise click.exceptions.Exit(1)


def _output(as_json: bool) -> Output:
    if as_json:
        return JsonOutput()
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return TableOutput()
    return TsvOutput()


def _dump(target: Dumped, options: Options, check: Check, output: Output) -> bool:
    """Print one file. False if anything is wrong with it."""
    output.begin(target.path)
    is_good = True
    try:
        for item in read(target, options, check):
            if isinstance(item, Problem):
                output.problem(item)
                is_good = False
            else:
                output.row(item)
    except BrokenPipeError:
        raise
    except OSError as error:
        output.problem(Problem(f"cannot be read: {error.strerror or error}"))
        is_good = False
    output.end()
    return is_good
