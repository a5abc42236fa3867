"""From a frame to the parts of its reply: step 2 in the life of a request, and the only place that turns errors into
codes.

A request is read, handed to the handler of its API, and answered. A handler that need not wait is done before the next
frame is looked at; one that waits becomes a Task, and the connection keeps replies in order. What makes no sense
closes the connection; everything else is answered, whatever happens in a handler.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from ottla.broker.apis import SERVED, handler_of
from ottla.broker.call import Call
from ottla.broker.metrics import ApiMeter
from ottla.broker.refusals import refuse
from ottla.broker.shortcut import ProduceShortcut, prefix_of
from ottla.broker.stepping import begin
from ottla.broker.throttle import NoThrottle
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.core.types import Buffer
from ottla.network.connection import Connection, Parts, Reply
from ottla.protocol.exchange import START, Exchange
from ottla.protocol.framing import UnsupportedVersion

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

PRODUCE, API_VERSIONS, WRITE_TXN_MARKERS = 0, 18, 27
CONTROL = (4, 5, 6, 7)
EXEMPT = frozenset({*CONTROL, WRITE_TXN_MARKERS})
"""Never throttled: others wait for the controller, or for the end of a transaction, and the answer has no place to tell
of it."""
Fault = Callable[[Call, Any], KafkaError | float | Awaitable[None] | None]
"""What may come before a handler, planted by tests, or by a broker that was told nothing yet: an error to answer with,
seconds or something else to wait for first, or None to let it pass. One that is false is not asked: requests take
the way they take in production."""


class Route:
    """One API in one version: how to read it, who handles it, where it is counted."""

    __slots__ = ("exchange", "handler", "meter")

    def __init__(self, exchange: Exchange, handler: Callable[..., Any], meter: ApiMeter) -> None:
        self.exchange = exchange
        self.handler = handler
        self.meter = meter


class Dispatch:
    """Serves the frames of every connection."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._routes: dict[int, Route] = {}
        self.faults: list[Fault] = []

    def serve(self, connection: Connection, frame: Buffer) -> Reply:
        """The reply to a request, or a future of it. Raises ProtocolError if it is none."""
        started = time.perf_counter()
        has_faults = bool(self.faults) and any(self.faults)
        shortcut = connection.shortcut if connection.appending is None and not has_faults else None
        if shortcut is not None and (parts := shortcut.answer(frame)) is not None:
            shortcut.meter.request_ms.observe((time.perf_counter() - started) * 1000)
            return parts  # type: ignore[no-any-return]  # a ProduceShortcut
        try:
            key, version, correlation_id = START.unpack_from(frame)
            route = self._routes[key << 16 | version]
        except Exception:
            new = self._new_route(frame)
            if new is None:
                return self._tell_versions(frame)
            route = new
        try:
            client_id, request = route.exchange.read(frame)
        except ProtocolError:
            self._broker.metrics.bad_requests.labels().add()
            raise
        call = Call(connection, key, version, correlation_id, client_id)
        try:
            handler = route.handler if not has_faults else self._suffer
            response = handler(self._broker, call, request)
        except Exception as error:
            response = self._failed(route, call, request, error)
        if type(response) is CoroutineType:
            return begin(self._answer_later(route, call, request, response, len(frame), started))
        if key == PRODUCE and response is not None:
            self._learn(connection, route, frame, request, response)
        return self._finish(route, call, request, response, len(frame), started)

    def _learn(
        self, connection: Connection, route: Route, frame: Buffer, request: Any, response: Any
    ) -> None:
        """Remember how to answer the next request, if this one is like the one before."""
        prefix = prefix_of(route.exchange, frame, request)
        if prefix is not None and prefix == connection.last_prefix:
            connection.shortcut = ProduceShortcut.learn(
                self._broker, route.exchange, frame, request, response, route.meter
            )
        connection.last_prefix = prefix

    async def _answer_later(
        self,
        route: Route,
        call: Call,
        request: Any,
        waiting: Coroutine[Any, Any, Any],
        size: int,
        started: float,
    ) -> Parts:
        try:
            response = await waiting
        except Exception as error:
            response = self._failed(route, call, request, error)
        return self._finish(route, call, request, response, size, started)

    def _finish(
        self, route: Route, call: Call, request: Any, response: Any, size: int, started: float
    ) -> Parts:
        """Count the request, slow the client down if it asks too much, and write the reply."""
        meter = route.meter
        meter.requests.value += 1
        meter.request_ms.observe((time.perf_counter() - started) * 1000)
        if response is None:
            return []
        throttle = self._broker.throttle
        is_limited = type(throttle) is not NoThrottle and call.api_key not in EXEMPT
        if is_limited and (delay_ms := throttle.delay_ms(call, size, response)) > 0:
            response.throttle_time_ms = delay_ms
            self._broker.metrics.throttled_ms.labels().add(delay_ms)
            call.connection.mute(delay_ms / 1000)
        try:
            return route.exchange.write(call.correlation_id, response)
        except Exception as error:
            logger.error("a response to %s cannot be written", route.exchange.api.name, exc_info=error)
            apology = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker cannot write its answer")
            return route.exchange.write(call.correlation_id, refuse(request, apology, call.version))

    def _failed(self, route: Route, call: Call, request: Any, error: Exception) -> Any:
        """The response that tells of an error; None if there is nobody to tell."""
        api = route.exchange.api
        if isinstance(error, ProtocolError):
            call.connection.close(str(error))
            return None
        if not isinstance(error, KafkaError):
            logger.error("%s v%d failed", api.name, call.version, exc_info=error)
            detail = f"{type(error).__name__} in the broker; its log says more"
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
        self._broker.metrics.request_errors.labels(api.name, error.code.name).add()
        if api.key == PRODUCE and request.acks == 0:
            call.connection.close(f"a produce with acks=0 failed: {error}")
            return None
        return refuse(request, error, call.version)

    async def _suffer(self, broker: "Broker", call: Call, request: Any) -> Any:
        """What was planted comes first."""
        for fault in tuple(self.faults):
            outcome = fault(call, request)
            if isinstance(outcome, KafkaError):
                raise outcome
            if outcome is not None:
                await (asyncio.sleep(outcome) if isinstance(outcome, int | float) else outcome)
        response = handler_of(call.api_key)(broker, call, request)
        return await response if type(response) is CoroutineType else response

    def _new_route(self, frame: Buffer) -> Route | None:
        """The route of a request that is the first of its kind; None for ApiVersions in a version yet to come."""
        try:
            exchange = Exchange.of(frame)
            served = SERVED.get(exchange.api.key)
            if served is None or not served.min_version <= exchange.version <= served.max_version:
                raise ProtocolError(f"{exchange.api.name} v{exchange.version} is not served here")
        except UnsupportedVersion as unsupported:
            if unsupported.api.key == API_VERSIONS:
                return None
            self._broker.metrics.bad_requests.labels().add()
            raise
        except ProtocolError:
            self._broker.metrics.bad_requests.labels().add()
            raise
        api = exchange.api
        route = Route(exchange, handler_of(api.key), ApiMeter(self._broker.metrics, api.name))
        self._routes[api.key << 16 | exchange.version] = route
        return route

    def _tell_versions(self, frame: Buffer) -> Parts:
        """KIP-511: who asks in a version we do not know is told, in version 0, which ones we do."""
        from ottla.broker.handlers.metadata import unsupported_api_versions

        _, _, correlation_id = START.unpack_from(frame)
        exchange = Exchange.of(START.pack(API_VERSIONS, 0, correlation_id))
        return exchange.write(correlation_id, unsupported_api_versions())
