"""`ottla cluster up`: a whole cluster on this machine, until it is told to stop.

Every broker is a process of its own. Their metadata store is served by this process, or is ZooKeeper. The first signal
stops the brokers one after the other, the controller last, so that each hands over what it leads; the second ends them
at once. Exit codes: 0 it was stopped, 1 it could not start, 2 usage, 3 a broker had ended by itself, 130 it was told
twice to stop.
"""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.cluster_state import numbered
from ottla.cli.remote import PARTLY, Failed
from ottla.cli.session import session
from ottla.cli.start import INTERRUPTED, STOPPED, Ending
from ottla.cli.tables import document, say
from ottla.core.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.testing.cluster_core import ClusterCore
    from ottla.testing.cluster_node import ClusterNode
    from ottla.testing.zookeeper import ZooKeeper

NODES_MAX = 64
SESSION_TIMEOUT_MS = 9_000
PORT_MAX = 65_535
OWN = ""
"""The value of --zookeeper where no address follows."""
_POLL_SECONDS = 0.1
_VIEW_SECONDS = 5.0
_OURS = ("node.id", "log.dirs", "log.dir", "listeners", "advertised.listeners", "zookeeper.connect")
_OURS_TOO = ("metadata.store.connect", "metadata.store.listen", "http.listen")
_BROKER = re.compile(r"broker-([0-9]+)")


class Plan(NamedTuple):
    """What is to run, and where."""

    nodes: int
    zookeeper: str | None
    data_dir: Path
    ports: tuple[int, ...]
    settings: dict[str, object]
    as_json: bool


@click.command()
@click.option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, NODES_MAX),
    default=3,
    show_default=True,
    help="How many brokers.",
)
@click.option(
    "--zookeeper",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=OWN,
    help="Keep the metadata in this ZooKeeper; without an address, one is started.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    default="ottla-data",
    show_default=True,
    help="Where the data is kept, a directory for each broker.",
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, PORT_MAX),
    default=9092,
    show_default=True,
    help="The port of the first broker; the others take the next ones. 0 takes free ones.",
)
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting of all brokers; repeatable."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document when it is healthy, instead of a sentence."
)
@click.pass_context
def up(
    ctx: click.Context,
    nodes: int,
    zookeeper: str | None,
    data_dir: str,
    port: int,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run a whole cluster on this machine: brokers 1 to N, each a process of its own.

    When it is healthy, one line says where clients connect. Ctrl-C stops the brokers in order, a second one at once.
    The data stay: the next start in the same directory finds everything again.

    Unless --set says otherwise, topics have three replicas by default, or as many as there are brokers. What a broker
    logs is in the data directory, in broker-1.log and so on.

    --json: {"bootstrap_servers", "data_dir", "brokers": [{"broker", "address", "pid"}]}, when it is healthy.
    """
    if port and port + nodes - 1 > PORT_MAX:
        raise click.UsageError(f"there are no {nodes} ports from {port} on", ctx)
    try:
        settings = {**defaults(nodes), **_settings(assignments)}
    except ConfigError as error:
        raise click.UsageError(str(error), ctx) from None
    ports = tuple(range(port, port + nodes)) if port else ()
    plan = Plan(nodes, zookeeper, Path(data_dir).absolute(), ports, settings, as_json or session().is_json)
    check_data(plan)
    with _locked(plan.data_dir):
        return asyncio.run(_serve(plan))


def defaults(nodes: int) -> dict[str, object]:
    """What makes a cluster of one that is not large."""
    copies = min(3, nodes)
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": min(2, copies),
    }


def _settings(assignments: Sequence[str]) -> dict[str, Any]:
    from ottla.broker.config import BrokerConfig
    from ottla.cli.settings import from_assignments

    found = from_assignments(assignments)
    for name, value in found.items():
        if name in (*_OURS, *_OURS_TOO):
            raise ConfigError(f"--set {name}: it is different in every broker, and set by this command")
        BrokerConfig.keys[name].read(value, name)
    return found


# --- the directory ----------------------------------------------------------------------------------------------------


def check_data(plan: Plan) -> None:
    """Raises `Failed` if what lies there is something else than this cluster."""
    place = plan.data_dir
    if (place / "meta.properties").exists():
        raise Failed(f"{place} has the data of a single broker: name another directory with --data-dir")
    found = [
        _BROKER.fullmatch(each.name) for each in (place.iterdir() if place.is_dir() else ()) if each.is_dir()
    ]
    last = max((int(match[1]) for match in found if match is not None), default=0)
    if last > plan.nodes:
        raise Failed(
            f"{place} has the data of {last} brokers: say --nodes {last}, or name another --data-dir"
        )
    if plan.zookeeper is not None and (place / "metadata.db").exists():
        raise Failed(f"the metadata of {place} is not in ZooKeeper: leave out --zookeeper")
    if plan.zookeeper is None and (place / "zookeeper").exists():
        raise Failed(f"the metadata of {place} is in ZooKeeper: say --zookeeper")


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """The directory is ours alone."""
    from ottla.storage.files import OsFiles
    from ottla.storage.lock import DirectoryLock

    place.mkdir(parents=True, exist_ok=True)
    lock = DirectoryLock(OsFiles(), str(place))
    try:
        yield
    finally:
        lock.close()


# --- life -------------------------------------------------------------------------------------------------------------


async def _serve(plan: Plan) -> int:
    ending = Ending()
    async with _zookeeper(plan) as zookeeper, _core(plan, zookeeper) as core:
        lost: set[int] = set()
        if await _started(core, plan, ending):
            _announce(core, plan)
            await _watched(core, lost, ending)
        say("stopping")
        if not await _ends_in_order(core, ending):
            for node in core.nodes.values():
                node.kill_at_once()
            return INTERRUPTED
    return PARTLY if lost else STOPPED


@contextlib.asynccontextmanager
async def _zookeeper(plan: Plan) -> "AsyncIterator[ZooKeeper | str | bool]":
    """Where the metadata are: in a ZooKeeper that we start, in one that is there, or with us."""
    if plan.zookeeper != OWN:
        yield plan.zookeeper or False
        return
    from ottla.testing.zookeeper import JARS, Unavailable, ZooKeeper

    try:
        if shutil.which("java") is None or not (JARS / "zookeeper.jar").exists():
            raise Unavailable(f"there is no ZooKeeper here: it takes Java and {JARS}/zookeeper.jar")
        server = ZooKeeper(directory=plan.data_dir / "zookeeper")
        await asyncio.to_thread(server.start)
    except Unavailable as error:
        raise Failed(f"{error}; name one that runs with --zookeeper HOST:PORT, or leave it out") from None
    try:
        say(f"ZooKeeper serves on {server.connect_string}")
        yield server
    finally:
        server.close()


@contextlib.asynccontextmanager
async def _core(plan: Plan, zookeeper: "ZooKeeper | str | bool") -> "AsyncIterator[ClusterCore]":
    from ottla.testing.cluster_core import ClusterCore, Options

    options = Options(
        nodes=plan.nodes,
        zookeeper=zookeeper,
        config=plan.settings,
        data_dir=plan.data_dir,
        racks=(),
        ports=plan.ports,
        links=False,
        http=False,
        for_tests=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    core = ClusterCore(options)
    try:
        yield core
    finally:
        await core.close()


async def _started(core: "ClusterCore", plan: Plan, ending: Ending) -> bool:
    """Whether it is healthy. If not, somebody has told us to stop. Raises `Failed` if it cannot start."""
    from ottla.testing.cluster_node import READY

    say(f"starting {plan.nodes} broker{'' if plan.nodes == 1 else 's'} in {plan.data_dir}")
    starting = asyncio.create_task(core.start())
    ready: set[int] = set()
    while not starting.done() and not ending.first.is_set():
        await asyncio.wait({starting}, timeout=_POLL_SECONDS)
        for node in core.nodes.values():
            if node.id not in ready and node.pid is not None and READY in node.output():
                ready.add(node.id)
                say(f"broker {node.id} is ready on {node.bootstrap_server}")
    if starting.done():
        try:
            starting.result()
        except OttlaError as error:
            raise _explained(error) from None
        return True
    starting.cancel()
    await asyncio.wait({starting})
    return False


def _explained(error: OttlaError) -> Failed:
    """The first line says what happened, the last what the broker said about it."""
    first, *said = str(error).splitlines()
    if "in use" in first and first.startswith("port"):
        return Failed(f"{first}; choose others with --port, or --port 0 for free ones")
    return Failed(f"{first} {said[-1]}" if said else first)


def _announce(core: "ClusterCore", plan: Plan) -> None:
    nodes = list(core.nodes.values())
    servers = ",".join(node.bootstrap_server for node in nodes)
    if plan.as_json:
        rows = [{"broker": node.id, "address": node.bootstrap_server, "pid": node.pid} for node in nodes]
        document({"bootstrap_servers": servers, "data_dir": str(plan.data_dir), "brokers": rows})
    else:
        say(f"{numbered('broker', [node.id for node in nodes])} {'is' if len(nodes) == 1 else 'are'} healthy")
        click.echo(f"bootstrap.servers={servers}")


async def _watched(core: "ClusterCore", lost: set[int], ending: Ending) -> None:
    """Until somebody tells us to stop. Raises `Failed` when no broker is left. `lost` gets those that ended."""
    from ottla.testing.cluster_node import NodeState

    while not ending.first.is_set():
        for node in core.nodes.values():
            if node.state is NodeState.FAILED and node.id not in lost:
                lost.add(node.id)
                say(_obituary(node))
        if len(lost) == len(core.nodes):
            raise Failed("no broker is left")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending.first.wait(), _POLL_SECONDS)


def _obituary(node: "ClusterNode") -> str:
    return f"broker {node.id} has ended by itself: {node.ending()}; see {node.output_path}"


async def _ends_in_order(core: "ClusterCore", ending: Ending) -> bool:
    """Stop all brokers, the controller last. False if somebody has told us to hurry."""
    stopping = asyncio.create_task(_stop_all(core))
    hurry = asyncio.create_task(ending.second.wait())
    await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopping, hurry):
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return not ending.second.is_set()


async def _stop_all(core: "ClusterCore") -> None:
    controller = -1
    with contextlib.suppress(OttlaError, OSError, TimeoutError):
        controller = (await asyncio.wait_for(core.view(), _VIEW_SECONDS)).controller
    for id in sorted(core.nodes, key=lambda id: (id == controller, id)):
        try:
            await core.stop_node(id)
        except OttlaError as error:  # it was killed instead
            say(str(error).splitlines()[0])
