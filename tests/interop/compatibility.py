"""`make compat`: COMPATIBILITY.md, written from what came out of the tests, failures included."""

import json
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from tests.interop.clients.table import CLIENTS
from tests.interop.features import CROSSING, FEATURES, MIXED

PAGE = Path(__file__).parents[2] / "COMPATIBILITY.md"
YES, NO, NOT_YET, LACKS, UNTRIED = "yes", "**no**", "not yet", "–", "untried"
_SHOWN = {"passed": YES, "failed": NO, "not yet": NOT_YET, "skipped": UNTRIED}
_WORST_FIRST = (NO, UNTRIED, NOT_YET, YES)

Cells = dict[tuple[str, str], set[str]]

_HEAD = """# Compatibility

Real clients, unmodified, against one Ottla broker: `make compat` runs them and writes this page from what came out.
The tests are in `tests/interop`, and pass against Apache Kafka 4.3 as well (`OTTLA_INTEROP_BOOTSTRAP=apache`), groups
and transactions included. `tests/interop/test_differential.py` puts requests of all versions to both brokers and holds
the answers against each other; `dialogues/deliberate.py` lists the differences that are meant, with their reasons.

The same clients are run against three brokers, of which one after the other is restarted and killed
(`tests/cluster/test_clients.py`): all of them go on, lose nothing and double nothing. Two cautions are kafkajs's own,
with any Kafka. It may forget records of a `send` to several partitions when a leader moves meanwhile: send to one at a
time. And it comes back late after a leader has died unless `retry.maxRetryTime` is short.

The last column is Ottla's own client, `ottla.client`, which is held to the same tests, against Apache Kafka 4.3 too.
It puts keys on the partitions where Java's producer puts them (`test_partitions_alike.py`), and shares groups and
transactional ids with other people's clients (`test_client_groups.py`, `test_transactions_across.py`).

{yes}: works, in every test of that row. {no}: fails, see below. {not_yet}: the broker does not serve it yet.
{lacks}: the client cannot do it with any broker.
"""

_CROSSING_HEAD = """## Who reads what whom wrote

All codecs, keys, headers, times, tombstones; the rows wrote, the columns read.
"""


def page(results: Iterable[Mapping[str, str]]) -> str:
    """The whole page. A result names a client and its version, or a feature and how it went."""
    results = list(results)
    versions = {each["client"]: each["version"] for each in results if "version" in each}
    outcomes = [each for each in results if "feature" in each]
    features = _cells(_by_client(outcomes))
    crossing = _cells(
        (each["producer_name"], each["consumer_name"], each["state"])
        for each in outcomes
        if each["feature"] == CROSSING
    )
    parts = [
        _HEAD.format(yes=YES, no=NO, not_yet=NOT_YET, lacks=LACKS),
        _clients(versions),
        *_sections(features),
        _CROSSING_HEAD,
        _table(
            "", CLIENTS, ((name, [_cell(crossing, name, other) for other in CLIENTS]) for name in CLIENTS)
        ),
        _failures(outcomes),
    ]
    return "\n".join(part for part in parts if part)


def _by_client(outcomes: Iterable[Mapping[str, str]]) -> Iterable[tuple[str, str, str]]:
    for each in outcomes:
        if each["feature"] == MIXED:
            yield f"{MIXED}, as producer", each["producer_name"], each["state"]
            yield f"{MIXED}, as consumer", each["consumer_name"], each["state"]
        elif each["feature"] != CROSSING:
            yield each["feature"], each["client_name"], each["state"]


def _cells(outcomes: Iterable[tuple[str, str, str]]) -> Cells:
    found: Cells = {}
    for row, column, state in outcomes:
        found.setdefault((row, column), set()).add(_SHOWN[state])
    return found


def _cell(cells: Cells, row: str, column: str) -> str:
    if row in CLIENTS[column].lacks:
        return LACKS
    found = cells.get((row, column), {UNTRIED})
    return next(each for each in _WORST_FIRST if each in found)


def _clients(versions: Mapping[str, str]) -> str:
    rows = ((name, [versions.get(name, UNTRIED), entry.about]) for name, entry in CLIENTS.items())
    return _table("Client", ["Version", "From where"], rows)


def _sections(cells: Cells) -> Iterable[str]:
    for section, rows in groupby(FEATURES.values(), lambda each: each.section):
        yield f"## {section}\n"
        yield _table(
            "", CLIENTS, ((row.name, [_cell(cells, row.name, name) for name in CLIENTS]) for row in rows)
        )


def _failures(outcomes: Iterable[Mapping[str, str]]) -> str:
    lines = [
        f"- {each['feature']}, {' to '.join(value for key, value in each.items() if key.endswith('_name'))}: "
        f"{each['detail']}"
        for each in outcomes
        if each["state"] == "failed"
    ]
    return "\n".join(["## Failures\n", *lines, ""]) if lines else ""


def _table(corner: str, columns: Iterable[str], rows: Iterable[tuple[str, list[str]]]) -> str:
    head = [corner, *columns]
    lines = [head, ["---"] * len(head), *([name, *cells] for name, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read_results(directory: Path) -> list[dict[str, str]]:
    lines = [line for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def main() -> None:
    text = page(read_results(Path(sys.argv[1])))
    PAGE.write_text(text)
    print(f"{PAGE.name}: {text.count(NO) - 1} failures, {text.count(UNTRIED)} not tried")


if __name__ == "__main__":
    main()
