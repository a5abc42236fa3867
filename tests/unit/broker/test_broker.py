"""A broker's life: the order of its parts, and that a start which fails leaves nothing behind."""

import asyncio
import errno
import functools
import socket
import threading

import pytest
import uvloop

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.directories import METADATA_NAME
from ottla.controller.commands import NewTopic
from ottla.core.errors import ConfigError, ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import SessionState
from ottla.network.peer import connect
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.replication.state import NO_LEADER
from ottla.storage.files import OsFiles
from ottla.storage.lock import DirectoryInUseError
from ottla.storage.meta import Meta, write_meta
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, values_of

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def scenario(test):
    """Run a test that waits."""

    @functools.wraps(test)
    def inner(*args, **how):
        asyncio.run(test(*args, **how))

    return inner


def broker_in(*paths, port=0, files=None, **settings):
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": ",".join(map(str, paths)),
        **{name.replace("_", "."): str(value) for name, value in settings.items()},
    }
    return Broker(BrokerConfig(config), files=files or OsFiles(syncs=False))


async def create(broker, name, partitions=1):
    outcome = (await broker.controller.create_topics([NewTopic(name, partitions, 1)]))[name]
    assert not isinstance(outcome, KafkaError), outcome


def put(broker, *values, topic="orders", partition=0):
    return broker.replicas.get(topic, partition).append(batch(*values), 1, NOW)


def values(broker, topic="orders", partition=0):
    return values_of(broker.replicas.get(topic, partition).log)


async def leftovers(threads):
    """Tasks and threads that were not there before; the loop's own workers do not count."""
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    new = set(threading.enumerate()) - threads
    return [*tasks, *(thread for thread in new if not thread.name.startswith(("asyncio_", "uvloop_")))]


# --- starting and stopping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_a_broker_starts_serves_stops_and_leaves_nothing_behind(tmp_path, loop):
    async def run():
        threads = set(threading.enumerate())
        broker = broker_in(tmp_path, http_listen="127.0.0.1:0")
        await broker.start()
        async with await connect("127.0.0.1", broker.port) as peer:
            answer = await peer.send(MetadataRequest(topics=[]))
            assert answer.cluster_id == broker.cluster_id
        assert broker.why_not_ready is None
        await broker.stop()
        assert broker.why_not_ready == "it is stopping"
        assert await leftovers(threads) == []
        for port in (broker.port, broker.http_port):
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                free.bind(("127.0.0.1", port))

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())


@scenario
async def test_what_was_written_is_there_after_a_stop_and_the_stop_was_clean(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()
    await create(broker, "orders")
    put(broker, b"tea", b"milk")
    await broker.stop()
    again = broker_in(tmp_path)
    await again.start()
    assert again.replicas.was_clean
    assert again.cluster_id == broker.cluster_id
    assert values(again) == {0: b"tea", 1: b"milk"}
    await again.stop()


@scenario
async def test_what_was_written_is_there_after_a_kill(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()
    await create(broker, "orders")
    put(broker, b"tea", b"milk")
    await broker.kill()
    again = broker_in(tmp_path)
    await again.start()
    assert not again.replicas.was_clean
    assert values(again) == {0: b"tea", 1: b"milk"}
    assert again.replicas.get("orders", 0).leader_epoch > broker.replicas.get("orders", 0).leader_epoch
    await again.stop()


@scenario
async def test_one_that_is_killed_while_it_creates_a_topic_touches_nothing_of_its_successor(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()
    creating = asyncio.ensure_future(broker.controller.create_topics([NewTopic("orders", 40, 1)]))
    while len(broker.replicas.partitions) < 5:
        await asyncio.sleep(0)
    await broker.kill()
    again = broker_in(tmp_path)
    await again.start()
    await asyncio.wait([creating])
    assert len(again.replicas.partitions) == 40
    for index in range(40):
        put(again, b"%d" % index, partition=index)
    await again.stop()
    third = broker_in(tmp_path)
    await third.start()
    assert [values(third, partition=index) for index in range(40)] == [
        {0: b"%d" % index} for index in range(40)
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]
    await third.stop()


@scenario
async def test_it_says_what_it_is_waiting_for(tmp_path):
    broker = broker_in(tmp_path)
    said = [broker.why_not_ready]
    opened, elected = broker.replicas.open, broker.server.serve

    def opens(*args):
        said.append(broker.why_not_ready)
        opened(*args)

    async def serves():
        said.append(broker.why_not_ready)
        assert broker.upkeep._tasks, "upkeep is at work before the first client comes"
        await elected()

    broker.replicas.open, broker.server.serve = opens, serves
    await broker.start()
    assert said == ["it has not been started", "it opens its logs", "it waits for the controller"]
    await broker.stop()


# --- starts that fail ---------------------------------------------------------------------------------------------


def taken_port(tmp_path):
    blocker = socket.create_server(("127.0.0.1", 0))
    return {"port": blocker.getsockname()[1]}, OSError, blocker.close


def taken_second_port(tmp_path):
    blocker = socket.create_server(("127.0.0.1", 0))
    port = blocker.getsockname()[1]
    listeners = f"PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:{port}"
    settings = {
        "listeners": listeners,
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT",
    }
    return settings, OSError, blocker.close


def taken_http_port(tmp_path):
    blocker = socket.create_server(("127.0.0.1", 0))
    return {"http_listen": f"127.0.0.1:{blocker.getsockname()[1]}"}, OSError, blocker.close


def locked_directory(tmp_path):
    lock = OsFiles().lock(str(tmp_path / "b" / ".lock"))
    return {}, DirectoryInUseError, lock.release


def corrupt_store(tmp_path):
    store = tmp_path / "a" / METADATA_NAME
    store.write_bytes(b"this is no database" * 1000)
    return {}, OttlaError, store.unlink


def directory_of_another_broker(tmp_path):
    write_meta(OsFiles(), str(tmp_path / "b"), Meta(77, None))
    return {}, ConfigError, (tmp_path / "b" / "meta.properties").unlink


def illegible_signature(tmp_path):
    (tmp_path / "a" / "meta.properties").write_text("version=12\n")
    return {}, OttlaError, (tmp_path / "a" / "meta.properties").unlink


OBSTACLES = [
    taken_port,
    taken_second_port,
    taken_http_port,
    locked_directory,
    corrupt_store,
    directory_of_another_broker,
    illegible_signature,
]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_start_that_fails_is_undone(obstacle, loop, tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()

    async def run():
        threads = set(threading.enumerate())
        settings, expected, remove = obstacle(tmp_path)
        broker = broker_in(*paths, **settings)
        with pytest.raises(expected):
            await broker.start()
        assert await leftovers(threads) == []
        for listener in broker.listeners:
            with socket.socket() as free:
                free.bind(("127.0.0.1", listener.port))
        remove()
        again = broker_in(*paths)
        await again.start()
        await again.stop()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())


@pytest.mark.parametrize(
    "step", ["replicas.open", "replicas.forget_strays", "upkeep.start", "server.serve", "server.bind"]
)
def test_a_failure_of_ours_at_any_step_is_undone_too(step, tmp_path):
    @scenario
    async def run():
        threads = set(threading.enumerate())
        broker = broker_in(tmp_path)
        part, name = step.split(".")
        call = getattr(getattr(broker, part), name)

        def fails(*args):
            if not asyncio.iscoroutinefunction(call):
                call(*args)
            raise RuntimeError(step)

        setattr(getattr(broker, part), name, fails)
        with pytest.raises(RuntimeError, match=step):
            await broker.start()
        assert await leftovers(threads) == []
        again = broker_in(tmp_path)
        await again.start()
        await again.stop()

    run()


def test_without_a_directory_that_can_be_opened_there_is_no_start():
    class Broken(SimDisk):
        def names(self, directory):
            raise OSError(errno.EIO, "broken")

    broker = broker_in("d", files=Broken())
    with pytest.raises(ConfigError, match="no log directory can be used: d: "):
        asyncio.run(broker.start())


@scenario
async def test_a_cancelled_start_keeps_the_directory_until_its_threads_are_done(tmp_path):
    broker = broker_in(tmp_path)
    entered, leave, call = threading.Event(), threading.Event(), broker.replicas.open

    def opens(*args):
        entered.set()
        leave.wait(60)
        call(*args)

    broker.replicas.open = opens
    starting = asyncio.ensure_future(broker.start())
    await asyncio.to_thread(entered.wait, 60)
    starting.cancel()
    rival = broker_in(tmp_path)
    with pytest.raises(DirectoryInUseError):
        await rival.start()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    rival = broker_in(tmp_path)
    await rival.start()
    await rival.stop()


@scenario
async def test_a_stop_that_fails_lets_go_of_everything(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()

    async def fails():
        raise RuntimeError("resign")

    broker.controller.resign = fails
    with pytest.raises(RuntimeError, match="resign"):
        await broker.stop()
    again = broker_in(tmp_path)
    await again.start()
    await again.stop()


# --- disks that fail ----------------------------------------------------------------------------------------------


def leaders(broker, topic="orders"):
    return [state.leader for state in broker.metadata.topics[topic].partitions]


@scenario
async def test_when_a_disk_fails_everybody_learns_who_leads_no_longer_and_a_restart_heals(tmp_path):
    broker = broker_in(tmp_path / "a", tmp_path / "b")
    await broker.start()
    await create(broker, "orders", partitions=2)
    for index in (0, 1):
        put(broker, b"tea", partition=index)
    lost = next(iter(broker.replicas.directories[1].logs)).partition
    broker.replicas.directory_failed(str(tmp_path / "b"), OSError(errno.EIO, "broken"))
    while NO_LEADER not in leaders(broker):
        await asyncio.sleep(0)
    expected = [broker.node_id] * 2
    expected[lost] = NO_LEADER
    assert leaders(broker) == expected
    with pytest.raises(KafkaError) as caught:
        put(broker, b"milk", partition=lost)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    put(broker, b"milk", partition=1 - lost)
    await broker.stop()
    again = broker_in(tmp_path / "a", tmp_path / "b")
    await again.start()
    assert leaders(again) == [again.node_id] * 2
    assert values(again, partition=lost) == {0: b"tea"}
    assert values(again, partition=1 - lost) == {0: b"tea", 1: b"milk"}
    await again.stop()


@scenario
async def test_a_broker_that_stops_at_once_after_a_disk_failed_has_told_the_controller(tmp_path):
    broker = broker_in(tmp_path / "a", tmp_path / "b")
    await broker.start()
    await create(broker, "orders", partitions=2)
    broker.replicas.directory_failed(str(tmp_path / "b"), OSError(errno.EIO, "broken"))
    await broker.stop()
    assert NO_LEADER in leaders(broker)


@scenario
async def test_a_broker_that_stops_does_not_wait_long_for_a_controller_to_tell_of_a_failed_disk(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("ottla.broker.broker._REPORT_SECONDS", 0.01)
    broker = broker_in(tmp_path / "a", tmp_path / "b")
    await broker.start()
    await create(broker, "orders", partitions=2)
    broker.store._state = SessionState.SUSPENDED
    broker.replicas.directory_failed(str(tmp_path / "b"), OSError(errno.EIO, "broken"))
    async with asyncio.timeout(15):  # half of what a question to the controller is asked for
        await broker.stop()


@scenario
async def test_a_disk_that_is_away_at_the_start_takes_only_its_partitions(tmp_path):
    broker = broker_in(tmp_path / "a", tmp_path / "b")
    await broker.start()
    await create(broker, "orders", partitions=2)
    lost = next(iter(broker.replicas.directories[1].logs)).partition
    await broker.stop()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("not a directory")
    again = broker_in(tmp_path / "a", tmp_path / "b")
    await again.start()
    put(again, b"tea", partition=1 - lost)
    with pytest.raises(KafkaError) as caught:
        again.replicas.get("orders", lost)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leaders(again)[lost] == NO_LEADER
    await again.stop()


@scenario
async def test_the_last_disk_takes_the_broker_with_it(tmp_path):
    broker = broker_in(tmp_path)
    fatal = []
    broker.on_fatal = lambda: fatal.append(broker.why_not_ready)
    await broker.start()
    broker.replicas.directory_failed(str(tmp_path), OSError(errno.EIO, "broken"))
    assert fatal == ["every log directory has failed"]
    await broker.stop()


@scenario
async def test_upkeep_and_producers_do_not_sync_one_log_at_the_same_time(tmp_path, monkeypatch):
    broker = broker_in(tmp_path)
    await broker.start()
    await create(broker, "orders")
    log, jobs = broker.replicas.get("orders", 0).log, []
    begin = log.begin_flush
    monkeypatch.setattr(log, "begin_flush", lambda: jobs.append(1) or begin())
    broker.configs.topic("orders").update({"flush.messages": "1"})
    put(broker, b"tea")
    await asyncio.gather(broker.replicas.commit_of(log).reach(1), broker.upkeep.flush_due_logs())
    assert (len(jobs), log.recovery_point) == (1, 1)
    await broker.stop()


# --- facts --------------------------------------------------------------------------------------------------------


@scenario
async def test_it_knows_its_address_its_partitions_and_what_is_known_of_others(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()
    await create(broker, "orders", partitions=3)
    assert broker.bootstrap_server == f"127.0.0.1:{broker.port}"
    assert broker._is_known(TopicPartition("orders", 2))
    assert not broker._is_known(TopicPartition("orders", 3))
    assert not broker._is_known(TopicPartition("visits", 0))
    assert "partitions 3" in broker.registry.expose()
    assert broker.fetch_sessions is broker.fetch_sessions
    await broker.stop()


@scenario
async def test_the_numbers_of_a_topic_go_with_it(tmp_path):
    broker = broker_in(tmp_path)
    await broker.start()
    await create(broker, "orders", partitions=2)
    broker.topic_meters["orders"].bytes_in.value += 5
    assert 'topic="orders"' in broker.registry.expose()
    await broker.controller.delete_topics(["orders"])
    assert 'topic="orders"' not in broker.registry.expose()
    await broker.stop()


def test_how_many_may_connect_changes_while_the_broker_runs():
    config = BrokerConfig({})
    broker = Broker(config)
    config.update({"max.connections": 7, "max.connections.per.ip.overrides": "10.0.0.1:3"})
    assert broker.server.admission.connections_max == 7
    assert broker.server.admission.per_ip_overrides == {"10.0.0.1": 3}


@scenario
async def test_a_stop_does_not_wait_for_a_wide_topic_and_the_next_start_makes_the_rest_of_it(tmp_path):
    broker = broker_in(tmp_path, files=OsFiles(syncs=False))
    await broker.start()
    creating = asyncio.create_task(broker.controller.create_topics([NewTopic("wide", 300)]))
    while len(broker.replicas.partitions) < 3:
        await asyncio.sleep(0)
    await broker.stop()
    await creating
    assert len(broker.replicas.partitions) < 300
    again = broker_in(tmp_path, files=OsFiles(syncs=False))
    await again.start()
    assert len(again.replicas.partitions) == 300
    await again.stop()
