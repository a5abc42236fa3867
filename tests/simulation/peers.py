"""Nodes that ask each other: calls and replies over the simulated network, and scripts that wait for them.

A script is a generator. It yields `Sleep`, or `Ask` and gets the reply, perhaps a KafkaError. It dies with its node.
"""

import itertools
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.simulation.world import Event, World

IN_ORDER = frozenset({"consumer_heartbeat"})
"""A member may own what a later heartbeat of its own says it does not, if an earlier one can overtake it: these rely on
their connection, which keeps the order and doubles nothing."""


class Ask(NamedTuple):
    """Ask a node, and wait so long for its reply."""

    target: str
    api: str
    request: Any
    timeout_ms: int = 150


class Sleep(NamedTuple):
    ms: int


Script = Generator[Any, Any, Any]


class Call(NamedTuple):
    number: int
    api: str
    request: Any

    @property
    def label(self) -> str:
        return f"call {self.number} {self.api}"


class Reply(NamedTuple):
    number: int
    reply: Any
    is_current: bool = True
    """Whether a coordinator has answered, and not one that was deposed without knowing. Clients cannot tell, but who
    judges what they were told must know."""

    @property
    def label(self) -> str:
        return f"reply {self.number} {type(self.reply).__name__} {code_of(self.reply).name}"


def code_of(reply: Any) -> ErrorCode:
    """The error of a reply, wherever it carries it."""
    if isinstance(reply, KafkaError):
        return reply.code
    return ErrorCode(getattr(reply, "error_code", 0))


class Peer:
    """A node of the world. Subclasses serve calls, and say what happens when they start."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = world.stream(f"peer {name}")
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Script, Event]] = {}
        self.is_reply_current = True
        """Of the reply that a script is handed just now."""
        self._last_calls: dict[tuple[str, str], int] = {}
        world.add(self)

    # --- scripts

    def spawn(self, script: Script) -> None:
        self._step(script, None)

    def _step(self, script: Script, value: Any) -> None:
        try:
            wish = script.send(value)
        except StopIteration:
            return
        if isinstance(wish, Sleep):
            self.world.after(wish.ms, self._step, script, None, node=self.name)
            return
        number = next(self._numbers)
        timeout = self.world.after(wish.timeout_ms, self._time_out, number, node=self.name)
        self._waiting[number] = script, timeout
        self.world.send(self.name, wish.target, Call(number, wish.api, wish.request))

    def _time_out(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._step(waiting[0], KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no reply"))

    # --- the world's node

    def receive(self, sender: str, message: Any) -> None:
        if isinstance(message, Reply):
            waiting = self._waiting.pop(message.number, None)
            if waiting is not None:
                waiting[1].cancel()
                self.is_reply_current = message.is_current
                self._step(waiting[0], message.reply)
            return
        if message.api in IN_ORDER:
            last = self._last_calls.get((sender, message.api), -1)
            if message.number <= last:
                return
            self._last_calls[sender, message.api] = message.number
        is_current = self.is_current(message.api)
        self.serve(
            sender,
            message,
            lambda reply: self.world.send(self.name, sender, Reply(message.number, reply, is_current)),
        )

    def is_current(self, api: str) -> bool:
        return True

    def serve(self, sender: str, call: Call, answer: Callable[[Any], None]) -> None:
        raise AssertionError(f"{self.name} serves nobody")

    def crash(self) -> None:
        self._waiting.clear()

    def restart(self) -> None:
        pass
