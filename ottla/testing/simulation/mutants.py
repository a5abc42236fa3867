"""Published fixes, each switched off: what the nets must catch, or they have holes.

A mutant replaces one small method or function of the product while it is applied; nothing in the product knows of
that. Each names the net that catches it: a scope of the explorer, or a profile of the simulated cluster and the seeds
that found it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.broker.orders import Orders
from ottla.broker.reign import Reign
from ottla.controller import alterations, configs, elections
from ottla.core.watermark import Watermark
from ottla.replication.following import Following
from ottla.replication.leading import Leading
from ottla.replication.partition import Partition
from ottla.replication.progress import Progress
from ottla.storage.producers import Producers
from ottla.testing.simulation import mutations as m
from ottla.testing.simulation.cluster.replicas import SimReplicas


class Patch(NamedTuple):
    """`make` gets what is there, and gives what is put in its place."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fix that is off."""

    name: str
    sentence: str
    patches: tuple[Patch, ...]
    scope: str = ""
    """The scope in which the explorer finds it."""
    profile: str = ""
    seeds: tuple[int, ...] = ()
    unseats: bool = False
    """Is the controller unseated time and again?"""
    redundant: str = ""
    """Why nothing is lost without this fix, where that is so: the explorer finds nothing in `scope`."""
    transcript: str = ""
    """Which transcript of replication tells another story then: what does no harm is noticed all the same."""


MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "truncate-to-high-watermark",
            "KIP-101: whoever begins to follow cuts its log at its own high watermark",
            (Patch(Partition, "_begin_to_follow", m.truncate_to_high_watermark),),
            scope="return",
        ),
        Mutant(
            "end-of-asked-epoch",
            "KIP-279, leader: it answers for the asked epoch, whether that ever ruled here or not",
            (Patch(Partition, "end_of_epoch", m.end_of_the_asked_epoch_only),),
            scope="return",
        ),
        Mutant(
            "leaders-end-only",
            "KIP-279, follower: it cuts at the leader's end, and does not look where its own epoch ends",
            (Patch(Following, "truncation_point", m.follower_takes_the_leaders_end),),
            scope="four-epochs",
        ),
        Mutant(
            "no-divergence",
            "nobody compares epochs: a follower's offset is all that counts",
            (Patch(Partition, "divergence", m.always(None)),),
            scope="return",
        ),
        Mutant(
            "no-fetch-fence",
            "KIP-320, leader: fetches of other leader epochs are answered, and counted",
            (Patch(Partition, "check_epoch", m.always(None)),),
            scope="fence",
        ),
        Mutant(
            "no-fence-at-all",
            "KIP-320, both sides: the follower, too, takes answers of other leader epochs",
            (
                Patch(Partition, "check_epoch", m.always(None)),
                Patch(Following, "fits", m.fits_any_epoch),
            ),
            scope="fence",
        ),
        Mutant(
            "answers-of-other-epochs",
            "KIP-320, follower: an answer that was asked for in another leader epoch is applied",
            (Patch(Following, "fits", m.fits_any_epoch),),
            scope="late-answers",
        ),
        Mutant(
            "stale-answers",
            "T4: an answer is applied wherever the log ends by now",
            (Patch(Following, "has_same_end", m.always(True)),),
            scope="doubled-answers",
        ),
        Mutant(
            "joins-at-high-watermark",
            "T5: a follower joins the ISR at the high watermark, which is behind in a new leader",
            (Patch(Leading, "may_join", m.joins_at_the_high_watermark),),
            scope="join",
        ),
        Mutant(
            "joins-at-once",
            "whoever fetches is in sync",
            (Patch(Leading, "may_join", m.joins_at_once),),
            scope="isr",
        ),
        Mutant(
            "pending-dropped",
            "T6, KIP-497: a proposal that nobody answered is forgotten",
            (Patch(Leading, "answered", m.unknown_is_refused),),
            scope="isr",
        ),
        Mutant(
            "outdated-dropped",
            "T6: a proposal that came too late is forgotten, though a copy of it may have been accepted",
            (Patch(Leading, "answered", m.outdated_is_refused),),
            scope="outdated",
        ),
        Mutant(
            "shrinks-alone",
            "T6: a leader shrinks its ISR before the controller agrees",
            (Patch(Partition, "propose", m.shrinks_alone),),
            scope="isr",
        ),
        Mutant(
            "known-isr-only",
            "KIP-497: whoever was proposed does not count before the answer is there",
            (Patch(Leading, "maximal_isr", m.counts_the_known_isr_only),),
            scope="isr",
        ),
        Mutant(
            "wanted-isr-only",
            "KIP-497: whoever is to leave does not count while the proposal is under way",
            (Patch(Leading, "maximal_isr", m.counts_the_wanted_isr_only),),
            scope="isr",
        ),
        Mutant(
            "unheard-followers",
            "a new leader does not wait for followers that it has not heard of",
            (Patch(Leading, "committed_to", m.counts_whom_it_has_heard),),
            scope="return",
        ),
        Mutant(
            "progress-only-grows",
            "a follower whose log has become shorter counts as before",
            (Patch(Progress, "fetched", m.progress_only_grows),),
            scope="power",
        ),
        Mutant(
            "fetches-of-former-lives",
            "KIP-903, leader: a late fetch of a follower's former life counts for this one",
            (Patch(Leading, "check_life", m.always(None)),),
            scope="late-fetches",
        ),
        Mutant(
            "lives-unchecked",
            "KIP-903, controller: whichever life the leader has seen, the broker joins the ISR",
            (Patch(alterations, "is_same_life", m.always(True)),),
            scope="power",
        ),
        Mutant(
            "lives-not-told",
            "KIP-903, leader: the proposal does not say which lives were seen",
            (Patch(Leading, "_life", m.lives_are_not_told),),
            scope="power",
        ),
        Mutant(
            "births-unseen",
            "T9: a broker that is back before anybody has missed it stays in the ISR",
            (Patch(elections, "is_born", m.born_if_new),),
            scope="power",
        ),
        Mutant(
            "unclean-keeps-its-place",
            "KIP-966: a broker that may have lost records stays eligible",
            (Patch(elections, "lost_its_memory", m.always(False)),),
            scope="power",
        ),
        Mutant(
            "commits-under-min-isr",
            "KIP-966: the high watermark moves though too few replicas are in sync",
            (Patch(Partition, "may_be_outvoted", m.always_property(False)),),
            scope="eligible",
        ),
        Mutant(
            "no-eligible-leaders",
            "KIP-966: nobody is eligible outside the ISR",
            (Patch(elections, "eligible_after", m.always(())),),
            scope="eligible",
        ),
        Mutant(
            "eligible-for-ever",
            "KIP-966: whoever is eligible stays so when the ISR is large enough to commit without it",
            (
                Patch(elections, "eligible_after", m.eligible_for_ever),
                Patch(Partition, "may_be_outvoted", m.outvoted_by_numbers_only),
            ),
            scope="isr",
        ),
        Mutant(
            "last-leader-first",
            "KIP-966: who led last leads again, though others are eligible",
            (Patch(elections, "_elect_clean", m.last_leader_first),),
            scope="eligible",
        ),
        Mutant(
            "elects-anybody",
            "unclean elections where they are not allowed",
            (Patch(elections, "elect", m.elects_anybody),),
            scope="deaths",
        ),
        Mutant(
            "partition-epoch-unchecked",
            "a proposal upon an old state is accepted (95)",
            (Patch(alterations, "is_upon_present", m.always(True)),),
            scope="late-proposals",
        ),
        Mutant(
            "leader-epoch-unchecked",
            "a proposal of an old leader epoch is accepted (74)",
            (Patch(alterations, "is_fenced", m.always(False)),),
            scope="late-leaders",
            transcript="fenced_proposals",
            redundant="every election is a write: the partition epoch, which is checked as well, has grown",
        ),
        Mutant(
            "old-orders",
            "LeaderAndIsr of an older state is followed",
            (Patch(Partition, "follow_orders", m.follows_old_orders),),
            scope="repeated-orders",
        ),
        Mutant(
            "orders-for-former-lives",
            "T9: orders that were meant for a former life are followed (77)",
            (Patch(Orders, "_check_life", m.always(None)),),
            scope="former-lives",
        ),
        Mutant(
            "shows-everything",
            "a consumer sees records above the high watermark",
            (Patch(Partition, "fetchable_end", m.shows_everything),),
            scope="return",
        ),
        Mutant(
            "duplicates",
            "T15: a batch that a client repeats is written again",
            (Patch(Producers, "check", m.always(None)),),
            scope="retries",
        ),
        Mutant(
            "unfenced-controller",
            "T8: the writes of a controller are not bound to its epoch",
            (Patch(Reign, "write", m.writes_unfenced),),
            profile="default",
            unseats=True,
        ),
        Mutant(
            "stale-controllers",
            "T8: orders of a controller that was replaced are followed (11)",
            (
                Patch(Orders, "_check_controller", m.always(None)),
                Patch(SimReplicas, "_is_stale", m.always(False)),
            ),
            scope="repeated-orders",
            transcript="zombie_controller",
            redundant="LeaderAndIsr carries the partition epoch: old orders, in any order, do no harm",
        ),
        Mutant(
            "min-insync-keeps-elr",
            "KIP-966: whoever was eligible stays so when min.insync.replicas changes",
            (Patch(configs, "clears_elr", m.always(False)),),
            scope="fewer-in-sync",
            transcript="min_changes",
            redundant="a leader that hears of eligible replicas commits nothing; before it hears, all of them count",
        ),
        Mutant(
            "min-insync-keeps-elr-unheard",
            "the same, and the leader does not care who is eligible",
            (
                Patch(configs, "clears_elr", m.always(False)),
                Patch(Partition, "may_be_outvoted", m.outvoted_by_numbers_only),
            ),
            scope="fewer-in-sync",
        ),
        Mutant(
            "outvoted-by-numbers",
            "KIP-966: a leader commits while somebody is eligible, if it takes its ISR for large enough",
            (Patch(Partition, "may_be_outvoted", m.outvoted_by_numbers_only),),
            scope="more-in-sync",
        ),
        Mutant(
            "acknowledges-at-once",
            "a record is acknowledged to acks=all as soon as the leader has it",
            (Patch(Watermark, "on_reach", m.acknowledges_at_once),),
            profile="default",
        ),
    )
}


@contextmanager
def applied(name: str) -> Iterator[Mutant]:
    """Let a mutant take the place of what it breaks."""
    mutant = MUTANTS[name]
    originals = [(patch, vars(patch.owner)[patch.name]) for patch in mutant.patches]
    try:
        for patch, original in originals:
            setattr(patch.owner, patch.name, patch.make(original))
        yield mutant
    finally:
        for patch, original in originals:
            setattr(patch.owner, patch.name, original)
