"""The stage: replicas of one partition, the controller, a producer and a consumer, and the commands they understand.

Messages are plain calls, so that a transcript says in which order things happen. After every block a table shows each
replica: its role and the leader epoch it lives in, its log end offset (LEO), its high watermark (HW), and its log; `b1`
is the record b, written in epoch 1. Below is what the controller has stored.

    brokers 1 2 3 [replicas=1,2,3] [min=2] [unclean=yes] [flush=yes]   they start, and the partition is created
    produce 1 a b [acks=1]      records to broker 1, a batch each; acks=all unless said otherwise
    fetch 2 3                   question and answer, one after the other
    ask 2 [held=yes]            the question is asked, and the answer is on its way; or the question is
    arrive 2                    what is on its way arrives
    consume 1                   the consumer reads on from broker 1, leader or follower
    propose 1 [lost=request] [lost=answer] [held=yes]    the leader asks for another ISR
    pass 10000                  milliseconds
    kill 2, power 2, stop 2     kill -9; the power goes; a controlled shutdown
    start 2                     the broker comes back, and registers
    cut 1, heal 1               nobody reaches it but clients; what it has missed from the controller it hears then
    flush 1 2                   their logs are on the disk
    expire 1 2 [held=yes]       the controller takes them for dead; or brokers hear of it only at `tell`
    fail 1                      the disk of a broker that lives fails
    set min=1                   somebody changes min.insync.replicas
    elect preferred | unclean   somebody asks for an election
    move 2,3,4 | move cancel    somebody asks for other replicas
    depose                      another controller takes over
    former ...                  the one before does this
"""

from collections.abc import Callable, Iterator

from ottla.controller import alterations, brokers, configs, preferred, reassignment, shutdown, topics
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.controller.context import Policy
from ottla.controller.preferred import ElectionType
from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.exchange import FetchAnswer, FetchQuestion, Proposal
from ottla.replication.following import Outcome
from ottla.replication.partition import Partition
from ottla.replication.state import NO_LEADER, PartitionState
from ottla.storage.config import TopicConfig
from tests.scenarios.datadriven import Words
from tests.scenarios.replication import table
from tests.scenarios.replication.actors import ORDERS, Actor, Consumer, Controller
from tests.scenarios.replication.table import ids
from tests.unit.controller.helpers import DEFAULTS, Loaded
from tests.unit.storage.helpers import NOW, batch

TOLD = {Outcome.NOTHING: "nothing new", Outcome.STALE: "too late, it is not heeded"}


class Stage:
    """See above. `is_lossy` becomes true when a leader lacks a record that was acknowledged."""

    def __init__(self) -> None:
        self.clock = [0]
        self.lives = 100
        self.brokers: dict[int, Actor] = {}
        self.acknowledged: dict[str, int] = {}
        self.by_one: dict[str, int] = {}
        """Records and their offsets: acknowledged when committed, and by the leader alone (acks=1)."""
        self.is_lossy = False
        self.questions: dict[int, tuple[int, FetchQuestion]] = {}
        self.proposals: dict[int, Proposal] = {}
        self.consumer = Consumer()
        self.said: list[str] = []

    def run(self, words: Words) -> Iterator[str]:
        if words.verb == "former":
            present, self.controller = self.controller, self.former
            yield from self.run(Words(words.line.removeprefix("former ")))
            self.controller = present
            return
        self.is_holding = words.flags.get("held") == "yes"
        getattr(self, f"do_{words.verb}")(words)
        said, self.said = self.said, []
        yield from said

    def say(self, line: str) -> None:
        self.said.append(line)

    def table(self) -> Iterator[str]:
        yield from table.replicas(self.brokers)
        yield from table.stored(self.controller.state)
        yield from table.acknowledged(self)

    # --- brokers ---------------------------------------------------------------------------------------------------

    def do_brokers(self, words: Words) -> None:
        least, unclean = words.number("min", 1), words.flags.get("unclean") == "yes"
        settings = {"min.insync.replicas": str(least)}
        if words.flags.get("flush") == "yes":
            settings["flush.messages"] = "1"
        self.config = config = TopicConfig(settings)
        self.policy = Policy(least, unclean)
        self.controller = self.former = Controller.first(lambda topic: self.policy)
        for id in map(int, words.rest):
            self.brokers[id] = Actor(id, config, self.clock)
            self.begin(id)
        self.notice()
        replicas = _numbers(words.flags["replicas"]) if "replicas" in words.flags else list(self.brokers)
        context = self.controller.context
        made, _ = topics.create(context, [NewTopic("orders", assignments={0: replicas})], DEFAULTS, Loaded())
        self.carry_out(made)

    def begin(self, id: int) -> None:
        self.lives += 1
        self.brokers[id].start(self.lives)

    def notice(self, *dead: int) -> None:
        """The controller looks who lives."""
        living = [one.image for one in self.brokers.values() if one.is_alive and one.id not in dead]
        self.carry_out(brokers.change(self.controller.context, living))

    def carry_out(self, decision: object) -> None:
        if not self.controller.carry_out(decision):  # type: ignore[arg-type]
            self.say(f"controller {self.controller.context.controller_id} is fenced by the store")
        if not self.is_holding:
            self.tell()

    def do_tell(self, words: Words) -> None:
        self.tell()

    def tell(self) -> None:
        orders, self.controller.told = self.controller.told, []
        for order in orders:
            actor = self.brokers.get(getattr(order.effect, "broker", -1))
            if actor is None or not actor.is_alive:
                continue
            if actor.is_cut:
                actor.unheard.append(order)
                continue
            try:
                actor.hear(order)
            except KafkaError as error:
                what = type(order.effect).__name__
                self.say(f"{actor.id} refuses {what} of controller {order.controller_id}: {_named(error)}")

    def do_flush(self, words: Words) -> None:
        for id in map(int, words.rest):
            self.brokers[id].replica.log.flush()

    def do_kill(self, words: Words) -> None:
        for id in map(int, words.rest):
            self.brokers[id].kill()

    def do_power(self, words: Words) -> None:
        for id in map(int, words.rest):
            self.brokers[id].lose_power()

    def do_stop(self, words: Words) -> None:
        (id,) = map(int, words.rest)
        decision, left = shutdown.prepare(self.controller.context, *self.brokers[id].life)
        self.carry_out(decision)
        if left:
            self.say(f"{id} still leads: nobody else can")
        self.brokers[id].stop()

    def do_start(self, words: Words) -> None:
        for id in map(int, words.rest):
            self.begin(id)
        self.notice()

    def do_expire(self, words: Words) -> None:
        self.notice(*map(int, words.rest))

    def do_cut(self, words: Words) -> None:
        for id in map(int, words.rest):
            self.brokers[id].is_cut = True

    def do_heal(self, words: Words) -> None:
        (id,) = map(int, words.rest)
        actor = self.brokers[id]
        actor.is_cut = False
        if id not in self.controller.context.brokers:  # its session has expired meanwhile
            self.lives += 1
            actor.register_again(self.lives)
            actor.unheard = []  # meant for the life that is over
            self.notice()
        for order in actor.unheard:
            actor.hear(order)
        actor.unheard = []

    def do_pass(self, words: Words) -> None:
        self.clock[0] += int(words.rest[0])

    # --- producer and consumer -------------------------------------------------------------------------------------

    def do_produce(self, words: Words) -> None:
        id, *values = words.rest
        acks = int(words.flags.get("acks", "-1"))
        replica = self.brokers[int(id)].replica
        for value in values:
            try:
                at = replica.append(batch(value.encode()), acks, NOW).first_offset
            except KafkaError as error:
                self.say(f"{value} is refused: {_named(error)}")
                continue
            self.flush(replica)
            if acks == 1:
                self.by_one[value] = at
            else:
                replica.high_watermark.on_reach(at + 1, self.told(value, at))

    @staticmethod
    def flush(replica: Partition) -> None:
        if replica.config.flush_messages == 1:
            replica.log.flush()
            replica.synced()

    def told(self, value: str, at: int) -> Callable[[KafkaError | None], None]:
        def told(error: KafkaError | None) -> None:
            if error is None:
                self.acknowledged[value] = at
            else:
                self.say(f"{value} is answered: {_named(error)}")

        return told

    def do_consume(self, words: Words) -> None:
        self.said += self.consumer.read(self.brokers[int(words.rest[0])])

    # --- following -------------------------------------------------------------------------------------------------

    def do_fetch(self, words: Words) -> None:
        for id in map(int, words.rest):
            if self.ask(id):
                self.hear(id, *self.brokers[id].letters.pop())

    def do_ask(self, words: Words) -> None:
        for id in map(int, words.rest):
            if self.is_holding:
                question = self.brokers[id].replica.question()
                assert question is not None
                self.questions[id] = (self.leader_of(id), question)
            else:
                self.ask(id)

    def do_arrive(self, words: Words) -> None:
        for id in map(int, words.rest):
            if id in self.questions:
                leader, question = self.questions.pop(id)
                answer = self.brokers[leader].answer(self.brokers[id].life, question)
                self.say(f"{leader} answers {answer.error.name} ({answer.error.value})")
                self.brokers[id].letters.append((question, answer))
            if id in self.proposals:
                self.decide(id, self.proposals.pop(id))
            letters, self.brokers[id].letters = self.brokers[id].letters, []
            for question, answer in letters:
                self.hear(id, question, answer)

    def leader_of(self, id: int) -> int:
        state = self.brokers[id].replica.state
        return NO_LEADER if state is None else state.leader

    def ask(self, id: int) -> bool:
        actor, leader = self.brokers[id], self.brokers.get(self.leader_of(id))
        question = actor.replica.question()
        if question is None or leader is None:
            self.say(f"{id} has nobody to ask")
            return False
        if actor.is_cut or leader.is_cut or not leader.is_alive:
            self.say(f"{id} asks {leader.id}: no answer")
            return False
        actor.letters.append((question, leader.answer(actor.life, question)))
        return True

    def hear(self, id: int, question: FetchQuestion, answer: FetchAnswer) -> None:
        replica = self.brokers[id].replica
        before = replica.log.end_offset
        outcome = replica.answer(question, answer, self.clock[0])
        after = replica.log.end_offset
        self.flush(replica)
        asked = f"{id} asked for {question.fetch_offset}"
        if question.last_fetched_epoch >= 0:
            asked += f" behind epoch {question.last_fetched_epoch}"
        if outcome is Outcome.APPENDED:
            self.say(f"{asked}: {after - before} more")
        elif outcome is Outcome.TRUNCATED and answer.diverging is not None:
            where = answer.diverging
            self.say(f"{asked}: epoch {where.epoch} ended at {where.end_offset}. It cuts its log to {after}")
        elif answer.error is not ErrorCode.NONE and outcome is not Outcome.STALE:
            self.say(f"{asked}: {answer.error.name} ({answer.error.value})")
        else:
            self.say(f"{asked}: {TOLD[outcome]}")

    # --- the ISR, and who leads ------------------------------------------------------------------------------------

    def do_propose(self, words: Words) -> None:
        for id in map(int, words.rest):
            proposal = self.brokers[id].replica.propose(self.clock[0])
            if proposal is None:
                self.say(f"{id} proposes nothing")
                continue
            lost = words.flags.get("lost")
            self.say(f"{id} proposes ISR {ids(sorted(proposal.members))}")
            if self.is_holding:
                self.proposals[id] = proposal
            elif lost == "request" or self.brokers[id].is_cut:
                self.say("nobody hears it")
                self.brokers[id].replica.answered(proposal, None, self.clock[0])
            else:
                self.decide(id, proposal, is_heard=lost is None)

    def decide(self, id: int, proposal: Proposal, *, is_heard: bool = True) -> None:
        actor = self.brokers[id]
        answer: PartitionState | KafkaError | None
        try:
            decision, answers = alterations.alter(self.controller.context, *actor.life, [proposal])
            answer = answers[ORDERS]
            if not self.controller.carry_out(decision):
                answer = KafkaError(ErrorCode.NOT_CONTROLLER)
        except KafkaError as error:
            answer = error
        if not is_heard:
            self.say("the answer is lost")
            answer = None
        elif isinstance(answer, KafkaError):
            self.say(f"the controller refuses: {_named(answer)}")
        actor.replica.answered(proposal, answer, self.clock[0])
        self.tell()

    def do_elect(self, words: Words) -> None:
        kind = ElectionType[words.rest[0].upper()]
        decision, answers = preferred.elect(self.controller.context, kind, [ORDERS])
        self.answer(answers[ORDERS])
        self.carry_out(decision)

    def do_move(self, words: Words) -> None:
        target = None if words.rest == ["cancel"] else _numbers(words.rest[0])
        decision, answers = reassignment.alter(self.controller.context, {ORDERS: target})
        self.answer(answers[ORDERS])
        self.carry_out(decision)

    def do_fail(self, words: Words) -> None:
        (id,) = map(int, words.rest)
        self.brokers[id].partition = None
        self.carry_out(brokers.fail(self.controller.context, id, [ORDERS]))

    def do_set(self, words: Words) -> None:
        least = words.flags["min"]
        topic = ConfigResource(ResourceType.TOPIC, "orders")
        self.carry_out(configs.alter(self.controller.context, topic, {configs.MIN_INSYNC: least}))
        self.policy = self.policy._replace(min_insync_replicas=int(least))
        self.config.update({configs.MIN_INSYNC: least})

    def answer(self, error: KafkaError | None) -> None:
        if error is not None:
            self.say(f"the controller refuses: {_named(error)}")

    def do_depose(self, words: Words) -> None:
        self.former, self.controller = self.controller, self.controller.successor()
        self.tell()


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _named(error: KafkaError) -> str:
    return f"{error.code.name} ({error.code.value})"
