"""Replicas move: what may be asked for, what is written in which order, and when a move is over."""

import pytest

from ottla.controller import deletions, elections, reassignment, topics
from ottla.controller.commands import NewTopic
from ottla.controller.context import Context, Policy
from ottla.controller.decision import Decision, LeaderAndIsr, StopReplicas, TopicChanged, UpdateMetadata
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import PartitionStateNode, TopicNode
from ottla.metadata.store import Set
from ottla.replication.state import NO_LEADER, PartitionState
from tests.unit.controller.helpers import carried_out, cluster, effects, with_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def moving(replicas: list[int], target: list[int], brokers: int = 7) -> Context:
    """A cluster in which t-0 moves from `replicas` to `target`."""
    context = cluster(*range(brokers))
    with_topic(context, NewTopic("t", assignments={0: replicas}))
    alter(context, {T0: target})
    return context


def alter(context, wanted, **how):
    decision, answers = reassignment.alter(context, wanted, **how)
    carried_out(context, decision)
    return decision, answers


def advance(context: Context) -> Decision:
    return carried_out(context, reassignment.advance(context))


def state_of(context: Context, partition: TopicPartition = T0) -> PartitionState:
    return context.topics[partition.topic].image.partitions[partition.partition]


def put(context: Context, **fields) -> None:
    """As if something else had changed the state of t-0."""
    stored = context.topics["t"]
    state = stored.image.partitions[0]
    state = state._replace(partition_epoch=state.partition_epoch + 1, **fields)
    partitions = (state, *stored.image.partitions[1:])
    context.apply(TopicChanged(stored.image._replace(partitions=partitions), stored.version))


def die(context: Context, *dead: int) -> None:
    for id in dead:
        del context.brokers[id]
    after = elections.settle(state_of(context), elections.Voters(context.brokers.keys()), context.policy("t"))
    fields = {
        name: getattr(after, name) for name in ("leader", "leader_epoch", "isr", "elr", "last_known_leader")
    }
    put(context, **fields)


def sides(context: Context):
    state = state_of(context)
    return state.replicas, state.adding, state.removing


# --- beginning ------------------------------------------------------------------------------------------------------


def test_a_move_begins_with_all_replicas_of_both_sides_the_target_first():
    context = cluster(0, 1, 2, 3, 4, 5)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    before = state_of(context)
    _, answers = alter(context, {T0: [3, 1, 4]})
    assert answers == {T0: None}
    after = state_of(context)
    assert sides(context) == ((3, 1, 4, 0, 2), (3, 4), (0, 2))
    assert (after.leader, after.isr, after.leader_epoch) == (0, (0, 1, 2), before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1, "so that brokers know it for news"
    assert reassignment.original(after) == (1, 0, 2), "Kafka, too, forgets the order"
    assert reassignment.target(after) == (3, 1, 4)


def test_the_state_is_written_before_the_topic():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    decision, _ = alter(context, {T0: [1]})
    assert [(type(write), write.path, write.version) for write in decision.writes] == [
        (Set, "/brokers/topics/t/partitions/0/state", 0), (Set, "/brokers/topics/t", 0),
    ]  # fmt: skip
    node = TopicNode.decode("/t", decision.writes[-1].data)
    assert (node.replicas, node.adding, node.removing) == (((1, 0),), {0: (1,)}, {0: (0,)})
    assert context.topics["t"].version == 1


def test_everybody_with_a_replica_is_told_and_whoever_is_new_is_told_so():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    decision, _ = alter(context, {T0: [1]})
    orders = {order.broker: order.states[0] for order in effects(decision, LeaderAndIsr)}
    assert {id: state.is_new for id, state in orders.items()} == {0: False, 1: True}
    assert all(state.replicas == (1, 0) and state.adding == (1,) for state in orders.values())
    assert [update.broker for update in effects(decision, UpdateMetadata)] == [0, 1, 2]
    assert not effects(decision, StopReplicas)


def test_partitions_of_one_topic_move_in_one_write_of_it():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0], 1: [0]}))
    decision, _ = alter(context, {T0: [1], T1: [1]})
    assert [write.path for write in decision.writes] == [
        "/brokers/topics/t/partitions/0/state", "/brokers/topics/t/partitions/1/state", "/brokers/topics/t",
    ]  # fmt: skip
    assert [len(order.states) for order in effects(decision, LeaderAndIsr)] == [2, 2], "one call for each"


def test_another_order_of_the_same_replicas_is_no_move():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    alter(context, {T0: [2, 0, 1]})
    assert sides(context) == ((2, 0, 1), (), ())
    assert state_of(context).leader == 0, "who leads is for the next election of preferred leaders"
    assert alter(context, {T0: [2, 0, 1]})[0] == Decision(), "and nothing is nothing"


def test_replicas_that_are_too_many_go_at_once_if_the_others_are_in_sync():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    decision, _ = alter(context, {T0: [1, 2]})
    assert sides(context) == ((1, 2), (), ())
    assert (state_of(context).leader, state_of(context).isr) == (1, (1, 2))
    assert effects(decision, StopReplicas) == [StopReplicas(0, {T0: True})]


def test_a_partition_that_nobody_ever_led_just_gets_other_replicas():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    stored = context.topics["t"]
    bare = stored.image.partitions[0]._replace(partition_epoch=-1, leader=NO_LEADER, leader_epoch=-1, isr=())
    context.apply(TopicChanged(stored.image._replace(partitions=(bare,)), 0))
    del context.brokers[0]
    decision, _ = alter(context, {T0: [1, 2]})
    assert sides(context) == ((1, 2), (), ())
    assert (state_of(context).leader, state_of(context).isr) == (1, (1, 2))
    assert not effects(decision, StopReplicas) and not context.deletions


# --- what may not be ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "target", "code"),
    [
        (TopicPartition("nope", 0), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", 1), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", -1), [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (T0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [-1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_is_refused_and_keeps_nothing_else_from_being(partition, target, code):
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0]}))
    with_topic(context, NewTopic("u", assignments={0: [0]}))
    context.shutting_down = {2}
    decision, answers = alter(context, {partition: target, TopicPartition("u", 0): [1]})
    assert answers[partition].code is code
    assert answers[TopicPartition("u", 0)] is None
    assert [write.path for write in decision.writes][-1] == "/brokers/topics/u"
    assert sides(context) == ((0,), (), ())


def test_a_replica_that_stays_may_be_down():
    context = cluster(0, 1, 2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    die(context, 1)
    assert alter(context, {T0: [1, 2]})[1] == {T0: None}
    assert sides(context) == ((1, 2, 0), (2,), (0,))


def test_who_forbids_to_change_the_replication_factor_is_held_to_it():
    context = moving([0, 1], [2, 3, 4])
    _, answers = alter(context, {T0: [5, 6]}, allow_factor_change=False)
    assert answers[T0].code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(context, {T0: [4, 5, 6]}, allow_factor_change=False)[1] == {T0: None}, (
        "as many as there will be"
    )


def test_a_topic_that_is_being_deleted_does_not_move():
    context = moving([0], [1])
    decision, _ = topics.doom(context, ["t"])
    carried_out(context, decision)
    assert {stop.broker for stop in effects(decision, StopReplicas)} == {0, 1}, "both sides are deleted"
    assert alter(context, {T0: [2]})[1][T0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert advance(context) == Decision()
    assert reassignment.ongoing(context) == {}


# --- completing -----------------------------------------------------------------------------------------------------


def test_nothing_is_over_before_all_of_the_target_are_in_sync():
    context = moving([0, 1], [2, 3])
    assert advance(context) == Decision()
    put(context, isr=(0, 1, 2))
    assert advance(context) == Decision()
    put(context, isr=(0, 1, 2, 3))
    advance(context)
    assert sides(context) == ((2, 3), (), ())
    assert state_of(context).isr == (2, 3)


def test_a_completed_move_is_written_state_first_then_the_list_then_the_topic():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2, 3))
    before = state_of(context)
    decision = advance(context)
    assert [write.path for write in decision.writes] == [
        "/brokers/topics/t/partitions/0/state", "/admin/deleted_replicas/0-AAAAAAAAAAAAAAAAAAAD6A",
        "/admin/deleted_replicas/1-AAAAAAAAAAAAAAAAAAAD6A", "/brokers/topics/t",
    ]  # fmt: skip
    state = PartitionStateNode.decode("/s", decision.writes[0].data)
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2, 3), before.leader_epoch + 1)
    assert TopicNode.decode("/t", decision.writes[-1].data) == TopicNode(
        context.topics["t"].image.topic_id, ((2, 3),)
    )


def test_who_leads_next_hears_of_it_before_who_goes_hears_that_it_goes():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2, 3))
    decision = advance(context)
    kinds = [type(effect) for effect in decision.effects]
    assert kinds == [LeaderAndIsr] * 2 + [UpdateMetadata] * 7 + [StopReplicas] * 2
    assert [order.broker for order in effects(decision, LeaderAndIsr)] == [2, 3]
    assert effects(decision, StopReplicas) == [StopReplicas(0, {T0: True}), StopReplicas(1, {T0: True})]


def test_a_leader_that_is_on_both_sides_stays_but_under_a_new_epoch():
    context = moving([0, 1], [2, 0])
    put(context, isr=(0, 1, 2))
    epoch = state_of(context).leader_epoch
    advance(context)
    assert (state_of(context).leader, state_of(context).leader_epoch) == (0, epoch + 1)
    assert state_of(context).isr == (0, 2)


def test_the_next_leader_is_not_one_that_is_about_to_stop_or_whose_disk_has_failed():
    context = moving([0], [1, 2, 3])
    put(context, isr=(0, 1, 2, 3), offline=(2,))
    context.shutting_down = {1}
    advance(context)
    assert state_of(context).leader == 3


def test_a_move_waits_while_nobody_of_the_target_can_lead():
    context = moving([0], [1])
    put(context, isr=(0, 1))
    context.shutting_down = {1}
    assert advance(context) == Decision()
    context.shutting_down = set()
    advance(context)
    assert sides(context) == ((1,), (), ())


def test_a_broker_of_the_target_dies_and_comes_back():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2, 3))
    gone = context.brokers[3]
    die(context, 3)
    assert advance(context) == Decision()
    context.brokers[3] = gone._replace(epoch=9)
    assert advance(context) == Decision(), "it is there, but not in sync"
    put(context, isr=(0, 1, 2, 3))
    advance(context)
    assert sides(context) == ((2, 3), (), ())


def test_brokers_that_are_left_and_down_are_only_put_on_the_list():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2, 3))
    die(context, 0, 1)
    decision = advance(context)
    assert sides(context) == ((2, 3), (), ())
    assert not effects(decision, StopReplicas)
    assert sorted(broker for broker, _ in context.deletions) == [0, 1]


def test_moves_of_many_partitions_complete_together():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={index: [0] for index in range(300)}))
    alter(context, {TopicPartition("t", index): [1] for index in range(300)})
    stored = context.topics["t"]
    caught_up = tuple(state._replace(isr=(0, 1)) for state in stored.image.partitions)
    context.apply(TopicChanged(stored.image._replace(partitions=caught_up), stored.version))
    decision = advance(context)
    assert len(decision.writes) == 300 + 1 + 1
    assert [len(order.states) for order in effects(decision, LeaderAndIsr)] == [300]
    assert [len(stop.partitions) for stop in effects(decision, StopReplicas)] == [300]


def test_a_move_is_over_in_whatever_order_the_store_names_those_that_go():
    context = moving([0, 1, 2], [3, 4, 5])
    put(context, isr=(3, 4, 5, 0, 1, 2), removing=(2, 0, 1))
    advance(context)
    assert sides(context) == ((3, 4, 5), (), ())


# --- changing and cancelling ----------------------------------------------------------------------------------------


def test_cancelling_goes_back_to_the_original_replicas():
    context = moving([0, 1, 2], [3, 4])
    put(context, isr=(0, 1, 2, 3))
    epoch = state_of(context).leader_epoch
    decision, answers = alter(context, {T0: None})
    assert answers == {T0: None}
    assert sides(context) == ((0, 1, 2), (), ())
    after = state_of(context)
    assert (after.leader, after.isr, after.leader_epoch) == (0, (0, 1, 2), epoch + 1)
    assert {stop.broker for stop in effects(decision, StopReplicas)} == {3, 4}


def test_cancelling_leaves_no_leader_that_goes():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2), leader=2)
    alter(context, {T0: None})
    assert (state_of(context).leader, state_of(context).isr) == (0, (0, 1))


def test_cancelling_waits_while_nobody_of_the_original_is_in_sync():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2))
    died = [context.brokers[0], context.brokers[1]]
    die(context, 0, 1)
    assert state_of(context).leader == 2
    _, answers = alter(context, {T0: None})
    assert answers == {T0: None}
    assert sides(context) == ((0, 1, 2), (2,), (2,)), "3 can be spared, 2 has what nobody else has"
    assert state_of(context).leader == 2
    assert list(reassignment.ongoing(context)) == [T0]
    context.brokers[0] = died[0]
    put(context, isr=(2, 0))
    advance(context)
    assert sides(context) == ((0, 1), (), ()), "over, though 1 is still down"
    assert (state_of(context).leader, state_of(context).isr) == (0, (0,))


def test_replicas_that_have_what_too_few_others_have_are_kept():
    context = cluster(*range(7))
    context.policy = lambda topic: Policy(min_insync_replicas=2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    alter(context, {T0: [3, 4, 5]})
    put(context, isr=(0, 3))
    alter(context, {T0: None})
    assert sides(context) == ((0, 1, 2, 3), (3,), (3,))
    put(context, isr=(0, 3, 1))
    advance(context)
    assert (sides(context), state_of(context).isr) == (((0, 1, 2), (), ()), (0, 1))


def test_an_eligible_replica_is_not_given_up_while_it_counts():
    context = moving([0, 1], [2])
    put(context, isr=(), leader=NO_LEADER, elr=(2,), last_known_leader=2)
    alter(context, {T0: None})
    assert sides(context) == ((0, 1, 2), (2,), (2,))
    assert advance(context) == Decision()


def test_another_target_can_be_given_while_the_partition_moves():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2))
    decision, _ = alter(context, {T0: [3, 4]})
    assert sides(context) == ((3, 4, 0, 1), (3, 4), (0, 1))
    assert state_of(context).isr == (0, 1)
    assert effects(decision, StopReplicas) == [StopReplicas(2, {T0: True})]
    told = {order.broker: order.states[0].is_new for order in effects(decision, LeaderAndIsr)}
    assert told == {0: False, 1: False, 3: False, 4: True}
    assert reassignment.original(state_of(context)) == (0, 1), "still known"


def test_another_target_loses_nobody_who_leads_alone():
    context = moving([0, 1], [2, 3])
    put(context, isr=(2,), leader=2)
    alter(context, {T0: [4, 5]})
    assert sides(context) == ((4, 5, 2, 0, 1), (4, 5, 2), (2, 0, 1))
    put(context, isr=(2, 4, 5))
    advance(context)
    assert (sides(context), state_of(context).leader) == (((4, 5), (), ()), 4)


def test_the_original_as_the_next_target_is_the_same_as_cancelling():
    context, other = moving([0, 1], [2, 3]), moving([0, 1], [2, 3])
    alter(context, {T0: [0, 1]})
    alter(other, {T0: None})
    assert context.topics == other.topics


def test_a_replica_that_comes_back_is_not_deleted_though_it_is_on_the_list():
    context = moving([0, 1], [2, 3])
    put(context, isr=(0, 1, 2, 3))
    advance(context)
    assert sorted(broker for broker, _ in context.deletions) == [0, 1]
    alter(context, {T0: [0, 2]})
    decision = carried_out(context, deletions.remind(context, [0, 1], born=False))
    assert effects(decision, StopReplicas) == [StopReplicas(1, {T0: True})]
    assert [broker for broker, _ in context.deletions] == [1]


# --- listing --------------------------------------------------------------------------------------------------------


def test_what_moves_is_listed_all_of_it_or_what_is_asked_for():
    context = moving([0], [1])
    with_topic(context, NewTopic("u", assignments={0: [0]}))
    assert reassignment.ongoing(context) == {T0: state_of(context)}
    asked = [T0, T1, TopicPartition("u", 0), TopicPartition("nope", 3)]
    assert list(reassignment.ongoing(context, asked)) == [T0]
    assert reassignment.ongoing(context, []) == {}
