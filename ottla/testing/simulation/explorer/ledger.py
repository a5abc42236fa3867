"""What has happened, beside what is: which records were committed, and what was lost by whom. And what must hold."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from ottla.testing.simulation.explorer.office import Office
from ottla.testing.simulation.explorer.replicas import REPLICAS, Entry, Replica

NEVER = -1


class Broken(Exception):
    """Something happened that must not."""


class Ledger(NamedTuple):
    """How often each thing has happened, and what clients may rely on."""

    committed: tuple[Entry, ...] = ()
    """What lay below the high watermark of anybody who believed to lead."""
    written: int = 0
    damaged: tuple[int, ...] = (NEVER,) * len(REPLICAS)
    """The life in which each broker lost some of its log, until the controller knows the next one."""
    unclean: tuple[int, ...] = ()
    """Who has died uncleanly and is not in sync again."""
    hand_overs: int = 0
    settings: int = 0
    kills: int = 0
    power_losses: int = 0
    stops: int = 0
    expiries: int = 0


def judge(replicas: Sequence[Replica], office: Office, ledger: Ledger) -> Ledger:
    """The ledger after what has just happened. Raises `Broken` if that must not be."""
    committed = ledger.committed
    for replica in replicas:
        committed = _commit(replica, committed)
    damaged = tuple(
        lost if lost == stored else NEVER for lost, stored in zip(ledger.damaged, office.stored, strict=True)
    )
    _check_leaders(replicas)
    _check_logs(replicas)
    _check_in_sync(replicas, office, committed, damaged)
    unclean = tuple(id for id in ledger.unclean if not _is_healed(replicas[id - 1], office))
    return ledger._replace(committed=committed, damaged=damaged, unclean=unclean)


def _commit(replica: Replica, committed: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """What the replica shows is committed, and the same as others have shown."""
    shown = replica.entries[: max(replica.high_watermark, replica.shown)]
    if replica.reign is not None and len(shown) > len(committed):
        committed, shown = shown, committed
    if shown != committed[: len(shown)]:
        raise Broken(
            f"broker {replica.broker} shows {show(shown)}, though {show(committed)} was committed before"
        )
    return committed


def _check_leaders(replicas: Sequence[Replica]) -> None:
    for a, b in combinations(replicas, 2):
        if a.reign is not None and b.reign is not None and a.leader_epoch == b.leader_epoch:
            raise Broken(f"brokers {a.broker} and {b.broker} both lead in epoch {a.leader_epoch}")


def _check_logs(replicas: Sequence[Replica]) -> None:
    """What one leader wrote at one offset comes after the same records everywhere, and nothing is there twice."""
    for replica in replicas:
        values = [entry.value for entry in replica.entries]
        if len(set(values)) < len(values):
            raise Broken(f"broker {replica.broker} has a record twice: {show(replica.entries)}")
    for a, b in combinations(replicas, 2):
        for at in reversed(range(min(len(a.entries), len(b.entries)))):
            if a.entries[at].epoch == b.entries[at].epoch:
                if a.entries[: at + 1] != b.entries[: at + 1]:
                    logs = f"{show(a.entries)} and {show(b.entries)}"
                    raise Broken(f"the logs of brokers {a.broker} and {b.broker} part and meet again: {logs}")
                break


def _check_in_sync(
    replicas: Sequence[Replica], office: Office, committed: tuple[Entry, ...], damaged: tuple[int, ...]
) -> None:
    """StrongIsr: whoever may be elected has everything that was committed."""
    state = office.state
    for replica, lost in zip(replicas, damaged, strict=True):
        role = "in sync" if replica.broker in state.isr else "eligible"
        may_lead = replica.broker in state.isr or replica.broker in state.elr
        if may_lead and lost == NEVER and replica.entries[: len(committed)] != committed:
            has = f"broker {replica.broker} is {role} with {show(replica.entries)}"
            raise Broken(f"{has}, but {show(committed)} was committed")


def _is_healed(replica: Replica, office: Office) -> bool:
    broker = replica.broker
    return replica.is_up and broker in office.state.isr and office.stored[broker - 1] == replica.life


def show(entries: Sequence[Entry]) -> str:
    """Records as a reader wants them: the first one is a, and every one has its leader epoch."""
    return " ".join(f"{chr(ord('a') + entry.value)}{entry.epoch}" for entry in entries) or "nothing"
