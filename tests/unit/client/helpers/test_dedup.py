"""A message is done once: claimed, confirmed, released, with every store."""

import asyncio
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator

import pytest

from ottla.client.errors import IllegalStateError, MessageBusyError
from ottla.client.helpers import dedup
from ottla.client.helpers.dedup import Claim, Deduplicator, MemoryStore, SharedSqliteStore, SqliteStore
from ottla.client.helpers.failures import Failure
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError
from tests.interop.brokers import eventually

RECORD = ConsumerRecord("orders", 1, 7, 0, b"key", b'{"id": 5}', (("id", b"old"), ("id", b"new")))
_CLAIMS = 30  # by many threads at once


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """A Redis of its own, on a free port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server (Debian: apt-get install redis-server)")
    redis = pytest.importorskip("redis", reason="the package redis is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"redis://127.0.0.1:{port}"
            with redis.Redis.from_url(url) as client:

                def answers() -> bool:
                    try:
                        return bool(client.ping())
                    except redis.ConnectionError:
                        return False

                assert eventually(answers)
            yield url
        finally:
            process.terminate()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryStore()
        return
    if request.param == "sqlite":
        made = SqliteStore(tmp_path / "messages.db")
    else:
        made = dedup.RedisStore(request.getfixturevalue("redis_url"), prefix=f"{tmp_path}:")
    yield made
    made.close()


# --- every store ----------------------------------------------------------------------------------------------------


def test_a_message_is_claimed_once_and_done_when_it_is_confirmed(store):
    assert store.claim("m") is Claim.OURS
    assert store.claim("m") is Claim.BUSY
    assert store.claim("another") is Claim.OURS
    store.confirm("m")
    assert store.claim("m") is Claim.DONE


def test_a_message_that_was_released_can_be_claimed_again(store):
    assert store.claim("m") is Claim.OURS
    store.release("m")
    assert store.claim("m") is Claim.OURS


def test_what_is_done_is_not_released(store):
    store.claim("m")
    store.confirm("m")
    store.release("m")
    assert store.claim("m") is Claim.DONE


def test_of_many_who_ask_at_once_one_gets_it(store):
    found, start = [], threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.extend(store.claim(f"m-{number}") for number in range(_CLAIMS))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count(Claim.OURS) == _CLAIMS and found.count(Claim.BUSY) == 7 * _CLAIMS


# --- the life of a claim --------------------------------------------------------------------------------------------


def test_a_crashed_owner_keeps_its_claim_until_it_lapses(tmp_path):
    path = tmp_path / "messages.db"
    crashed, patient = SqliteStore(path), SqliteStore(path)
    assert crashed.claim("m") is Claim.OURS
    crashed.close()
    assert patient.claim("m") is Claim.BUSY
    patient.close()
    later = SqliteStore(path, lease_ms=0)
    assert later.claim("m") is Claim.OURS
    later.close()


def test_in_redis_too(redis_url):
    crashed = dedup.RedisStore(redis_url, prefix="lapse:", lease_ms=1)
    assert crashed.claim("m") is Claim.OURS
    crashed.close()
    other = dedup.RedisStore(redis_url, prefix="lapse:")
    assert eventually(lambda: other.claim("m") is Claim.OURS)
    # Whoever comes back late does not take away the claim of another.
    late = dedup.RedisStore(redis_url, prefix="lapse:")
    late.release("m")
    assert late.claim("m") is Claim.BUSY
    late.close()
    other.close()


def test_what_is_done_is_forgotten_after_its_time_in_redis(redis_url):
    store = dedup.RedisStore(redis_url, prefix="ttl:", ttl_ms=1)
    store.claim("m")
    store.confirm("m")
    assert eventually(lambda: store.claim("m") is Claim.OURS)
    store.close()


def test_a_client_of_the_application_is_used_and_left_open(redis_url):
    import redis

    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        store = dedup.RedisStore(client, prefix="client:")
        store.claim("m")
        store.confirm("m")
        assert store.claim("m") is Claim.DONE
        store.close()
        assert client.ping()


def test_memory_remembers_so_many_and_so_long():
    store = MemoryStore(count_max=2)
    for name in "abc":
        store.claim(name)
        store.confirm(name)
    assert [store.claim(name) for name in "abc"] == [Claim.OURS, Claim.DONE, Claim.DONE]
    brief = MemoryStore(window_ms=0)
    brief.claim("a")
    brief.confirm("a")
    assert brief.claim("a") is Claim.OURS
    with pytest.raises(ConfigError):
        MemoryStore(count_max=0)


def test_a_file_forgets_what_lies_outside_its_window(tmp_path):
    store = SqliteStore(tmp_path / "messages.db", count_max=10)
    for number in range(256):
        store.claim(str(number))
        store.confirm(str(number))
    connection = sqlite3.connect(tmp_path / "messages.db")
    assert connection.execute("SELECT count(*) FROM ottla_messages").fetchone() == (10,)
    connection.close()
    store.close()


def test_a_table_has_a_plain_name(tmp_path):
    with pytest.raises(ConfigError, match="table"):
        SqliteStore(tmp_path / "messages.db", table="x; DROP TABLE y")


# --- in the application's transaction -------------------------------------------------------------------------------


def test_the_id_is_there_when_the_effect_is():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE effects (text TEXT)")
    store = SharedSqliteStore(connection)
    with pytest.raises(ZeroDivisionError), connection:
        assert store.claim("m") is Claim.OURS
        connection.execute("INSERT INTO effects VALUES ('m')")
        raise ZeroDivisionError
    with connection:
        assert store.claim("m") is Claim.OURS
        assert store.claim("m") is Claim.DONE
        store.release("m")
        assert store.claim("m") is Claim.OURS
    assert store.claim("m") is Claim.DONE
    connection.close()


def test_a_claim_outside_of_a_transaction_is_refused():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with pytest.raises(IllegalStateError, match="transaction"):
        SharedSqliteStore(connection).claim("m")
    connection.close()


# --- the block ------------------------------------------------------------------------------------------------------


def test_the_block_is_entered_with_news_once():
    once = Deduplicator(MemoryStore())
    found = []
    for _ in range(3):
        with once(RECORD) as is_new:
            found.append(is_new)
    assert found == [True, False, False]


def test_work_that_fails_is_done_again():
    once = Deduplicator(MemoryStore())
    with pytest.raises(ZeroDivisionError), once(RECORD):
        raise ZeroDivisionError
    with once(RECORD) as is_new:
        assert is_new


def test_while_somebody_is_at_it_nobody_else_is():
    once = Deduplicator(MemoryStore())
    with once(RECORD), pytest.raises(MessageBusyError, match="offset 7 of orders-1") as found, once(RECORD):
        pass
    assert found.value.retriable


def test_a_message_without_an_id_is_always_new():
    once = Deduplicator(MemoryStore(), id_of=dedup.from_header("none"))
    for _ in range(2):
        with once(RECORD) as is_new:
            assert is_new


def test_a_handler_can_be_wrapped():
    seen = []
    handle = Deduplicator(MemoryStore()).wrap(seen.append)
    handle(RECORD)
    handle(RECORD)
    assert seen == [RECORD]


def test_the_asynchronous_one_does_the_same(redis_url):
    async def run() -> None:
        store = dedup.AsyncRedisStore(redis_url, prefix="async:")
        once = dedup.AsyncDeduplicator(store)
        seen = []

        async def handle(record: ConsumerRecord) -> None:
            seen.append(record)

        handle = once.wrap(handle)
        with pytest.raises(ZeroDivisionError):
            async with once(RECORD):
                raise ZeroDivisionError
        await handle(RECORD)
        await handle(RECORD)
        assert seen == [RECORD]
        await store.close()

    asyncio.run(run())


# --- ids ------------------------------------------------------------------------------------------------------------


def test_an_id_comes_from_wherever_the_application_says():
    assert dedup.from_header("id")(RECORD) == b"new"
    assert dedup.from_key(RECORD) == b"key"
    assert dedup.from_key(RECORD._replace(key=12)) == "12"
    assert dedup.from_value(lambda value: value[-2:])(RECORD) == b"5}"
    assert dedup.from_place(RECORD) == "orders-1-7"


def test_a_record_in_a_retry_topic_is_known_by_its_origin():
    headers = tuple(Failure.of(RECORD).again(ValueError(), 1, 0).headers(RECORD))
    copy = RECORD._replace(topic="orders.retry.1", partition=0, offset=0, headers=headers)
    assert dedup.from_place(copy) == "orders-1-7"


def test_ids_of_any_bytes_and_any_length_stay_apart(store):
    once = Deduplicator(store, id_of=dedup.from_key)
    for key in (b"\xff", b"\xfe", b"", b"x" * 10_000, b"x" * 10_001, b"\x00"):
        with once(RECORD._replace(key=key)) as is_new:
            assert is_new
