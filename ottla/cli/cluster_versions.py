"""`ottla cluster versions`: which requests the brokers answer in which versions, and what this client would send them.

Exit codes: 0 done, 2 usage, 3 some brokers did not tell, 4 no such broker or API, 5 not allowed, 6 nobody answers.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.session import json_option, reach_options

if TYPE_CHECKING:
    from ottla.cli.remote import Admin, Failed

_API = ["key", "api", "brokers", "client", "used", "differing"]
_FEATURE = ["feature", "finalized", "supported"]
Ranges = Mapping[int, tuple[int, int]]


@click.command()
@click.argument("names", nargs=-1, metavar="[API...]")
@click.option(
    "--broker", "brokers", multiple=True, metavar="ID", type=click.IntRange(0), help="Only its; repeatable."
)
@click.option(
    "--features", is_flag=True, help="The features of the cluster instead, such as metadata.version."
)
@json_option
@reach_options
def versions(names: tuple[str, ...], brokers: tuple[int, ...], features: bool, as_json: bool) -> int:
    """Show for each request, or for those with these names, which versions all brokers speak, which this client speaks,
    and which of them it would use; and which brokers speak others than the first one.

    A request that is not used has no version in common, or is one that clients do not send.

    --json: {"brokers": [{"broker", "address", "apis": [{"key", "name", "first", "last"}]}], "apis": [{"key", "api",
    "brokers", "client", "used", "differing"}], "features": [{"feature", "finalized", "supported"}]}.
    """
    from ottla.cli.outcomes import finish, unknown
    from ottla.cli.remote import with_admin
    from ottla.protocol.apis import APIS

    known = {api.name.lower(): key for key, api in APIS.items()}
    for name in names:
        if name.lower() not in known:
            raise unknown("API", name, [api.name for api in APIS.values()])
    keys = {known[name.lower()] for name in names}

    async def work(admin: "Admin") -> int:
        told, failures, addresses = await _ask(admin, brokers)
        found = await _features(admin) if features or as_json else []
        rows = [row for row in compared(told) if not keys or row["key"] in keys]

        def answer() -> None:
            from ottla.cli.tables import document, show

            if as_json:
                document({"brokers": _documents(told, addresses, keys), "apis": rows, "features": found})
            elif features:
                show(found, _FEATURE)
            else:
                show(rows, _API)

        return finish(failures, is_some_done=bool(told), show=answer)

    return with_admin(work)


async def _ask(
    admin: "Admin", brokers: Iterable[int]
) -> tuple[dict[int, Ranges], list["Failed"], dict[int, str]]:
    """What each broker speaks, why some did not tell, and where they are."""
    from ottla.cli.outcomes import unknown
    from ottla.cli.remote import Failed, each_of
    from ottla.core.hosts import Address

    cluster = admin._routes.cluster
    await cluster.refresh([])
    nodes = cluster.metadata.brokers
    for id in brokers:
        if id not in nodes:
            raise unknown("broker", str(id), map(str, nodes))

    async def one(id: int) -> Ranges:
        peer = await cluster.peer(id)
        return {key: (each.first, each.last) for key, each in (peer.versions or {}).items()}

    found = await each_of(sorted(set(brokers) or nodes), one)
    told = {id: each for id, each in found.items() if not isinstance(each, Failed)}
    failures = [
        Failed(f"broker {id}: {each.message}", each.exit_code)
        for id, each in found.items()
        if isinstance(each, Failed)
    ]
    addresses = {id: str(Address(nodes[id].host, nodes[id].port)) for id in found}
    return told, failures, addresses


def compared(told: Mapping[int, Ranges]) -> list[dict[str, Any]]:
    """A row for each request that a broker or this client knows."""
    from ottla.protocol.apis import APIS

    rows = []
    for key in sorted({*APIS, *(key for ranges in told.values() for key in ranges)}):
        spoken = [ranges.get(key) for ranges in told.values()]
        everybody = None
        if spoken and all(each is not None for each in spoken):
            first = max(each[0] for each in spoken if each is not None)
            last = min(each[1] for each in spoken if each is not None)
            everybody = (first, last) if first <= last else None
        ours = (APIS[key].versions.first, APIS[key].versions.last) if key in APIS else None
        rows.append(
            {
                "key": key,
                "api": APIS[key].name if key in APIS else f"{key}",
                "brokers": _text(everybody),
                "client": _text(ours),
                "used": _used(everybody, ours),
                "differing": [id for id, ranges in told.items() if ranges.get(key) != spoken[0]],
            }
        )
    return rows


def _used(theirs: tuple[int, int] | None, ours: tuple[int, int] | None) -> int | None:
    if theirs is None or ours is None:
        return None
    last = min(theirs[1], ours[1])
    return last if last >= max(theirs[0], ours[0]) else None


def _text(versions: tuple[int, int] | None) -> str | None:
    if versions is None:
        return None
    return str(versions[0]) if versions[0] == versions[1] else f"{versions[0]}-{versions[1]}"


def _documents(
    told: Mapping[int, Ranges], addresses: Mapping[int, str], keys: set[int]
) -> list[dict[str, Any]]:
    from ottla.protocol.apis import APIS

    return [
        {
            "broker": id,
            "address": addresses[id],
            "apis": [
                {
                    "key": key,
                    "name": APIS[key].name if key in APIS else None,
                    "first": first,
                    "last": last,
                }
                for key, (first, last) in sorted(ranges.items())
                if not keys or key in keys
            ],
        }
        for id, ranges in told.items()
    ]


async def _features(admin: "Admin") -> list[dict[str, Any]]:
    from ottla.client.admin.cluster import describe_features

    found = await describe_features(admin)
    return [
        {
            "feature": name,
            "finalized": found.finalized_features.get(name),
            "supported": _text(found.supported_features.get(name)),
        }
        for name in sorted({*found.finalized_features, *found.supported_features})
    ]
