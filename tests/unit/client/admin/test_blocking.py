"""The blocking face has the calls of the other one, with the same parameters."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.client import Admin, AsyncAdmin
from ottla.client.errors import ClosedError, NoBrokersAvailable
from ottla.core.errors import ConfigError
from ottla.testing import Broker


def calls(cls):
    return {name: each for name, each in vars(cls).items() if not name.startswith("_") and callable(each)}


def test_both_faces_have_the_same_calls():
    assert calls(Admin).keys() == calls(AsyncAdmin).keys()
    for name, each in calls(AsyncAdmin).items():
        ours, theirs = inspect.signature(calls(Admin)[name]), inspect.signature(each)
        assert list(ours.parameters)[1:] == list(theirs.parameters)[1:], name
        assert inspect.iscoroutinefunction(each) and not inspect.iscoroutinefunction(
            inspect.unwrap(Admin.start)
        )
        assert (each.__doc__ or "").strip(), f"{name} says what it does"


def test_every_call_can_be_given_a_timeout():
    for name, each in calls(AsyncAdmin).items():
        if name not in ("start", "close"):
            assert inspect.signature(each).parameters["timeout_ms"].default is None, name


def test_many_threads_use_one_client():
    with Broker(memory=True) as broker, Admin(bootstrap_servers=broker.bootstrap_server) as admin:
        admin.start()
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(admin.create_topic, [f"topic-{number}" for number in range(16)]))
        assert len(admin.list_topics()) == 16


def test_a_closed_client_says_so():
    with Broker(memory=True) as broker:
        admin = Admin(bootstrap_servers=broker.bootstrap_server)
        admin.list_topics()
        admin.close()
        admin.close()
        with pytest.raises(ClosedError, match="closed"):
            admin.list_topics()

        async def run():
            client = AsyncAdmin(bootstrap_servers=broker.bootstrap_server)
            await client.start()
            await client.list_topics()
            await client.close()
            with pytest.raises(ClosedError, match="closed"):
                await client.list_topics()

        asyncio.run(run())


def test_where_nobody_answers_the_first_call_says_who_was_asked():
    for call in (Admin.start, Admin.list_topics, Admin.describe_cluster):
        nowhere = Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=100)
        with nowhere as admin, pytest.raises(NoBrokersAvailable, match=r"127\.0\.0\.1:1"):
            call(admin)


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="perhaps bootstrap_servers is meant"):
        Admin(bootstrap_server="localhost:9092")
