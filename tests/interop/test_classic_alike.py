"""A classic group lives the same life in Apache Kafka and in Ottla: every answer to every member, field by field.

Each client has a connection of its own. A step says who asks what, and behind the arrow who gets an answer then: the
others wait. `until` lets what was asked before arrive, where it matters which request comes first. Ids differ between
brokers; a client's first id is called `A1`, its second `A2`.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.protocol.apis import api_of
from ottla.protocol.framing import decode_response
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ottla.protocol.schema import declaration
from ottla.testing.broker import Broker
from tests.interop.brokers import eventually
from tests.oracles import apache_kafka
from tests.scenarios.raw import Raw, frame_of

NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
NOT_COMPARED = ("throttle_time_ms", "client_host", "client_id", "authorized_operations", "error_message")
NO_FIELDS = ("unknown_tags", *NOT_COMPARED)

LIFE = """
    A join session=5 -> A
    A join id=nobody -> A
    A join id=nobody version=6 -> A
    A join protocols= -> A
    A join type= -> A
    A join -> A
    A join id=A1 -> A
    A beat id=A1 generation=1 -> A
    A sync id=A1 generation=1 type=null -> A
    A sync id=A1 generation=1 type=connect -> A
    A sync id=A1 generation=9 -> A
    D describe -> D
    A sync id=A1 generation=1 parts=A1:p0,nobody:p9 -> A
    D describe -> D
    A sync id=A1 generation=1 version=3 type=null name=null -> A
    A join id=A1 protocols=sticky:x -> A
    B join protocols=sticky:x -> B
    A beat id=A1 generation=0 -> A
    A beat id=nobody generation=1 -> A
    A beat id=A1 generation=1 instance=i -> A
    B join -> B
    B join id=B1 ->
    D until PreparingRebalance
    D describe -> D
    X beat id=A1 generation=1 -> X
    X sync id=A1 generation=1 -> X
    A join id=A1 -> A B
    B sync id=B1 generation=2 ->
    A sync id=A1 generation=2 parts=A1:p0,B1:p1 -> A B
    D describe -> D
    B join id=B1 -> B
    A join id=A1 ->
    D until PreparingRebalance
    D describe -> D
    B join id=B1 -> A B
    D describe -> D
    B sync id=B1 generation=3 ->
    A sync id=A1 generation=3 parts=A1:p0,B1:p1 -> A B
    C join instance=i ->
    D until PreparingRebalance
    A join id=A1 ->
    B join id=B1 -> C A B
    A sync id=A1 generation=4 parts=A1:p0,B1:p1,C1:p2 -> A
    C sync id=C1 generation=4 instance=i -> C
    B sync id=B1 generation=4 -> B
    E join instance=i -> E
    C beat id=C1 generation=4 instance=i -> C
    C join id=C1 instance=i -> C
    C sync id=C1 generation=4 instance=i -> C
    C leave id=C1 instance=i -> C
    E sync id=E1 generation=4 instance=i -> E
    F join instance=i protocols=range:changed -> F
    D describe -> D
    F join instance=i version=5 -> F
    A leave id= instance=nobody -> A
    A leave id=nobody -> A
    A leave id=nobody version=1 -> A
    A leave id= instance=i -> A
    A beat id=A1 generation=4 -> A
    A join id=A1 ->
    B join id=B1 -> A B
    B sync id=B1 generation=5 ->
    X join -> X
    X join id=X1 -> B
    Y leave id=X1 -> X Y
    B join id=B1 ->
    A leave id=A1 version=2 -> A B
    D describe -> D
    B leave id=B1 -> B
    D describe -> D
    B beat id=B1 generation=7 -> B
    B sync id=B1 generation=7 -> B
    B join id=B1 -> B
    G join instance=lead -> G
    G sync id=G1 generation=8 instance=lead parts=G1:all -> G
    K join instance=lead -> K
    K join instance=lead version=8 -> K
    D describe -> D
    M join -> M
    M leave id=M1 -> M
    M join id=M1 -> M
"""


class Members:
    """Clients of one broker, and what it told them."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port, self.stack = port, stack
        self.connections: dict[str, Raw] = {}
        self.asked: dict[str, tuple[Any, int]] = {}
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def live(self, life: str) -> Iterator[str]:
        for step in life.split("\n"):
            if not step.strip():
                continue
            asked, _, answered = step.partition("->")
            who, verb, *words = asked.split()
            if verb == "until":  # what was sent over another connection has arrived
                assert eventually(lambda who=who, state=words[0]: self.state(who) == state)
                continue
            self.ask(who, verb, dict(word.split("=", 1) for word in words))
            for one in answered.split():
                yield f"{step.strip()} | {one} is told {self.receive(one)}"

    def ask(self, who: str, verb: str, flags: dict[str, str]) -> None:
        request, version = getattr(self, verb)(flags)
        version = int(flags.get("version", version))
        if who not in self.connections:
            self.connections[who] = self.stack.enter_context(Raw(self.port))
        self.asked[who] = (request, version)
        self.connections[who].send(frame_of(request, version, 1))

    def state(self, who: str) -> str:
        self.ask(who, "describe", {})
        state: str = self.receive(who)["groups"][0]["group_state"]
        return state

    def receive(self, who: str) -> Any:
        request, version = self.asked.pop(who)
        response = api_of(declaration(type(request)).api_key).response
        _, reply = decode_response(response, self.connections[who].receive_frame(), version)
        if isinstance(reply, JoinGroupResponse) and reply.member_id not in {"", "nobody", *self.names}:
            name = f"{who}{sum(known.startswith(who) for known in self.names.values()) + 1}"
            self.names[reply.member_id], self.ids[name] = name, reply.member_id
        return self.shown(reply)

    def shown(self, value: Any) -> Any:
        """Without what may differ: ids by their names, members in any order."""
        if isinstance(value, str):
            return self.names.get(value, value)
        if isinstance(value, list):
            return sorted((self.shown(one) for one in value), key=str)
        if hasattr(type(value), "__slots__") and not isinstance(value, int | bytes):
            names = [name for name in type(value).__slots__ if name not in NO_FIELDS]
            return {name: self.shown(getattr(value, name)) for name in names}
        return value

    # --- requests, and the version that they come in unless told otherwise ---------------------------------------

    def who(self, flags: dict[str, str]) -> dict[str, Any]:
        given = flags.get("id", "")
        return {"member_id": self.ids.get(given, given), "group_instance_id": flags.get("instance")}

    def join(self, flags: dict[str, str]) -> tuple[Any, int]:
        pairs = [one.partition(":") for one in flags.get("protocols", "range:x").split(",") if one]
        protocols = [JoinGroupRequest.Protocol(name=name, metadata=data.encode()) for name, _, data in pairs]
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(flags.get("session", 120_000)),
            rebalance_timeout_ms=120_000,
            protocol_type=flags.get("type", "consumer"),
            protocols=protocols,
            **self.who(flags),
        ), 9

    def sync(self, flags: dict[str, str]) -> tuple[Any, int]:
        names = (flags.get("type", "consumer"), flags.get("name", "range"))
        protocol_type, protocol_name = (None if name == "null" else name for name in names)
        parts = [one.split(":") for one in flags.get("parts", "").split(",") if one]
        return SyncGroupRequest(
            group_id="g",
            generation_id=int(flags["generation"]),
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequest.Assignment(member_id=self.ids.get(one, one), assignment=part.encode())
                for one, part in parts
            ],
            **self.who(flags),
        ), 5

    def beat(self, flags: dict[str, str]) -> tuple[Any, int]:
        return HeartbeatRequest(group_id="g", generation_id=int(flags["generation"]), **self.who(flags)), 4

    def leave(self, flags: dict[str, str]) -> tuple[Any, int]:
        if int(flags.get("version", 5)) < 3:
            return LeaveGroupRequest(group_id="g", member_id=self.who(flags)["member_id"]), 2
        return LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(**self.who(flags))]), 5

    def describe(self, flags: dict[str, str]) -> tuple[Any, int]:
        return DescribeGroupsRequest(groups=["g"]), 6


def lived(port: int) -> list[str]:
    """The whole life, as this broker tells it."""
    with ExitStack() as stack:
        asking = stack.enter_context(Raw(port))

        def is_coordinated() -> bool:
            found = asking.ask(FindCoordinatorRequest(key="g", key_type=0), 3)
            beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
            ready = found.error_code == ErrorCode.NONE
            return ready and asking.ask(beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID

        assert eventually(is_coordinated)
        return list(Members(port, stack).live(LIFE))


def test_a_group_lives_in_ottla_as_it_does_in_apache_kafka(tmp_path):
    if os.environ.get("OTTLA_INTEROP_BOOTSTRAP"):
        pytest.skip("this broker is not ours to compare")
    with Broker(config=NO_DELAY) as broker:
        ours = lived(int(broker.bootstrap_server.rpartition(":")[2]))
    try:
        with apache_kafka.apache_kafka(NO_DELAY, data_dir=tmp_path) as kafka:
            theirs = lived(kafka.port)
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))
    assert ours == theirs
