"""Where this broker stands with the metadata store: its session, its registration, and the office of the controller.

The office is taken in one step: `/controller` is made, and `/controller_epoch` counted up from the version we read.
Whoever holds a `Claim` checks that version with every write, so that a controller that was replaced changes nothing any
more. An answer that got lost is no refusal: what is there is read again, and known to be ours by what we wrote into it.
"""

import asyncio
import contextlib
import logging
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ottla.core.clock import Clock
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import format_id, random_id
from ottla.metadata import paths
from ottla.metadata.paths import BrokerNode, ClusterIdNode, ControllerEpochNode, ControllerNode
from ottla.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    Op,
    SessionLost,
    SessionState,
    Set,
    StoreError,
    StoreUnavailable,
)
from ottla.replication.state import NO_EPOCH

logger = logging.getLogger(__name__)

OpenSession = Callable[[], Awaitable[MetadataStore]]
NOBODY = -1
ATTEMPTS_MAX = 10
"""How often a step is tried that another broker may be taking at the same time."""
RETRY_SECONDS = 0.1
WATCHED = (ControllerNode.path, paths.BROKERS, paths.CONFIG_CHANGES)


class Claim(NamedTuple):
    """Our time as controller: the epoch, and the version of its node that every write checks."""

    epoch: int
    version: int


class Dice:
    """Chance for the controller; `source` makes it reproducible."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source

    def new_id(self) -> uuid.UUID:
        return random_id(self._source)

    def below(self, bound: int) -> int:
        return (self._source or random).randrange(bound)


class Office:
    """`prepare` a store, `enter` with each session, `stand` whenever somebody has touched `/controller`.

    `news` are the nodes that have changed since somebody looked, and `bell` is set when there are some.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        node_id: int,
        clock: Clock,
        chance: Dice,
        open_session: OpenSession | None = None,
        registration_timeout_ms: int = 0,
        answers: Callable[[BrokerNode], Awaitable[bool]] | None = None,
    ) -> None:
        """`answers` says whether somebody is found where a broker is registered."""
        self.store = store
        self.node_id = node_id
        self.broker_epoch = NO_EPOCH
        """Of this session, or of the last one while there is no other yet."""
        self.controller_id = NOBODY
        self.claim: Claim | None = None
        self.news: set[str] = set()
        self.bell = asyncio.Event()
        self.on_session: Callable[[SessionState], object] = lambda state: None
        self._clock = clock
        self._chance = chance
        self._open_session = open_session
        self._registration_timeout_s = registration_timeout_ms / 1000
        self._answers = answers
        self._seat = b""
        """What we write into `/controller`."""
        self._tried: set[Claim] = set()
        self.is_registered = False
        self._cluster_id = ""
        self._me: Create | None = None
        self._trouble: StoreUnavailable | None = None
        self._heard: MetadataStore | None = None
        """The session of which we hear news."""
        self._unwatched: list[str] = []

    @property
    def may_decide(self) -> bool:
        """Is the session alive, for all we know? If not, somebody else may be in our place already."""
        return self.is_registered and self.store.session is SessionState.CONNECTED

    def ring(self, *changed: str) -> None:
        self.news.update(changed or WATCHED)
        self.bell.set()

    # --- a session ----------------------------------------------------------------------------------------------

    async def prepare(self) -> str:
        """The id of the cluster. A new store gets its layout and an id."""
        for _ in range(ATTEMPTS_MAX):
            wanted = [*paths.LAYOUT, ControllerEpochNode.path, ClusterIdNode.path]
            found = await self.store.get_all(wanted)
            data = {
                ControllerEpochNode.path: ControllerEpochNode.encode(0),
                ClusterIdNode.path: ClusterIdNode.encode(format_id(self._chance.new_id())),
            }
            missing = [Create(path, data.get(path, b"")) for path in wanted if path not in found]
            if not missing:
                self._cluster_id = ClusterIdNode.decode(found[ClusterIdNode.path].data)
                return self._cluster_id
            try:
                await self.store.multi(missing)
            except NodeExists:
                continue  # another broker starts, too
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
        raise _restless()

    async def enter(self, node: BrokerNode) -> None:
        """Register this broker, and become controller in the same step if nobody is.

        Raises DUPLICATE_BROKER_REGISTRATION if another broker of our id is alive, and stays so for the time that the
        session of a former life may last.
        """
        await self._listen(self.store)
        if self._me is None:  # the same for a whole session: an attempt whose answer got lost is known by it
            self.resign()
            data = node.encode(self._clock.now_ms(), str(self._chance.new_id()))
            self._me = Create(BrokerNode.path(self.node_id), data, True)
        me = self._me
        for _ in range(ATTEMPTS_MAX):
            if await self._attempt(me):
                return
        raise self._trouble or _restless()

    async def _listen(self, store: MetadataStore) -> None:
        """Once for each session, however often we try to get in."""
        if self._heard is not store:
            self._heard, self._unwatched = store, list(WATCHED)
            store.on_session(lambda state: self._follow_session(store, state))
        while self._unwatched:
            path = self._unwatched[-1]
            await store.watch(path, lambda path=path: self.ring(path))  # type: ignore[misc]  # bound now
            self._unwatched.pop()

    async def renew(self) -> None:
        """Begin a new session in place of one that is over. Raises SessionLost if we cannot."""
        if self._open_session is None:
            raise SessionLost("the session with the metadata store is over")
        old, self.store = self.store, await self._open_session()
        self._me = None
        with contextlib.suppress(StoreError, OSError):
            await old.close()

    async def regain(self) -> None:
        """Have a session, though the one we had may have been interrupted or have ended while nobody looked."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._registration_timeout_s
        while self.store.session is SessionState.SUSPENDED and loop.time() < deadline:
            await asyncio.sleep(RETRY_SECONDS)
        if self.store.session is SessionState.LOST:
            await self.renew()

    def _follow_session(self, store: MetadataStore, state: SessionState) -> None:
        if store is self.store:
            if state is SessionState.LOST:
                self.is_registered = False
                self.step_back()
            self.ring()
            self.on_session(state)

    # --- the office ---------------------------------------------------------------------------------------------

    async def stand(self) -> None:
        """See who is the controller. If nobody is, be it."""
        for _ in range(ATTEMPTS_MAX):
            if await self._attempt(None):
                return
        raise self._trouble or _restless()

    def step_back(self) -> None:
        """Somebody else is controller, or will be. What we have tried in this session may still turn out to be done: if
        we did not know it for ours, nobody would be controller for as long as the session lasts."""
        if self.claim is not None:
            logger.warning("broker %d is no longer the controller", self.node_id)
        self.claim = None

    def resign(self) -> None:
        """Whatever we have tried is over. Another attempt must not be taken for it."""
        self.claim, self._seat = None, b""
        self._tried.clear()

    async def vacate(self) -> None:
        """Leave the office to somebody else, though our session goes on for a while: logs take time to close."""
        claim = self.claim
        self.resign()
        if claim is not None:
            with contextlib.suppress(StoreError):  # it is free when our session is over, at the latest
                ours = Check(ControllerEpochNode.path, claim.version)
                await self.store.multi([ours, Delete(ControllerNode.path)])

    async def confirm(self, claim: Claim) -> None:
        """After a write that failed. Step back and raise NOT_CONTROLLER if there is a newer controller."""
        try:
            node = await self.store.get(ControllerEpochNode.path)
            moved = node.version != claim.version
        except (NoNode, SessionLost):
            moved = True
        except StoreError:
            return  # nobody knows; the next command will find out
        if moved:
            self.step_back()
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"broker {self.node_id} is no longer the controller")

    async def _attempt(self, me: Create | None) -> bool:
        """Look, and do what is missing: register `me`, take the office. True if nothing is any more."""
        self._trouble = None
        wanted = [ControllerNode.path, ControllerEpochNode.path, ClusterIdNode.path]
        found = await self.store.get_all(wanted if me is None else [me.path, *wanted])
        self._check_cluster(found)
        registered = found.get(me.path) if me is not None else None
        if me is not None and registered is not None and registered.data != me.data:
            await self._outlive(registered, me.path)
            return False
        ops: list[Op] = [me] if me is not None and registered is None else []
        claim = self._see(found)
        if claim is None and self._is_ours(found.get(ControllerNode.path)):
            return False  # the epoch is from before it became ours, or from after: look again
        if claim is None and ControllerNode.path not in found:
            claim, writes = self._plan(found[ControllerEpochNode.path])
            ops += writes
        try:
            results = await self.store.multi(ops) if ops else []
        except (NodeExists, BadVersion, NoNode):
            return False  # another broker was faster, or it was ourselves: see what is left for us
        except StoreUnavailable as error:
            self._trouble = error
            await asyncio.sleep(RETRY_SECONDS)
            return False
        if self.store.session is SessionState.LOST:
            raise SessionLost("the session was over before its answer came")
        if me is not None:
            self.broker_epoch = registered.created if registered is not None else results[0]
            self.is_registered = True
        self._settle(claim, found.get(ControllerNode.path))
        return True

    def _check_cluster(self, found: dict[str, Node]) -> None:
        """Is this still our cluster? A store can be wiped while we live, and another cluster be begun there: what we
        have is not theirs, and what they know would make strays of it."""
        ours = f"the metadata store is not that of cluster {self._cluster_id} any more"
        for path in (ControllerEpochNode.path, ClusterIdNode.path):
            if path not in found:
                raise StoreError(f"{ours}: it has no {path}")
        if (theirs := ClusterIdNode.decode(found[ClusterIdNode.path].data)) != self._cluster_id:
            raise StoreError(f"{ours}, but that of {theirs}")

    def _see(self, found: dict[str, Node]) -> Claim | None:
        """Is it us who has the office? Both nodes must say so: they are not read in one moment."""
        seat, epoch = found.get(ControllerNode.path), found[ControllerEpochNode.path]
        claim = Claim(ControllerEpochNode.decode(epoch.data), epoch.version)
        return claim if self._is_ours(seat) and claim in self._tried else None

    def _is_ours(self, seat: Node | None) -> bool:
        return seat is not None and seat.data == self._seat

    def _plan(self, epoch: Node) -> tuple[Claim, list[Op]]:
        claim = Claim(ControllerEpochNode.decode(epoch.data) + 1, epoch.version + 1)
        self._tried.add(claim)
        self._seat = self._seat or ControllerNode.encode(self.node_id, self._clock.now_ms())
        return claim, [
            Create(ControllerNode.path, self._seat, True),
            Set(ControllerEpochNode.path, ControllerEpochNode.encode(claim.epoch), epoch.version),
        ]

    def _settle(self, claim: Claim | None, seat: Node | None) -> None:
        if claim is None:
            assert seat is not None, "somebody has the office"
            self.step_back()
            self.controller_id = ControllerNode.decode(seat.data)
            return
        if self.claim != claim:
            logger.info("broker %d is the controller, epoch %d", self.node_id, claim.epoch)
        self.claim, self.controller_id = claim, self.node_id

    async def _outlive(self, other: Node, path: str) -> None:
        """A broker with our id is registered. If it is our own former life, its session will be over soon."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._registration_timeout_s
        if await self._is_rival(BrokerNode.decode(path, other.data)):
            deadline = loop.time()
        elif self._registration_timeout_s:
            logger.warning(
                "a former life of broker %d is still registered: waiting for its session to end", self.node_id
            )
        while (remaining := deadline - loop.time()) > 0:
            self.bell.clear()
            now = (await self.store.get_all([path])).get(path)
            if now is None or now.created != other.created:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    remaining
                ):  # unlike `wait_for` it never overhears that we are to stop
                    await self.bell.wait()
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another broker {self.node_id} is alive: {path} exists. Every broker needs a broker.id of its own",
        )

    async def _is_rival(self, other: BrokerNode) -> bool:
        """Is somebody alive under our id, where we are not? Our own address is ours by now: who had it is gone."""
        assert self._me is not None, "who registers knows its own node"
        ours = BrokerNode.decode(self._me.path, self._me.data).endpoints
        if self._answers is None or set(ours) & set(other.endpoints):
            return False
        return await self._answers(other)


def _restless() -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the metadata store does not come to rest")
