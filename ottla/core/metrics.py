"""Numbers about a running program, and Prometheus' text format to show them.

Each package declares its metrics in a table, as it does its settings; an instance of the table holds the
numbers, so that two brokers in one process do not share any. The hot path binds its labels once and then only
adds:

    class LogMetrics(Metrics):
        appends = Counter("ottla_log_appends_total", "Batches appended.", labels=["topic"])

    metrics = LogMetrics()
    appends = metrics.appends.labels("orders")      # once
    appends.add()                                   # per batch: one attribute addition
"""

import bisect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")

Sample = tuple[str, Sequence[tuple[str, str]], float]
"""What follows the metric's name, more labels, and the number."""


class Shown(Protocol):
    """A number, or a few that belong together."""

    def samples(self) -> Iterator[Sample]: ...


C = TypeVar("C", bound=Shown)


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds of `count` buckets, each `factor` times the one before."""
    assert first > 0 and factor > 1 and count >= 1
    return tuple(first * factor**step for step in range(count))


LATENCY_MS = exponential(0.25, 2, 18)
"""From a quarter of a millisecond to half a minute."""


class CounterValue:
    """A number that only grows."""

    __slots__ = ("_source", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self._source: Callable[[], float] | None = None

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def follow(self, source: Callable[[], float]) -> None:
        """Ask `source`, which counts anyway, whenever the counter is read."""
        self._source = source

    def samples(self) -> Iterator[Sample]:
        yield "", (), self.value if self._source is None else self._source()


class GaugeValue:
    """A number that goes up and down, or that is asked for when somebody looks."""

    __slots__ = ("_source", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self._source: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self.value = value

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def follow(self, source: Callable[[], float]) -> None:
        """Ask `source` whenever the gauge is read, instead of remembering a number."""
        self._source = source

    def samples(self) -> Iterator[Sample]:
        yield "", (), self.value if self._source is None else self._source()


class HistogramValue:
    """How often a number fell into each bucket."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one is for what is above every bound
        self.sum: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self) -> Iterator[Sample]:
        total = 0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            total += count
            yield "_bucket", (("le", format_number(bound)),), total
        yield "_sum", (), self.sum
        yield "_count", (), total


class Family(Generic[C]):
    """The numbers of one metric, by the values of its labels."""

    def __init__(self, metric: "Metric[C]") -> None:
        self.metric = metric
        self._children: dict[tuple[str, ...], C] = {}
        if not metric.label_names:
            self.labels()  # a metric without labels is shown from the start, at zero

    def labels(self, *values: str) -> C:
        """The number for these label values. Keep it: looking it up costs more than adding to it."""
        child = self._children.get(values)
        if child is None:
            names = self.metric.label_names
            assert len(values) == len(names), f"{self.metric.name} has the labels {names}, not {values}"
            child = self._children[values] = self.metric.make()
        return child

    def remove(self, *values: str) -> None:
        """Show these label values no longer, as when a topic is deleted."""
        self._children.pop(values, None)

    def expose(self) -> Iterator[str]:
        """The lines of the text format."""
        metric = self.metric
        yield f"# HELP {metric.name} {_escape_help(metric.help)}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for values, child in sorted(self._children.items(), key=_labels_of):
            labels = list(zip(metric.label_names, values, strict=True))
            for suffix, extra, number in child.samples():
                text = ",".join(f'{name}="{_escape_label(value)}"' for name, value in [*labels, *extra])
                braces = f"{{{text}}}" if text else ""
                yield f"{metric.name}{suffix}{braces} {format_number(number)}"


class Metric(ABC, Generic[C]):
    """The declaration of a metric. On an instance of its table the attribute is the Family of its numbers."""

    kind: ClassVar[str]

    def __init__(self, name: str, help: str, *, labels: Sequence[str] = ()) -> None:
        assert _METRIC_NAME.fullmatch(name), f"{name!r} cannot be a metric's name"
        assert all(_LABEL_NAME.fullmatch(label) and label != "le" for label in labels), (
            f"bad labels: {labels}"
        )
        assert len(set(labels)) == len(labels), f"a label of {name} is named twice"
        self.name = name
        self.help = help
        self.label_names = tuple(labels)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @overload
    def __get__(self, instance: None, owner: Any) -> "Metric[C]": ...
    @overload
    def __get__(self, instance: object, owner: Any) -> Family[C]: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        assert instance is None, "a table puts its families into its __dict__"
        return self

    @abstractmethod
    def make(self) -> C:
        """A child with nothing counted yet."""

    def series_names(self) -> list[str]:
        """Every name under which this metric shows numbers: no two metrics may share one."""
        return [self.name]


class Counter(Metric[CounterValue]):
    """Counts events or bytes. Its name ends in `_total`."""

    kind = "counter"

    def __init__(self, name: str, help: str, *, labels: Sequence[str] = ()) -> None:
        assert name.endswith("_total"), f"the name of the counter {name} must end in _total"
        super().__init__(name, help, labels=labels)

    def make(self) -> CounterValue:
        return CounterValue()


class Gauge(Metric[GaugeValue]):
    """Shows a state: connections, lag, bytes in a queue."""

    kind = "gauge"

    def make(self) -> GaugeValue:
        return GaugeValue()


class Histogram(Metric[HistogramValue]):
    """Shows how a number is spread: latencies, sizes."""

    kind = "histogram"

    def __init__(
        self, name: str, help: str, *, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_MS
    ) -> None:
        super().__init__(name, help, labels=labels)
        self.buckets = tuple(buckets)
        assert self.buckets and all(map(math.isfinite, self.buckets)), f"{name} needs finite buckets"
        assert list(self.buckets) == sorted(set(self.buckets)), f"the buckets of {name} must grow"

    def make(self) -> HistogramValue:
        return HistogramValue(self.buckets)

    def series_names(self) -> list[str]:
        return [self.name, *(self.name + suffix for suffix in ("_bucket", "_sum", "_count"))]


class Metrics:
    """A table of metrics, declared by a subclass. An instance holds the numbers."""

    declared: ClassVar[dict[str, Metric[Any]]] = {}
    """The table: attribute name and metric."""

    def __init_subclass__(cls) -> None:
        found = [vars(parent).items() for parent in reversed(cls.__mro__)]
        cls.declared = {name: value for items in found for name, value in items if isinstance(value, Metric)}

    def __init__(self) -> None:
        self.__dict__.update({name: Family(metric) for name, metric in self.declared.items()})

    def families(self) -> list[Family[Any]]:
        return [self.__dict__[name] for name in self.declared]


class Registry:
    """The tables whose numbers one endpoint shows."""

    def __init__(self, *tables: Metrics) -> None:
        self.tables: list[Metrics] = []
        self._names: set[str] = set()
        for table in tables:
            self.add(table)

    def add(self, table: Metrics) -> None:
        names = [name for metric in table.declared.values() for name in metric.series_names()]
        taken = self._names.intersection(names) or {name for name in names if names.count(name) > 1}
        assert not taken, f"two metrics are called {min(taken)}"
        self._names.update(names)
        self.tables.append(table)

    def expose(self) -> str:
        """Every number, in Prometheus' text format 0.0.4, sorted by name."""
        families = [family for table in self.tables for family in table.families()]
        lines = _lines(sorted(families, key=lambda family: family.metric.name))
        return "".join(f"{line}\n" for line in lines)


def format_number(number: float) -> str:
    if isinstance(number, int):
        return str(int(number))
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return repr(number).removesuffix(".0")


def _lines(families: Iterable[Family[Any]]) -> Iterator[str]:
    for family in families:
        yield from family.expose()


def _labels_of(item: tuple[tuple[str, ...], object]) -> tuple[str, ...]:
    return item[0]


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape_help(text).replace('"', '\\"')
