"""What a simulated store does to its sessions. That it keeps the contract is tested with the other stores."""

import asyncio
import contextlib

import pytest

from ottla.metadata.store import Create, SessionLost, SessionState, StoreUnavailable
from ottla.testing.simulation.network import ROUGH, Weather
from ottla.testing.simulation.store import STORE, SimStore
from ottla.testing.simulation.world import World
from tests.unit.testing.simulation.nodes import Host, finish

SESSION_MS = 2_000


class Setting:
    """A store, a node with a session and an ephemeral node, and another one that looks on."""

    def __init__(self, seed: int = 1, weather: Weather | None = None, hiccup: float = 0.0) -> None:
        self.world = World(seed, weather or Weather())
        self.store = SimStore(self.world, session_ms=SESSION_MS)
        self.host, self.other = Host(self.world, "a"), Host(self.world, "b")
        self.session = self.begin(self.host)
        self.witness = self.begin(self.other)
        self.states: list[tuple[int, SessionState]] = []
        self.session.on_session(lambda state: self.states.append((self.world.now_ms, state)))
        self.ask(self.session.multi([Create("/a", b"", True), Create("/n")]))
        self.store.hiccup = hiccup

    def begin(self, host: Host):
        return finish(self.world, host.loop, self.store.open(host.name))

    def ask(self, coroutine, host: Host | None = None):
        return finish(self.world, (host or self.host).loop, coroutine)

    def is_there(self, path: str = "/a") -> bool:
        return self.store.tree.get(path) is not None

    def sees(self, state: SessionState, within_ms: int = 10_000) -> int:
        """When the node sees this state."""
        world = self.world
        assert world.run_until(lambda: self.session.session is state, world.now_ms + within_ms)
        return world.now_ms


@pytest.fixture
def setting():
    setting = Setting()
    with setting.world:
        yield setting


def test_a_session_that_is_heard_of_lives_for_ever(setting):
    setting.world.run(100_000)
    assert setting.is_there()
    assert setting.states == []


def test_the_session_of_a_crashed_node_expires_although_the_node_is_back(setting):
    setting.world.crash("a")
    setting.world.restart("a")
    second = setting.begin(setting.host)
    assert setting.is_there()
    setting.world.run(setting.world.now_ms + SESSION_MS + 1)
    assert not setting.is_there()
    setting.ask(second.create("/a", b"", ephemeral=True))
    setting.world.run(20_000)
    assert setting.is_there()


def test_a_paused_node_loses_its_session_and_learns_it_when_it_wakes(setting):
    setting.world.pause("a")
    setting.world.run(10_000)
    assert not setting.is_there()
    assert setting.session.session is SessionState.CONNECTED
    assert setting.world.counts == {"a session expired while its node lived": 1}
    setting.world.resume("a")
    setting.sees(SessionState.LOST)
    with pytest.raises(SessionLost):
        setting.ask(setting.session.get("/a"))


def test_a_short_pause_costs_nothing(setting):
    setting.world.pause("a")
    setting.world.run(setting.world.now_ms + SESSION_MS // 4)
    setting.world.resume("a")
    setting.world.run(10_000)
    assert setting.is_there()
    assert setting.states == []


@pytest.mark.parametrize("link", [("a", STORE), (STORE, "a")])
def test_a_cut_is_noticed_late_and_healed_in_time_the_session_goes_on(setting, link):
    world = setting.world
    cut_ms = world.now_ms
    world.network.cut(*link)
    suspended_ms = setting.sees(SessionState.SUSPENDED)
    assert SESSION_MS // 2 < suspended_ms - cut_ms < 2 * SESSION_MS
    world.network.heal(*link)
    setting.sees(SessionState.CONNECTED)
    world.run(20_000)
    assert [state for _, state in setting.states] == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert setting.is_there()


def test_who_is_cut_off_for_long_is_gone_but_does_not_know(setting):
    setting.world.network.cut("a", STORE, both_ways=True)
    setting.world.run(20_000)
    assert not setting.is_there()
    assert setting.session.session is SessionState.SUSPENDED
    setting.world.network.heal("a", STORE, both_ways=True)
    setting.sees(SessionState.LOST)


def test_between_expiry_and_news_of_it_a_node_believes_in_what_is_gone(setting):
    world = setting.world
    world.network.cut("a", STORE)
    world.network.slow_down(STORE, "a", 1_500)  # what the store said before still trickles in
    assert world.run_until(lambda: not setting.is_there(), 20_000)
    assert setting.session.session is not SessionState.LOST


def test_a_question_during_a_cut_is_refused_and_whether_it_was_done_shows_later(setting):
    for link, is_done in [(("a", STORE), False), ((STORE, "a"), True)]:
        path = f"/while cut from {link[0]}"
        setting.world.network.cut(*link)
        with pytest.raises(StoreUnavailable):
            setting.ask(setting.session.create(path))
        setting.world.network.heal(*link)
        setting.sees(SessionState.CONNECTED)
        assert setting.is_there(path) is is_done
    assert setting.world.counts == {
        "a write to the store of unknown outcome was done": 1,
        "a write to the store of unknown outcome was not done": 1,
    }


def test_a_question_without_a_connection_is_refused_after_a_while(setting):
    setting.world.network.cut("a", STORE)
    before_ms = setting.sees(SessionState.SUSPENDED)
    with pytest.raises(StoreUnavailable):
        setting.ask(setting.session.get("/a"))
    assert setting.world.now_ms > before_ms


def test_connections_break_at_any_request_and_both_outcomes_occur():
    setting = Setting(hiccup=0.3)
    with setting.world:

        async def write(number: int) -> str:
            try:
                await setting.session.create(f"/{number}")
                return "answered"
            except StoreUnavailable:
                return "done" if setting.is_there(f"/{number}") else "not done"

        outcomes = [setting.ask(write(number)) for number in range(60)]
        assert {*outcomes} == {"answered", "done", "not done"}
        assert all(setting.is_there(f"/{n}") for n, outcome in enumerate(outcomes) if outcome == "answered")
        assert SessionState.LOST not in [state for _, state in setting.states]


def test_what_was_given_up_never_happens_later(setting):
    setting.world.network.cut("a", STORE)

    async def impatient():
        with pytest.raises(StoreUnavailable):
            await setting.session.create("/late")

    setting.ask(impatient())
    setting.world.network.heal("a", STORE)
    setting.sees(SessionState.CONNECTED)
    setting.world.run(60_000)
    assert not setting.is_there("/late")


def test_questions_of_a_session_are_answered_in_order():
    setting = Setting(3, ROUGH)
    with setting.world:

        async def many():
            return await asyncio.gather(*(setting.session.set("/n", b"", n) for n in range(30)))

        assert setting.ask(many()) == list(range(1, 31))


@pytest.mark.parametrize("seed", range(10))
def test_a_watch_tells_of_the_last_change_whatever_happened_meanwhile(seed):
    setting = Setting(seed, ROUGH, hiccup=0.1)
    world, seen = setting.world, []
    with world:

        async def look():
            try:
                seen.append((await setting.session.get("/n")).data)
            except StoreUnavailable:
                await asyncio.sleep(0.1)
                await look()

        async def watch():
            try:
                await setting.session.watch("/n", lambda: setting.host.loop.run(look()))
            except StoreUnavailable:
                await asyncio.sleep(0.1)
                await watch()

        async def change():
            for number in range(20):
                with contextlib.suppress(StoreUnavailable):
                    await setting.witness.set("/n", b"%d" % number)
                await asyncio.sleep(0.05)

        setting.ask(watch())
        world.after(100, world.network.cut, STORE, "a")
        world.after(100 + SESSION_MS // 2, world.network.heal, STORE, "a")
        setting.other.loop.run(change())
        world.run(world.now_ms + 20_000)
        assert setting.session.session is SessionState.CONNECTED
        assert seen[-1] == setting.store.tree.get("/n").data


def test_news_comes_before_an_answer_that_knows_it(setting):
    heard = []

    async def watch():
        await setting.session.watch("/n", lambda: heard.append("news"))

    setting.ask(watch())
    setting.ask(setting.witness.set("/n", b"new"), setting.other)
    setting.ask(setting.session.get("/n"))
    assert heard == ["news"]


def test_closing_ends_the_session_at_once_and_unheard_it_expires(setting):
    setting.ask(setting.session.close())
    assert not setting.is_there()
    setting.ask(setting.witness.create("/b", b"", ephemeral=True), setting.other)
    setting.world.network.cut("b", STORE)
    setting.ask(setting.witness.close(), setting.other)
    assert setting.witness.session is SessionState.LOST
    setting.world.run(setting.world.now_ms + SESSION_MS)
    assert not setting.is_there("/b")
