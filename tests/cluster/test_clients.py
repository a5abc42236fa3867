"""Other people's clients with a cluster of three brokers: they find controllers, leaders and coordinators, wherever
these are and whoever is killed. The drivers are those of tests/interop, which meet one broker there."""

import gc
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from ottla.broker.coordinators import place_of
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.testing.cluster import Cluster
from tests.cluster.workers import CLASSIC, CONSUMER, PARTITIONS, Worker, keyed
from tests.interop.brokers import eventually
from tests.interop.clients.client import Client, Refused, Unavailable
from tests.interop.clients.members import Member, members_of
from tests.interop.clients.table import CLIENTS, connect

if TYPE_CHECKING:
    from tests.interop.clients.confluent import ConfluentKafka
    from tests.interop.clients.java import JavaClient

BROKERS = 3
OFFSETS = "__consumer_offsets"
_names = itertools.count()
Connected = Callable[[str], Client]

# When its broker dies, kafka-python drops sockets that it has not closed; Python says so wherever it happens to be.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
every_client = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 500}
    with Cluster(nodes=BROKERS, config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def found(cluster: Cluster) -> Iterator[dict[str, Client | str]]:
    """Every client, connected; or the sentence that says why it cannot run here."""
    clients: dict[str, Client | str] = {}
    with ExitStack() as stack:
        stack.callback(gc.collect)  # while nobody minds what it finds
        for name in CLIENTS:
            try:
                client = connect(name, cluster.bootstrap_servers)
            except Unavailable as error:
                clients[name] = str(error)
            else:
                clients[name] = client
                stack.callback(client.close)
        yield clients


@pytest.fixture(scope="module")
def connected(found: dict[str, Client | str]) -> Connected:
    def get(name: str) -> Client:
        client = found[name]
        if isinstance(client, str):
            pytest.skip(client)
        return client

    return get


def new_topic(name: str, client: Client, cluster: Cluster) -> str:
    """A topic whose partitions have leaders on all brokers, created by the client if it can."""
    topic = f"of-{name}-{next(_names)}"
    if "Create topics with configs" in CLIENTS[name].lacks:
        cluster.create_topic(topic, PARTITIONS, BROKERS)
    else:
        assert eventually(lambda: is_created(client, topic))
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    view = cluster.wait_until(lambda view: set(places) <= set(view.partitions))
    assert {view.partitions[place].leader for place in places} == {1, 2, 3}
    assert all(set(view.partitions[place].replicas) == {1, 2, 3} for place in places)
    cluster.wait_until_healthy()  # kafka-python assigns nothing, for good, if the broker it asks does not know yet
    return topic


def is_created(client: Client, topic: str) -> bool:
    """Not at once by clients that ask any broker, or who was the controller once. They are told that it is not."""
    try:
        client.create_topic(topic, PARTITIONS, {}, BROKERS)
    except Refused as refusal:
        assert refusal.code == ErrorCode.NOT_CONTROLLER, refusal
        client.list_topics()  # and thereby who is
        return False
    return True


# --- one after the other, with all brokers there ------------------------------------------------------------------


@every_client
def test_a_client_knows_all_brokers(cluster, connected, name):
    addresses = connected(name).describe_cluster()
    assert sorted(each.split("/")[0] for each in addresses) == sorted(cluster.bootstrap_servers.split(","))


@every_client
def test_members_read_from_different_brokers_and_take_up_what_others_committed(cluster, connected, name):
    client = connected(name)
    if reason := CLIENTS[name].lacks.get("Members come, go and die"):
        pytest.skip(reason)
    topic, earlier, later = new_topic(name, client, cluster), numbers(0, 30), numbers(30, 60)
    with members_of(cluster.bootstrap_servers) as join:
        first, second = (join(name, f"reads-{topic}", [topic], **CLASSIC) for _ in range(2))
        assert eventually(lambda: sorted(map(len, (first.assignment, second.assignment))) == [1, 2]), first
        client.produce(topic, keyed(earlier), idempotent=True)
        assert eventually(lambda: len(first.seen) + len(second.seen) >= 30), first
        first.commit()
        second.commit()
        first.close()
        assert eventually(lambda: len(second.assignment) == PARTITIONS), second
        client.produce(topic, keyed(later), idempotent=True)
        assert eventually(lambda: len(first.seen) + len(second.seen) >= 60), second
        assert sorted(each.value for each in first.seen + second.seen) == sorted(earlier + later)
        assert {each.value for each in second.seen} >= set(later)


def test_a_tool_that_commits_when_it_likes_takes_up_what_it_committed(cluster, connected):
    client = connected("kcat")
    topic = new_topic("kcat", client, cluster)
    for values in (numbers(0, 30), numbers(30, 60)):
        client.produce(topic, keyed(values), idempotent=True)
        found = client.group_consume(topic, f"reads-{topic}", 30)
        assert sorted(each.value.decode() for each in found) == sorted(values)


@every_client
def test_a_transaction_spans_brokers(cluster, connected, name):
    client, control = connected(name), cast("ConfluentKafka", connected("confluent-kafka"))
    if reason := CLIENTS[name].lacks.get("Several partitions in a transaction"):
        pytest.skip(reason)
    topic, starts = new_topic(name, client, cluster), dict.fromkeys(range(PARTITIONS), 0)
    producer = client.transactional(f"spans-{topic}")
    for offset, outcome in enumerate(("committed", "aborted", "committed too"), 1):
        producer.begin()
        producer.send(topic, keyed([f"{outcome} {number}" for number in starts]))
        producer.send_offsets(f"spans-{topic}", topic, dict.fromkeys(starts, offset))
        (producer.abort if outcome == "aborted" else producer.commit)()
    producer.close()
    found = client.consume(topic, starts, 6, isolation="read_committed")
    kept = [f"{outcome} {number}" for outcome in ("committed", "committed too") for number in starts]
    assert sorted(each.value.decode() for each in found) == sorted(kept)
    assert len(client.consume(topic, starts, 9)) == 9
    for number in starts:
        assert eventually(lambda: control.committed(f"spans-{topic}", topic, number) == 3)  # noqa: B023 called here


@pytest.mark.parametrize("name", ["java", "java-3.9"])
def test_apaches_administration_reaches_the_brokers_it_needs(cluster, connected, name):
    java = cast("JavaClient", connected(name))
    topic = new_topic(name, java, cluster)
    java.produce(topic, keyed(numbers(0, 30)), idempotent=True)
    described = java.cluster()
    assert sorted(described["brokers"]) == [1, 2, 3] and described["controller"] in (1, 2, 3)
    assert java.offsets(topic) == dict.fromkeys(range(PARTITIONS), (0, 10))
    held = java.log_dirs()
    assert all((topic, number) in held[broker] for broker in (1, 2, 3) for number in range(PARTITIONS))
    leader, replicas = java.replicas(topic)[0]
    with pytest.raises(Refused) as refusal:
        java.elect_leader(topic, 0)
    assert refusal.value.code == ErrorCode.ELECTION_NOT_NEEDED
    follower = next(each for each in replicas if each != leader)
    java.reassign(topic, 0, [follower, leader])
    assert eventually(lambda: (topic, 0) not in java.reassigned())
    assert eventually(lambda: java.replicas(topic)[0][1] == [follower, leader])
    java.elect_leader(topic, 0)
    assert eventually(lambda: java.replicas(topic)[0][0] == follower)
    gone = next(each for each in (1, 2, 3) if each not in (follower, leader))
    assert eventually(lambda: (topic, 0) not in java.log_dirs()[gone])
    assert java.offsets(topic)[0] == (0, 10)


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


# --- all at once, while brokers are restarted and killed ----------------------------------------------------------


@pytest.fixture(scope="module")
def workers(cluster: Cluster, found: dict[str, Client | str]) -> Iterator[dict[str, Worker]]:
    """What became of every client that worked through all of it."""
    with members_of(cluster.bootstrap_servers) as join:
        hired = {
            name: hire(name, client, cluster, join)
            for name, client in found.items()
            if not isinstance(client, str)
        }
        try:
            disturb(cluster, hired)
        finally:
            for each in hired.values():
                each.stop()
        cluster.wait_until_healthy()
        at_once(hired, Worker.judge)
        yield hired


def hire(name: str, client: Client, cluster: Cluster, join: Callable[..., Member]) -> Worker:
    topic = new_topic(name, client, cluster)
    if "Members come, go and die" in CLIENTS[name].lacks:
        return Worker(client, topic, None)
    how = CONSUMER if name == "java" else CLASSIC
    return Worker(client, topic, partial(join, name, group_of(topic), [topic], **how))


def group_of(topic: str) -> str:
    return f"works-on-{topic}"


def disturb(cluster: Cluster, hired: dict[str, Worker]) -> None:
    """One broker is restarted cleanly; then those that do something special are killed, one after the other."""

    def go_on(when: str) -> None:
        at_once(hired, lambda worker: worker.goes_on(when))

    go_on("at the beginning")
    cluster.restart(2)
    cluster.wait_until_healthy()
    go_on("after a clean restart")
    at_once(hired, Worker.commits)
    topic = next(place.topic for place in cluster.view().partitions if place.topic.startswith("of-"))
    for what in ("the leader", "the coordinator", "the controller"):
        if what == "the controller":
            victim = cluster.controller()
        elif what == "the coordinator":
            victim = cluster.leader(OFFSETS, place_of(group_of(topic), partitions_of(cluster, OFFSETS)))
        else:
            victim = cluster.leader(topic, 0)
        cluster.kill(victim)
        go_on(f"after {what} was killed")
        cluster.start(victim)
        cluster.wait_until_healthy()


def partitions_of(cluster: Cluster, topic: str) -> int:
    return sum(place.topic == topic for place in cluster.view().partitions)


def at_once(hired: dict[str, Worker], do: Callable[[Worker], None]) -> None:
    with ThreadPoolExecutor(len(hired)) as pool:
        for done in [pool.submit(do, each) for each in hired.values()]:
            done.result()


@every_client
def test_a_client_goes_on_whoever_is_restarted_or_killed(connected, workers, name):
    connected(name)
    assert not workers[name].troubles
    if "Goes on after the broker was killed" not in CLIENTS[name].lacks:
        assert not workers[name].reasons
