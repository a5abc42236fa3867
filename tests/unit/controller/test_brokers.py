"""Brokers come and go: what is written, and who is told what."""

from ottla.controller import brokers, topics
from ottla.controller.commands import NewTopic
from ottla.controller.context import NO_STATE, StoredEpoch
from ottla.controller.decision import LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import BrokerEpochNode, PartitionStateNode
from ottla.metadata.store import Create, Set
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import broker, carried_out, cluster, effects, look, present, with_topic

SPREAD = NewTopic("t", assignments={0: [0, 1], 1: [1, 2], 2: [2, 0]})


def leaders(context, topic="t"):
    return [state.leader for state in context.topics[topic].image.partitions]


def test_the_first_decision_after_a_restart_elects_with_new_epochs_and_tells_everything():
    context = cluster(0)
    with_topic(context, NewTopic("t", partitions=2))
    context.brokers = {0: broker(0, epoch=2)}
    decision = carried_out(context, brokers.begin(context))
    assert [(type(w), w.path, w.version) for w in decision.writes] == [
        (Set, PartitionStateNode.path("t", 0), 0), (Set, PartitionStateNode.path("t", 1), 0),
        (Set, BrokerEpochNode.path(0), 0),
    ]  # fmt: skip
    assert context.epochs == {0: StoredEpoch(2, 1)}
    (order,) = effects(decision, LeaderAndIsr)
    assert [(s.leader, s.leader_epoch, s.partition_epoch, s.is_new) for s in order.states] == [
        (0, 1, 1, False)
    ] * 2
    (update,) = effects(decision, UpdateMetadata)
    assert update.topics == (context.topics["t"].image,)
    assert update.brokers == (broker(0, epoch=2),)
    assert decision.effects.index(order) < decision.effects.index(update)


def test_a_controller_that_takes_over_from_another_disturbs_no_leader():
    context = cluster(0, 1, 2)
    with_topic(context, SPREAD)
    decision = brokers.begin(context)
    assert decision.writes == []
    assert [(o.broker, len(o.states)) for o in effects(decision, LeaderAndIsr)] == [(0, 2), (1, 2), (2, 2)]


def test_when_a_broker_dies_others_take_its_partitions():
    context = cluster(0, 1, 2)
    with_topic(context, SPREAD)
    decision = carried_out(context, brokers.change(context, [broker(0), broker(2)]))
    assert leaders(context) == [0, 2, 2]
    assert present(context).isr == (0,)
    orders = {o.broker: [s.partition for s in o.states] for o in effects(decision, LeaderAndIsr)}
    assert orders == {0: [0], 2: [1]}, "only what has changed, only to whom it concerns"
    for update in effects(decision, UpdateMetadata):
        assert [b.node_id for b in update.brokers] == [0, 2]


def test_a_broker_that_comes_back_is_told_everything_and_leads_only_what_waited_for_it():
    context = cluster(0, 1)
    with_topic(context, NewTopic("mine", assignments={0: [1]}))
    with_topic(context, NewTopic("ours", assignments={0: [1, 0]}))
    carried_out(context, brokers.change(context, [broker(0)]))
    assert leaders(context, "mine") == [NO_LEADER]
    assert leaders(context, "ours") == [0]
    decision = carried_out(context, brokers.change(context, [broker(0), broker(1, epoch=2)]))
    assert leaders(context, "mine") == [1]
    assert leaders(context, "ours") == [0]
    updates = {u.broker: [t.name for t in u.topics] for u in effects(decision, UpdateMetadata)}
    assert updates == {0: ["mine"], 1: ["mine", "ours"]}
    orders = {o.broker: [s.topic for s in o.states] for o in effects(decision, LeaderAndIsr)}
    assert orders == {1: ["mine", "ours"]}


def test_a_restart_that_nobody_noticed_is_seen_by_the_epoch():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [1, 0]}))
    carried_out(context, brokers.change(context, [broker(0), broker(1, epoch=2)]))
    assert leaders(context) == [0]


def test_nothing_is_decided_when_nothing_has_changed():
    context = cluster(0, 1)
    assert brokers.change(context, [broker(0), broker(1)]).effects == []


def test_a_topic_whose_creation_was_cut_short_is_finished():
    context = cluster(0)
    decision = with_topic(context, NewTopic("t", partitions=2))
    half = context.topics["t"].image
    bare = half.partitions[1]._replace(partition_epoch=NO_STATE, leader=NO_LEADER, leader_epoch=-1, isr=())
    context.topics["t"] = context.topics["t"]._replace(
        image=half._replace(partitions=(half.partitions[0], bare))
    )
    decision = brokers.begin(context)
    assert [w.path for w in decision.writes] == [
        "/brokers/topics/t/partitions/1", "/brokers/topics/t/partitions/1/state",
    ]  # fmt: skip
    context.skeletons = frozenset({"/brokers/topics/t/partitions/1"})
    decision = brokers.begin(context)
    assert [type(w) for w in decision.writes] == [Create]
    (order,) = effects(decision, LeaderAndIsr)
    assert [s.is_new for s in order.states] == [False, True]


def test_a_partition_that_nobody_can_lead_yet_is_no_order_to_anybody():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [1]}))
    image = context.topics["t"].image
    bare = image.partitions[0]._replace(partition_epoch=NO_STATE, leader=NO_LEADER, leader_epoch=-1, isr=())
    context.topics["t"] = context.topics["t"]._replace(image=image._replace(partitions=(bare,)))
    context.brokers = {0: broker(0)}
    decision = brokers.begin(context)
    assert decision.writes == []
    assert effects(decision, LeaderAndIsr) == []
    (update,) = effects(decision, UpdateMetadata)
    assert update.topics[0].partitions[0].leader == NO_LEADER


def test_replicas_of_a_doomed_topic_are_stopped_again_by_the_next_controller():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1], 1: [0, 1]}))
    carried_out(context, topics.doom(context, ["t"])[0])
    decision = brokers.begin(context)
    both = {TopicPartition("t", 0): True, TopicPartition("t", 1): True}
    assert effects(decision, StopReplicas) == [StopReplicas(0, both), StopReplicas(1, both)]
    assert effects(decision, LeaderAndIsr) == []
    assert [update.deleted for update in effects(decision, UpdateMetadata)] == [("t",), ("t",)]


def test_a_failed_disk_moves_leadership_and_is_shown():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1], 1: [0, 1]}))
    decision = carried_out(context, brokers.fail(context, 0, [TopicPartition("t", 1)]))
    assert leaders(context) == [0, 1]
    lost = context.topics["t"].image.partitions[1]
    assert (lost.offline, lost.isr, lost.leader_epoch, lost.partition_epoch) == ((0,), (1,), 1, 1)
    assert effects(decision, LeaderAndIsr) == [LeaderAndIsr(1, (lost,))]
    again = brokers.fail(context, 0, [TopicPartition("t", 1)])
    assert again.writes == []


def test_a_failed_disk_under_the_only_replica_leaves_nobody_to_lead():
    context = cluster(0)
    with_topic(context, NewTopic("t"))
    carried_out(context, brokers.fail(context, 0, [TopicPartition("t", 0), TopicPartition("gone", 0)]))
    assert look(present(context)) == (NO_LEADER, (), (), 1)
    assert present(context).last_known_leader == 0
    carried_out(context, brokers.change(context, [broker(0, epoch=2)]))
    assert leaders(context) == [0], "the disk may be well again"
    assert present(context).offline == ()


def test_a_failed_disk_is_not_trusted_with_what_it_had():
    context = cluster(0, 1, min_insync=2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    carried_out(context, brokers.fail(context, 0, [TopicPartition("t", 0)]))
    assert look(present(context)) == (1, (1,), (), 1)


def test_a_partition_that_does_not_exist_cannot_fail():
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1], 1: [0, 1]}))
    carried_out(context, brokers.fail(context, 0, [TopicPartition("t", -1), TopicPartition("t", 2)]))
    assert leaders(context) == [0, 0]


def test_everything_of_a_dead_broker_moves_in_one_decision():
    context = cluster(0, 1, 2)
    spread = {index: [0, 1 + index % 2, 2 - index % 2] for index in range(300)}
    with_topic(context, NewTopic("t", assignments=spread))
    decision = carried_out(context, brokers.change(context, [broker(1), broker(2)]))
    assert len(decision.writes) == 300
    assert [(type(e), e.broker) for e in decision.effects] == [
        (LeaderAndIsr, 1), (LeaderAndIsr, 2), (UpdateMetadata, 1), (UpdateMetadata, 2),
    ]  # fmt: skip
    assert leaders(context).count(1) == leaders(context).count(2) == 150


def test_who_has_begun_which_life_is_written_after_the_states_that_depend_on_it():
    """The next controller finds the same births if this one gets no further than the states."""
    context = cluster(0, 1)
    with_topic(context, NewTopic("t", assignments={0: [0, 1]}))
    decision = brokers.change(context, [broker(0, epoch=3), broker(1), broker(5, epoch=4)])
    assert decision.writes[1:] == [
        Set(BrokerEpochNode.path(0), b"3", 0), Create(BrokerEpochNode.path(5), b"4"),
    ]  # fmt: skip
    carried_out(context, decision)
    assert context.epochs == {0: StoredEpoch(3, 1), 1: StoredEpoch(1, 0), 5: StoredEpoch(4, 0)}


def test_a_controller_that_was_away_sees_by_the_stored_epochs_who_died_meanwhile():
    context = cluster(0, 1, 2, min_insync=2)
    with_topic(context, NewTopic("t", assignments={0: [0, 1, 2]}))
    context.brokers = {0: broker(0, 7), 1: broker(1, 8, previous=1), 2: broker(2, 9)}
    carried_out(context, brokers.begin(context))
    assert look(present(context)) == (1, (1,), (), 1), "only broker 1 had stopped cleanly"
    assert brokers.begin(context).writes == []


def test_a_broker_that_was_about_to_stop_is_as_good_as_any_in_its_next_life():
    context = cluster(0, 1)
    context.shutting_down = {0, 1}
    carried_out(context, brokers.change(context, [broker(0), broker(1, 2), broker(2)]))
    assert context.shutting_down == {0}
    carried_out(context, brokers.change(context, [broker(1, 2)]))
    assert context.shutting_down == set()
