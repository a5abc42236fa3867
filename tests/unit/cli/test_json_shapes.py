"""Every command with --json prints what its help says, key by key."""

import json

import click
import pytest

from ottla.cli.main import cli, main
from ottla.testing import Broker
from tests.unit.cli.shapes import Anything, Array, Either, Mapping, Object, Plain, differences, shapes_in
from tests.unit.cli.states import NO_VERIFICATION, Asked

TABLE = {
    "ottla cluster brokers": [[]],
    "ottla cluster health": [[], ["--watch", "--wait"]],
    "ottla cluster elect": [["--dry-run"], []],
    "ottla cluster reassign": [
        ["--topic", "orders", "--to", "BROKER"],
        ["--topic", "orders", "--to", "BROKER", "--execute"],
        ["--list"],
        ["--cancel"],
        ["--verify"],
    ],
    "ottla cluster log-dirs": [[]],
    "ottla cluster versions": [[]],
    "ottla topic ls": [[], ["--sizes"]],
    "ottla topic describe": [["orders"], ["orders", "nowhere"]],
    "ottla topic create": [["made"], ["made", "--if-not-exists"], ["other", "--dry-run"]],
    "ottla topic alter": [["orders", "--set", "retention.ms=1d"]],
    "ottla topic delete": [["doomed", "--dry-run"], ["doomed", "--yes"]],
    "ottla topic add-partitions": [["growing", "3", "--yes"]],
    "ottla topic delete-records": [["orders", "--before", "1"], ["orders", "--before", "1", "--apply"]],
    "ottla topic compact": [["keyed"], ["keyed", "--wait"]],
    "ottla topic clone": [["orders", "cloned"], ["orders", "cloned-too", "--records"]],
    "ottla consume": [["paid", "orders:0", "-e", "-o", "start"]],
    "ottla produce": [["growing", "-v", "one", "-v", "two"]],
    "ottla group ls": [[]],
    "ottla group describe": [["billing"], ["reading"]],
    "ottla group lag": [["billing"], ["--all"]],
    "ottla group reset": [["billing", "--topic", "orders", "--to", "start"]],
    "ottla group delete": [["gone", "--dry-run"], ["gone", "--yes"]],
    "ottla config get": [["topic", "orders"], ["broker", "BROKER"]],
    "ottla config set": [
        ["topic", "orders", "retention.ms=2d"],
        ["topic", "orders", "flush.ms=1s", "--dry-run"],
    ],
    "ottla config unset": [["topic", "orders", "retention.ms"]],
    "ottla config diff": [["topic", "orders", "keyed"], ["topic", "keyed"]],
    "ottla config explain": [[], ["topic", "orders"]],
    "ottla txn ls": [[]],
    "ottla txn describe": [["pay"]],
    "ottla txn producers": [["orders"]],
    "ottla txn find-hanging": [["--max-age", "0"]],
    "ottla txn abort": [
        ["torn:0", "--start-offset", "HANGING", "--yes"],
        ["--transactional-id", "pay", "--yes"],
    ],
    "ottla log dump": [["LOGS/orders-0"], ["LOGS/orders-0", "--print-data-log"]],
    "ottla log verify": [["LOGS"]],
    "ottla log repair": [["LOGS"]],
    "ottla log segments": [["LOGS"], ["LOGS/orders-0"]],
    "ottla log find": [["LOGS/orders-0", "1"], ["LOGS/orders-0", "--time", "1"], ["LOGS/orders-0", "4711"]],
    "ottla bench produce": [["--records", "20"]],
    "ottla bench consume": [["--records", "20"]],
    "ottla bench e2e": [["--records", "3"]],
    "ottla bench partitions": [["--counts", "1", "--records", "20"]],
    "ottla profile ls": [[]],
    "ottla profile show": [["prod"]],
    "ottla shims ls": [[]],
}
"""What each is called with. BROKER, HANGING and LOGS stand for what the state of the cluster has."""
ELSEWHERE = {"ottla cluster up": "starts processes; its own tests look at what it prints"}
EXIT_CODES = {
    "ottla topic describe orders nowhere": (3,),
    "ottla log verify LOGS": (0, 1),
    "ottla log repair LOGS": (0, 1),
    "ottla log find LOGS/orders-0 4711": (1,),
}
"""Where it is not 0."""


def leaves(command, ctx):
    if not isinstance(command, click.Group):
        yield ctx.command_path, command
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        yield from leaves(child, click.Context(child, info_name=name, parent=ctx))


COMMANDS = dict(leaves(cli, click.Context(cli, info_name="ottla")))
WITH_JSON = [path for path, each in COMMANDS.items() if any("--json" in one.opts for one in each.params)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(config=NO_VERIFICATION, data_dir=tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="module")
def state(broker, tmp_path_factory):
    """Something of everything; returns what the words of the table stand for."""
    made = Asked(broker.bootstrap_server)
    for name in ("orders", "doomed", "growing", "paid", "torn"):
        made.create(name)
    broker.create_topic("keyed", **{"cleanup.policy": "compact"})
    made.produce("orders", 5)
    for group in ("billing", "gone"):
        made.commit(group, "orders", 2)
    made.join("reading", "orders", [0])
    made.begin("pay", "paid", 2)
    made.hang("orders", 2)
    _, start = made.hang("torn", 2, transactional_id="specter")
    return {"BROKER": str(1), "HANGING": str(start), "LOGS": str(broker.data_dir)}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path, broker):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "prod.properties").write_text("sasl.plain.password=x\n")
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap_server)


@pytest.mark.parametrize("path", TABLE)
def test_a_document_has_the_keys_that_the_help_says(path, state, capsys):
    shapes = shapes_in(COMMANDS[path].help)
    for words in TABLE[path]:
        code = main([*path.split()[1:], *(_filled(word, state) for word in words), "--json"])
        captured = capsys.readouterr()
        expected = EXIT_CODES.get(" ".join([path, *words]), (0,))
        assert code in expected, captured.err
        assert captured.out
        for line in captured.out.splitlines():
            assert differences(Either(shapes), json.loads(line)) == [], line


def _filled(word, state):
    for name, value in state.items():
        word = word.replace(name, value)
    return word


@pytest.mark.parametrize("path", WITH_JSON)
def test_every_command_with_json_says_and_shows_it(path):
    assert shapes_in(COMMANDS[path].help), "its help has no `--json: {...}`"
    assert (path in TABLE) != (path in ELSEWHERE)


def test_json_may_stand_before_the_command(broker, state, capsys):
    assert main(["--json", "topic", "ls"]) == 0
    assert "topics" in json.loads(capsys.readouterr().out)


# --- the notation -----------------------------------------------------------------------------------------------------

HELP = """Does it.

--json: {"a", "b": [{"c"}], "d": {KEY: VALUE}, "e": {"f"} |
null}; with --all, {"g", ...} or a line [SENTENCE].

{"not": "this"}
"""


def test_shapes_are_read():
    first = Object(
        {
            "a": Plain(),
            "b": Array(Object({"c": Plain()}, False)),
            "d": Mapping(Anything()),
            "e": Either([Object({"f": Plain()}, False), Plain(True)]),
        },
        False,
    )
    assert shapes_in(HELP) == [first, Object({"g": Plain()}, True), Array(Anything())]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": [1], "b": [{"c": 1}], "d": {"x": "y"}, "e": {"f": 1}}, []),
        ({"a": [1], "b": [], "d": {}, "e": None}, []),
        (
            {"b": [{}], "d": {}, "e": None, "z": 1},
            ["$.a is missing", "$.z is not documented", "$.b[0].c is missing"],
        ),
        (
            {"a": {}, "b": {}, "d": [], "e": 7},
            ["$.a has objects", "$.b is no list", "$.d is no object", "$.e is n"],
        ),
    ],
)
def test_documents_are_held_against_them(value, found):
    said = differences(shapes_in(HELP)[0], value)
    assert len(said) == len(found)
    assert all(each.startswith(start) for each, start in zip(said, found, strict=True))
