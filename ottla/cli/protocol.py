"""`ottla protocol`: look at the wire protocol as this build speaks it."""

import click

from ottla.cli.lazy import Lazy, LazyGroup
from ottla.core.errors import ProtocolError

COMMANDS = {
    "apis": Lazy(
        "ottla.cli.protocol:apis", "List every API: key, name, versions, and where flexible ones start."
    ),
    "codec": Lazy("ottla.cli.protocol:codec", "Print the generated encoder and decoder of an API version."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def protocol() -> None:
    """The wire protocol: which APIs and versions are spoken, and the code that reads and writes them."""


@click.command()
def apis() -> None:
    """List every API: key, name, versions, and from which version on it is flexible."""
    from ottla.protocol.apis import APIS, PRIVATE

    click.echo(f"{'key':>5}  {'name':<30} {'versions':<9} {'flexible':<9} messages")
    for api in (*APIS.values(), *PRIVATE.values()):
        spoken, flexible = str(api.versions), str(api.flexible)
        click.echo(f"{api.key:>5}  {api.name:<30} {spoken:<9} {flexible:<9} {api.module}")


@click.command()
@click.argument("name", metavar="API")
@click.argument("version", type=int)
@click.option("--response", is_flag=True, help="The codec of the response instead of the request.")
def codec(name: str, version: int, response: bool) -> None:
    """Print the generated encoder and decoder of an API version, as in: ottla protocol codec produce 9."""
    from ottla.protocol.apis import api_named
    from ottla.protocol.codec import codec_for

    api = api_named(name)
    if api is None:
        raise click.UsageError(f"no API is called {name!r}; `ottla protocol apis` lists them")
    try:
        source = codec_for(api.response if response else api.request, version).source
    except ProtocolError as error:
        raise click.UsageError(str(error)) from None
    click.echo(source, nl=False)
