"""`kafka-dump-log`, once `kafka.tools.DumpLogSegments`: the files of a log, as Apache's tool prints them.

Batches, records, index entries and producers go to stdout, line by line and to the letter; what contradicts itself is
told on stderr at the end. Unlike Apache's it makes no file that is missing: it only reads.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.classic.admin_parser import AdminParser
from ottla.cli.classic.java import Illegal, integer
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool
from ottla.cli.dump.output import as_seen

if TYPE_CHECKING:
    from ottla.cli.classic.dump_log_decoders import Decoder
    from ottla.cli.classic.dump_log_indexes import Complaints

INT_MAX = 2**31 - 1
_MESSAGE_BYTES_MAX = 5 * 1024 * 1024
_STRINGS = "org.apache.kafka.tools.api.StringDecoder"
_INTERNAL = ("offsets", "transaction_log", "cluster_metadata", "share_group_state", "remote_log_metadata")
_EXCEPTIONS = (
    ("is not a recognized option", "UnrecognizedOptionException"),
    ("requires an argument", "OptionMissingRequiredArgumentException"),
    ("Found multiple arguments", "MultipleArgumentsForOptionException"),
)


class _Parser(AdminParser):
    """Says which of joptsimple's exceptions it was, as the tool does."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        try:
            return super().read(words)
        except Refused as refused:
            for text, name in _EXCEPTIONS:
                if text in str(refused):
                    raise Refused(f"joptsimple.{name}: {refused}", shows_help=False) from None
            raise


def _parser() -> _Parser:
    parser = _Parser(
        "kafka-dump-log",
        "This tool helps to parse a log file and dump its contents to the console, useful for debugging a"
        " seemingly corrupt log segment.",
    )
    parser.option("--files", help="The files to be dumped, with commas.", metavar="String: file1, file2, ...")
    parser.flag("--print-data-log", help="Print the contents of records, too.")
    parser.flag("--deep-iteration", help="Print every record, and not only batches.")
    parser.flag("--index-sanity-check", help="Check an index as a broker does when it starts.")
    parser.flag("--verify-index-only", help="Hold an index against its segment without printing it.")
    parser.flag("--skip-record-metadata", help="Print only the contents of records; no control records.")
    parser.option(
        "--max-message-size", help="Size of the largest message; by default 5242880.", metavar="Integer: size"
    )
    parser.option("--max-bytes", help="Read no more than this of a segment.", metavar="Integer: size")
    for each in ("key", "value"):
        parser.add_argument(
            f"--{each}-decoder-class",
            nargs="?",
            const=_STRINGS,
            metavar="String",
            help=f"How to read {each}s: the {_STRINGS}, or IntegerDecoder, LongDecoder.",
        )
    parser.flag("--offsets-decoder", help="The records are those of __consumer_offsets.")
    parser.flag("--transaction-log-decoder", help="The records are those of __transaction_state.")
    parser.flag("--cluster-metadata-decoder", help="The records are those of __cluster_metadata.")
    parser.flag("--share-group-state-decoder", help="The records are those of __share_group_state.")
    parser.flag("--remote-log-metadata-decoder", help="The records are those of __remote_log_metadata.")
    return parser


def run(options: argparse.Namespace) -> None:
    from ottla.cli.classic.dump_log_indexes import Complaints

    if options.files is None:
        raise Refused('Missing required argument "[files]"')
    complaints = Complaints()
    for path in _split(options.files):
        print(as_seen(f"Dumping {path}", sys.stdout))
        _dump(path, options, complaints)
    sys.stdout.flush()
    complaints.tell()


def _split(files: str) -> list[str]:
    """As Java's `split` does: what is empty at the end does not count, unless there is nothing else."""
    paths = files.split(",")
    while len(paths) > 1 and not paths[-1]:
        paths.pop()
    return paths if paths[0] or len(paths) > 1 or not files else []


def _dump(path: str, options: argparse.Namespace, complaints: "Complaints") -> None:
    from ottla.cli.classic import dump_log_indexes as indexes

    if path.endswith((".log", ".checkpoint")):
        _dump_segment(path, options, complaints)
    elif path.endswith((".index", ".timeindex")):
        check = indexes.Check(
            options.index_sanity_check,
            options.verify_index_only,
            _number(options.max_message_size, "max-message-size", _MESSAGE_BYTES_MAX),
        )
        dump = indexes.dump_index if path.endswith(".index") else indexes.dump_time_index
        dump(path, check, complaints)
    elif path.endswith(".snapshot"):
        indexes.dump_snapshot(path)
    elif path.endswith(".txnindex"):
        indexes.dump_txn_index(path)
    else:
        sys.stdout.flush()
        print(as_seen(f"Ignoring unknown file {path}", sys.stderr), file=sys.stderr)


def _dump_segment(path: str, options: argparse.Namespace, complaints: "Complaints") -> None:
    from ottla.cli.classic.dump_log_segments import Options, dump_segment

    has_decoder = any(getattr(options, f"{each}_decoder") for each in _INTERNAL)
    shows_data = bool(
        options.print_data_log or has_decoder or options.key_decoder_class or options.value_decoder_class
    )
    what = Options(
        deep=options.deep_iteration or shows_data,
        data=shows_data,
        skips_metadata=options.skip_record_metadata,
        bytes_max=_number(options.max_bytes, "max-bytes", INT_MAX),
        decoder=_decoder(options),
    )
    for before, behind in dump_segment(path, what):
        lines = complaints.gaps.setdefault(os.path.abspath(path), [])
        lines.append(f"  {before} is followed by {behind}")


def _decoder(options: argparse.Namespace) -> "Decoder":
    from ottla.cli.classic.dump_log_decoders import decoder_named, decoder_of
    from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, TRANSACTION_STATE

    if options.offsets_decoder:
        return decoder_of(CONSUMER_OFFSETS)
    if options.transaction_log_decoder:
        return decoder_of(TRANSACTION_STATE)
    if options.cluster_metadata_decoder or options.remote_log_metadata_decoder:
        from ottla.cli.classic.dump_log_framed import cluster_metadata, remote_log_metadata

        return cluster_metadata if options.cluster_metadata_decoder else remote_log_metadata
    if options.share_group_state_decoder:
        from ottla.cli.classic.state_records import SHARE_GROUP_STATE

        return decoder_of(SHARE_GROUP_STATE)
    return decoder_named(options.key_decoder_class or _STRINGS, options.value_decoder_class or _STRINGS)


def _number(text: str | None, name: str, default: int) -> int:
    if text is None:
        return default
    try:
        return integer(text)
    except Illegal:
        raise Illegal(
            f"joptsimple.OptionArgumentConversionException: Cannot parse argument '{text}' of option {name}"
        ) from None


def _report(error: Exception) -> None:
    from ottla.cli.main import describe

    text = describe(error) if isinstance(error, OSError) else str(error)
    print(as_seen(text, sys.stderr), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
