"""A classic group under clients that do anything at any time: whatever happens, the promises below hold.

Nobody is in two generations, a group with members has one leader and it is a member, what was settled is what another
coordinator would load, and whoever waits gets exactly one answer when time runs on.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic_states import ClassicState
from ottla.protocol.messages.groups import JoinGroupResponse
from ottla.replication.machine import Decision, fail
from tests.unit.groups.classics import Classics, VersionedSlip, hard_state
from tests.unit.groups.hosting import GroupSettings

CLIENTS = st.integers(0, 4)
PROTOCOLS = st.sampled_from(
    [{"range": b"a"}, {"range": b"b"}, {"range": b"a", "sticky": b"s"}, {"sticky": b"s", "range": b"a"}]
)
SETTLED = (ClassicState.EMPTY, ClassicState.STABLE)


class Client:
    """What a client believes. Those with an odd number are static members."""

    def __init__(self, number: int) -> None:
        self.instance = f"i{number}" if number % 2 else None
        self.member_id = ""
        self.generation = -1
        self.joining: VersionedSlip | None = None

    def listen(self) -> None:
        """Take in what the group has answered."""
        if self.joining is None or self.joining.is_waiting:
            return
        reply, self.joining = self.joining.reply, None
        if isinstance(reply, KafkaError):
            return
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = reply.member_id, reply.generation_id
        elif reply.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id, self.generation = "", -1


class ClassicGroupOfWildClients(RuleBasedStateMachine):
    """Requests, timeouts, refused appends and restarts in any order."""

    @initialize(delay=st.sampled_from([0, 3_000]), size=st.sampled_from([3, 1000]))
    def start(self, delay, size):
        self.classics = Classics(GroupSettings(group_initial_rebalance_delay_ms=delay, group_max_size=size))
        self.clients = [Client(number) for number in range(5)]
        self.slips: list[VersionedSlip] = []
        self.told: dict[str, set[int]] = {}
        """In which generations a member id was told that it is."""
        self.is_behind = False
        """The log lacks an entry that was refused."""

    # --- what clients do -----------------------------------------------------------------------------------------

    @rule(
        who=CLIENTS,
        protocols=PROTOCOLS,
        version=st.sampled_from([5, 8, 9]),
        is_new=st.booleans(),
        rebalance=st.sampled_from([10_000, 60_000]),
    )
    def join(self, who, protocols, version, is_new, rebalance):
        client = self.clients[who]
        member_id = "" if is_new else client.member_id
        slip = self.classics.join(
            member_id, version=version, protocols=protocols, instance=client.instance, rebalance=rebalance
        )
        self.slips.append(slip)
        client.joining = slip

    @rule(who=CLIENTS, is_late=st.booleans())
    def sync(self, who, is_late):
        client = self.clients[who]
        generation = client.generation - is_late
        parts = {one: f"{one}@{generation}".encode() for one in self.classics.group.members}
        slip = self.classics.sync(client.member_id, generation, parts, instance=client.instance)
        self.slips.append(slip)
        if not slip.is_waiting and slip.code is ErrorCode.NONE:
            self.check_part(client.member_id, slip.reply.assignment)

    @rule(who=CLIENTS)
    def heartbeat(self, who):
        client = self.clients[who]
        code = self.classics.heartbeat(client.member_id, client.generation, client.instance)
        if code is ErrorCode.NONE:
            assert client.generation == self.classics.group.generation

    @rule(who=CLIENTS)
    def commit(self, who):
        client = self.clients[who]
        code = self.classics.commit(client.member_id, client.generation, client.instance)
        if code is ErrorCode.NONE and client.generation >= 0:
            assert client.generation == self.classics.group.generation

    @rule(who=CLIENTS)
    def leave(self, who):
        client = self.clients[who]
        self.classics.leave((client.member_id, client.instance))
        assert client.member_id not in self.classics.group.members

    # --- what happens to them ------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 999, 3_000, 10_000, 61_000]))
    def let_time_pass(self, ms):
        self.classics.host.advance(ms)

    @rule()
    def restart(self):
        gone = fail(self.classics.restart(), KafkaError(ErrorCode.NOT_COORDINATOR))
        self.classics.host.carry_out(Decision(None, answers=gone))
        self.is_behind = False
        # What was told in a generation that was never settled is void: the number comes again, for others perhaps.
        self.told.clear()

    @rule(code=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]))
    def stop_writing(self, code):
        self.classics.host.refuse_with = KafkaError(code)

    @rule()
    def write_again(self):
        self.classics.host.refuse_with = None

    # --- what must hold ------------------------------------------------------------------------------------------

    def check_part(self, member_id, assignment):
        assert assignment == b"" or bytes(assignment).decode().partition("@")[0] in self.lineage(member_id)

    def lineage(self, member_id):
        """A static member inherits the assignment of the ids before it: they share their instance id in front."""
        instance = member_id[:2]
        return {member_id} | {
            one for one in self.told if instance in ("i1", "i3") and one.startswith(instance)
        }

    @invariant()
    def clients_listen(self):
        for client in self.clients:
            client.listen()

    @invariant()
    def leaders_are_members(self):
        group = self.classics.group
        assert (group.leader_id in group.members) if group.members else group.leader_id is None
        assert bool(group.members) == (not group.is_empty) or group.state is ClassicState.PREPARING_REBALANCE

    @invariant()
    def generations_have_one_leader_and_members_one_generation(self):
        leaders: dict[int, set[str]] = {}
        for slip in self.slips:
            if slip.is_waiting or not isinstance(slip.reply, JoinGroupResponse) or slip.code:
                continue
            reply = slip.reply
            self.told.setdefault(reply.member_id, set()).add(reply.generation_id)
            if reply.members:
                leaders.setdefault(reply.generation_id, set()).add(reply.member_id)
                assert reply.leader == reply.member_id
        self.slips = [slip for slip in self.slips if slip.is_waiting]
        assert all(len(ids) == 1 for ids in leaders.values())
        for member_id in self.classics.group.members:
            assert max(self.told.get(member_id, {0})) <= self.classics.group.generation

    @invariant()
    def instance_ids_have_one_holder(self):
        held = [one.instance_id for one in self.classics.group.members.values() if one.is_static]
        assert len(held) == len(set(held))

    @invariant()
    def only_those_wait_who_can_be_answered(self):
        waiting = list(self.classics.group.waiting())
        assert {id(slip) for slip in waiting} == {id(slip) for slip in self.slips if slip.is_waiting}
        if waiting:
            assert len(self.classics.host.timers) > 0

    @invariant()
    def what_was_settled_would_be_loaded(self):
        group = self.classics.group
        if self.classics.host.refuse_with is not None:
            self.is_behind = True
        elif group.state is ClassicState.STABLE:
            self.is_behind = False
        if group.state in SETTLED and not self.is_behind:
            assert hard_state(self.classics.replayed()) == hard_state(group)

    def teardown(self):
        if not hasattr(self, "classics"):
            return
        self.classics.host.refuse_with = None
        waiting = [slip for slip in self.slips if slip.is_waiting]
        self.classics.host.advance(24 * 3_600_000)
        assert not any(slip.is_waiting for slip in waiting)
        assert self.classics.group.is_empty and len(self.classics.host.timers) == 0


ClassicGroupOfWildClients.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None
)
test_clients_do_anything_and_the_group_keeps_its_promises = ClassicGroupOfWildClients.TestCase
