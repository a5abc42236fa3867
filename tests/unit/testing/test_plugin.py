"""The pytest plugin, in test runs of its own."""

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def strict(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose warnings are errors and whose markers are checked, as this one's are."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config -p no:randomly\nfilterwarnings = error\n"
    )
    return pytester


def test_each_test_gets_a_fresh_broker_under_both_names(strict):
    strict.makepyfile(
        """
        seen = []

        def test_one(kafka_broker, ottla_broker):
            assert kafka_broker is ottla_broker
            kafka_broker.create_topic("orders")
            seen.append(kafka_broker)

        def test_two(ottla_broker):
            assert ottla_broker.topics() == {}
            assert ottla_broker is not seen[0]
        """
    )
    strict.runpytest_subprocess().assert_outcomes(passed=2)


def test_a_mark_says_how_the_broker_is_set_up(strict):
    strict.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_broker(memory=True, config={"num.partitions": 3})
        def test_in_memory(kafka_broker):
            assert kafka_broker.disk is not None
            assert kafka_broker.data_dir is None
        """
    )
    strict.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_broker_of_the_session_is_one_for_all(strict):
    strict.makepyfile(
        """
        def test_one(kafka_broker_session):
            kafka_broker_session.create_topic("orders")

        def test_two(kafka_broker_session):
            assert kafka_broker_session.topics() == {"orders": 1}
        """
    )
    strict.runpytest_subprocess().assert_outcomes(passed=2)


def test_several_processes_test_at_once(strict):
    strict.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_topic(kafka_broker, number):
            kafka_broker.create_topic(f"topic-{number}")
            assert kafka_broker.topics() == {f"topic-{number}": 1}
        """
    )
    strict.runpytest_subprocess("-n", "2").assert_outcomes(passed=6)


def test_who_does_not_use_it_does_not_pay_for_it(strict):
    strict.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            loaded = {name for name in sys.modules if name.startswith("ottla")}
            assert loaded == {"ottla", "ottla.testing", "ottla.testing.plugin"}
        """
    )
    strict.runpytest_subprocess().assert_outcomes(passed=1)


def test_fixtures_and_mark_introduce_themselves(strict):
    shown = strict.runpytest_subprocess("--fixtures", "-v").stdout.str()
    assert "A Kafka broker in this process" in shown
    assert "@pytest.mark.kafka_broker(memory=False" in strict.runpytest_subprocess("--markers").stdout.str()
