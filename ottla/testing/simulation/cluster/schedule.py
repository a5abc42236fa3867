"""One run, drawn from its seed before it begins: which faults, when, and what clients do meanwhile.

Each seed first draws which kinds of faults it uses at all: a run with nothing but pauses reaches places that a run with
a bit of everything does not. A schedule can be printed, kept as JSON, run again, and cut down.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ottla.testing.simulation.cluster.faults import FOR_EVER, ROLES, Fault
from ottla.testing.simulation.cluster.profiles import Profile
from ottla.testing.simulation.network import Weather

FAULTS_FROM_MS = 900
FAULTS_UNTIL_MS = 4_200
STORE = "store"
_BEARABLE_MS = 60
"""Whoever is slower than this for ever is rightly out of sync."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one client does: `kind` is producer, transactions, reader, or something for the administrator."""

    kind: str
    at_ms: int = 0
    acks: int = -1
    gap_ms: int = 60
    partition: int = 0
    read_committed: bool = False
    from_follower: bool = False
    replicas: tuple[int, ...] = ()
    number: int = 0

    def to_json(self) -> dict[str, Any]:
        usual = Work(self.kind)
        names = [name for name in self.__slots__ if getattr(self, name) != getattr(usual, name)]
        values = {name: getattr(self, name) for name in ("kind", *names)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Work":
        return cls(**{**value, "replicas": tuple(value.get("replicas", ()))})

    def __str__(self) -> str:
        return json.dumps(self.to_json())


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that a run is made of."""

    seed: int
    profile: str
    weather: Weather
    faults: tuple[Fault, ...]
    work: tuple[Work, ...]
    partitions: int = 1
    is_unclean_allowed: bool = False

    def to_json(self) -> str:
        value = {
            "seed": self.seed,
            "profile": self.profile,
            "partitions": self.partitions,
            "is_unclean_allowed": self.is_unclean_allowed,
            "weather": self.weather._asdict(),
            "faults": [fault.to_json() for fault in self.faults],
            "work": [work.to_json() for work in self.work],
        }
        return json.dumps(value, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Schedule":
        value = json.loads(text)
        return cls(
            value["seed"],
            value["profile"],
            Weather(**value["weather"]),
            tuple(Fault.from_json(fault) for fault in value["faults"]),
            tuple(Work.from_json(work) for work in value["work"]),
            value["partitions"],
            value["is_unclean_allowed"],
        )

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, profile {self.profile}, {self.partitions} partitions, {self.weather}"]
        lines += map(str, self.faults)
        lines += (f"{work.at_ms:>6} ms  {work}" for work in self.work)
        return "\n".join(lines)


def draw(seed: int, profile: Profile) -> Schedule:
    """The schedule of a seed."""
    chance = random.Random(f"{seed}/{profile.name}/schedule")
    names = [f"b{id}" for id in range(1, profile.brokers + 1)]
    faults = _draw_faults(chance, profile, names)
    partitions = chance.choice((1, 1, 2))
    work = _draw_work(chance, profile, partitions)
    unclean = profile.allows_losses and chance.random() < 0.4
    return Schedule(seed, profile.name, _draw_weather(chance, profile), faults, work, partitions, unclean)


def _draw_weather(chance: random.Random, profile: Profile) -> Weather:
    """Some runs have none of it, some have only a part."""
    weather = profile.weather
    return replaced(
        weather,
        drop=weather.drop * chance.choice((0, 1, 1, 4)),
        duplicate=weather.duplicate * chance.choice((0, 1, 1, 4)),
        straggler=weather.straggler * chance.choice((0, 1, 1, 2)),
    )


def replaced(weather: Weather, **values: float) -> Weather:
    return weather._replace(**values)  # type: ignore[arg-type]  # probabilities only


def _draw_faults(chance: random.Random, profile: Profile, names: list[str]) -> tuple[Fault, ...]:
    kinds = [(kind, weight) for kind, weight in profile.kinds if chance.random() < 0.6]
    kinds = kinds or [chance.choice(profile.kinds)]
    faults: list[Fault] = []
    at_ms = FAULTS_FROM_MS + chance.expovariate(1 / profile.gap_ms)
    while at_ms < FAULTS_UNTIL_MS:
        kind = chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        faults.append(_draw_fault(chance, kind, int(at_ms), names))
        at_ms += chance.expovariate(1 / profile.gap_ms)
    if profile.leaves_one:
        kind = chance.choice(("crash", "pause", "store-cut", "store-cut", "slow"))
        last = _draw_fault(chance, kind, chance.randrange(FAULTS_FROM_MS, FAULTS_UNTIL_MS), names)
        last = replace(last, who=chance.choice(names), lasts_ms=FOR_EVER, by_ms=min(last.by_ms, _BEARABLE_MS))
        faults.append(last)
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def _draw_fault(chance: random.Random, kind: str, at_ms: int, names: list[str]) -> Fault:
    who = chance.choice(ROLES) if chance.random() < 0.45 else chance.choice(names)
    lasts_ms = chance.choice((chance.randint(20, 300), chance.randint(100, 900), chance.randint(500, 1_800)))
    fault = Fault(kind, at_ms, lasts_ms, who)
    if kind == "bounce":
        return replace(fault, lasts_ms=chance.randint(5, 60))
    if kind == "blackout":
        return replace(fault, who="")
    if kind == "unknown":
        return replace(fault, who="", chance=chance.choice((0.1, 0.3, 0.6)))
    if kind == "slow":
        return replace(fault, whom=_some(chance, names), by_ms=chance.randint(50, 400))
    if kind == "cut":
        both, out = chance.random() < 0.5, chance.random() < 0.5
        ends = names if chance.random() < 0.7 else [*names, STORE]
        return replace(fault, whom=_some(chance, ends), both_ways=both, outwards=out)
    if kind == "store-cut":
        both, out = chance.random() < 0.6, chance.random() < 0.5
        return replace(fault, whom=(STORE,), both_ways=both, outwards=out)
    return fault


def _some(chance: random.Random, names: list[str]) -> tuple[str, ...]:
    found = tuple(name for name in names if chance.random() < 0.6)
    return found or (chance.choice(names),)


def _draw_work(chance: random.Random, profile: Profile, partitions: int) -> tuple[Work, ...]:
    work: list[Work] = []
    for partition in range(partitions):
        count = 2 if partitions == 1 else 1
        work += [Work("producer", partition=partition, gap_ms=chance.randint(30, 90)) for _ in range(count)]
        work.append(Work("reader", partition=partition, read_committed=True))
    work.append(
        Work("reader", partition=chance.randrange(partitions), read_committed=True, from_follower=True)
    )
    if chance.random() < 0.3:
        work.append(Work("producer", acks=1, partition=chance.randrange(partitions), gap_ms=120))
    if chance.random() < 0.5:
        work.append(Work("transactions", gap_ms=chance.randint(100, 250)))
    work += _draw_moves(chance, profile, partitions) if profile.moves else _draw_errands(chance, profile)
    return tuple(work)


def _draw_errands(chance: random.Random, profile: Profile) -> list[Work]:
    """What an administrator does now and then, in any run."""
    if chance.random() < 0.4:
        return []
    # With min.insync.replicas=1 a single power loss may take what was acknowledged.
    is_careful = profile.one_unclean_at_a_time or profile.allows_losses
    kinds = chance.choices(("elect", "min-insync"), k=chance.randint(1, 3))
    errands = [
        Work(
            kind,
            at_ms=chance.randrange(FAULTS_FROM_MS, FAULTS_UNTIL_MS),
            number=2 if is_careful else chance.choice((1, 2)),
        )
        for kind in kinds
    ]
    return sorted(errands, key=lambda errand: errand.at_ms)


def _draw_moves(chance: random.Random, profile: Profile, partitions: int) -> list[Work]:
    """Replicas are moved, and a topic beside the one that is written to comes and goes."""
    ids = list(range(1, profile.brokers + 1))
    kinds = ("reassign", "reassign", "reassign", "elect", "create", "delete", "delete", "grow")
    errands = [_move(chance, "create", FAULTS_FROM_MS - 500, partitions, ids)]
    for _ in range(chance.randint(3, 7)):
        kind, at_ms = chance.choice(kinds), chance.randrange(FAULTS_FROM_MS - 300, FAULTS_UNTIL_MS)
        errand = _move(chance, kind, at_ms, partitions, ids)
        errands.append(errand)
        if kind == "reassign" and chance.random() < 0.4:
            errands.append(replace(errand, kind="cancel", at_ms=at_ms + chance.randint(5, 400)))
        if kind == "delete" and chance.random() < 0.7:
            errands.append(_move(chance, "create", at_ms + chance.randint(50, 600), partitions, ids))
    return sorted(errands, key=lambda errand: errand.at_ms)


def _move(chance: random.Random, kind: str, at_ms: int, partitions: int, ids: list[int]) -> Work:
    partition = chance.randrange(partitions)
    return Work(kind, at_ms=at_ms, partition=partition, replicas=tuple(chance.sample(ids, 3)))
