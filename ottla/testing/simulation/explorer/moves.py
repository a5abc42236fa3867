"""What can happen next: every move in a situation, and the situation after it."""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import NamedTuple

from ottla.replication.exchange import BrokerLife
from ottla.replication.state import PartitionState
from ottla.testing.simulation.explorer.ledger import Ledger
from ottla.testing.simulation.explorer.machines import (
    NOTHING,
    Late,
    LateAnswer,
    LateProposal,
    LateQuestion,
    Machines,
)
from ottla.testing.simulation.explorer.office import GONE, Office, Order
from ottla.testing.simulation.explorer.replicas import REPLICAS, TOPIC, TOPIC_ID, Replica, born, down
from ottla.testing.simulation.explorer.scopes import ANSWERS, PROPOSALS, QUESTIONS, Scope

NO_FLIGHT = (NOTHING,) * len(REPLICAS)
_KINDS: dict[type, str] = {LateQuestion: QUESTIONS, LateAnswer: ANSWERS, LateProposal: PROPOSALS}


class Situation(NamedTuple):
    """Everything, by number. `flight` is the answer that each broker waits for, and then the messages that are late."""

    replicas: tuple[int, int, int]
    office: int
    mail: int
    flight: tuple[int, ...]
    ledger: int


class Move(NamedTuple):
    """What somebody does; numbers mean what the kind of the move says."""

    kind: str
    who: int = NOTHING
    what: tuple[int, ...] = ()


Next = tuple[Move, Situation]


class Moves:
    """All moves within a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.machines = Machines(keeps_old_orders=scope.old_orders)
        self.trying = Move("begin")
        """The move that is being made: of interest if it fails."""

    def first(self) -> Situation:
        """All replicas are empty and in sync, and know it."""
        machines, leader = self.machines, REPLICAS[0]
        state = PartitionState(TOPIC.topic, TOPIC_ID, TOPIC.partition, leader, 0, 0, REPLICAS, REPLICAS)
        lives = tuple((0, NOTHING) for _ in REPLICAS)
        least = self.scope.min_insync_replicas
        office = Office(state, lives, lives, (0,) * len(REPLICAS), min_insync=least)
        empty = [machines.replicas.number(Replica(id, life=0, min_insync=least)) for id in REPLICAS]
        a, b, c = (machines.follow_orders(number, state) for number in empty)
        heard = tuple(Order(id, 0, state) for id in REPLICAS) if self.scope.old_orders else ()
        office_number, mail = machines.offices.number(office), machines.mail.number(heard)
        return Situation((a, b, c), office_number, mail, NO_FLIGHT, machines.ledgers.number(Ledger()))

    def after(self, now: Situation) -> Iterator[Next]:
        """Every move, with the situation that it leads to. Those that change nothing are there, too."""
        for at in range(len(REPLICAS)):
            replica = self.machines.replicas[now.replicas[at]]
            if replica.is_up:
                yield from self._obey(now, at, replica)
                yield from self._lead(now, at, replica)
                yield from self._follow(now, at, replica)
            yield from self._live(now, at, replica)
        yield from self._rule(now)
        yield from self._late(now)

    # --- brokers --------------------------------------------------------------------------------------------------

    def _obey(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        machines, number = self.machines, now.replicas[at]
        for order in machines.due(now.mail, replica.broker, replica.life):
            move = self._try("orders", at, machines.states.number(order.state))
            after = machines.follow_orders(number, order.state)
            if after != number:
                yield move, self._put(now, at, after)
        least = machines.offices[now.office].min_insync
        if replica.min_insync != least:
            after = machines.replicas.number(replica._replace(min_insync=least))
            yield self._try("hear setting", at, least), self._put(now, at, after)

    def _lead(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        machines, number, reign = self.machines, now.replicas[at], replica.reign
        if reign is None:
            return
        ledger = machines.ledgers[now.ledger]
        for value in range(ledger.written - self.scope.retries, ledger.written + 1):
            if 0 <= value < self.scope.records:
                move = self._try("append", at, value)
                after = machines.append(number, value)
                if after != number:
                    counted = ledger._replace(written=max(ledger.written, value + 1))
                    yield move, self._put(now, at, after, ledger=machines.ledgers.number(counted))
        if reign.is_asked:
            yield from self._handle(now, at)
        elif reign.proposal is not None or machines.offices[now.office].alterations < self.scope.alterations:
            yield from self._propose(now, at, replica)

    def _propose(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        machines, number, reign = self.machines, now.replicas[at], replica.reign
        assert reign is not None
        behind = [id for id, end_offset, _ in reign.followers if end_offset != len(replica.entries)]
        found: set[int] = set()
        for lagging in chain.from_iterable(combinations(behind, n) for n in range(len(behind) + 1)):
            move = self._try("propose", at, *lagging)
            after = machines.propose(number, lagging)
            if after == number or after in found:
                continue
            found.add(after)
            asks = machines.replicas[after].reign
            assert asks is not None and asks.proposal is not None
            late = LateProposal(BrokerLife(replica.broker, replica.life), asks.proposal)
            flights = [now.flight, *self._with_late(now.flight, late)]
            if self.scope.is_prompt:
                yield from self._handle_at_once(now, at, after, flights, move)
            else:
                for flight, kind in zip(flights, ("propose", "propose, late"), strict=False):
                    yield move._replace(kind=kind), self._put(now, at, after, flight=flight)

    def _handle_at_once(
        self, now: Situation, at: int, asking: int, flights: list[tuple[int, ...]], move: Move
    ) -> Iterator[Next]:
        machines = self.machines
        office, orders, told, _ = machines.handle(now.office, asking)
        if self._is_within(office):
            mail = machines.post(now.mail, orders)
            for flight, kind in zip(flights, ("propose, done", "propose, done, late"), strict=False):
                self._try(kind, at, *move.what)
                yield self.trying, self._put(now, at, told, office=office, mail=mail, flight=flight)

    def _handle(self, now: Situation, at: int) -> Iterator[Next]:
        self._try("handle", at)
        machines = self.machines
        office, orders, told, untold = machines.handle(now.office, now.replicas[at])
        if not self._is_within(office):
            return
        mail = machines.post(now.mail, orders)
        yield Move("handle", at), self._put(now, at, told, office=office, mail=mail)
        if office != now.office or len(now.flight) > len(REPLICAS):
            yield Move("handle, answer lost", at), self._put(now, at, untold, office=office, mail=mail)

    def _follow(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        machines, number, flight = self.machines, now.replicas[at], now.flight
        if flight[at] != NOTHING:
            move = self._try("answer", at, flight[at])
            yield move, self._put(now, at, machines.answer(number, flight[at]), flight=_with(flight, at))
        question = machines.question(number)
        if question is None or replica.state is None:
            return
        leader = replica.state.leader - 1
        if not machines.replicas[now.replicas[leader]].is_up:
            return
        life = BrokerLife(replica.broker, replica.life)
        yield from self._fetch(now, at, leader, life)
        for later in self._with_late(now.flight, LateQuestion(life, leader, question)):
            yield Move("ask, late", at, (leader,)), now._replace(flight=later)

    def _fetch(self, now: Situation, at: int, leader: int, life: BrokerLife) -> Iterator[Next]:
        machines, number, asked = self.machines, now.replicas[at], now.replicas[leader]
        move = self._try("fetch", at, leader)
        after, answer = machines.fetch(asked, number)
        if after == asked and answer == NOTHING:
            return
        noted = self._put(now, leader, after)
        if answer == NOTHING:
            yield move, noted
            return
        if self.scope.fetches_at_once:
            move = self._try("fetch, answer", at, leader)
            heard = self._put(noted, at, machines.answer(number, answer))
        else:
            heard = noted._replace(flight=_with(noted.flight, at, answer))
        yield move, heard
        for later in self._with_late(heard.flight, LateAnswer(life, machines.answers[answer])):
            yield Move("fetch, answer late too", at, (leader,)), heard._replace(flight=later)
            if self.scope.fetches_at_once:
                yield Move("fetch, answer late", at, (leader,)), noted._replace(flight=later)

    # --- life and death -------------------------------------------------------------------------------------------

    def _live(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        office = self.machines.offices[now.office]
        is_registered = office.registered[at] != GONE
        if not replica.is_up:
            previous = replica.life if replica.is_clean else NOTHING
            newborn = born(replica, office.min_insync)
            yield self._try("birth", at), self._register(now, at, newborn, previous)
            if is_registered:
                yield self._try("expire", at), self._deregister(now, at)
            return
        yield from self._die(now, at, replica)
        ledger = self.machines.ledgers[now.ledger]
        if not is_registered:
            alive = replica._replace(life=replica.life + 1)
            yield self._try("register", at), self._register(now, at, alive, replica.life)
        elif ledger.expiries < self.scope.expiries:
            counted = self.machines.ledgers.number(ledger._replace(expiries=ledger.expiries + 1))
            yield self._try("expire", at), self._deregister(now._replace(ledger=counted), at)

    def _die(self, now: Situation, at: int, replica: Replica) -> Iterator[Next]:
        scope, ledger = self.scope, self.machines.ledgers[now.ledger]
        if ledger.stops < scope.stops:
            counted = ledger._replace(stops=ledger.stops + 1)
            yield self._try("stop", at), self._fall(now, at, down(replica, is_clean=True), counted)
        others = [id for id in ledger.unclean if id != replica.broker]
        if (scope.power_losses and others) or replica.broker not in scope.mortal:
            return
        unclean = tuple(sorted({*ledger.unclean, replica.broker})) if scope.power_losses else ()
        if ledger.kills < scope.kills:
            counted = ledger._replace(kills=ledger.kills + 1, unclean=unclean)
            yield self._try("kill", at), self._fall(now, at, down(replica), counted)
        if ledger.power_losses < scope.power_losses:
            damaged = tuple(
                replica.life if i == at and lost == NOTHING else lost for i, lost in enumerate(ledger.damaged)
            )
            counted = ledger._replace(power_losses=ledger.power_losses + 1, unclean=unclean, damaged=damaged)
            for cut in range(len(replica.entries) + 1):
                yield self._try("power", at, cut), self._fall(now, at, down(replica, cut_at=cut), counted)

    def _fall(self, now: Situation, at: int, dead: Replica, ledger: Ledger) -> Situation:
        machines = self.machines
        flight = self._without_life(_with(now.flight, at), dead)
        return self._put(
            now, at, machines.replicas.number(dead), flight=flight, ledger=machines.ledgers.number(ledger)
        )

    def _register(self, now: Situation, at: int, replica: Replica, previous: int) -> Situation:
        machines = self.machines
        office = machines.offices[now.office]
        lives = list(office.registered)
        lives[at] = (replica.life, previous)
        number = machines.offices.number(office._replace(registered=tuple(lives)))
        return self._put(now, at, machines.replicas.number(replica), office=number)

    def _deregister(self, now: Situation, at: int) -> Situation:
        office = self.machines.offices[now.office]
        lives = list(office.registered)
        lives[at] = GONE
        return now._replace(office=self.machines.offices.number(office._replace(registered=tuple(lives))))

    # --- controller -----------------------------------------------------------------------------------------------

    def _rule(self, now: Situation) -> Iterator[Next]:
        machines = self.machines
        office, ledger = machines.offices[now.office], machines.ledgers[now.ledger]
        if office.registered != office.seen:
            move = self._try("look")
            after, orders = machines.look(now.office)
            if self._is_within(after):
                yield move, self._put(now, office=after, mail=machines.post(now.mail, orders))
        for least in self.scope.settings[ledger.settings : ledger.settings + 1]:
            counted = machines.ledgers.number(ledger._replace(settings=ledger.settings + 1))
            move = self._try("set", NOTHING, least)
            after, orders = machines.set_min_insync(now.office, least)
            mail = machines.post(now.mail, orders)
            yield move, self._put(now, office=after, mail=mail, ledger=counted)
        for id in self.scope.hand_overs[ledger.hand_overs : ledger.hand_overs + 1]:
            if id in office.state.isr and id != office.state.leader and office.seen[id - 1] != GONE:
                counted = machines.ledgers.number(ledger._replace(hand_overs=ledger.hand_overs + 1))
                move = self._try("hand over", id - 1)
                after, orders = machines.hand_over(now.office, id)
                if self._is_within(after):
                    mail = machines.post(now.mail, orders)
                    yield move, self._put(now, office=after, mail=mail, ledger=counted)

    def _is_within(self, office: int) -> bool:
        found = self.machines.offices[office]
        return (
            found.state.leader_epoch <= self.scope.leader_epochs
            and found.alterations <= self.scope.alterations
        )

    # --- what is late ---------------------------------------------------------------------------------------------

    def _late(self, now: Situation) -> Iterator[Next]:
        machines = self.machines
        for number in now.flight[len(REPLICAS) :]:
            late = machines.late[number]
            at = late.life.broker - 1
            replica = machines.replicas[now.replicas[at]]
            is_same_life = replica.is_up and replica.life == late.life.epoch
            if isinstance(late, LateProposal):
                move = self._try("late proposal", at, number)
                office, orders = machines.handle_late(now.office, number)
                if office != now.office and self._is_within(office):
                    yield move, self._put(now, office=office, mail=machines.post(now.mail, orders))
            elif isinstance(late, LateQuestion):
                if machines.replicas[now.replicas[late.leader]].is_up:
                    move = self._try("late question", at, number)
                    after, answer = machines.fetch_late(now.replicas[late.leader], number)
                    is_heard = is_same_life and now.flight[at] == NOTHING
                    flight = _with(now.flight, at, answer) if is_heard else now.flight
                    yield move, self._put(now, late.leader, after, flight=flight)
            elif is_same_life:
                move = self._try("late answer", at, number)
                answer = machines.answers.number(late.answer)
                yield move, self._put(now, at, machines.answer(now.replicas[at], answer))

    def _with_late(self, flight: tuple[int, ...], late: Late) -> Iterator[tuple[int, ...]]:
        """One more message that is late, if that may be."""
        if self.scope.stragglers > len(flight) - len(REPLICAS) and _KINDS[type(late)] in self.scope.late:
            number = self.machines.late.number(late)
            kept = flight[len(REPLICAS) :]
            if number not in kept:
                yield (*flight[: len(REPLICAS)], *sorted((*kept, number)))

    def _without_life(self, flight: tuple[int, ...], dead: Replica) -> tuple[int, ...]:
        """Nobody is left to hear the answers to a dead broker. What it asked may still arrive."""
        if len(flight) == len(REPLICAS):
            return flight
        kept = [
            number
            for number in flight[len(REPLICAS) :]
            if not isinstance(late := self.machines.late[number], LateAnswer)
            or late.life.broker != dead.broker
        ]
        return (*flight[: len(REPLICAS)], *kept)

    # --- all together ---------------------------------------------------------------------------------------------

    def _try(self, kind: str, who: int = NOTHING, *what: int) -> Move:
        self.trying = Move(kind, who, what)
        return self.trying

    def _put(
        self,
        now: Situation,
        at: int = NOTHING,
        replica: int = NOTHING,
        *,
        office: int = NOTHING,
        mail: int = NOTHING,
        flight: tuple[int, ...] | None = None,
        ledger: int = NOTHING,
    ) -> Situation:
        """The situation in which some of it is new, looked at by the judge."""
        machines, replicas = self.machines, now.replicas
        if at != NOTHING:
            replicas = (*replicas[:at], replica, *replicas[at + 1 :])  # type: ignore[assignment]  # still three
        office = now.office if office == NOTHING else office
        if at != NOTHING or mail != NOTHING:
            known = map(machines.knowledge, replicas)
            mail = machines.prune(now.mail if mail == NOTHING else mail, *known)
        else:
            mail = now.mail
        ledger = machines.judge(*replicas, office, now.ledger if ledger == NOTHING else ledger)
        return Situation(replicas, office, mail, now.flight if flight is None else flight, ledger)


def _with(flight: tuple[int, ...], at: int, answer: int = NOTHING) -> tuple[int, ...]:
    return (*flight[:at], answer, *flight[at + 1 :])
