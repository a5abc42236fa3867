"""`ottla start`: a broker in the foreground, until it is told to stop.

Exit codes: 0 it was stopped, 1 it could not start or its last log directory failed, 2 the settings make no sense, 130
it was told twice to stop.
"""

import asyncio
import contextlib
import errno
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from ottla.cli.logs import FORMATS, LEVELS, set_up
from ottla.cli.progress import RecoveryProgress
from ottla.cli.settings import Flags, gather
from ottla.core.errors import ConfigError, OttlaError
from ottla.core.hosts import Address, parse_address

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.config import BrokerConfig
    from ottla.broker.listeners import Listener

STOPPED, INTERRUPTED = 0, 130
_FAREWELL_SECONDS = 5.0
"""To close its session with the metadata store, for a broker that is stopped while it starts."""
_BOUND_TO = re.compile(r"\('([^']*)', ([0-9]+)")


@click.command()
@click.option(
    "--data-dir", metavar="DIR", help="Where the data is kept; log.dirs for short.  [default: ./ottla-data]"
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Listen on this port of the loopback; 0 takes a free one."
)
@click.option("--listen", metavar="HOST:PORT", help="Listen here instead of on 127.0.0.1:9092.")
@click.option("--advertise", metavar="HOST[:PORT]", help="What clients are told to connect to.")
@click.option(
    "--broker-id", type=click.IntRange(0), metavar="N", help="The number of this broker in its cluster."
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    help="Join the brokers of this ZooKeeper, HOST:PORT[,HOST:PORT...][/PATH].",
)
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Read settings from a server.properties.",
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set one setting; repeatable.")
@click.option("--dev", is_flag=True, help="Keep the data in a temporary directory, and remove it at the end.")
@click.option("--http", metavar="[HOST:]PORT", help="Serve /healthz, /readyz and /metrics here.")
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    envvar="OTTLA_LOG_FORMAT",
    help="How logs are written.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="warning",
    envvar="OTTLA_LOG_LEVEL",
    help="What is worth logging.",
)
@click.pass_context
def start(
    ctx: click.Context,
    data_dir: str | None,
    port: int | None,
    listen: str | None,
    advertise: str | None,
    broker_id: int | None,
    zookeeper: str | None,
    file: str | None,
    assignments: tuple[str, ...],
    dev: bool,
    http: str | None,
    log_format: str,
    log_level: str,
) -> int:
    """Run a broker in the foreground.

    A flag goes before --set, that before variables such as OTTLA_LOG_DIRS, that before the file.
    """
    set_up(log_level, "json" if log_format == "json" else "text")
    if dev and data_dir is not None:
        raise click.UsageError("--dev has a directory of its own: leave out --data-dir", ctx)
    place = _temporary_directory() if dev else contextlib.nullcontext(data_dir)
    with collector_at_rest(), place as directory:
        try:
            config = read_config(
                Flags(directory, port, listen, advertise, http, broker_id, zookeeper), assignments, file
            )
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from None
        outcome = run_broker(config)
    if outcome.in_a_hurry:
        leave_at_once(outcome.code)
    return outcome.code


def leave_at_once(code: int) -> NoReturn:
    """Whatever else there is to end a process would wait for the threads."""
    sys.stdout.flush()
    os._exit(code)


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Importing makes a hundred thousand objects and no garbage. `_serve` wakes the collector when that is done."""
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


@contextlib.contextmanager
def _temporary_directory() -> Iterator[str]:
    # What tempfile does, without the ten milliseconds that it takes to import.
    directory = f"{os.environ.get('TMPDIR') or '/tmp'}/ottla-dev-{os.urandom(6).hex()}"
    os.mkdir(directory, 0o700)
    try:
        yield directory
    finally:
        import shutil

        shutil.rmtree(directory, ignore_errors=True)


def read_config(flags: Flags, assignments: Sequence[str], file: str | None) -> "BrokerConfig":
    """From all places where settings can be. What is not known is logged. Raises ConfigError."""
    import logging

    from ottla.broker.config import BrokerConfig
    from ottla.broker.directories import stored_node_id

    values, warnings = gather(flags, assignments, os.environ, _text(file), file or "")
    config = BrokerConfig(values)
    if "node.id" not in values and (found := stored_node_id(config.log_dirs)) not in (None, config.node_id):
        config = BrokerConfig(values | {"node.id": found})
    for warning in warnings:
        logging.getLogger(__name__).warning("%s", warning)
    return config


def _text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not a text in UTF-8") from None


def run_broker(config: "BrokerConfig", on_ready: "Callable[[Broker], None] | None" = None) -> "Outcome":
    """Until a signal says that it is enough. `on_ready` is called once clients are let in."""
    try:
        import uvloop
    except ImportError:
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    else:
        loop_factory = uvloop.new_event_loop
    runner = asyncio.Runner(loop_factory=loop_factory)
    outcome: Outcome | None = None
    try:
        outcome = runner.run(_serve(config, on_ready))
        return outcome
    finally:
        if outcome is None or not outcome.in_a_hurry:
            runner.close()


class Outcome(NamedTuple):
    """The exit code; `in_a_hurry` if threads are still at work that nobody wants to wait for."""

    code: int
    in_a_hurry: bool = False


async def _serve(config: "BrokerConfig", on_ready: "Callable[[Broker], None] | None") -> Outcome:
    """Start a broker, wait for a reason to stop, stop it."""
    from ottla.broker.broker import Broker
    from ottla.broker.descriptors import raise_limit

    raise_limit()
    # What has been imported stays: the collector need never look at it.
    gc.freeze()
    gc.enable()
    progress = RecoveryProgress()
    broker = Broker(config, on_progress=progress)
    ending = Ending()
    broker.on_fatal = ending.fail
    try:
        starting = asyncio.create_task(broker.start())
        if not await done_before(starting, ending.first):
            # Else the others would count on it until its session times out.
            if broker.is_known_to_others:
                await asyncio.wait([starting], timeout=_FAREWELL_SECONDS)
            # Its threads may still recover logs. That can be cut off at any point, as by a crash.
            return Outcome(STOPPED, in_a_hurry=True)
    except OSError as error:
        raise explained(error, config) from None
    finally:
        progress.close()
    click.echo(announcement(broker))
    if on_ready is not None:
        on_ready(broker)
    await ending.first.wait()
    if not await done_before(broker.stop(), ending.second):
        return Outcome(INTERRUPTED, in_a_hurry=True)
    if ending.has_failed:
        raise OttlaError("every log directory has failed: the log says why")
    return Outcome(STOPPED)


class Ending:
    """When to stop, and why. The first signal asks, the second insists."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.has_failed = False
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.ask)

    def ask(self) -> None:
        (self.second if self.first.is_set() else self.first).set()

    def fail(self) -> None:
        self.has_failed = True
        self.first.set()


async def done_before(work: "Coroutine[Any, Any, None] | asyncio.Task[None]", event: asyncio.Event) -> bool:
    """Whether `work` was done before the event came. If not, it is cancelled, and not waited for."""
    task, alarm = asyncio.ensure_future(work), asyncio.create_task(event.wait())
    await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
    alarm.cancel()
    if not task.done():
        task.cancel()
        return False
    task.result()
    return True


def announcement(broker: "Broker") -> str:
    """Where it listens, in one line."""
    data = ", ".join(os.path.abspath(path) for path in broker.config.log_dirs)
    addresses = ", ".join(_shown(listener) for listener in broker.listeners)
    who = (
        f"Ottla, broker {broker.node_id} of cluster {broker.cluster_id},"
        if broker.config.has_shared_store
        else "Ottla"
    )
    text = f"{who} listens on {addresses}; its data is in {data}"
    if broker.http_port is not None:
        host = parse_address(broker.config.http_listen, "http.listen").host
        text += f"; metrics are at http://{Address(host or '127.0.0.1', broker.http_port)}/metrics"
    return text


def _shown(listener: "Listener") -> str:
    if listener.address == listener.advertised:
        return str(listener.address)
    return f"{listener.address} (for clients: {listener.advertised})"


def explained(error: OSError, config: "BrokerConfig") -> Exception:
    """A sentence that helps, for what goes wrong when a socket is opened."""
    bound_to = _BOUND_TO.search(str(error))
    if bound_to is None:
        return error
    host, port = bound_to[1], int(bound_to[2])
    is_http = bool(config.http_listen) and parse_address(config.http_listen, "http.listen").port == port
    flag = "--http" if is_http else "--port"
    if error.errno == errno.EADDRINUSE:
        return OttlaError(f"port {port} is in use; choose another with {flag}, or 0 for a free one")
    if error.errno == errno.EACCES:
        return OttlaError(f"port {port} is not for everybody; choose one above 1023 with {flag}")
    if error.errno == errno.EADDRNOTAVAIL:
        return OttlaError(f"this machine has no address {host}")
    return error
