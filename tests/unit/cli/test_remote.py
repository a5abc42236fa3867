"""Asking a cluster: who is asked what, and what a shell hears when that fails."""

import asyncio
import contextlib
import functools
import socket
import threading

import click
import pytest

from ottla.cli.main import main
from ottla.cli.remote import GROUP, Failed, check, cluster, each_of, failed, pieces, servers
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.network.peer import PeerClosed, RequestTimedOut
from ottla.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.protocol.messages.topics import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.testing import Broker
from tests.unit.cli.fake_cluster import SILENT, fake_cluster


def scenario(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


@pytest.fixture(scope="module")
def broker():
    with Broker(memory=True) as running:
        yield running


@pytest.fixture
def nobody():
    """A port where nobody listens, for as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@contextlib.contextmanager
def impostor(words):
    """Something that listens, is no broker, and says `words` to everybody. None: it says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    if words is not None:
                        held[-1].sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in held:
                each.close()


# --- what a shell hears ---------------------------------------------------------------------------------------------


def test_where_nobody_listens_the_address_is_named_and_the_code_is_6(capsys, nobody):
    assert main(["group", "ls", "-b", nobody]) == 6
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"ottla: cannot connect to {nobody}: ")
    assert captured.err.count("\n") == 1


def test_who_never_answers_is_left_after_the_timeout(capsys):
    with impostor(None) as address:
        assert main(["group", "ls", "-b", address, "--timeout", "0.2"]) == 6
    assert "did not answer ApiVersions" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x7f\xff\xff\xff", b"\x15\x03\x03\x00\x02\x02"]
)
def test_who_is_no_broker_is_told_apart_from_one_that_is_away(capsys, words):
    with impostor(words) as address:
        assert main(["group", "ls", "-b", address]) == 1
    error = capsys.readouterr().err
    assert address in error
    assert "a bug" not in error


def test_the_next_server_is_tried_when_the_first_does_not_answer(capsys, broker, nobody):
    assert main(["group", "ls", "--json", "-b", f"{nobody},{broker.bootstrap_server}"]) == 0
    assert capsys.readouterr().out == '{"groups": [], "failures": {}}\n'


def test_a_server_that_cannot_be_one_is_a_usage_error(capsys):
    assert main(["group", "ls", "-b", "host:port:more"]) == 2
    assert main(["group", "ls", "-b", ","]) == 2
    assert "names no server" in capsys.readouterr().err


def test_what_is_not_allowed_has_a_code_of_its_own(capsys, broker):
    broker.fail_next("DescribeTransactions", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert main(["txn", "describe", "pay", "-b", broker.bootstrap_server]) == 5
    assert capsys.readouterr().err.startswith("ottla: TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ")


def test_a_coordinator_that_loads_is_waited_for(capsys, broker):
    broker.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2)
    broker.fail_next("DescribeTransactions", "COORDINATOR_LOAD_IN_PROGRESS")
    assert main(["txn", "describe", "pay", "-b", broker.bootstrap_server]) == 4
    assert broker.faults.pending == {}


def test_a_coordinator_that_loads_for_ever_is_not(capsys, broker):
    broker.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=100)
    try:
        assert main(["txn", "describe", "pay", "-b", broker.bootstrap_server, "--timeout", "0.3"]) == 1
    finally:
        broker.faults.clear()
    assert "COORDINATOR_NOT_AVAILABLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PeerClosed("gone"), 6),
        (RequestTimedOut("late"), 6),
        (KafkaError.of(ErrorCode.GROUP_AUTHORIZATION_FAILED), 5),
        (KafkaError.of(ErrorCode.SASL_AUTHENTICATION_FAILED), 5),
        (KafkaError.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 4),
        (KafkaError.of(ErrorCode.INVALID_REQUEST), 1),
        (ProtocolError("nonsense"), 1),
        (Failed("said before", 3), 3),
    ],
)
def test_every_failure_has_its_exit_code(error, code):
    assert failed(error).exit_code == code


def test_an_error_code_is_raised_with_its_meaning_and_a_new_one_with_its_number():
    check(0, "fine")
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND: 'g': There is no such group"):
        check(69, "'g'")
    with pytest.raises(KafkaError, match="'g': error code 9999"):
        check(9999, "'g'")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:9", [("::1", 9)]),
        (":7, ", [("localhost", 7)]),
    ],
)
def test_servers_are_read_with_or_without_a_port(text, found):
    assert servers(text) == [Address(*each) for each in found]


def test_what_cannot_be_read_as_servers_is_a_usage_error():
    with pytest.raises(click.UsageError, match="bootstrap-server"):
        servers("a:b:c")


# --- several brokers ------------------------------------------------------------------------------------------------


def groups_of(node_id):
    row = ListGroupsResponse.Group(group_id=f"g{node_id}", protocol_type="consumer")
    return ListGroupsResponse(error_code=0, groups=[row])


@scenario
async def test_everybody_is_asked_and_one_who_fails_does_not_silence_the_others():
    def answer(node_id, request):
        if node_id == 2:
            return ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, groups=[])
        return SILENT if node_id == 3 else groups_of(node_id)

    async with (
        fake_cluster(answer, nodes=(1, 2, 3, 4)) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 300) as asked,
    ):
        answers = await asked.everywhere(ListGroupsRequest())
    assert {node: each.groups[0].group_id for node, each in answers.by_broker.items()} == {1: "g1", 4: "g4"}
    assert {node: why.exit_code for node, why in answers.failures.items()} == {2: 5, 3: 6}


@scenario
async def test_if_nobody_says_anything_the_first_reason_is_raised():
    async with (
        fake_cluster(lambda *_: SILENT) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 200) as asked,
    ):
        with pytest.raises(Failed, match="did not answer ListGroups") as caught:
            await asked.everywhere(ListGroupsRequest())
    assert caught.value.exit_code == 6


@scenario
async def test_a_broker_that_is_too_old_for_a_question_is_not_asked_it():
    async with (
        fake_cluster(lambda node_id, _: groups_of(node_id), nodes=(1,), versions={16: 3}) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 5000) as asked,
    ):
        with pytest.raises(Failed, match="broker 1 is too old: it speaks ListGroups up to v3"):
            await asked.everywhere(ListGroupsRequest(), 4)
    assert fake.asked == []


@pytest.mark.parametrize("version", [2, 6])
@scenario
async def test_keys_are_sorted_by_their_coordinator_whatever_the_broker_speaks(version):
    def answer(_, request):
        assert isinstance(request, FindCoordinatorRequest)
        if version < 4:
            node = int(request.key[-1])
            return FindCoordinatorResponse(node_id=node, host="127.0.0.1", port=fake.ports[node])
        rows = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=int(key[-1]), host="127.0.0.1", port=fake.ports[int(key[-1])], error_code=0
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=rows)

    async with (
        fake_cluster(answer, versions={10: version}) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 5000) as asked,
    ):
        found = await asked.coordinators(["a1", "b2", "c1", "a1"], GROUP)
    assert found == {1: ["a1", "c1"], 2: ["b2"]}


@scenario
async def test_partitions_are_sorted_by_their_leader_and_lost_ones_set_apart():
    async with (
        fake_cluster(lambda *_: SILENT, topics={"t": {0: 1, 1: 2, 2: -1}}) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 5000) as asked,
    ):
        places = [TopicPartition("t", index) for index in range(4)] + [TopicPartition("gone", 0)]
        found = await asked.leaders(places)
        assert await asked.leaders([]) == {}
        with pytest.raises(Failed, match="broker 9 is not among the brokers that live"):
            await asked.broker(9)
    assert found == {1: [places[0]], 2: [places[1]], -1: [places[4], places[2], places[3]]}


@scenario
async def test_no_more_are_asked_at_a_time_than_there_is_room_for():
    busy, most = 0, 0

    async def ask(key):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        if key == 5:
            raise PeerClosed("five is gone")
        return key * 2

    found = await each_of(range(20), ask, 3)
    assert most == 3
    assert found[4] == 8
    assert found[5].message == "five is gone"


def test_long_lists_are_cut_into_pieces():
    assert pieces([1, 2, 3], 2) == [[1, 2], [3]]
    assert pieces([]) == []


# --- the controller -------------------------------------------------------------------------------------------------


@scenario
async def test_what_only_the_controller_does_is_asked_of_its_successor():
    controllers = iter([-1, 1, 2])
    current = {}

    def controller():
        current["id"] = next(controllers, 2)
        return current["id"]

    def answer(node_id, request):
        assert isinstance(request, ListPartitionReassignmentsRequest)
        code = ErrorCode.NONE if node_id == 2 else ErrorCode.NOT_CONTROLLER
        return ListPartitionReassignmentsResponse(error_code=code, topics=[])

    async with (
        fake_cluster(answer, controller=controller) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked,
    ):
        told = await asked.ask_controller(ListPartitionReassignmentsRequest())
        assert told.error_code == 0
        assert [node for node, _ in fake.asked] == [1, 2]


@scenario
async def test_where_nobody_is_the_controller_that_is_said():
    async with (
        fake_cluster(lambda *_: None) as fake,
        cluster([Address("127.0.0.1", fake.ports[1])], 200) as asked,
    ):
        with pytest.raises(KafkaError, match="there is no controller at the moment"):
            await asked.ask_controller(ListPartitionReassignmentsRequest())


@scenario
async def test_a_controller_that_died_is_looked_for_again():
    async with fake_cluster(lambda *_: ListPartitionReassignmentsResponse(error_code=0, topics=[])) as fake:
        fake.ports[3] = 1  # registered, but nobody listens there
        named = iter([3, 3])
        fake._controller = lambda: next(named, 2)
        async with cluster([Address("127.0.0.1", fake.ports[1])], 10_000) as asked:
            assert (await asked.ask_controller(ListPartitionReassignmentsRequest())).error_code == 0
        assert [node for node, _ in fake.asked] == [2]


def test_who_has_not_said_where_the_cluster_is_hears_how(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    monkeypatch.setattr("ottla.cli.session.DEFAULT_SERVER", "127.0.0.1:1")
    for words in (["topic", "ls"], ["topic", "describe", "orders"]):
        assert main(words) == 6
        assert capsys.readouterr().err == (
            "ottla: cannot connect to 127.0.0.1:1: Connection refused; `ottla start` starts a broker, "
            "-b HOST:PORT names another\n"
        )


def test_who_has_said_where_the_cluster_is_hears_how(capsys, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "127.0.0.1:1")
    for words in (["topic", "ls"], ["topic", "describe", "orders"]):
        assert main(words) == 6
        assert capsys.readouterr().err == (
            "ottla: cannot connect to 127.0.0.1:1: Connection refused; is a broker running there? The address comes "
            "from the environment\n"
        )
