"""Members of groups: those that the clients assign (classic), and those that the coordinator does (KIP-848)."""

import itertools
from typing import Any

from ottla.core.errors import ErrorCode
from ottla.protocol.codec import decode_versioned, encode_versioned
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.subscription import TopicPartitions as AssignedTopic
from tests.simulation.cluster import SESSION_MS, Cluster
from tests.simulation.ledger import Place
from tests.simulation.peers import Ask, Peer, Script, Sleep, code_of

REBALANCE_MS = 800  # not shorter than a session: see Ledger.leases
PARTITIONS = [("input", 0), ("input", 1), ("input", 2)]
OUT = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
NO_COORDINATOR = {ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE}


SUBSCRIPTION = encode_versioned(ConsumerProtocolSubscription(topics=["input"]), 0)


def assignment_of(partitions: list[tuple[str, int]]) -> bytes:
    """As the leader of a classic group writes it."""
    topics = [AssignedTopic(topic=topic, partitions=[index]) for topic, index in partitions]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 0)


def partitions_of(assignment: Any) -> list[tuple[str, int]]:
    if not assignment:
        return []
    decoded, _ = decode_versioned(ConsumerProtocolAssignment, assignment)
    return [(topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions]


class Consumer(Peer):
    """What both kinds share: one coordinator at a time, offsets that only this client writes."""

    def __init__(self, cluster: Cluster, name: str, group: str = "g") -> None:
        super().__init__(cluster.world, name)
        self.cluster = cluster
        self.group = group
        self.coordinator = cluster.names[0]
        self.commits = itertools.count(1)
        self.acknowledged = 0
        self.rounds = 0
        """How often it had something to itself."""
        self.is_stopping = False
        cluster.world.after(self.chance.randint(0, 200), self.start, node=name)

    def start(self) -> None:
        self.spawn(self.live())

    def restart(self) -> None:
        self.start()

    def live(self) -> Script:
        raise AssertionError("each kind has its own life")

    def ask(self, api: str, request: Any, timeout_ms: int = 150) -> Script:
        """Ask the coordinator; look for another one if it is none."""
        reply = yield Ask(self.coordinator, api, request, timeout_ms)
        if code_of(reply) in NO_COORDINATOR:
            self.coordinator = self.cluster.coordinator(self.cluster.group_log, self.chance)
        return reply

    def commit(self, member_id: str, epoch: int, partition: tuple[str, int], note_epoch: object) -> Script:
        """A new offset with a note that nobody else writes. True if it was acknowledged."""
        number = next(self.commits)
        note = f"{self.name}|{note_epoch}|{number}"
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequest.Topic(
                    name=partition[0],
                    partitions=[
                        OffsetCommitRequest.Topic.Partition(
                            partition_index=partition[1],
                            committed_offset=number * 100 + int(self.name[-1]),
                            committed_metadata=note,
                        )
                    ],
                )
            ],
        )
        reply = yield from self.ask("commit", request)
        code = code_of(reply) or ErrorCode(reply.topics[0].partitions[0].error_code)
        if not code:
            self.cluster.ledger.check_acknowledged(note)
            self.acknowledged += 1
        return code

    def fetch(self, partitions: list[tuple[str, int]], *, require_stable: bool = False) -> Script:
        """The committed offsets, held against the ledger; None if nobody said."""
        log = self.cluster.group_log
        since = len(log.committed)
        names = sorted({name for name, _ in partitions})
        group = OffsetFetchRequest.Group(
            group_id=self.group,
            topics=[
                OffsetFetchRequest.Group.Topic(
                    name=name, partition_indexes=[index for each, index in partitions if each == name]
                )
                for name in names
            ],
        )
        reply = yield from self.ask("fetch", (group, require_stable))
        if code_of(reply):
            return None
        is_current, found = self.is_reply_current, {}
        for topic in reply.topics:
            for each in topic.partitions:
                if each.error_code:
                    return None
                place = Place(self.group, topic.name, each.partition_index)
                self.cluster.ledger.check_fetched(
                    place, each.committed_offset, since, len(log.committed), is_current=is_current
                )
                found[topic.name, each.partition_index] = each.committed_offset
        return found


class ClassicMember(Consumer):
    """Joins, syncs, beats and commits; whoever leads divides the partitions. Now and then it leaves."""

    member_id = ""
    is_among_others = False
    """Whether its group has members of the other protocol: generations are epochs then, which each enters by itself."""

    def crash(self) -> None:
        super().crash()
        self.let_go()

    def live(self) -> Script:
        self.member_id = ""
        while True:
            joined = yield from self.join()
            if joined is None:
                yield Sleep(self.chance.randint(20, 150))
                continue
            generation, partitions = joined
            self.rounds += 1
            code = yield from self.work(generation, partitions)
            if code in OUT:
                self.member_id = ""
            if not self.is_stopping and self.chance.random() < 0.1:
                yield from self.leave()

    def join(self) -> Script:
        """(generation, partitions), or None."""
        self.let_go()
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=SUBSCRIPTION)],
        )
        reply = yield from self.ask("join", request, REBALANCE_MS + 500)
        code = code_of(reply)
        if code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID):
            self.member_id = reply.member_id if code is ErrorCode.MEMBER_ID_REQUIRED else ""
        if code:
            return None
        self.member_id = reply.member_id
        assignments = []
        if reply.leader == self.member_id:
            members = sorted(member.member_id for member in reply.members)
            assignments = [
                SyncGroupRequest.Assignment(
                    member_id=member, assignment=assignment_of(PARTITIONS[index :: len(members)])
                )
                for index, member in enumerate(members)
            ]
        synced = yield from self.ask(
            "sync",
            SyncGroupRequest(
                group_id=self.group,
                generation_id=reply.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            ),
            REBALANCE_MS,
        )
        if code_of(synced):
            if code_of(synced) is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            return None
        own = partitions_of(synced.assignment)
        if not self.is_among_others:
            self.cluster.ledger.owns(self.group, reply.generation_id, self.member_id, own)
        return reply.generation_id, own

    def hold(self, partitions: list[tuple[str, int]], asked_ms: int) -> None:
        """A coordinator has answered a heartbeat of that moment: these are its own for one more session. Joining and
        syncing in a group that is stable already are no signs of life."""
        if self.is_reply_current:
            self.cluster.ledger.leases(self.group, self.name, partitions, asked_ms + SESSION_MS)

    def let_go(self) -> None:
        """Before it joins, and when it leaves or dies, it owns nothing."""
        self.cluster.ledger.leases(self.group, self.name, [], 0)

    def heartbeat(self, generation: int) -> Script:
        request = HeartbeatRequest(group_id=self.group, generation_id=generation, member_id=self.member_id)
        return code_of((yield from self.ask("heartbeat", request)))

    def work(self, generation: int, partitions: list[tuple[str, int]]) -> Script:
        """Read, commit and beat until the group has other plans; the error that says so."""
        for _ in range(self.chance.randint(5, 60)):
            yield Sleep(self.chance.randint(20, 150))
            asked_ms = self.world.now_ms
            code = yield from self.heartbeat(generation)
            if not code:
                self.hold(partitions, asked_ms)
            if not code and partitions:
                yield from self.fetch(partitions)
                partition = self.chance.choice(partitions)
                code = yield from self.commit(self.member_id, generation, partition, generation)
            if code and code not in NO_COORDINATOR and code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return code
        return ErrorCode.NONE

    def leave(self) -> Script:
        self.let_go()
        member = LeaveGroupRequest.Member(member_id=self.member_id)
        yield from self.ask("leave", LeaveGroupRequest(group_id=self.group, members=[member]))
        self.member_id = ""
        yield Sleep(self.chance.randint(0, 500))


class ConsumerMember(Consumer):
    """Beats, and takes what it is given. Believes in what it owns for no longer than its session lasts."""

    leaving, away_ms = 0.02, (20, 400)
    """How likely it leaves with a heartbeat, and for how long."""

    def live(self) -> Script:
        while True:
            yield from self.stay()
            yield Sleep(self.chance.randint(*self.away_ms))

    def crash(self) -> None:
        super().crash()
        self.cluster.ledger.leases(self.group, self.name, [], 0)

    def stay(self) -> Script:
        """From joining to being put out, or leaving."""
        member_id, epoch, owned, is_changed = str(self.cluster.new_id()), 0, [], True
        for beat in itertools.count():
            if not self.is_stopping and beat > 10 and self.chance.random() < self.leaving:
                self.cluster.ledger.leases(self.group, self.name, [], 0)
                yield from self.ask("consumer_heartbeat", self.request(member_id, -1, owned, False))
                return
            asked_ms = self.world.now_ms
            reply = yield from self.ask(
                "consumer_heartbeat", self.request(member_id, epoch, owned, is_changed)
            )
            code = code_of(reply)
            if code in OUT:
                self.cluster.ledger.leases(self.group, self.name, [], 0)
                return
            is_changed = bool(code)  # whoever missed an answer tells everything
            if not code:
                is_current, epoch = self.is_reply_current, reply.member_epoch
                if reply.assignment is not None:
                    given = self.named(reply.assignment.topic_partitions)
                    is_changed, owned = given != owned, given
                if is_current:
                    self.cluster.ledger.leases(self.group, self.name, owned, asked_ms + SESSION_MS)
                self.rounds += bool(owned)
                if owned and self.chance.random() < 0.3:
                    yield from self.use(member_id, epoch, owned)
            yield Sleep(self.chance.randint(30, 150))

    def named(self, topics: list[TopicPartitions]) -> list[tuple[str, int]]:
        names = self.cluster.topics.topic_of_id
        return [(names[topic.topic_id].name, index) for topic in topics for index in topic.partitions]

    def use(self, member_id: str, epoch: int, owned: list[Any]) -> Script:
        partition = self.chance.choice(owned)
        yield from self.fetch([partition])
        yield from self.commit(member_id, epoch, partition, "")

    def request(
        self, member_id: str, epoch: int, owned: list[Any], is_changed: bool
    ) -> ConsumerGroupHeartbeatRequest:
        topics = self.cluster.topics.topics
        everything = [
            TopicPartitions(
                topic_id=topics[name].topic_id, partitions=[index for each, index in owned if each == name]
            )
            for name in sorted({name for name, _ in owned})
        ]
        is_full = is_changed or epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=["input", "more"] if is_full else None,
            topic_partitions=([] if epoch == 0 else everything) if is_full else None,
        )


class VisitingMember(ConsumerMember):
    """Comes and goes, and with it the protocol of its group."""

    leaving, away_ms = 0.15, (500, 2_500)

    def live(self) -> Script:
        yield Sleep(self.chance.randint(*self.away_ms))
        yield from super().live()


class MigratingMember(ClassicMember):
    """A classic member whose group changes its protocol under it."""

    is_among_others = True
