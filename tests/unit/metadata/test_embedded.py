"""The SQLite file behind the embedded store: what lasts, what is refused. The contract itself is in test_store."""

import asyncio
import signal
import sqlite3
import subprocess
import sys

import pytest

from ottla.core.errors import ProtocolError
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.store import Create, NoNode, SessionLost, Set, StoreUnavailable


@pytest.fixture
def path(tmp_path) -> str:
    return f"{tmp_path}/metadata.db"


async def opened(path: str, *ops) -> EmbeddedStore:
    store = await EmbeddedStore.open(path)
    if ops:
        await store.multi(ops)
    return store


def test_what_was_written_is_there_when_the_file_is_opened_again(path):
    async def scenario():
        store = await opened(path, Create("/a", b"x"), Create("/a/b", b"y"), Set("/a", b"z"))
        before = await store.get_all(["/a", "/a/b"])
        await store.close()
        again = await opened(path)
        assert await again.get_all(["/a", "/a/b"]) == before
        await again.close()

    asyncio.run(scenario())


def test_ephemeral_nodes_of_an_earlier_life_are_gone(path):
    async def scenario():
        store = await opened(path, Create("/lasting"), Create("/ephemeral", b"", True))
        store.abandon()
        again = await opened(path)
        assert await again.children("/") == ["lasting"]
        await again.close()

    asyncio.run(scenario())


def test_every_life_gives_larger_creation_ids_even_to_ephemeral_nodes(path):
    async def scenario():
        ids = []
        for _ in range(3):
            store = await opened(path)
            ids.append(await store.create("/me", b"", ephemeral=True))
            store.abandon()
        assert ids == sorted(set(ids))

    asyncio.run(scenario())


def test_a_store_in_memory_is_empty_again_the_next_time():
    async def scenario():
        store = await opened(MEMORY, Create("/a"))
        await store.close()
        again = await opened(MEMORY)
        assert await again.children("/") == []

    asyncio.run(scenario())


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused_by_name(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ProtocolError, match=f"{path} is damaged"):
        asyncio.run(EmbeddedStore.open(path))
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_damaged_page_is_found(path):
    async def fill():
        store = await opened(path, *(Create(f"/{index}", b"x" * 500) for index in range(100)))
        await store.close()

    asyncio.run(fill())
    with open(path, "r+b") as file:
        size = file.seek(0, 2)
        for position in range(8192, size, 4096):
            file.seek(position)
            file.write(b"\xee" * 200)
    with pytest.raises(ProtocolError, match=f"{path} is damaged"):
        asyncio.run(EmbeddedStore.open(path))


def test_the_database_of_another_program_is_left_alone(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.close()
    with pytest.raises(ProtocolError, match=f"{path} is not a metadata store"):
        asyncio.run(EmbeddedStore.open(path))


def test_a_file_of_a_later_version_is_refused(path):
    asyncio.run(_touch(path))
    _sql(path, "PRAGMA user_version = 99")
    with pytest.raises(ProtocolError, match="99"):
        asyncio.run(EmbeddedStore.open(path))


@pytest.mark.parametrize("damage", ["DELETE FROM node WHERE path = '/a'", "DELETE FROM counter"])
def test_a_file_that_contradicts_itself_is_refused_by_name(path, damage):
    asyncio.run(_touch(path, Create("/a"), Create("/a/b")))
    _sql(path, damage)
    with pytest.raises(ProtocolError, match=f"{path} is damaged"):
        asyncio.run(EmbeddedStore.open(path))


def test_text_that_an_administrator_left_is_read_as_bytes(path):
    async def scenario():
        await _touch(path, Create("/a", b"x"))
        _sql(path, "UPDATE node SET data = 'typed' WHERE path = '/a'")
        store = await opened(path)
        assert (await store.get("/a")).data == b"typed"
        await store.close()

    asyncio.run(scenario())


def test_a_file_in_use_is_refused(path):
    async def scenario():
        store = await opened(path, Create("/a"))
        with pytest.raises(StoreUnavailable, match=f"{path} cannot be opened: database is locked"):
            await EmbeddedStore.open(path)
        await store.close()

    asyncio.run(scenario())


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(StoreUnavailable, match="nowhere"):
        asyncio.run(EmbeddedStore.open(f"{tmp_path}/nowhere/metadata.db"))


def test_a_write_that_fails_changes_neither_file_nor_memory(path):
    async def scenario():
        store = await opened(path, Create("/a", b"before"))
        connection = store._shared._file._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")  # as if the disk were full
        with pytest.raises(StoreUnavailable, match=f"{path} cannot be written: database or disk is full"):
            await store.multi([Set("/a", b"after"), Create("/big", b"x" * 100_000)])
        assert (await store.get("/a")).data == b"before"
        connection.execute("PRAGMA max_page_count = 100000")
        await store.set("/a", b"later", 0)
        store.abandon()
        again = await opened(path)
        assert (await again.get("/a")).data == b"later"
        with pytest.raises(NoNode):
            await again.get("/big")
        await again.close()

    asyncio.run(scenario())


def test_a_write_whose_caller_goes_away_is_finished_in_file_and_memory(path):
    async def scenario():
        store = await opened(path)
        task = asyncio.ensure_future(store.create("/a", b"x"))
        await asyncio.sleep(0)  # let it begin
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.create("/b")  # waits its turn behind the other
        assert await store.children("/") == ["a", "b"]
        await store.close()
        again = await opened(path)
        assert await again.children("/") == ["a", "b"]
        await again.close()

    asyncio.run(scenario())


def test_a_write_that_waits_when_the_session_ends_does_not_happen(path):
    async def scenario():
        store = await opened(path)
        first, second = (asyncio.ensure_future(store.create(path)) for path in ("/a", "/b"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        results = await asyncio.gather(first, second, closing, return_exceptions=True)
        assert isinstance(results[1], SessionLost)
        again = await opened(path)
        assert "b" not in await again.children("/")
        await again.close()

    asyncio.run(scenario())


def test_sqlite_is_imported_only_by_who_opens_a_file():
    program = (
        "import asyncio, sys\n"
        "from ottla.metadata.embedded import EmbeddedStore\n"
        "asyncio.run(EmbeddedStore.open(':memory:'))\n"
        "assert 'sqlite3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


KILLED_WRITER = """
import asyncio, sys
from ottla.metadata.embedded import EmbeddedStore

async def main():
    store = await EmbeddedStore.open(sys.argv[1])
    for number in range(100_000):
        await store.create(f"/{number:06}", b"x" * 300)
        print(number, flush=True)

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_kill_9(path):
    writer = subprocess.Popen([sys.executable, "-c", KILLED_WRITER, path], stdout=subprocess.PIPE, text=True)
    acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    writer.stdout.close()

    async def check():
        store = await EmbeddedStore.open(path)
        names = await store.children("/")
        await store.close()
        assert len(acknowledged) <= len(names) <= len(acknowledged) + 1
        assert names == [f"{number:06}" for number in range(len(names))]

    asyncio.run(check())


async def _touch(path: str, *ops) -> None:
    store = await opened(path, *ops)
    await store.close()


def _sql(path: str, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
