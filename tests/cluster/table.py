"""What came out of a fault: a line of the table, kept in a file of its own until all are there."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ottla.testing.checker import Report
from tests.cluster.cluster import BROKERS, SESSION_TIMEOUT_MS, ZOOKEEPERS
from tests.cluster.faults import FAULTS, POWER_LOSS, Fault
from tests.cluster.load import Load

PAGE = Path(__file__).parent.parent / "chaos" / "CLUSTER.md"
LINES = Path("build") / "cluster"


PAGE_TEXT = """\
# Histories of a cluster that was broken

Written by `make chaos`. {brokers} brokers and {zookeepers} servers of Apache ZooKeeper, processes on hosts of their own
(network namespaces); replication factor 3, `min.insync.replicas` 2, sessions of {session} s. Clients (librdkafka) write
down what they do and see while the cluster is broken: idempotent and transactional producers with `acks=all`, readers
of both isolation levels, groups of both protocols. `ottla.testing.checker` judges what they wrote down. After every
round all replicas were in sync again, and after every fault every acknowledged value was read.

**{rounds} rounds, {operations:,} operations, {acknowledged:,} records acknowledged, {anomalies} anomalies.**

| fault | rounds | operations | acknowledged | anomalies | away | aim | whole again | ISR changes | elections |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{rows}

*Away* is the longest time between two acknowledgements of a partition from the fault on, as an idempotent producer sees
it that has one record under way in each partition. *Whole again* is the time from the end of the fault, which may be
the start of a broker, until all replicas of all partitions were in sync. Of both there is the median of the rounds, and
the longest. ISR changes and elections are counted in ZooKeeper, over all partitions, those of coordinators included,
until the cluster was whole again.
"""


@dataclass
class Line:
    """One fault, all its rounds together."""

    name: str
    rounds: int = 0
    operations: int = 0
    acknowledged: int = 0
    transactions: int = 0
    """Of any outcome."""
    commits: int = 0
    """Offsets that groups have committed."""
    anomalies: int = 0
    gaps: list[float] = field(default_factory=list)
    """The longest of each round, in seconds."""
    healing: list[float] = field(default_factory=list)
    """From the end of the fault until the cluster was whole again, in seconds, of each round."""
    isr_changes: int = 0
    elections: int = 0

    def note_reports(self, reports: dict[str, Report]) -> None:
        """Operations are counted once, anomalies wherever they show."""
        self.operations = sum(reports[name].operations for name in ("read_uncommitted", "read_committed"))
        self.anomalies = sum(sum(r.counts[kind] for kind in r.broken) for r in reports.values())

    def note_load(self, load: Load) -> None:
        self.acknowledged = load.acknowledged()
        self.transactions = load.progress.counts["transactions"]
        self.commits = load.progress.counts["commits"]

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.rounds} rounds, {self.operations:,} operations, {self.acknowledged:,} records "
            f"acknowledged, {self.transactions} transactions, {self.commits} commits of groups, "
            f"{self.anomalies} anomalies, away for {_seconds(self.gaps)}, whole after {_seconds(self.healing)}, "
            f"{self.isr_changes} ISR changes, {self.elections} elections"
        )


def write(line: Line) -> None:
    """Keep this line, and write the page anew from all that were kept."""
    LINES.mkdir(parents=True, exist_ok=True)
    (LINES / f"{line.name}.json").write_text(json.dumps(asdict(line)))
    kept = {path.stem: Line(**json.loads(path.read_text())) for path in LINES.glob("*.json")}
    PAGE.write_text(
        page([(fault, kept[fault.name]) for fault in (*FAULTS, POWER_LOSS) if fault.name in kept])
    )


def page(lines: list[tuple[Fault, Line]]) -> str:
    every = [line for _, line in lines]
    return PAGE_TEXT.format(
        brokers=BROKERS,
        zookeepers=ZOOKEEPERS,
        session=f"{SESSION_TIMEOUT_MS / 1000:g}",
        rounds=sum(line.rounds for line in every),
        operations=sum(line.operations for line in every),
        acknowledged=sum(line.acknowledged for line in every),
        anomalies=sum(line.anomalies for line in every),
        rows="\n".join(_row(fault, line) for fault, line in lines),
    )


def _row(fault: Fault, line: Line) -> str:
    counts = (f"{count:,}" for count in (line.rounds, line.operations, line.acknowledged, line.anomalies))
    aim = "" if fault.away_seconds_max is None else f"{fault.away_seconds_max:g} s"
    changes = str(line.isr_changes), str(line.elections)
    cells = [fault.sentence, *counts, _middle(line.gaps), aim, _middle(line.healing), *changes]
    return f"| {' | '.join(cells)} |"


def _middle(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{ordered[len(ordered) // 2]:.1f} s, {ordered[-1]:.1f} s" if ordered else ""


def _seconds(found: list[float]) -> str:
    return ", ".join(f"{each:.1f} s" for each in found) or "no time"
