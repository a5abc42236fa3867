"""Fixtures for pytest: a fresh broker per test, or one for the whole run, or a cluster.

    def test_orders_are_written(kafka_broker):
        shop = Shop(kafka_broker.bootstrap_server)
        shop.sell("tea")
        assert [r.value for r in kafka_broker.records("orders")] == [b"tea"]

pytest loads this module in every run of whoever has Ottla installed: until a fixture is used it costs nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster

MARK = "kafka_broker"
CLUSTER_MARK = "kafka_cluster"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(memory=False, config={{}}, ...): how the broker of the fixture `kafka_broker` is set up; "
        "takes what ottla.testing.Broker takes",
    )
    config.addinivalue_line(
        "markers",
        f"{CLUSTER_MARK}(nodes=3, config={{}}, ...): how the cluster of the fixture `kafka_cluster` is set up; "
        "takes what ottla.testing.Cluster takes",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A Kafka broker in this process, with a port and temporary data of its own. `bootstrap_server` is its address."""
    from ottla.testing.broker import Broker

    mark = request.node.get_closest_marker(MARK)
    with Broker(**(mark.kwargs if mark else {})) as broker:
        yield broker


@pytest.fixture
def ottla_broker(kafka_broker: "Broker") -> "Broker":
    """Another name for `kafka_broker`, where a plugin of somebody else has taken that one."""
    return kafka_broker


@pytest.fixture(scope="session")
def kafka_broker_session() -> "Iterator[Broker]":
    """One broker for all tests of the run that ask for it: choose topics that do not get in each other's way."""
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster of brokers, each a process of its own. `bootstrap_servers` is where clients connect."""
    from ottla.testing.cluster import Cluster

    mark = request.node.get_closest_marker(CLUSTER_MARK)
    with Cluster(**(mark.kwargs if mark else {})) as cluster:
        yield cluster
