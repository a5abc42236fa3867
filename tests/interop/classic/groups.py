"""Consumer groups in every state, for tools to look at. Members that live are held open by a client of ours."""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ottla.client import Admin, Consumer, Producer
from ottla.client.admin.topic_values import NewTopic
from ottla.client.records import OffsetAndMetadata
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.core.loop_thread import LoopThread
from ottla.network.peer import Peer, connect
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.groups import JoinGroupRequest, SyncGroupRequest
from ottla.protocol.messages.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)

LONG = "a-rather-long-name-of-a-topic"
_STAYS_MS = 300_000
_HEARTBEAT_MS = 300  # members hear soon of others
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": str(_HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(_HEARTBEAT_MS),
}
"""Of a broker on which groups are soon what they shall be."""
_JOINS_AT_ONCE = 3  # of JoinGroup: later versions send a member away first, to come back with its id
_NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class Groups:
    """Makes groups on a broker."""

    def __init__(self, server: str, stack: ExitStack) -> None:
        self.server, self._stack = server, stack
        self.admin = stack.enter_context(Admin(bootstrap_servers=server))

    def live(self, group: str, *topics: str, count: int = 1, **how: str) -> list[Consumer]:
        """Members that stay, each with what it has got for good."""
        made = [self._consumer(group, topics, f"client-{number}", how) for number in range(count)]
        for each in made:
            self._stack.enter_context(each)
        self._until(lambda: self._is_settled(group, made), lambda: [each.poll(100) for each in made])
        return made

    def left(self, group: str, commits: dict[TopicPartition, int], **how: str) -> None:
        """A group that its only member has left."""
        with self._consumer(group, ("t1",), "client", how) as consumer:
            self._until(lambda: bool(consumer.assignment()), lambda: consumer.poll(100))
            if commits:
                consumer.commit(commits)

    def _consumer(self, group: str, topics: tuple[str, ...], client_id: str, how: dict[str, str]) -> Consumer:
        return Consumer(
            *topics,
            bootstrap_servers=self.server,
            group_id=group,
            client_id=client_id,
            enable_auto_commit=False,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            **how,  # type: ignore[arg-type]  # settings by name
        )

    def _is_settled(self, group: str, made: list[Consumer]) -> bool:
        found = self.admin.describe_groups([group])[group]
        told = sorted(place for each in found.members for place in each.assignment)
        known = sorted(place for each in made for place in each.assignment())
        return found.state == "Stable" and len(found.members) == len(made) and told == known != []

    @staticmethod
    def _until(is_so: Callable[[], bool], act: Callable[[], object], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        act()
        while not is_so():
            assert time.monotonic() < deadline, "the group does not settle"
            act()

    def mixed(self, group: str) -> None:
        """One member speaks the new protocol, the other one still the old one."""
        made: list[Consumer] = []
        for protocol in ("consumer", "classic"):
            made.append(self._consumer(group, ("t1",), protocol, {"group_protocol": protocol}))
            self._stack.enter_context(made[-1])
            self._until(lambda: self._is_settled(group, made), lambda: [each.poll(100) for each in made])

    def joined(self, group: str, protocol_type: str, metadata: bytes, assignment: bytes) -> "Pending":
        """A member by hand, which stays without a heartbeat; what it returns lets another one want to join."""
        thread = LoopThread(group)
        self._stack.callback(thread.end)
        pending = Pending(thread, self.server, self._stack)
        protocol = JoinGroupRequest.Protocol(name="range", metadata=metadata)
        request = JoinGroupRequest(
            group_id=group,
            member_id="",
            session_timeout_ms=_STAYS_MS,
            rebalance_timeout_ms=_STAYS_MS,
            protocol_type=protocol_type,
            protocols=[protocol],
        )
        while (joined := pending.send(request)).error_code:
            assert joined.error_code in _NOT_YET
        given = SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=assignment)
        synced = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[given],
        )
        assert pending.send(synced).error_code == 0
        pending.request = request
        return pending

    def rebalancing(self, group: str) -> None:
        """One member that does not come back, though another one wants to join."""
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=["t1"]), 1)
        owned = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="t1", partitions=[0])])
        self.joined(group, "consumer", subscription, encode_versioned(owned, 1)).another()
        self._until(
            lambda: self.admin.describe_groups([group])[group].state == "PreparingRebalance", lambda: None
        )


class Pending:
    """A connection of a member that was made by hand."""

    def __init__(self, thread: LoopThread, server: str, stack: ExitStack) -> None:
        self._thread, self._server, self._stack = thread, server, stack
        self.request: JoinGroupRequest | None = None
        self._peer = self._connect()

    def _connect(self) -> Peer:
        host, _, port = self._server.rpartition(":")
        peer = self._thread.run(connect(host, int(port)))
        self._stack.callback(lambda: self._thread.run(peer.close()))
        return peer

    def send(self, request: object) -> Any:
        return self._thread.run(self._peer.send(request, _JOINS_AT_ONCE))

    def another(self) -> None:
        """Another member wants to join; nobody waits for the answer."""
        asyncio.run_coroutine_threadsafe(
            self._connect().send(self.request, _JOINS_AT_ONCE), self._thread.loop
        )


def fill(groups: Groups) -> None:
    """Topics, records, and groups in every state that lasts.

    Their names have hashes that are far apart: where two fall into one place of a Java map, their order is another one
    in every JVM.
    """
    kept = {"retention.ms": "-1"}
    groups.admin.create_topics([NewTopic("t1", 3, 1, None, kept), NewTopic("t2", 1, 1, None, kept)])
    groups.admin.create_topics([NewTopic(LONG, 12, 1)])
    with Producer(bootstrap_servers=groups.server) as producer:
        for number in range(11):
            producer.send("t1", b"x", partition=number % 2, timestamp_ms=10**12 + number * 1000)
        for number in range(5):
            producer.send("t2", b"x", partition=0, timestamp_ms=10**12 + number * 1000)
        for number in range(24):
            producer.send(LONG, b"x", partition=number % 12)
    t1, t2 = [TopicPartition("t1", number) for number in range(3)], TopicPartition("t2", 0)
    commit = groups.admin.alter_group_offsets
    commit("stored", {t1[0]: 3, t1[1]: OffsetAndMetadata(5, "a note", 0), t2: 0})
    commit("lone", {t2: 2})
    commit("ten", {t2: 2, t1[2]: 0, TopicPartition(LONG, 10): 1, TopicPartition(LONG, 2): 1})
    commit("beyond", {t2: 200})
    for group, how in (("live-classic", {}), ("live-modern", {"group_protocol": "consumer"})):
        first = groups.live(group, "t1", "t2", count=2, **how)[0]
        first.commit({min(first.assignment()): 1})
    groups.live("crowd", "t2", count=3)
    groups.live("throng-of-the-modern-kind", "t2", count=2, group_protocol="consumer")
    groups.live("fixed", LONG, group_instance_id="an-instance-of-mine")
    groups.left("parted-classic", {})
    groups.left("gone-modern", {t1[1]: 2}, group_protocol="consumer")
    groups.rebalancing("rebalancing")
    groups.joined("workers", "connect", b"of theirs", b"their own")
    groups.mixed("mixed")
