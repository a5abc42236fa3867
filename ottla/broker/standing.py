"""A broker stands for election for as long as it lives: it sees what changes in the store, and does what follows.

One task waits for news: of the office, of other brokers, of settings, of the session itself. News only say that
something is different; what is so is read again. So nothing is lost if several become one, and after a failure
everything is simply looked at once more.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.broker.metadata import NO_CONTROLLER, Metadata
from ottla.broker.office import Office
from ottla.broker.orders import Orders, Settings
from ottla.broker.reign import Reign
from ottla.broker.stored import load_configs, load_topic_configs
from ottla.core.errors import OttlaError
from ottla.metadata import paths
from ottla.metadata.paths import BrokerNode, ControllerNode
from ottla.metadata.store import ANY_VERSION, Check, SessionState, StoreError

logger = logging.getLogger(__name__)

RETRY_SECONDS = (0.1, 5.0)
"""How long to wait after something failed: at first, and at most."""


class Rebalancing:
    """How often the controller looks whether leadership is where it should be, and how much may be elsewhere."""

    def __init__(
        self,
        seconds: Callable[[], float | None] = lambda: None,
        percent: Callable[[], int] = lambda: 10,
    ) -> None:
        self.seconds = seconds
        """None: never."""
        self.percent = percent


class Standing:
    """`enter` once, then `begin`; `end` when the broker stops."""

    def __init__(
        self, office: Office, reign: Reign, orders: Orders, metadata: Metadata, rebalancing: Rebalancing
    ) -> None:
        self._office = office
        self._reign = reign
        self._orders = orders
        self._metadata = metadata
        self._rebalancing = rebalancing
        self._me = BrokerNode(())
        self._has_entered = False
        self._task: asyncio.Task[None] | None = None
        self._complaint = ""
        """What went wrong last, and is not over."""
        self.on_session: Callable[[SessionState], object] = lambda state: None
        self.on_registered: Callable[[int], object] = lambda broker_epoch: None
        office.on_session = self._follow_session
        orders.read_settings = self._read_settings

    async def enter(self, me: BrokerNode) -> None:
        """Register this broker in the present session, and be controller if nobody is."""
        async with self._reign.turn:
            self._reign.forget()
            await self._office.enter(me)
            epoch = self._orders.broker_epoch = self._office.broker_epoch
            self._follow_controller()
        if self._has_entered:
            logger.info("broker %d is registered again, in epoch %d", self._office.node_id, epoch)
        # The next session of this process has lost nothing of what this one had.
        self._me, self._has_entered = me._replace(previous_epoch=epoch), True
        self.on_registered(epoch)
        if (state := self._office.store.session) is not SessionState.CONNECTED:
            self._follow_session(state)  # nobody was told before

    def begin(self) -> None:
        name = f"broker {self._office.node_id} stands for election"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def abandon(self) -> "asyncio.Task[None] | None":
        """Stop at once. Returns what is left to wait for."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def end(self) -> None:
        if (task := self.abandon()) is not None:
            await asyncio.wait([task])

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        seconds, longest = RETRY_SECONDS
        due = asyncio.get_running_loop().time()
        while True:
            try:
                await self._attend()
                due = await self._rebalance(due)
                seconds, self._complaint = RETRY_SECONDS[0], ""
            except Exception as error:  # whatever it is, somebody must go on standing for election
                self._complain(error)
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, longest)
                self._office.ring()
            await self._wait_for_news(due)

    async def _wait_for_news(self, until: float) -> None:
        """Or until it is time to look at leadership."""
        bell, loop = self._office.bell, asyncio.get_running_loop()
        timer = loop.call_at(until, bell.set) if self._rebalancing.seconds() is not None else None
        try:
            await bell.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _attend(self) -> None:
        """See what has changed in the store, and do what follows from it."""
        office = self._office
        office.bell.clear()
        if office.store.session is SessionState.LOST:
            await office.renew()
        if not office.is_registered:  # also if the last attempt to enter has failed half-way
            await self.enter(self._me)
            office.ring()
        if office.store.session is not SessionState.CONNECTED:
            return  # what only one may do waits until we know whether it is us
        news = office.news.copy()
        office.news.clear()
        if ControllerNode.path in news:
            async with self._reign.turn:
                await office.stand()
                self._follow_controller()
        if office.claim is None:
            if news & {paths.CONFIG_CHANGES, ControllerNode.path}:
                self._orders.follow_configs(await load_configs(office.store))
        elif news & {paths.BROKERS, ControllerNode.path}:
            await self._reign.follow_brokers()

    async def _rebalance(self, due: float) -> float:
        """Give leadership back when it is time. Returns when it will be time again."""
        now, seconds = asyncio.get_running_loop().time(), self._rebalancing.seconds()
        if seconds is None or now < due:
            return due
        context = self._reign.context
        is_ours = self._office.claim is not None and self._office.may_decide
        if is_ours and context is not None and len(context.brokers) > 1:
            from ottla.controller import preferred

            percent = self._rebalancing.percent()
            await self._reign.decide(
                lambda context: (preferred.rebalance(context, percent), None), waits=False
            )
        return now + seconds

    def _complain(self, error: Exception) -> None:
        """Once: a store can be away for hours, and says the same all the time."""
        is_known = isinstance(error, OttlaError | OSError)
        is_news, self._complaint = repr(error) != self._complaint, repr(error)
        logger.log(
            logging.WARNING if is_news else logging.DEBUG,
            "broker %d does not get on with the cluster: %s",
            self._office.node_id,
            error,
            exc_info=None if is_known else error,
        )

    # --- what is so ---------------------------------------------------------------------------------------------

    def _follow_controller(self) -> None:
        office = self._office
        if office.claim is None:
            self._reign.forget()
            if self._metadata.controller_id != office.controller_id:
                self._metadata.update(controller_id=office.controller_id)

    async def _read_settings(self, topics: Sequence[str]) -> Settings:
        store = self._office.store
        try:
            # The controller has just written them, perhaps by another server than ours, which may be behind. What
            # follows a transaction is read as of then, or later.
            await store.multi([Check(paths.TOPICS, ANY_VERSION)])
            return await load_topic_configs(store, topics)
        except StoreError as error:  # there is a notice of them as well: we look when the store is back
            logger.warning("the settings of %s cannot be read now: %s", ", ".join(topics), error)
            return {}

    def _follow_session(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            if self._task is not None:  # who ends it himself need not be told
                logger.warning(
                    "the session of broker %d with the metadata store is over: others may lead what it led",
                    self._office.node_id,
                )
            self._reign.forget()
            self._metadata.update(controller_id=NO_CONTROLLER)
        elif not self._office.is_registered:
            return  # a session is nothing to us before we are registered in it; then there is `on_registered`
        self.on_session(state)
