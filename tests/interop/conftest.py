"""The broker under test, and one connection to it for every client.

OTTLA_INTEROP_BOOTSTRAP=apache tests the tests, against Apache Kafka; host:port tries any other broker.
OTTLA_COMPATIBILITY=directory keeps what came out, for COMPATIBILITY.md.
"""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tests.interop.brokers import broker_under_test, eventually, served_apis
from tests.interop.clients.client import Client, Unavailable
from tests.interop.clients.table import CLIENTS, connect
from tests.interop.features import FEATURES

if TYPE_CHECKING:
    from tests.interop.clients.confluent import ConfluentKafka

_NAMES = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(name): the row of COMPATIBILITY.md that the test decides")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test runs for every client that has what it is about."""
    if "client_name" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("feature")
        lacking = mark.args[0] if mark else ""
        names = [name for name, entry in CLIENTS.items() if lacking not in entry.lacks]
        metafunc.parametrize("client_name", names)


@pytest.fixture(scope="session")
def bootstrap_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with broker_under_test(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="session")
def apis(bootstrap_server: str) -> dict[int, tuple[int, int]]:
    return served_apis(bootstrap_server)


@pytest.fixture(scope="session")
def connected(bootstrap_server: str) -> Iterator[Callable[[str], Client]]:
    """The client of that name; a JVM starts once for all tests of this process."""
    clients: dict[str, Client] = {}
    reasons: dict[str, str] = {}

    def get(name: str) -> Client:
        if name not in clients and name not in reasons:
            try:
                clients[name] = connect(name, bootstrap_server)
            except Unavailable as error:
                reasons[name] = str(error)
            else:
                _keep(client=name, version=clients[name].version)
        if name in reasons:
            pytest.skip(reasons[name])
        return clients[name]

    with ExitStack() as stack:
        stack.callback(lambda: [each.close() for each in clients.values()])
        yield get


@pytest.fixture
def client(client_name: str, connected: Callable[[str], Client]) -> Client:
    return connected(client_name)


@pytest.fixture
def control(connected: Callable[[str], Client]) -> "ConfluentKafka":
    """Sets up what a client finds, and looks at what it left."""
    return cast("ConfluentKafka", connected("confluent-kafka"))


@pytest.fixture
def new_topic(control: "ConfluentKafka") -> Callable[..., str]:
    """Makes a topic with these partitions and configs, and returns its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = topic_name()
        control.create_topic(
            name, partitions, {key.replace("_", "."): value for key, value in configs.items()}
        )
        # In this order: librdkafka remembers for a while that a topic was not there.
        assert eventually(lambda: control.partition_count(name) == partitions)
        assert eventually(lambda: control.is_led(name, partitions))
        return name

    return make


def topic_name() -> str:
    return f"interop-{os.getpid()}-{next(_NAMES)}"


@pytest.fixture
def unused_topic() -> str:
    return topic_name()


@pytest.fixture(autouse=True)
def _what_is_not_served_is_not_tried(request: pytest.FixtureRequest) -> None:
    mark = request.node.get_closest_marker("feature")
    if mark and mark.args[0] in FEATURES and FEATURES[mark.args[0]].api is not None:
        _is_served(mark.args[0], request.getfixturevalue("apis"))


@pytest.fixture
def coordinators(apis: dict[int, tuple[int, int]]) -> None:
    """For tests that decide no row: they too wait until the broker serves groups and transactions."""
    _is_served("Consumer groups", apis)
    _is_served("Transactions", apis)


@pytest.fixture
def consumer_protocol(apis: dict[int, tuple[int, int]]) -> None:
    _is_served("Consumer protocol", apis)


def _is_served(row: str, apis: dict[int, tuple[int, int]]) -> None:
    api = FEATURES[row].api
    if api is not None and api not in apis:
        pytest.xfail(f"the broker does not serve API {api} yet")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    mark = item.get_closest_marker("feature")
    if mark is None or (report.when != "call" and report.passed):
        return
    state = "not yet" if hasattr(report, "wasxfail") else report.outcome
    detail = call.excinfo.exconly().splitlines()[0][:200] if report.failed and call.excinfo else ""
    parameters = item.callspec.params  # type: ignore[attr-defined]  # only parametrized tests have a mark
    names = {key: value for key, value in parameters.items() if key.endswith("_name")}
    _keep(feature=mark.args[0], state=state, detail=detail, **names)


def _keep(**result: str) -> None:
    directory = os.environ.get("OTTLA_COMPATIBILITY")
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        with (Path(directory) / f"{os.getpid()}.jsonl").open("a") as target:
            target.write(json.dumps(result) + "\n")
