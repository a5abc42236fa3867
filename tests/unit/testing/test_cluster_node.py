"""A broker's process and its ports."""

import asyncio
import socket

import pytest

from ottla.testing.cluster_node import ClusterError, ClusterNode, NodeState, Port


def test_a_port_is_kept_while_nobody_listens_on_it():
    port = Port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", port.number))
    port.close()


def test_who_it_is_kept_for_can_listen_on_it():
    async def scenario() -> None:
        port = Port()
        for _ in range(2):
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port.number)
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
            assert await reader.read() == b""
            writer.close()
            server.close()
        port.close()

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"port {number}"):
            Port(number)


def test_a_broker_that_does_not_start_says_why(tmp_path):
    async def scenario() -> None:
        node = ClusterNode(1, tmp_path, {"num.partitions": "many"}, {"PLAINTEXT": Port()})
        assert node.state is NodeState.DOWN
        node.spawn()
        with pytest.raises(
            ClusterError, match=r"(?s)broker 1 did not start: it exited with 2.*num\.partitions"
        ):
            await node.until_ready(60)
        assert node.state is NodeState.FAILED
        await node.stop(1)
        assert node.state is NodeState.DOWN
        node.let_go()

    asyncio.run(scenario())


def test_a_broker_goes_through_its_states(tmp_path):
    async def scenario() -> None:
        port = Port()
        config = {"listeners": f"PLAINTEXT://127.0.0.1:{port.number}"}
        node = ClusterNode(7, tmp_path, config, {"PLAINTEXT": port})
        node.spawn()
        await node.until_ready(60)
        with pytest.raises(ClusterError, match="runs already"):
            node.spawn()
        assert (node.state, node.port) == (NodeState.RUNNING, port.number)
        node.pause()
        assert node.state is NodeState.PAUSED
        node.resume()
        assert node.state is NodeState.RUNNING
        node.pause()
        await node.stop(60)
        assert (node.state, node.pid) == (NodeState.DOWN, None)
        node.spawn()
        await node.until_ready(60)
        node.pause()
        await node.kill()
        assert (node.state, node.pid) == (NodeState.DOWN, None)
        assert "listens on" in node.output()
        node.let_go()

    asyncio.run(scenario())
