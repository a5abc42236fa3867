"""Virtual TCP: order kept, cuts waited out, the dead reset, and the halves of connections that nobody resets."""

import asyncio

import pytest

from ottla.testing.simulation.network import ROUGH, Weather
from ottla.testing.simulation.transport import WINDOW_BYTES
from ottla.testing.simulation.wire import Wires
from ottla.testing.simulation.world import World
from tests.unit.testing.simulation.nodes import Host, finish


class End(asyncio.Protocol):
    """Remembers what it sees. An `echo` says it back."""

    def __init__(self, echo: bool = False) -> None:
        self.echo = echo
        self.data = bytearray()
        self.seen: list[str] = []
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.seen.append("made")

    def data_received(self, data):
        self.data += data
        if self.echo:
            self.transport.write(data)

    def eof_received(self):
        self.seen.append("end")

    def connection_lost(self, error):
        self.seen.append(f"lost {type(error).__name__}" if error else "lost")

    def pause_writing(self):
        self.seen.append("full")

    def resume_writing(self):
        self.seen.append("room")


class BufferedEnd(asyncio.BufferedProtocol):
    """Has room for seven bytes at a time."""

    def __init__(self) -> None:
        self.room, self.data = bytearray(7), bytearray()

    def get_buffer(self, sizehint):
        return self.room

    def buffer_updated(self, count):
        self.data += self.room[:count]


class Setting:
    """A server, and a client that is connected with it."""

    def __init__(self, seed: int = 1, weather: Weather | None = None, make_server=End) -> None:
        self.world = World(seed, weather or Weather())
        self.wires = Wires(self.world)
        self.accepted: list = []
        self.make_server = make_server
        self.server_host = Host(self.world, "server", self.serve, wires=self.wires)
        self.client_host = Host(self.world, "client", wires=self.wires)
        self.world.run(10)

    async def serve(self, host: Host) -> None:
        def accept():
            self.accepted.append(self.make_server())
            return self.accepted[-1]

        self.listening = await host.loop.create_server(accept, "server", 9092)

    def connect(self, port: int = 9092) -> End:
        async def open_one():
            return (await self.client_host.loop.create_connection(End, "server", port))[1]

        return finish(self.world, self.client_host.loop, open_one())

    def run(self, ms: int) -> None:
        self.world.run(self.world.now_ms + ms)


@pytest.fixture
def setting():
    setting = Setting()
    with setting.world:
        yield setting


def test_both_sides_know_each_other_and_hear_each_other(setting):
    client = setting.connect()
    setting.run(20)
    (server,) = setting.accepted
    client.transport.write(b"question")
    server.transport.write(b"answer")
    setting.run(20)
    assert (server.data, client.data) == (b"question", b"answer")
    assert client.transport.get_extra_info("peername") == ("server", 9092)
    assert server.transport.get_extra_info("peername") == client.transport.get_extra_info("sockname")
    assert server.transport.get_extra_info("socket") is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make_server", [End, BufferedEnd])
def test_in_any_weather_bytes_come_in_order_and_once(seed, make_server):
    setting = Setting(seed, ROUGH, make_server)
    with setting.world:
        client = setting.connect()
        sent = b"".join(b"%d " % number for number in range(2_000))
        for start in range(0, len(sent), 100):
            client.transport.write(sent[start : start + 100])
            setting.run(3)
        setting.run(10_000)
        assert setting.accepted[0].data == sent


def test_a_cut_in_one_direction_stalls_that_direction_only(setting):
    client = setting.connect()
    setting.run(20)
    (server,) = setting.accepted
    setting.world.network.cut("client", "server")
    client.transport.write(b"waits")
    server.transport.write(b"comes")
    setting.run(5_000)
    assert (server.data, client.data) == (b"", b"comes")
    setting.world.network.heal("client", "server")
    setting.run(200)
    assert server.data == b"waits"
    assert client.seen == ["made"]


def test_where_nobody_listens_a_connection_is_refused(setting):
    with pytest.raises(ConnectionRefusedError):
        setting.connect(port=1)
    setting.world.crash("server")
    with pytest.raises(ConnectionRefusedError):
        setting.connect()
    setting.world.restart("server")
    setting.run(5)
    assert setting.connect().seen == ["made"]


def test_a_host_that_does_not_exist_cannot_be_reached(setting):
    async def try_it():
        with pytest.raises(OSError, match="nowhere"):
            await setting.client_host.loop.create_connection(End, "nowhere", 1)

    finish(setting.world, setting.client_host.loop, try_it())


def test_one_who_is_bound_but_does_not_serve_yet_refuses(setting):
    async def bind():
        make = lambda: End()  # noqa: E731
        return await setting.server_host.loop.create_server(make, "server", 0, start_serving=False)

    server = finish(setting.world, setting.server_host.loop, bind())
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        setting.connect(port)
    finish(setting.world, setting.server_host.loop, server.start_serving())
    assert setting.connect(port).seen == ["made"]
    server.close()
    with pytest.raises(ConnectionRefusedError):
        setting.connect(port)


def test_an_address_belongs_to_one_life_at_a_time(setting):
    async def again():
        with pytest.raises(OSError, match="in use"):
            await setting.server_host.loop.create_server(End, "server", 9092)

    finish(setting.world, setting.server_host.loop, again())


def test_connecting_over_a_cut_link_waits_and_can_be_given_up(setting):
    setting.world.network.cut("server", "client")

    async def impatient():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(setting.client_host.loop.create_connection(End, "server", 9092), 3)

    finish(setting.world, setting.client_host.loop, impatient())
    setting.world.network.heal("server", "client")
    setting.run(1_000)
    assert [end.seen for end in setting.accepted] == [["made", "lost ConnectionResetError"]]


def test_a_paused_process_is_connected_by_its_machine_and_reads_later(setting):
    setting.world.pause("server")
    client = setting.connect()
    client.transport.write(b"patience")
    setting.run(1_000)
    assert setting.accepted == []
    setting.world.resume("server")
    setting.run(10)
    assert setting.accepted[0].data == b"patience"


def test_closing_sends_what_is_written_and_then_says_so(setting):
    client = setting.connect()
    client.transport.write(b"last words")
    client.transport.close()
    client.transport.write(b"too late")
    setting.run(50)
    (server,) = setting.accepted
    assert server.data == b"last words"
    assert (client.seen, server.seen) == (["made", "lost"], ["made", "end", "lost"])


def test_writing_to_one_who_is_gone_resets(setting):
    client = setting.connect()
    setting.run(20)
    setting.world.network.slow_down("server", "client", 300)
    setting.accepted[0].transport.abort()
    setting.run(10)
    client.transport.write(b"are you there?")
    setting.run(1_000)
    assert setting.accepted[0].seen == ["made", "lost"]
    assert client.seen[-1].startswith("lost")
    assert setting.accepted[0].data == b""


def test_a_process_that_dies_is_reported_by_its_machine_after_what_it_had_sent(setting):
    client = setting.connect()
    setting.run(20)
    setting.accepted[0].transport.write(b"last words")
    setting.world.crash("server")
    setting.run(50)
    assert client.data == b"last words"
    assert client.seen == ["made", "lost ConnectionResetError"]
    assert setting.accepted[0].seen == ["made"]  # the dead notice nothing


def test_over_a_cut_link_nobody_hears_of_a_death(setting):
    client = setting.connect()
    setting.run(20)
    setting.world.network.cut("server", "client")
    setting.world.crash("server")
    setting.world.restart("server")
    setting.run(10_000)
    assert client.seen == ["made"]


def test_after_a_power_loss_there_is_silence_until_the_machine_is_back(setting):
    client = setting.connect()
    setting.run(20)
    setting.wires.power_off("server")
    setting.world.crash("server")
    client.transport.write(b"hello?")
    setting.run(5_000)
    assert client.seen == ["made"]
    setting.world.restart("server")
    setting.run(100)
    assert client.seen == ["made"]  # a half-open connection
    client.transport.write(b"hello?")
    setting.run(100)
    assert client.seen == ["made", "lost ConnectionResetError"]


def test_one_who_does_not_read_fills_his_window_and_then_our_buffer(setting):
    client = setting.connect()
    setting.run(20)
    (server,) = setting.accepted
    server.transport.pause_reading()
    client.transport.set_write_buffer_limits(0)
    client.transport.write(bytes(WINDOW_BYTES))
    assert client.seen == ["made"]
    lent = bytearray(b"more")
    client.transport.write(lent)
    lent[:] = b"xxxx"
    assert client.seen == ["made", "full"]
    assert client.transport.get_write_buffer_size() == 4
    setting.run(1_000)
    assert not server.data
    server.transport.resume_reading()
    setting.run(100)
    assert client.seen == ["made", "full", "room"]
    assert len(server.data) == WINDOW_BYTES + 4 and server.data.endswith(b"more")


def test_a_sender_with_a_full_buffer_learns_of_the_death_of_the_other(setting):
    client = setting.connect()
    setting.run(20)
    setting.accepted[0].transport.pause_reading()
    client.transport.pause_reading()
    client.transport.write(bytes(2 * WINDOW_BYTES))
    setting.world.crash("server")
    setting.run(100)
    assert client.seen[-1] == "lost ConnectionResetError"


def test_the_same_seed_carries_the_same_bytes_at_the_same_time():
    def talk(seed: int) -> str:
        setting = Setting(seed, ROUGH, lambda: End(echo=True))
        with setting.world as world:
            client = setting.connect()
            world.always("note", lambda: world.note(f"{len(client.data)}"))
            for _ in range(20):
                client.transport.write(b"x" * 50)
                setting.run(20)
            return world.trace.digest()

    assert talk(1) == talk(1)
    assert talk(1) != talk(2)
