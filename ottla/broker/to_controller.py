"""What a broker needs of the controller, wherever that is: producer ids, topics, settings, leave to go.

If it is this broker, it is asked by a call, otherwise over the wire. Offices change hands: who finds that the one it
asked is not the controller any more, or does not answer, looks again who is. So a question may be asked twice, and
what is asked for here is such that this does no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.metadata import NO_CONTROLLER
from ottla.broker.peers import Peers
from ottla.controller.commands import ConfigResource, NewTopic
from ottla.core.errors import ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition
from ottla.replication.state import TopicImage

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.election import ControllerHost
    from ottla.network.peer import Peer
    from ottla.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest

logger = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""How long an answer is looked for. Clients wait about as long for theirs."""
PATIENCE_TO_LEAVE_SECONDS = 5.0
AGAIN_SECONDS = 0.1
_SET, _DELETE = 0, 1


class ToController:
    """One at a time or many: each question finds its own way."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._peers = Peers(broker)
        self._connecting = asyncio.Lock()

    def close(self) -> None:
        self._peers.close()

    # --- questions ----------------------------------------------------------------------------------------------

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody else gets."""

        def request() -> object:
            from ottla.protocol.messages.inter_broker import AllocateProducerIdsRequest

            broker = self._broker
            return AllocateProducerIdsRequest(
                broker_id=broker.node_id, broker_epoch=broker.controller.broker_epoch
            )

        def read(response: Any) -> range:
            if response.error_code == ErrorCode.STALE_BROKER_EPOCH:  # producers would take it for the end
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the controller does not know of our life yet")
            _raise(response.error_code)
            return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

        return await self._ask(lambda host: host.allocate_producer_ids(), request, read)

    async def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, TopicImage | KafkaError]:
        """Every topic as we know it afterwards, or why it is not."""

        def request() -> object:
            from ottla.protocol.messages.topics import CreateTopicsRequest

            return CreateTopicsRequest(topics=[_new_topic(topic) for topic in wanted])

        def read(response: Any) -> dict[str, TopicImage | KafkaError]:
            for topic in response.topics:
                if topic.error_code == ErrorCode.NOT_CONTROLLER:
                    _raise(topic.error_code)
            return {topic.name: self._created(topic) for topic in response.topics}

        return await self._ask(lambda host: host.create_topics(wanted), request, read)

    def _created(self, topic: Any) -> TopicImage | KafkaError:
        if topic.error_code:
            return KafkaError.of(topic.error_code, topic.error_message or "")
        image = self._broker.metadata.topics.get(topic.name)
        detail = f"{topic.name} is created, but this broker has not been told yet"
        return image or KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, detail)

    async def alter_configs(
        self,
        resource: ConfigResource,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Change settings; see `ControllerHost.alter_configs`."""

        def read(response: Any) -> None:
            for answer in response.responses:
                _raise(answer.error_code, answer.error_message or "")

        await self._ask(
            lambda host: host.alter_configs(resource, values, replace=replace, validate_only=validate_only),
            lambda: _alter_configs(resource, values, replace, validate_only),
            read,
        )

    async def replicas_failed(self, partitions: Collection[TopicPartition]) -> None:
        """The disk under these replicas of this broker has failed."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)

        def request() -> object:
            from ottla.protocol.messages.inter_broker import ReplicasFailedRequest

            named = [
                ReplicasFailedRequest.Topic(topic_name=name, partitions=each) for name, each in topics.items()
            ]
            epoch = self._broker.controller.broker_epoch
            return ReplicasFailedRequest(broker_id=self._broker.node_id, broker_epoch=epoch, topics=named)

        await self._ask(
            lambda host: host.replicas_failed(partitions),
            request,
            lambda response: _raise(response.error_code),
            version=0,
        )

    async def report_failed(self, partitions: Collection[TopicPartition]) -> None:
        """The same, until it is told: nobody else would ever say so. A broker that stops tries only once."""
        while True:
            try:
                return await self.replicas_failed(partitions)
            except KafkaError as error:
                logger.error(
                    "the controller could not be told of %d lost replicas: %s", len(partitions), error
                )
                # In another life we are told everything, and answer what is lost.
                if error.code is ErrorCode.STALE_BROKER_EPOCH or self._broker.replicas.is_closing:
                    return None
            await asyncio.sleep(AGAIN_SECONDS)

    async def controlled_shutdown(self) -> list[TopicPartition]:
        """Let others lead what we lead. Returns what we still do."""
        broker = self._broker

        def request() -> object:
            from ottla.protocol.messages.inter_broker import ControlledShutdownRequest

            epoch = broker.controller.broker_epoch
            return ControlledShutdownRequest(broker_id=broker.node_id, broker_epoch=epoch)

        def read(response: Any) -> list[TopicPartition]:
            _raise(response.error_code)
            return [
                TopicPartition(each.topic_name, each.partition_index)
                for each in response.remaining_partitions
            ]

        return await self._ask(
            lambda host: host.controlled_shutdown(broker.node_id, host.broker_epoch),
            request,
            read,
            patience=PATIENCE_TO_LEAVE_SECONDS,
        )

    async def leave(self) -> None:
        """Controlled shutdown, as often as the settings say; then we go, whatever we still lead. Once is enough while
        the store is away: that may last for hours."""
        config = self._broker.config
        others = self._broker.metadata.brokers.keys() - {self._broker.node_id}
        if not config.controlled_shutdown_enable or not others:
            return
        for left in range(config.controlled_shutdown_max_retries, -1, -1):
            try:
                remaining = await self.controlled_shutdown()
                if not remaining:
                    return
                logger.warning("this broker still leads %d partitions", len(remaining))
            except (KafkaError, OSError) as error:
                logger.warning("the controller does not let this broker go: %s", error)
            if not self._broker.controller.may_decide:
                # Without the store there is no controller, or none that could let us go.
                logger.warning("the metadata store is away: this broker goes without leave")
                return
            if left:
                await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)

    # --- asking -------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        call: Callable[["ControllerHost"], Awaitable[T]],
        request: Callable[[], object],
        read: Callable[[Any], T],
        version: int | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> T:
        """Call our own controller, or send the request to the one that there is."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            try:
                if self._broker.controller.is_controller:
                    return await call(self._broker.controller)
                left_ms = max(1, round(1000 * (deadline - loop.time())))
                return read(await self._send(request(), version, left_ms))
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER or loop.time() >= deadline:
                    raise
            except (OttlaError, OSError) as error:
                self._peers.drop(self)
                if loop.time() >= deadline:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT, f"no controller answers: {error}"
                    ) from error
            await asyncio.sleep(AGAIN_SECONDS)

    async def _send(self, request: object, version: int | None, timeout_ms: int) -> Any:
        controller = self._broker.metadata.controller_id
        if controller in (NO_CONTROLLER, self._broker.node_id):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller at the moment")
        connecting = asyncio.ensure_future(self._connect(controller))
        try:
            await asyncio.wait([connecting], timeout=timeout_ms / 1000)
            if not connecting.done():
                raise TimeoutError(f"no connection to broker {controller} within {timeout_ms} ms")
        except BaseException:
            connecting.cancel()
            raise
        peer = connecting.result()
        return await peer.send(request, version, timeout_ms=timeout_ms)

    async def _connect(self, controller: int) -> "Peer":
        """Many may ask at once; one connection is enough."""
        async with self._connecting:
            return await self._peers.to(controller, self)


def _raise(error_code: int, detail: str = "") -> None:
    if error_code:
        raise KafkaError.of(error_code, detail)


def _new_topic(topic: NewTopic) -> Any:
    from ottla.protocol.messages.topics import CreateTopicsRequest

    asked = CreateTopicsRequest.Topic
    return asked(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            asked.Assignment(partition_index=index, broker_ids=list(ids))
            for index, ids in topic.assignments.items()
        ],
        configs=[asked.Setting(name=name, value=value) for name, value in topic.configs.items()],
    )


def _alter_configs(
    resource: ConfigResource, values: Mapping[str, str | None], replace: bool, validate_only: bool
) -> "AlterConfigsRequest | IncrementalAlterConfigsRequest":
    from ottla.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest

    if replace:
        whole = AlterConfigsRequest.Resource
        settings = [
            whole.Setting(name=name, value=value) for name, value in values.items() if value is not None
        ]
        named = whole(resource_type=resource.type, resource_name=resource.name, configs=settings)
        return AlterConfigsRequest(resources=[named], validate_only=validate_only)
    single = IncrementalAlterConfigsRequest.Resource
    changes = [
        single.Setting(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in values.items()
    ]
    changed = single(resource_type=resource.type, resource_name=resource.name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[changed], validate_only=validate_only)
