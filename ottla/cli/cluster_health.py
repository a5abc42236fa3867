"""`ottla cluster health`: one look at the whole cluster, a look every second, or looks until it is well.

Exit codes: 0 healthy, 2 usage, 5 not allowed, 6 no broker answers, 8 not healthy, also after `--wait`; 130 interrupted.
A look takes new connections: a broker that has come back is asked like one that never went.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_report import OFFLINE, Report, Seen, judge
from ottla.cli.cluster_state import eligible, min_insync, moves_if_told, snapshot
from ottla.cli.durations import seconds
from ottla.cli.remote import (
    UNHEALTHY,
    UNREACHABLE,
    Cluster,
    Failed,
    cluster,
    each_of,
    failed,
    run,
    servers,
    where_options,
)
from ottla.cli.session import json_option, session
from ottla.cli.tables import document, is_for_people, lines, say, show, table
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.hosts import Address
from ottla.network.peer import PeerClosed, RequestTimedOut
from ottla.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

ANSWER_SECONDS = 10.0
WAIT_SECONDS = 60.0
WATCH_SECONDS = 1.0
_LOOK_SECONDS = 0.2  # between two looks of somebody who waits
_SUMMARY = ["what", "value"]
_WORST = ["topic", "partition", "leader", "replicas", "isr", "min_isr", "elr", "fault"]
_LINE = [
    "time_ms",
    "state",
    "brokers",
    "controller",
    "partitions",
    "offline",
    "under_min_isr",
    "under_replicated",
    "not_preferred",
    "reassigning",
]


@click.command()
@click.option(
    "--brokers",
    "brokers_expected",
    metavar="N",
    type=click.IntRange(1),
    help="It is healthy only if so many brokers are there.",
)
@click.option("--wait", is_flag=True, help="Return when it is healthy, or fail after the timeout.")
@click.option(
    "--watch", is_flag=True, help="Look again every second, until interrupted; with --wait until healthy."
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=seconds(0.1, 86_400),
    help="How long an answer may take, or with --wait all of it.  [default: 10, with --wait 60]",
)
@json_option
@where_options
def health(
    brokers_expected: int | None,
    wait: bool,
    watch: bool,
    timeout: float | None,
    as_json: bool,
    bootstrap_server: str,
) -> int:
    """Say whether the cluster is healthy: brokers, controller, and partitions with the worst of them.

    It is, with exit code 0, if it has a controller, every broker answers, and every partition has a leader and all its
    replicas in sync. Else the exit code is 8, and sentences on stderr say what is wrong. Partitions that are led by
    another than their preferred replica are counted, but well; `ottla cluster elect` gives them back.

    --json: {"is_healthy", "problems", "cluster_id", "controller", "brokers", "brokers_expected", "brokers_missing",
    "brokers_silent", "partitions", "offline", "under_min_isr", "under_replicated", "not_preferred", "reassigning",
    "worst": [{"topic", "partition", "leader", "replicas", "isr", "min_isr", "elr", "last_known_elr", "fault",
    "faults"}]}; with --watch a line {"time_ms", ...} for each look, which has all of these.
    """
    timeout = timeout or session().timeout
    watched = Watch(servers(bootstrap_server), brokers_expected, as_json, timeout or ANSWER_SECONDS)
    if wait:
        return run(watched.until_healthy(timeout or WAIT_SECONDS, shows=watch))
    return run(watched.forever() if watch else watched.once())


class Watch:
    """Looks at a cluster, and how they are shown."""

    def __init__(
        self, addresses: Sequence[Address], brokers_expected: int | None, as_json: bool, answer_seconds: float
    ) -> None:
        self._addresses = addresses
        self._expected = brokers_expected
        self._as_json = as_json
        self._answer_ms = int(min(answer_seconds, ANSWER_SECONDS) * 1000)
        self._live: Live | None = None
        self._is_first = True

    async def once(self) -> int:
        return _outcome(await self.look(), self._as_json)

    async def forever(self) -> int:
        with self._screen():
            while True:
                try:
                    self._show(await self.look())
                except Failed as error:
                    if self._is_first:
                        raise
                    say(error.message)  # a cluster that comes back is worth waiting for
                await asyncio.sleep(WATCH_SECONDS)

    async def until_healthy(self, seconds: float, *, shows: bool) -> int:
        """Looks until one is good. What was wrong with the last one is said after the timeout."""
        deadline = asyncio.get_running_loop().time() + seconds
        last: Report | Failed = Failed("nobody was asked", UNREACHABLE)
        with self._screen() if shows else nullcontext():
            while (left := deadline - asyncio.get_running_loop().time()) > 0:
                last = await self._look_within(left)
                if isinstance(last, Report):
                    if shows:
                        self._show(last)
                    if last.is_healthy:
                        break
                elif last.exit_code != UNREACHABLE:
                    raise last
                await asyncio.sleep(WATCH_SECONDS if shows else min(_LOOK_SECONDS, left))
        if isinstance(last, Failed):
            raise Failed(f"no broker answers after {seconds:g} s: {last.message}", last.exit_code)
        if not last.is_healthy:
            say(f"not healthy after {seconds:g} s")
        return _code(last) if shows else _outcome(last, self._as_json)

    async def _look_within(self, seconds: float) -> Report | Failed:
        try:
            async with asyncio.timeout(seconds):
                return await self.look()
        except TimeoutError:
            return Failed("the last look was not over", UNREACHABLE)
        except Failed as error:
            return error

    async def look(self) -> Report:
        """Raises `Failed` if nobody can be asked."""
        try:
            async with cluster(self._addresses, self._answer_ms) as asked:
                return judge(await seen(asked, self._expected))
        except (PeerClosed, RequestTimedOut, KafkaError, ProtocolError) as error:
            raise failed(error) from error

    # --- showing ------------------------------------------------------------------------------------------------

    def _screen(self) -> Any:
        if self._as_json or not is_for_people():
            return nullcontext()
        from rich.live import Live

        self._live = Live(auto_refresh=False, vertical_overflow="visible")
        return self._live

    def _show(self, report: Report) -> None:
        stamp = {"time_ms": time.time_ns() // 1_000_000}
        if self._as_json:
            document({**stamp, **report.document()})
        elif self._live is not None:
            self._live.update(_for_people(report), refresh=True)
        else:
            values = {row["what"]: row["value"] for row in report.summary()}
            lines([{**stamp, **values}], _LINE, header=self._is_first)
        self._is_first = False


async def seen(asked: Cluster, brokers_expected: int | None = None) -> Seen:
    """Ask everybody what there is to know."""
    first = await snapshot(asked)
    asked.brokers |= {id: Address(node.host, node.port) for id, node in first.nodes.items()}
    answers = await each_of(first.nodes, lambda id: asked.ask(id, MetadataRequest(topics=[])))
    silent = {id: why.message for id, why in answers.items() if isinstance(why, Failed)}
    has_controller = first.controller is not None and first.controller not in silent
    moving = await moves_if_told(asked) if has_controller else {}
    needed = await min_insync(asked, (place.topic for place in first.partitions))
    heard = Seen(first, silent, moving, needed, {}, brokers_expected)
    offline = [place.topic for place, faults in judge(heard).faults.items() if OFFLINE in faults]
    return heard._replace(eligible=await eligible(asked, offline)) if offline else heard


def _outcome(report: Report, as_json: bool) -> int:
    if as_json:
        document(report.document())
    else:
        show(report.summary(), _SUMMARY)
        if report.faults:
            show(report.worst(), _WORST)
    for problem in report.problems:
        say(problem)
    return _code(report)


def _code(report: Report) -> int:
    return 0 if report.is_healthy else UNHEALTHY


def _for_people(report: Report) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [table(report.summary(), _SUMMARY)]
    if report.faults:
        parts += [Text(""), table(report.worst(), _WORST)]
    parts += [Text(problem, style="red") for problem in report.problems]
    return Group(*parts)
