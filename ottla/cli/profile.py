"""`ottla profile`: the settings of clusters, under names.

Passwords are kept in the files of profiles, which their owner alone can read, and are never shown. Exit codes: 0 done,
1 failed, 2 usage, 4 no such profile.
"""

import sys

import click

from ottla.cli.completing import profiles as profile_names
from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.session import SERVERS, NoProfile, from_assignments, json_option, quiet_option, session

HIDDEN = "[hidden]"
_SECRET_ENDINGS = ("password", "secret", "token", "sasl.jaas.config")
COMMANDS = {
    "ls": Lazy("ottla.cli.profile:ls", "List the profiles."),
    "use": Lazy("ottla.cli.profile:use", "Take a profile from now on."),
    "add": Lazy("ottla.cli.profile:add", "Keep settings under a name."),
    "remove": Lazy("ottla.cli.profile:remove", "Forget a profile."),
    "show": Lazy("ottla.cli.profile:show", "Show the settings of a profile."),
}


@click.group(
    cls=LazyGroup, table=COMMANDS, aliases={"list": "ls", "rm": "remove", "delete": "remove", "select": "use"}
)
def profile() -> None:
    """Keep the settings of clusters under names, and choose one of them.

    A profile stands below flags, -X and the environment, and above client.properties.
    """


@click.command()
@json_option
def ls(as_json: bool) -> None:
    """List the profiles: which is in use, and where each leads.

    --json: {"profiles": [{"name", "in_use", "bootstrap_servers", "security_protocol"}]}.
    """
    from ottla.cli import profiles
    from ottla.cli.tables import document
    from ottla.cli.tables import show as show_table

    current = session().profile_name
    rows = []
    for name in profiles.names():
        settings = _read(name)
        rows.append(
            {
                "name": name,
                "in_use": name == current,
                "bootstrap_servers": settings.get(SERVERS) or settings.get("metadata.broker.list"),
                "security_protocol": settings.get("security.protocol", "PLAINTEXT"),
            }
        )
    if as_json:
        document({"profiles": rows})
    else:
        marked = [{**row, "in_use": "*" if row["in_use"] else ""} for row in rows]
        show_table(marked, ["name", "in_use", "bootstrap_servers", "security_protocol"])


@click.command()
@click.argument("name", required=False, metavar="[NAME]", shell_complete=profile_names)
@click.option("--none", "is_none", is_flag=True, help="Use none any more.")
@quiet_option
def use(name: str | None, is_none: bool) -> None:
    """Take a profile from now on, in this and every other shell.

    --profile and OTTLA_PROFILE go before it.
    """
    from ottla.cli import profiles

    if (name is None) != is_none:
        raise click.UsageError("name a profile, or say --none")
    if name is not None:
        _check_there(name)
    profiles.use(name)
    _remark(f"profile {name} is in use" if name else "no profile is in use")


@click.command()
@click.argument("name")
@click.option(
    "-b",
    "--bootstrap-server",
    "server",
    metavar="HOST:PORT",
    help="A broker, or several with commas between them.",
)
@click.option(
    "-X",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting, as Ottla, Java or librdkafka spell it; repeatable. KEY=- is asked for, and not shown.",
)
@click.option("--use", "is_used", is_flag=True, help="Take it from now on.")
@click.option("--force", is_flag=True, help="Replace a profile of that name.")
@quiet_option
def add(name: str, server: str | None, assignments: tuple[str, ...], is_used: bool, force: bool) -> None:
    """Keep settings under a name, such as: ottla profile add prod -b kafka:9092 -X security.protocol=SSL."""
    from ottla.cli import profiles
    from ottla.core.errors import ConfigError

    try:
        profiles.check_name(name)
        settings = _settings(server or session().bootstrap_server, [*session().assignments, *assignments])
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if name in profiles.names() and not force:
        raise click.UsageError(f"there is a profile {name!r} already; --force replaces it")
    path = profiles.save(name, settings)
    if is_used:
        profiles.use(name)
    _remark(f"profile {name} is in {path}{', and in use' if is_used else ''}")


def _settings(server: str | None, assignments: list[str]) -> dict[str, str]:
    """As they are kept: with the names that were written. Raises ConfigError for what no client could be made with."""
    from ottla.cli.session import check_known
    from ottla.cli.synonyms import translated
    from ottla.core.errors import ConfigError

    settings = {} if server is None else {SERVERS: server}
    settings |= from_assignments(assignments)
    for key, value in settings.items():
        if value == "-":
            settings[key] = _asked_for(key)
    own = translated(settings)
    if not own:
        raise ConfigError("a profile without any setting is of no use: say -b HOST:PORT, or -X KEY=VALUE")
    for key in own:
        check_known(key)
    return settings


def _asked_for(key: str) -> str:
    """From the terminal without an echo, or a line of stdin: a password has no business in the list of processes."""
    if sys.stdin.isatty():
        answer: str = click.prompt(key, hide_input=True, err=True)
        return answer
    return sys.stdin.readline().rstrip("\r\n")


@click.command()
@click.argument("name", shell_complete=profile_names)
@quiet_option
def remove(name: str) -> None:
    """Forget a profile, and its passwords with it."""
    from ottla.cli import profiles

    _check_there(name)
    profiles.remove(name)
    _remark(f"profile {name} is gone")


@click.command()
@click.argument("name", required=False, metavar="[NAME]", shell_complete=profile_names)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """Show the settings of a profile, or of the one in use. Passwords are not shown.

    --json: {"name", "settings": {KEY: VALUE}}.
    """
    from ottla.cli.tables import document
    from ottla.cli.tables import show as show_table

    chosen = name or session().profile_name
    if chosen is None:
        raise NoProfile("no profile is in use")
    settings = {key: HIDDEN if is_secret(key) else value for key, value in sorted(_read(chosen).items())}
    if as_json:
        document({"name": chosen, "settings": settings})
    else:
        show_table(
            [{"setting": key, "value": value} for key, value in settings.items()], ["setting", "value"]
        )


def is_secret(key: str) -> bool:
    """Is it a setting that nobody should read over a shoulder?"""
    return key.replace("_", ".").lower().endswith(_SECRET_ENDINGS)


def _check_there(name: str) -> None:
    from ottla.cli import profiles
    from ottla.core.errors import ConfigError

    try:
        profiles.check_name(name)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if name not in profiles.names():
        from ottla.cli.lazy import guess

        known = profiles.names()
        raise NoProfile(f"there is no profile {name!r}{guess(name, known) if known else ''}")


def _read(name: str) -> dict[str, str]:
    from ottla.cli import profiles

    _check_there(name)
    return profiles.read(name)


def _remark(sentence: str) -> None:
    if not session().is_quiet:
        click.echo(sentence, err=True)
