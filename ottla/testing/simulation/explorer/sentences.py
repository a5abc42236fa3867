"""Moves as sentences, for those who read a trace."""

from ottla.replication.exchange import FetchQuestion, Proposal
from ottla.replication.state import NO_LEADER, PartitionState
from ottla.testing.simulation.explorer.ledger import show
from ottla.testing.simulation.explorer.machines import LateAnswer, LateProposal, LateQuestion, Machines
from ottla.testing.simulation.explorer.moves import Move, Situation
from ottla.testing.simulation.explorer.replicas import Answer


def sentence(machines: Machines, before: Situation, move: Move) -> str:
    """What happens in a situation."""
    kind, who, what = move
    name = f"broker {who + 1}"
    replica = machines.replicas[before.replicas[who]]
    match kind:
        case "orders":
            return f"{name} hears that {_state(machines.states[what[0]])}"
        case "append":
            value, epoch = chr(ord("a") + what[0]), replica.leader_epoch
            return f"{name}, leader in epoch {epoch}, writes {value} at offset {len(replica.entries)}"
        case "fetch" | "fetch, answer" | "fetch, answer late too" | "fetch, answer late":
            return f"{name} {_fetch(machines, before, move)}"
        case "ask, late":
            question = machines.question(before.replicas[who])
            return f"{name} asks broker {what[0] + 1} {_question(question)}, but that is late"
        case "answer":
            return f"{name} gets the answer: {_answer(machines.answers[what[0]])}"
        case "propose" | "propose, late":
            late = ", twice" if "late" in kind else ""
            lagging = f", broker {' and '.join(str(id) for id in what)} lagging" if what else ""
            after = machines.replicas[machines.propose(before.replicas[who], what)].reign
            proposal = after.proposal if after else None
            return f"{name} asks for {_proposal(proposal)}{late}{lagging}"
        case "propose, done" | "propose, done, late":
            asking = machines.propose(before.replicas[who], what)
            handled = _handled(machines, before, asking)
            late = ", a copy stays under way" if "late" in kind else ""
            return f"{name} asks for another ISR{late}, and the controller answers: {handled}"
        case "handle" | "handle, answer lost":
            lost = ", which does not hear it" if "lost" in kind else ""
            handled = _handled(machines, before, before.replicas[who])
            return f"the controller answers broker {who + 1}{lost}: {handled}"
        case "birth":
            return f"{name} begins a new life with {show(replica.entries)}"
        case "expire":
            return f"the session of {name} expires"
        case "register":
            return f"{name} registers again, in another life"
        case "stop":
            return f"{name} is shut down cleanly"
        case "kill":
            return f"{name} is killed"
        case "power":
            return f"{name} loses its power, and of {show(replica.entries)} it keeps {what[0]} records"
        case "look":
            office, _ = machines.look(before.office)
            return f"the controller sees who lives: {_state(machines.offices[office].state)}"
        case "set":
            return f"min.insync.replicas is set to {what[0]}"
        case "hear setting":
            return f"{name} hears that min.insync.replicas is {what[0]}"
        case "hand over":
            return f"the controller lets {name} lead"
        case "late question" | "late answer" | "late proposal":
            return _late(machines, what[0])
    return kind


def _state(state: PartitionState) -> str:
    who = "nobody leads" if state.leader == NO_LEADER else f"broker {state.leader} leads"
    eligible = f", eligible {_members(state.elr)}" if state.elr else ""
    return f"{who} in epoch {state.leader_epoch}, in sync {_members(state.isr)}{eligible} ({state.partition_epoch})"


def _members(brokers: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, brokers)) + "}"


def _question(question: FetchQuestion | None) -> str:
    if question is None:
        return "for nothing"
    offset, last, current, _ = question
    return f"for offset {offset} after epoch {last}, following in epoch {current}"


def _fetch(machines: Machines, before: Situation, move: Move) -> str:
    leader = move.what[0]
    asks = f"asks broker {leader + 1} {_question(machines.question(before.replicas[move.who]))}"
    _, number = machines.fetch(before.replicas[leader], before.replicas[move.who])
    if number < 0:
        return f"{asks}: nothing new"
    answer = _answer(machines.answers[number])
    match move.kind:
        case "fetch, answer":
            return f"{asks}, and is told: {answer}"
        case "fetch, answer late too":
            return f"{asks}; of the answer a copy is late: {answer}"
        case "fetch, answer late":
            return f"{asks}, but the answer is late: {answer}"
    return asks


def _answer(found: Answer) -> str:
    answer = found.answer
    if answer.diverging is not None:
        return f"epoch {answer.diverging.epoch} ends at {answer.diverging.end_offset}"
    if found.leader_end >= 0:
        return f"out of range, the log ends at {found.leader_end}"
    records = " ".join(f"{chr(ord('a') + int(r.value))}{r.epoch}" for r in answer.records) or "nothing new"
    return f"{records}, high watermark {answer.high_watermark}"


def _proposal(proposal: Proposal | None) -> str:
    if proposal is None:
        return "no other ISR"
    lives = ", ".join(f"{life.broker} in life {life.epoch}" for life in proposal.isr)
    return f"the ISR {{{lives}}} upon state {proposal.partition_epoch}"


def _handled(machines: Machines, before: Situation, asking: int) -> str:
    after = machines.handle(before.office, asking).office
    return _state(machines.offices[after].state) if after != before.office else "nothing changes"


def _late(machines: Machines, number: int) -> str:
    late = machines.late[number]
    broker = f"broker {late.life.broker} in life {late.life.epoch}"
    match late:
        case LateQuestion():
            return f"broker {late.leader + 1} gets a late question of {broker}, {_question(late.question)}"
        case LateAnswer():
            return f"{broker} gets a late answer: {_answer(late.answer)}"
        case LateProposal():
            return f"the controller gets a late proposal of {broker}: {_proposal(late.proposal)}"
