"""One partition on its way to be compact, told by what its leader says; and leaders that say something else."""

import asyncio

import pytest

from ottla.cli.remote import Failed, cluster
from ottla.cli.topic_runs import Outcome, Run, progress, runs_of, step
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.compaction import CompactTopicsResponse
from tests.unit.cli.fake_cluster import fake_cluster

Topic = CompactTopicsResponse.Topic
PLACE = TopicPartition("orders", 0)
NOT_LEADER = 6
PATIENCE = 10.0


def told(state="idle", *, runs=0, dirty=0, end=100, error=0, before=-1, after=-1, at=0, **more):
    return Topic.Partition(
        partition_index=at,
        error_code=error,
        state=state,
        runs=runs,
        first_dirty_offset=dirty,
        end_offset=end,
        bytes_before=before,
        bytes_after=after,
        records_before=before // 10,
        records_after=after // 10,
        **more,
    )


def heard(*answers):
    run = Run(PLACE, 0.0, PATIENCE)
    for now, each in enumerate(answers):
        run.hear(each, float(now))
    return run


# --- a run ----------------------------------------------------------------------------------------------------------


def test_a_run_is_over_when_its_leader_is_idle_again():
    run = heard(told("waiting", runs=7))
    assert (run.phase, run.is_over, run.must_start) == ("waiting", False, False)
    run.hear(told("mapping", runs=7, done_bytes=5, total_bytes=50), 1.0)
    assert (run.phase, run.done_bytes, run.total_bytes) == ("mapping", 5, 50)
    run.hear(told("copying", runs=7, done_bytes=40, total_bytes=50), 2.0)
    assert run.outcome is None
    run.hear(told("idle", runs=8, dirty=100, before=1000, after=300), 3.0)
    assert (run.phase, run.is_over, run.done_bytes) == ("done", True, 50)
    assert run.outcome == Outcome(1000, 300, 100, 30)
    assert run.outcome.saved_percent == pytest.approx(70.0)


def test_a_log_that_is_clean_already_is_done_without_an_outcome():
    run = heard(told("idle", runs=3, dirty=100, before=10, after=10))
    assert (run.phase, run.outcome) == ("done", None)


def test_a_log_whose_keys_do_not_fit_at_once_is_compacted_again_until_its_end():
    run = heard(told("waiting", runs=0, dirty=0), told("idle", runs=1, dirty=60, before=1000, after=400))
    assert (run.phase, run.must_start) == ("waiting", True)
    run.hear(told("waiting", runs=1, dirty=60, end=120), 2.0)
    run.hear(told("idle", runs=2, dirty=110, end=120, before=900, after=500), 3.0)
    assert run.phase == "done", "what was written meanwhile was not asked for"
    assert run.outcome == Outcome(1500, 500, 150, 50)


def test_cleanings_that_follow_each_other_are_added_up():
    run = heard(told("waiting"), told("copying", runs=1, before=1000, after=400))
    run.hear(told("idle", runs=2, dirty=100, before=900, after=500), 2.0)
    assert (run.phase, run.outcome) == ("done", Outcome(1500, 500, 150, 50))


def test_a_log_that_is_due_again_is_not_waited_for():
    run = heard(told("waiting"), told("waiting", runs=1, dirty=100, end=900, before=1000, after=400))
    assert (run.phase, run.outcome) == ("done", Outcome(1000, 400, 100, 40))


def test_a_log_that_gets_no_cleaner_is_not_asked_for_again():
    run = heard(told("waiting", dirty=40), told("idle", runs=1, dirty=40, before=10, after=10))
    assert run.phase == "done"


@pytest.mark.parametrize("state", ["idle", "uncleanable"])
def test_a_compaction_that_fails_says_why(state):
    run = heard(told("waiting"), told(state, last_error="No space left on device"))
    assert (run.phase, run.failure.message, run.failure.exit_code) == ("failed", "No space left on device", 1)


def test_a_pause_is_waited_for():
    assert heard(told("waiting"), told("paused")).phase == "paused"


def test_who_leads_no_longer_is_replaced_by_who_does_and_that_one_starts_anew():
    run = heard(told("mapping", runs=5), told(error=NOT_LEADER))
    assert (run.is_over, run.must_start, run.leader) == (False, True, -1)
    run.hear(told("waiting", runs=0), 2.0)
    run.hear(told("idle", runs=1, dirty=100, before=10, after=5), 3.0)
    assert run.phase == "done"


def test_what_is_not_better_in_time_has_failed():
    run = heard(told("mapping"))
    for now in (5.0, 9.9):
        run.suffer(Failed("broker 1 is silent", 6), now, is_final=False)
        assert not run.is_over
    run.suffer(Failed("broker 1 is silent", 6), 10.0, is_final=False)
    assert (run.phase, run.failure.exit_code) == ("failed", 6)


@pytest.mark.parametrize(("code", "exit_code"), [(40, 1), (29, 5)])
def test_a_refusal_is_final(code, exit_code):
    run = heard(told(error=code, error_message="no"))
    assert (run.phase, run.failure.exit_code) == ("failed", exit_code)
    assert run.failure.message.endswith(": no")


def test_the_runs_of_a_topic_are_added_up():
    runs = [heard(told("mapping", done_bytes=1, total_bytes=10)), heard(told("copying", total_bytes=20))]
    runs += [Run(TopicPartition("other", 0), 0.0, PATIENCE), heard(told("idle"))]
    first, second = progress(runs)
    assert first[:4] == ("orders", pytest.approx((0.1 + 0.0 + 1.0) / 3), 1, 30)
    assert str(first) == "1 mapping, 1 copying, 1 done"
    assert (second.topic, str(second)) == ("other", "1 waiting")


# --- asking ---------------------------------------------------------------------------------------------------------


def answered(request, make):
    """`make(topic, partition)` is a row."""
    return CompactTopicsResponse(
        topics=[
            Topic(name=topic.name, partitions=[make(topic.name, at) for at in topic.partitions])
            for topic in request.topics
        ]
    )


def ask(answer, topics, names=("orders",), partitions=(), steps=1):
    """Runs after some steps, the topics that were not found, and what brokers were asked."""

    async def work():
        async with (
            fake_cluster(answer, topics=topics) as fake,
            cluster([Address("127.0.0.1", fake.ports[1])], 2000) as asked,
        ):
            runs, unknown = await runs_of(asked, names, partitions, PATIENCE)
            good = [await step(asked, runs) for _ in range(steps)]
            return runs, unknown, fake.asked, good

    return asyncio.run(work())


def test_each_leader_is_asked_for_what_it_leads():
    def answer(node_id, request):
        return answered(request, lambda _, at: told("waiting" if request.start else "copying", at=at))

    runs, unknown, asked, good = ask(answer, {"orders": {0: 1, 1: 2, 2: 1}}, steps=2)
    assert [run.phase for run in runs] == ["copying"] * 3
    assert (unknown, good) == ([], [True, True])
    questions = {(node, request.start, *request.topics[0].partitions) for node, request in asked}
    assert questions == {(1, True, 0, 2), (2, True, 1), (1, False, 0, 2), (2, False, 1)}


def test_what_does_not_exist_is_not_found_and_the_rest_is_asked_for():
    runs, unknown, _, _ = ask(
        lambda node_id, request: answered(request, lambda _, at: told("waiting", at=at)),
        {"orders": {0: 1, 1: -1}},
        names=("orders", "nowhere", "orders"),
        partitions=(0, 1, 7),
    )
    assert [(each.exit_code, each.message) for each in unknown] == [
        (4, "UNKNOWN_TOPIC_OR_PARTITION: there is no topic nowhere")
    ]
    assert [(run.place.partition, run.phase) for run in runs] == [
        (0, "waiting"),
        (1, "waiting"),
        (7, "failed"),
    ]
    assert runs[2].failure.message == "UNKNOWN_TOPIC_OR_PARTITION: orders has no partition 7"
    assert runs[1].must_start, "nobody leads it, which may change"


FOREIGN = "cannot be asked to compact: it is not Ottla, or too old"


def hang_up(node_id, request):
    raise ConnectionError("as Kafka does")


def unsupported(node_id, request):
    return answered(request, lambda _, at: told(at=at, error=35))


@pytest.mark.parametrize("answer", [hang_up, unsupported])
def test_a_broker_that_does_not_know_the_request_is_said_to_be_foreign(answer):
    runs, _, asked, good = ask(answer, {"orders": {0: 1}})
    assert good == [False]
    assert FOREIGN in runs[0].failure.message and runs[0].failure.message.startswith("broker 1 at 127.0.0.1:")
    assert runs[0].failure.exit_code == 1
    assert len(asked) == (2 if answer is hang_up else 1)


def test_a_broker_that_hung_up_once_is_asked_again():
    count = []

    def answer(node_id, request):
        count.append(1)
        if len(count) == 1:
            raise ConnectionError
        return answered(request, lambda _, at: told("waiting", at=at))

    runs, _, _, good = ask(answer, {"orders": {0: 1}})
    assert (good, runs[0].is_over) == ([False], False)


def test_a_leader_that_says_nothing_of_a_partition_has_failed_it():
    runs, _, _, _ = ask(lambda node_id, request: CompactTopicsResponse(topics=[]), {"orders": {0: 1}})
    assert runs[0].failure.message == "its leader said nothing of it"
