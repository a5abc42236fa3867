"""Every published fix that is switched off is noticed, by the net that the table names."""

from pathlib import Path
from types import FunctionType

import pytest

from ottla.replication.partition import Partition
from ottla.testing.simulation.cluster.profiles import PROFILES
from ottla.testing.simulation.explorer.scopes import SCOPES
from ottla.testing.simulation.hunting import Hunt, hunt, run_for
from ottla.testing.simulation.mutants import MUTANTS, applied
from tests.scenarios.datadriven import retold
from tests.scenarios.replication.stage import Stage

TRANSCRIPTS = Path(__file__).parents[1] / "scenarios" / "replication"

pytestmark = pytest.mark.skipif(
    not isinstance(vars(Partition)["append"], FunctionType), reason="compiled classes take no patches"
)


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if not mutant.redundant])
def test_is_caught(name):
    found = hunt(name)
    assert found.is_caught, f"{found.mutant.sentence}: {found.evidence}"


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.redundant])
def test_is_harmless_because_of_another_check(name):
    found = hunt(name)
    assert not found.is_caught, found.evidence
    assert found.evidence.startswith(f"{found.mutant.scope}: all "), (
        "only a scope that is seen whole shows that"
    )


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.redundant])
def test_what_does_no_harm_is_noticed_all_the_same(name):
    text = (TRANSCRIPTS / f"{MUTANTS[name].transcript}.txt").read_text()
    with applied(name):
        stage = Stage()
        assert retold(text, stage.run, stage.table) != text, MUTANTS[name].sentence


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_names_one_net_and_leaves_nothing_behind(mutant):
    assert (mutant.scope in SCOPES) != (mutant.profile in PROFILES)
    before = [vars(patch.owner)[patch.name] for patch in mutant.patches]
    with applied(mutant.name):
        assert all(vars(p.owner)[p.name] is not b for p, b in zip(mutant.patches, before, strict=True))
    assert [vars(patch.owner)[patch.name] for patch in mutant.patches] == before


def test_without_a_mutant_the_known_seeds_keep_every_promise():
    for mutant in MUTANTS.values():
        for seed in mutant.seeds or (range(3) if mutant.unseats else ()):
            result = run_for(mutant, seed)
            assert result.violation is None, f"{result.command}\n{result.violation}"


def test_a_hunt_is_as_the_table_says_or_not():
    mutant, redundant = MUTANTS["duplicates"], MUTANTS["leader-epoch-unchecked"]
    assert Hunt(mutant, True, "").is_as_said and not Hunt(mutant, False, "").is_as_said
    assert Hunt(redundant, False, "").is_as_said and not Hunt(redundant, True, "").is_as_said
