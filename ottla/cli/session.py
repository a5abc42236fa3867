"""What the words around a command say about all commands: where the cluster is, how to speak to it, how to answer.

They may stand before the command or behind it. A setting of the connection comes from the first of these that has it:

    a flag          -b, --timeout
    -X key=value    under the names of docs/reference/client.md, or as librdkafka and Java spell them
    the environment OTTLA_SECURITY_PROTOCOL is security.protocol; OTTLA_BOOTSTRAP_SERVER is -b
    the profile     --profile, OTTLA_PROFILE, or the one in use
    the file        client.properties in the directory of the profiles
    the default

`ottla config explain` shows which it was.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli import completing
from ottla.cli.durations import seconds

if TYPE_CHECKING:
    from ottla.client.config import ClientConfig

SERVERS = "bootstrap.servers"
DEFAULT_SERVER = "localhost:9092"
DEFAULT_TIMEOUT = 10.0
NOT_FOUND = 4
_PREFIX = "OTTLA_"
_SERVER_VARIABLE = "OTTLA_BOOTSTRAP_SERVER"


class Found(NamedTuple):
    """A setting, and who said so."""

    value: str
    source: str


class NoProfile(click.ClickException):
    """There is none of that name."""

    exit_code = NOT_FOUND


class Session:
    """One per command line."""

    def __init__(self) -> None:
        self.bootstrap_server: str | None = None
        self.timeout: float | None = None
        self.profile: str | None = None
        self.assignments: list[str] = []
        self.is_json = False
        self.is_wide = False
        self.is_quiet = False
        self._found: dict[str, Found] | None = None

    # --- what was said --------------------------------------------------------------------------------------------

    @property
    def servers(self) -> str:
        """Where to look for the cluster."""
        found = self.found().get(SERVERS)
        return DEFAULT_SERVER if found is None else found.value

    def found(self) -> dict[str, Found]:
        """Every setting that somebody has said something about, under our own names."""
        if self._found is None:
            from ottla.cli.profiles import NoSuchProfile
            from ottla.core.errors import ConfigError

            try:
                self._found = self._gather()
            except ConfigError as error:
                raise click.UsageError(str(error)) from None
            except NoSuchProfile as error:
                raise NoProfile(str(error)) from None
        return self._found

    def _gather(self) -> dict[str, Found]:
        from ottla.cli import profiles
        from ottla.cli.synonyms import translated

        merged: dict[str, Found] = {}
        name = self.profile_name
        layers: list[tuple[Mapping[str, str], str]] = [
            (profiles.common(), str(profiles.config_dir() / "client.properties")),
            (profiles.read(name) if name else {}, f"profile {name}"),
            (from_environment(os.environ), "the environment"),
            (from_assignments(self.assignments), "-X"),
            ({} if self.bootstrap_server is None else {SERVERS: self.bootstrap_server}, "-b"),
        ]
        for settings, source in layers:
            merged |= {key: Found(value, source) for key, value in translated(settings).items()}
        return merged

    @property
    def profile_name(self) -> str | None:
        from ottla.cli import profiles

        return self.profile or os.environ.get("OTTLA_PROFILE") or profiles.current()

    # --- for clients ----------------------------------------------------------------------------------------------

    def settings(self, cls: "type[ClientConfig]", **more: object) -> dict[str, Any]:
        """What a client of this kind is made with; `more` goes before everything. Raises ConfigError.

        A setting of another kind of client is left out: one profile serves producers and consumers.
        """
        found: dict[str, Any] = {SERVERS: DEFAULT_SERVER}
        for key, (value, source) in self.found().items():
            own = _own_name(key, cls)
            if own is not None:
                found[own] = value
            elif source == "-X":
                check_known(key)
        if "client.id" not in self.found():
            found["client.id"] = "ottla-cli"
        return found | more


def session() -> Session:
    """That of the command that runs, or a new one that knows only the environment."""
    ctx = click.get_current_context(silent=True)
    found = ctx.find_object(Session) if ctx is not None else None
    return found or Session()


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`OTTLA_SASL_MECHANISM` is `sasl.mechanism`, and so on for all that every client knows."""
    from ottla.client.config import ClientConfig

    variables = {_PREFIX + key.replace(".", "_").upper(): key for key in ClientConfig.keys}
    variables[_SERVER_VARIABLE] = SERVERS
    return {variables[name]: value for name, value in environment.items() if name in variables}


def from_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`-X key=value`; the last one counts."""
    from ottla.core.errors import ConfigError

    found: dict[str, str] = {}
    for each in assignments:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"-X {each} has no value: write -X key=value")
        found[_dotted(name.strip())] = value
    return found


def _dotted(name: str) -> str:
    """Python's spelling is taken as well: security_protocol."""
    return name if "." in name else name.replace("_", ".")


def _own_name(key: str, cls: "type[ClientConfig]") -> str | None:
    return key if key in cls.keys else None


def check_known(key: str) -> None:
    """Raises ConfigError for a setting that no client has."""
    from ottla.client.config import AdminConfig
    from ottla.client.consumer.config import ConsumerConfig
    from ottla.client.producer.config import ProducerConfig

    known = [*AdminConfig.keys, *ConsumerConfig.keys, *ProducerConfig.keys]
    if key not in known:
        from ottla.cli.lazy import guess
        from ottla.core.errors import ConfigError

        near = guess(key, sorted(set(known)))
        hint = near if "did you mean" in near else "; docs/reference/client.md lists them"
        raise ConfigError(f"-X {key}: no client has such a setting{hint}")


# --- the options ------------------------------------------------------------------------------------------------------

Command = Callable[..., Any]


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that keeps in the session what was said, if anything was. What stands last counts."""

    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        if value not in (None, False, ()):
            kept = ctx.ensure_object(Session)
            if isinstance(value, tuple):
                getattr(kept, name).extend(value)
            else:
                setattr(kept, name, value)
        return value

    return remember


keeping_server = _remember("bootstrap_server")


def _option(*names: str, keeps: str, **how: Any) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, callback=_remember(keeps), **how)


_server = _option(
    "-b",
    "--bootstrap-server",
    keeps="bootstrap_server",
    metavar="HOST:PORT",
    help=f"A broker of the cluster, or several with commas between them.  [default: {DEFAULT_SERVER}]",
)
_settings = _option(
    "-X",
    "assignments",
    keeps="assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the client, such as security.protocol=SSL; repeatable.",
)
_profile = _option(
    "--profile",
    keeps="profile",
    metavar="NAME",
    shell_complete=completing.profiles,
    help="Take the settings of this profile.",
)
_timeout = _option(
    "--timeout",
    keeps="timeout",
    metavar="SECONDS",
    type=seconds(0.1, 86_400),
    help=f"How long an answer may take, as in 5 or 1m.  [default: {DEFAULT_TIMEOUT:g}]",
)
_json = _option(
    "--json", keeps="is_json", is_flag=True, help="JSON for programs instead of tables for people."
)
_wide = _option("--wide", keeps="is_wide", is_flag=True, help="All columns, however narrow the terminal.")
_quiet = _option(
    "--quiet", keeps="is_quiet", is_flag=True, help="No progress bars and no remarks, only answers."
)
_no_color = click.option(
    "--no-color",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: os.environ.__setitem__("NO_COLOR", "1") if value else None,
    help="Tab-separated lines on a terminal, too; NO_COLOR=1 says the same.",
)


def _all(options: Iterable[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(list(options)):
        command = option(command)
    return command


def root_options(command: Command) -> Command:
    """Of `ottla` itself: they count for every command."""
    return _all([_profile, _server, _settings, _json, _wide, _quiet, _no_color, _timeout], command)


def reach_options(command: Command) -> Command:
    """Of a command that asks a cluster, and takes what it needs from `session()`."""
    return _all([_server, _settings, _profile, _timeout], command)


def where_options(command: Command) -> Command:
    """Those without the timeout, of a command that has its own. Hands over `bootstrap_server`."""

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        return command(*args, bootstrap_server=session().servers, **given)

    return _all([_server, _settings, _profile], run)


def connection_options(command: Command) -> Command:
    """Hands over `bootstrap_server` and `timeout`."""

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        return command(*args, timeout=session().timeout or DEFAULT_TIMEOUT, **given)

    return _timeout(where_options(run))


def quiet_option(command: Command) -> Command:
    """Of a command that only makes remarks, and takes from `session()` whether anybody wants them."""
    return _quiet(command)


def json_option(command: Command) -> Command:
    """`--json`, `--wide`, `--quiet` and `--no-color`, here or before the command. Hands over `as_json`.

    A command whose own --quiet means more stands nearer to it with that.
    """

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        return command(*args, as_json=session().is_json, **given)

    own = {name for each in getattr(command, "__click_params__", ()) for name in each.opts}
    return _all([_json, _wide, *([] if "--quiet" in own else [_quiet]), _no_color], run)
