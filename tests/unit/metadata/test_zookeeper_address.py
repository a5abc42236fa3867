import asyncio
import socket

import pytest

from ottla.core.errors import ConfigError
from ottla.metadata.zookeeper_address import Server, parse, why_not


@pytest.mark.parametrize(
    "connect, servers, root",
    [
        ("localhost:2181", [("localhost", 2181)], ""),
        ("localhost", [("localhost", 2181)], ""),
        ("a:1,b:2 , c:3", [("a", 1), ("b", 2), ("c", 3)], ""),
        ("a:1,b:2/kafka", [("a", 1), ("b", 2)], "/kafka"),
        ("zk-1.example.org:2181/a/b/", [("zk-1.example.org", 2181)], "/a/b"),
        ("a:1/", [("a", 1)], ""),
        ("[::1]:2182/x", [("::1", 2182)], "/x"),
        ("[fe80::1%eth0]", [("fe80::1%eth0", 2181)], ""),
    ],
)
def test_an_address_is_servers_and_a_path(connect, servers, root):
    assert parse(connect) == (servers, root)


@pytest.mark.parametrize(
    "connect",
    [
        "", " ", ":2181", "a:", "a:b", "a:0", "a:65536", "a:1,", ",a", "a b:1", "::1:2181", "/kafka",
        "a:1//x", "a:1/x//y", "a:1/x/../y", "a:1/.", "http://a:1", "a:-1",
        "a..b:1", "a" * 64,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_the_name_of_the_setting(connect):
    with pytest.raises(ConfigError, match=r"^zookeeper\.connect: "):
        parse(connect)


def test_hosts_are_written_as_they_are_read():
    assert parse("[::1]:1,b/x").hosts == "[::1]:1,b:2181"


def reason(answer: bytes | None) -> str:
    """Why nothing can be had from a server that answers this."""

    async def scenario():
        async def serve(reader, writer):
            await reader.read(4)
            if answer is not None:
                writer.write(answer)
                writer.close()
            else:
                await reader.read()
                writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            address = Server(*server.sockets[0].getsockname())
            return (await why_not([address])).removeprefix(f"{address} ")

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (
            b"This ZooKeeper instance is not currently serving requests\n",
            "answers, but serves nobody: it has no quorum",
        ),
        (b"Zookeeper version: 3.8.0\nMode: follower\n", "answers, but gave us no session in time"),
        (
            b"srvr is not executed because it is not in the whitelist.\n",
            "answers, but gave us no session in time",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers, but not as ZooKeeper does"),
        (b"", "answers, but not as ZooKeeper does"),
        (None, "accepts connections, but does not answer"),
    ],
)
def test_what_answers_is_judged_by_what_it_says(answer, sentence):
    assert reason(answer) == sentence


def test_where_nobody_listens_it_says_so_of_each():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, so that nobody else gets the port, and not listening
        port = taken.getsockname()[1]
        why = asyncio.run(why_not([Server("127.0.0.1", port), Server("zookeeper.invalid", 2181)]))
    assert why == (
        f"127.0.0.1:{port} has nobody who listens; zookeeper.invalid:2181 has a host name that is not known"
    )
