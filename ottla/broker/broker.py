"""A broker: the list of its parts, and the order in which they start and stop.

The order carries promises. Nothing is touched before the data directories are locked; the settings of topics are known
before their logs are opened; nobody is served before the controller has said who leads what. At the end nobody is
served any more before the logs are closed, and what a clean shutdown means is written last.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ottla.broker.authorizer import AllowAll, Authorizer
from ottla.broker.config import BrokerConfig
from ottla.broker.configs import Configs
from ottla.broker.debut import Debut, check_endpoint, default_host
from ottla.broker.descriptors import limit, shares
from ottla.broker.directories import Directories
from ottla.broker.dispatch import Dispatch
from ottla.broker.election import ControllerHost
from ottla.broker.gauges import follow_gauges
from ottla.broker.hosting import controller_host
from ottla.broker.listeners import Listener, listeners_of
from ottla.broker.log_dir_moves import LogDirMoves
from ottla.broker.metadata import Metadata
from ottla.broker.metrics import BrokerMetrics, TopicMeters
from ottla.broker.observers import Observer
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.replicas import Progress, Replicas
from ottla.broker.sober_clock import SoberClock, read_note
from ottla.broker.stores import open_store as open_store_of
from ottla.broker.stores import serve_store
from ottla.broker.throttle import NoThrottle, Throttle
from ottla.broker.upkeep import Upkeep
from ottla.controller.context import INTERNAL_TOPICS
from ottla.core.clock import Clock, SystemClock
from ottla.core.hosts import parse_address
from ottla.core.ids import TopicPartition
from ottla.core.metrics import Registry
from ottla.core.watermark import Watermark
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import MetadataStore
from ottla.network.connection import Limits
from ottla.network.server import Admission, Server, Sockets
from ottla.replication.partition import Partition
from ottla.storage.files import Files, OsFiles

if TYPE_CHECKING:
    from ottla.broker.adoption import Adoption
    from ottla.broker.cleaning import Cleaning
    from ottla.broker.coordination import Coordination
    from ottla.broker.coordinators import Coordinator
    from ottla.broker.fetch_sessions import FetchSessions
    from ottla.broker.http import HttpServer
    from ottla.broker.markers import MarkerWriter
    from ottla.broker.replication import Replication
    from ottla.broker.to_controller import ToController
    from ottla.broker.verification import Verifier
    from ottla.groups.shard import GroupShard
    from ottla.metadata.served import StoreServer
    from ottla.transactions.shard import TransactionShard

logger = logging.getLogger(__name__)

_REPORT_SECONDS = 5.0
"""How long a broker that stops tries to tell of a disk that has failed."""
_OPENERS = 2
"""Threads that decompress what producers sent. Each may hold as much as a batch may decompress to, so they are few."""


class Broker:
    """One node. `start` it, `stop` it; it cannot be started again."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        open_store: Callable[[str], Awaitable[MetadataStore]] | None = None,
        on_progress: Progress = lambda done, total: None,
        chance: random.Random | None = None,
    ) -> None:
        """`chance` makes what is drawn reproducible: ids, and where replicas are placed first. Without `open_store` the
        settings say which store it is."""
        self.config = config
        descriptors = shares(limit())
        self.files = files or OsFiles(descriptors.files)
        self._connections_max = descriptors.connections
        self.clock = clock or SystemClock()
        self.node_id: int = config.node_id
        self.why_not_ready: str | None = "it has not been started"
        self.is_known_to_others = False
        """Has it begun to register? Others count on it from then on, until its session is closed."""
        self.stopping = Watermark()
        """Reaches 1 when this broker begins to stop: who waits for records is answered with those that there are."""
        self.configs = Configs(config)
        self.metadata = Metadata()
        self.replicas = Replicas(
            self.node_id, self.files, self.configs.topic, self._is_known, self.clock.monotonic_ms
        )
        self.replicas.lag_ms = config.replica_lag_time_max_ms
        self.may_lead: Callable[[], bool] = lambda: True
        """False while our metadata session is lost for so long that others may lead what we believe to lead."""
        self.authorizer: Authorizer = AllowAll()
        self.throttle: Throttle = NoThrottle()
        self.observers: list[Observer] = []
        self.metrics = BrokerMetrics()
        self.topic_meters = TopicMeters(self.metrics)
        self.replicas.on_deleted = self.topic_meters.forget
        self.registry = Registry(self.metrics)
        self.dispatch = Dispatch(self)
        self.server = self._new_server()
        config.on_change(BrokerConfig.max_connections, self._readmit)
        config.on_change(BrokerConfig.max_connections_per_ip, self._readmit)
        config.on_change(BrokerConfig.max_connections_per_ip_overrides, self._readmit)
        self._http: HttpServer | None = None
        self.sober_clock = SoberClock(self.clock)
        self.upkeep = Upkeep(self.replicas, config, self.clock, self.files, self.sober_clock)
        self.configs.on_retention_changed = self.upkeep.look_at
        self.configs.on_commitment_changed = self.replicas.reconfigured
        self.log_dir_moves = LogDirMoves(self)
        self.openers = ThreadPoolExecutor(_OPENERS, "open-batches")
        self.listeners: list[Listener] = []
        self.http_port: int | None = None
        self._on_progress = on_progress
        self._open_store = open_store or (lambda path: open_store_of(config, path))
        self._store_server: StoreServer | None = None
        self._chance = chance
        self._directories = Directories(self.files, config, chance)
        self.controller: ControllerHost
        self.store: MetadataStore
        self.producer_ids: ProducerIds
        self.on_fatal: Callable[[], object] = lambda: None
        """Called when there is nothing left to serve: the last log directory has failed."""
        self._reports: set[asyncio.Task[None]] = set()
        self._first_cleaning: asyncio.TimerHandle | None = None
        follow_gauges(self)

    # --- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when clients are served. What goes wrong is undone: nothing stays open or locked."""
        try:
            await self._start()
        except BaseException:
            await self.kill()
            raise

    async def _start(self) -> None:
        self.why_not_ready = "it is starting"
        await self._start_http()
        self.listeners = [
            listener.bound(await self.server.bind(listener.name, listener.host, listener.port))
            for listener in listeners_of(self.config, await default_host(self.config))
        ]
        paths = self._directories.lock()
        if (noted := read_note(self.files, paths)) is not None:
            self.sober_clock.resume(noted)
        adoption = await self._examine(paths)
        self.store = await self._open_store(self._directories.metadata_path)
        self._store_server = await serve_store(self.config, self.store)
        if adoption is not None:
            await adoption.take_over(self.store, self.files, self.node_id)
        self.controller = controller_host(
            self,
            open_session=self._open_session,
            chance=self._chance,
        )
        self.replicas.broker_epoch = lambda: self.controller.broker_epoch
        self.producer_ids = ProducerIds(lambda: self.to_controller.allocate_producer_ids())
        stored = await self.controller.open()
        self._directories.sign(stored.cluster_id)
        self.why_not_ready = "it opens its logs"
        self.replicas.offline |= self._directories.unusable
        await _finish(asyncio.to_thread(self.replicas.open, paths, self._on_progress))
        self.replicas.forget_strays(stored.topics, stored.lost)
        self.replicas.on_failed, self.replicas.on_all_failed = self._some_failed, self._all_failed
        self.why_not_ready = "it waits for the controller"
        await self.controller.regain()
        await check_endpoint(self.config, self.controller.store, self.listeners)
        self.is_known_to_others = True
        await self.controller.elect(
            [listener.endpoint for listener in self.listeners],
            self.config.broker_rack,
            self.replicas.clean_epoch,
        )
        debut = Debut(self)
        self.upkeep.start()
        self._begin_cleaning()
        await self.server.serve()
        await debut.over()
        self.why_not_ready = None
        logger.info("broker %d of cluster %s serves %s", self.node_id, self.cluster_id, self.bootstrap_server)

    async def _examine(self, paths: list[str]) -> "Adoption | None":
        """What Apache Kafka left in these directories, if nobody has taken it over yet."""
        directory = self._directories.kafka_metadata()
        if directory is None:
            return None
        from ottla.broker.adoption import examine

        now_ms = self.clock.now_ms()
        return await asyncio.to_thread(examine, self.files, directory, paths, self.configs, now_ms)

    async def _start_http(self) -> None:
        if self.config.http_listen:
            from ottla.broker.http import HttpServer

            address = parse_address(self.config.http_listen, "http.listen")
            self._http = HttpServer(self.registry, lambda: self.why_not_ready)
            self.http_port = await self._http.start(address.host, address.port)

    async def stop(self) -> None:
        """Answer what is under way, then close everything so that the next start finds it in order."""
        self.why_not_ready = "it is stopping"
        if len(self.metadata.brokers) > 1:
            await self.to_controller.leave()
        self.stopping.advance(1)
        self.replicas.is_closing = True
        self.replicas.on_moved = lambda partition: None
        if self._has_coordination:
            self.coordination.retire()
        try:
            await self.server.close()
            await self._end_replicating()
            await self._end_coordinating()
            await self._end_cleaning()
            await self.upkeep.stop()
            await self.replicas.end_syncs()
            await self._end_reports()
            await self.controller.resign()
            await _finish(asyncio.to_thread(self.replicas.close, self.controller.broker_epoch))
        finally:
            await self._release()

    async def kill(self) -> None:
        """Drop everything as the end of the process would: nothing is flushed, nothing said."""
        self.why_not_ready = "it was killed"
        with contextlib.suppress(AttributeError):  # it may not have come so far
            self.controller.abandon()
        await self.server.abort()
        self.upkeep.kill()
        self._kill_cleaning()
        self.replicas.on_moved = lambda partition: None
        await self._end_replicating()
        await self._end_coordinating()
        for report in self._reports:
            report.cancel()
        await self.replicas.abandon()
        await self._release()

    async def _release(self) -> None:
        self.openers.shutdown(wait=False, cancel_futures=True)
        if "to_controller" in self.__dict__:
            self.to_controller.close()
        if self._http is not None:
            await self._http.close()
        with contextlib.suppress(AttributeError):
            await self.store.close()
            await self.controller.hang_up()
            await self.controller.store.close()  # it may be a later session
        if self._store_server is not None:
            await self._store_server.close()
        self._directories.release()

    def _some_failed(self, partitions: list[TopicPartition]) -> None:
        """Let the controller know, so that clients learn who leads instead, or that nobody does."""
        report = asyncio.get_running_loop().create_task(
            self.to_controller.report_failed(partitions), name="report failed disk"
        )
        self._reports.add(report)
        report.add_done_callback(self._reports.discard)

    async def _end_reports(self) -> None:
        """The controller should know, but there may be none: at the next start it is told anyway."""
        if self._reports:
            _, late = await asyncio.wait(self._reports, timeout=_REPORT_SECONDS)
            for report in late:
                report.cancel()

    def _all_failed(self) -> None:
        self.why_not_ready = "every log directory has failed"
        self.on_fatal()

    @cached_property
    def to_controller(self) -> "ToController":
        """Made when something is asked of the controller that may be another broker."""
        from ottla.broker.to_controller import ToController

        return ToController(self)

    async def _open_session(self) -> MetadataStore:
        """Another session with the store, when one is over."""
        if isinstance(self.store, EmbeddedStore):
            return self.store.another_session()
        return await self._open_store(self._directories.metadata_path)

    @cached_property
    def fetch_sessions(self) -> "FetchSessions":
        """Made at the first fetch: its messages need not be imported for a start."""
        from ottla.broker.fetch_sessions import FetchSessions

        slots_max = self.config.max_incremental_fetch_session_cache_slots
        return FetchSessions(slots_max, generator=self._chance)

    # --- replicating --------------------------------------------------------------------------------------------

    @cached_property
    def replication(self) -> "Replication":
        """Made when the first partition comes that has replicas elsewhere."""
        from ottla.broker.replication import Replication

        return Replication(self)

    @property
    def _has_replication(self) -> bool:
        return "replication" in self.__dict__

    async def _end_replicating(self) -> None:
        if self._has_replication:
            await self.replication.close()

    # --- coordinating -------------------------------------------------------------------------------------------

    @cached_property
    def coordination(self) -> "Coordination":
        """Made when the first client looks for a coordinator, or the logs hold what one has to know."""
        from ottla.broker.coordination import Coordination

        return Coordination(self)

    @property
    def groups(self) -> "Coordinator[GroupShard]":
        return self.coordination.groups

    @property
    def transactions(self) -> "Coordinator[TransactionShard]":
        return self.coordination.transactions

    @property
    def markers(self) -> "MarkerWriter":
        return self.coordination.markers

    @property
    def verifier(self) -> "Verifier":
        return self.coordination.verifier

    @property
    def _has_coordination(self) -> bool:
        return "coordination" in self.__dict__

    def begin_coordinating(self) -> None:
        """The controller has told everything: take charge of what this broker leads, now and later."""
        self.replicas.on_moved = self._moved
        for partition in list(self.replicas.partitions.values()):
            self._moved(partition)

    def _moved(self, partition: Partition) -> None:
        if self._has_replication or (partition.state is not None and len(partition.state.replicas) > 1):
            self.replication.moved(partition)
        if self._has_cleaning and partition.is_stopped:
            self.cleaning.give_up(partition.topic_partition)
        if self.replicas.unfinished:
            self.log_dir_moves.begin_anew(partition)
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            self.coordination.follow(partition)

    async def _end_coordinating(self) -> None:
        if self._has_coordination:
            await self.coordination.close()

    # --- cleaning -----------------------------------------------------------------------------------------------

    @cached_property
    def cleaning(self) -> "Cleaning":
        """Made when there is a log to compact, and somebody or the clock asks for it."""
        from ottla.broker.cleaning import Cleaning

        cleaning = Cleaning(self)
        self.replicas.before_release = cleaning.end
        return cleaning

    @property
    def _has_cleaning(self) -> bool:
        return "cleaning" in self.__dict__

    def _begin_cleaning(self) -> None:
        """A broker that has nothing to compact, as most in tests, need not even import what it takes."""
        after_s = self.config.cleaner_backoff_s
        self._first_cleaning = asyncio.get_running_loop().call_later(after_s, self._clean_first)

    def _clean_first(self) -> None:
        if any(
            "compact" in partition.config.cleanup_policy for partition in self.replicas.partitions.values()
        ):
            self.cleaning.start()
        else:
            self._begin_cleaning()

    async def _end_cleaning(self) -> None:
        if self._first_cleaning is not None:
            self._first_cleaning.cancel()
        if self._has_cleaning:
            await self.cleaning.stop()

    def _kill_cleaning(self) -> None:
        if self._first_cleaning is not None:
            self._first_cleaning.cancel()
        if self._has_cleaning:
            self.cleaning.kill()

    # --- facts --------------------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self.metadata.cluster_id

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].port

    @property
    def bootstrap_server(self) -> str:
        """What clients are given to find this broker."""
        return str(self.listeners[0].advertised)

    def _is_known(self, topic_partition: TopicPartition) -> bool:
        image = self.metadata.topics.get(topic_partition.topic)
        return image is not None and 0 <= topic_partition.partition < len(image.partitions)

    def _readmit(self, _: object) -> None:
        self.server.admission = self._admission()

    def _new_server(self) -> Server:
        config = self.config
        return Server(
            self.dispatch.serve,
            Limits(
                config.socket_request_max_bytes,
                config.request_in_flight_max,
                config.frame_timeout_ms,
                config.frame_timeout_ms,
                config.connections_max_idle_ms,
                config.queued_reply_max_bytes,
            ),
            self._admission(),
            self.clock.monotonic_ms,
            Sockets(
                config.socket_listen_backlog_size,
                config.socket_send_buffer_bytes,
                config.socket_receive_buffer_bytes,
            ),
        )

    def _admission(self) -> Admission:
        config = self.config
        return Admission(
            config.max_connections,
            config.max_connections_per_ip,
            config.connections_per_ip,
            self._connections_max,
        )


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work in a thread to end, whatever happens: a cancelled start must not give away the locks of directories
    in which logs are still being recovered."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
