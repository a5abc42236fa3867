"""Both brokers are asked everything, at the same time; what they answer differently, by dialogue."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from ottla.network.peer import connect
from ottla.protocol.wiretypes import Versions
from tests.interop.dialogues import (
    cluster,
    consumers,
    groups,
    reading,
    settings,
    topics,
    transactions,
    writing,
)
from tests.interop.dialogues.talk import Answers, Talk, differences

Dialogue = Callable[[Talk], Awaitable[None]]
DIALOGUES: dict[str, Dialogue] = {
    f"{module.__name__.rpartition('.')[2]} {dialogue.__name__}": dialogue
    for module in (topics, cluster, settings, writing, reading, groups, consumers, transactions)
    for dialogue in module.ALL
}
PRODUCE, FETCH = 0, 1
_BATCHES = Versions(3, 99), Versions(4, 99)


async def spoken_by_both(theirs: str, ours: str, since: Mapping[int, Versions]) -> dict[int, Versions]:
    """The versions to ask in: those of both, and of `since` where that says which."""
    both = [await _spoken(address) for address in (theirs, ours)]
    common = {key: both[0][key] & both[1][key] for key in both[0].keys() & both[1].keys()}
    return {key: versions & since.get(key, versions) for key, versions in common.items()}


async def _spoken(address: str) -> dict[int, Versions]:
    host, _, port = address.rpartition(":")
    async with await connect(host, int(port)) as peer:
        found = dict(peer.versions or {})
    if found[FETCH].first >= _BATCHES[1].first:
        found[PRODUCE] &= _BATCHES[
            0
        ]  # Kafka 4 claims to speak the older ones, for old clients' sake, and hangs up
    return found


async def compare(theirs: str, ours: str, spoken: Mapping[int, Versions]) -> dict[str, dict[str, str]]:
    """The differences of each dialogue."""
    found = {}
    for name, dialogue in DIALOGUES.items():
        sides = [_answers(dialogue, address, spoken) for address in (theirs, ours)]
        found[name] = differences(*await asyncio.gather(*sides))
    return found


async def _answers(dialogue: Dialogue, address: str, spoken: Mapping[int, Versions]) -> Answers:
    async with Talk(address, spoken) as talk:
        await dialogue(talk)
    return talk.answers
