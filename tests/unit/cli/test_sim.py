"""`ottla sim`: one run is printed, many are counted, and what fails is named with the command that runs it again."""

import json

import pytest

from ottla.cli.main import main
from ottla.replication.leading import Leading
from ottla.testing.simulation.cluster.profiles import PROFILES
from ottla.testing.simulation.cluster.schedule import Schedule


def test_one_seed_is_printed_with_its_schedule_and_verdict(capsys):
    assert main(["sim", "--seed", "3", "--profile", "default"]) == 0
    said = capsys.readouterr().out
    assert "seed 3, profile default" in said
    assert "every promise was kept" in said
    assert "digest" in said and "b1 -> " not in said


def test_a_trace_shows_every_event(capsys):
    assert main(["sim", "--seed", "3", "--profile", "default", "--trace"]) == 0
    assert "b1 -> b2: Fetch" in capsys.readouterr().out


def test_a_schedule_is_kept_and_run_again(tmp_path, capsys):
    path = tmp_path / "schedule.json"
    assert main(["sim", "--seed", "4", "--profile", "power", "--save", str(path)]) == 0
    first = capsys.readouterr().out
    assert Schedule.from_json(path.read_text()).seed == 4
    assert main(["sim", "--schedule", str(path)]) == 0
    assert capsys.readouterr().out == first


def test_many_seeds_are_counted_by_profile(capsys):
    assert main(["sim", "--seeds", "0-6"]) == 0
    said = capsys.readouterr().out
    for name in PROFILES:
        assert f"\n{name}\t1\t" in said
    assert "7 schedules in" in said


def test_a_broken_promise_is_named_with_its_command_and_shrinks(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Leading, "may_join", lambda *_: True)
    assert main(["sim", "--seeds", "0-11", "--profile", "default"]) == 1
    said = capsys.readouterr().out
    command = next(line for line in said.splitlines() if line.startswith("  ottla sim --seed"))
    path = tmp_path / "small.json"
    assert main([*command.split()[1:], "--shrink", "--save", str(path)]) == 1
    assert "whoever may be elected has everything" in capsys.readouterr().out
    assert len(json.loads(path.read_text())["faults"]) <= 4


def test_a_small_world_is_seen_whole(capsys):
    assert main(["sim", "--explore", "former-lives"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("former-lives: all ") and "everything holds" in said


def test_a_fix_that_is_off_is_noticed_and_told_as_a_story(capsys):
    assert main(["sim", "--mutant", "shrinks-alone"]) == 0
    said = capsys.readouterr().out
    assert "shrinks-alone (T6: a leader shrinks its ISR before the controller agrees) is caught" in said
    assert "VIOLATION: " in said and "broker 1, leader in epoch 0, writes a at offset 0" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of --seed, --seeds, --schedule, --explore and --mutant"),
        (["--seed", "1", "--seeds", "1-2"], "one of --seed, --seeds, --schedule, --explore and --mutant"),
        (["--seed", "1", "--profile", "sunny"], "there is no profile 'sunny'"),
        (["--seeds", "x"], "is no list of seeds"),
        (["--explore", "everything"], "there is no scope 'everything', but return, "),
        (["--mutant", "x"], "there is no mutant 'x', but truncate-to-high-watermark, "),
        (["--seed", "1", "--level", "brokers", "--shrink"], "by --seed or --seeds only"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(arguments, said, capsys):
    assert main(["sim", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_schedule_is_refused(tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text("{}")
    assert main(["sim", "--schedule", str(path)]) == 1
    assert "is no schedule" in capsys.readouterr().err


def test_the_compiled_build_says_what_it_can_simulate(monkeypatch, capsys):
    monkeypatch.setattr("ottla.records.is_compiled", lambda: True)
    assert main(["sim", "--seed", "0"]) == 2
    assert "add --level brokers" in capsys.readouterr().err
