"""`kafka-consumer-groups` and Apache's own print the same, on an Ottla broker and on Apache Kafka 4.3.

There are groups of both protocols: with members that live, whom a client of ours holds open; with members that left;
that never had any; and one in the middle of a rebalance.

All of stdout, the exit code and stderr must be the same, except: Apache's tool prints a stack trace in addition, names
the classes of its parser, has some of its sets in another order in every run, and prints its options below a complaint.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.classic.compare import Did, lines, ours, running
from tests.interop.classic.groups import CONFIG, LONG, Groups, fill
from tests.oracles.apache_tools import ApacheTools

FILES = {
    "two.csv": "t1,0,2\nt1,1,3\n",
    "three.csv": "stored,t1,0,2\nlone,t2,0,3\n",
    "quoted.csv": f'"{LONG}",0,1\n"t1",1,100\n',
    "unknown.csv": "nope,0,1\n",
    "negative.csv": "t1,0,-3\n",
    "client.properties": "request.timeout.ms=20000\nclient.id=me\n",
}
NO_BROKER = """
    kcg
    kcg --help
    kcg --version
    kcg --bogus
    kcg --list
    kcg --reset-offsets
    kcg --list --members
    kcg --validate-regex a
    kcg --validate-regex a.*
    kcg --validate-regex (
    kcg --validate-regex "a(?=b)"
    kcg --validate-regex "[a"
    kcg --validate-regex "a**"
    kcg --validate-regex "*a"
    kcg --validate-regex "(?P<n>a)\\\\d+"
    kcg --validate-regex "a{1001}"
    kcg --validate-regex "\\\\"
    kcg --validate-regex "a)"
    kcg --validate-regex "[b-a]"
    kcg --validate-regex "(\\\\1)"
    kcg --validate-regex ""
    kcg --validate-regex
    kcg --validate-regex a --group g
    kcg --validate-regex a --list
    kcg --validate-regex a --describe
    kcg --bootstrap-server nonsense --list
"""
REFUSED = """
    kcg -B
    kcg -B -B --list
    kcg -B --bogus
    kcg -B --li
    kcg -B --list --describe
    kcg -B --list --delete
    kcg -B --list --delete --group g
    kcg -B --list --group g
    kcg -B --list --group g --all-groups
    kcg -B --list --topic t
    kcg -B --list --members --verbose --offsets
    kcg -B --list --timeout abc
    kcg -B --list --timeout 1000 --timeout 2000
    kcg -B --list --command-config @D/none.properties
    kcg -B --list --command-config a --command-config b
    kcg -B --list --state bogus
    kcg -B --list --state stable,unknown
    kcg -B --list --state stable --state empty
    kcg -B --list --type share
    kcg -B --list --type classic --type consumer
    kcg -B --describe
    kcg -B --describe --group g --all-groups
    kcg -B --describe --group g --members --state
    kcg -B --describe --group g --state Stable
    kcg -B --describe --group g --state=
    kcg -B --describe --group g --topic t
    kcg -B --describe --group g --type consumer
    kcg -B --describe --group g --timeout
    kcg -B --describe --delete --group g
    kcg -B --delete
    kcg -B --delete --group g --topic t
    kcg -B --delete --group g --state
    kcg -B --delete --delete-offsets --group g
    kcg -B --delete-offsets
    kcg -B --delete-offsets --group g
    kcg -B --delete-offsets --all-groups --topic t
    kcg -B --delete-offsets --group g --group h --topic t
    kcg -B --delete-offsets --group g --topic t1:x
    kcg -B --reset-offsets
    kcg -B --reset-offsets --group g
    kcg -B --reset-offsets --group g --all-topics
    kcg -B --reset-offsets --group g --to-earliest
    kcg -B --reset-offsets --topic t --to-earliest
    kcg -B --reset-offsets --group g --topic t --to-earliest --dry-run --execute
    kcg -B --reset-offsets --group g --topic t --to-latest --to-earliest --shift-by 1
    kcg -B --reset-offsets --group g --topic t --to-offset 1 --to-datetime x
    kcg -B --reset-offsets --group g --topic t --to-current --to-datetime x
    kcg -B --reset-offsets --group g --topic t --by-duration P1D --from-file x
    kcg -B --reset-offsets --group g --topic t --by-duration
    kcg -B --reset-offsets --group g --topic t --to-earliest --execute --state
"""
LOOK = """
    kcg -B --list
    kcg -B --list some words
    kcg -B --list --all-groups --to-earliest --dry-run --export
    kcg -B --list --timeout 20000 --command-config @D/client.properties
    kcg -B --list --state
    kcg -B --list --state --state
    kcg -B --list --state --type
    kcg -B --list --type
    kcg -B --list --state ""
    kcg -B --list --state stable
    kcg -B --list --state "stable, Empty"
    kcg -B --list --state PreparingRebalance,dead
    kcg -B --list --type consumer
    kcg -B --list --type " consumer , classic" --state empty
    kcg -B --describe --all-groups
    kcg -B --describe --all-groups --verbose
    kcg -B --describe --all-groups --offsets
    kcg -B --describe --all-groups --members
    kcg -B --describe --all-groups --members --verbose
    kcg -B --describe --all-groups --state
    kcg -B --describe --all-groups --state --verbose
    kcg -B --describe --group stored
    kcg -B --describe --group ten --group lone --group lone --timeout 5000
    kcg -B --describe --group lone --group nope
    kcg -B --describe --group nope --members
    kcg -B --describe --group nope --state
    kcg -B --describe --group ""
    kcg -B --describe --group workers
    kcg -B --describe --group workers --state
    kcg -B --describe --group lone --timeout x
    kcg -B --describe --group lone --dry-run --execute --export --to-earliest
"""
DRY = """
    kcg -B --reset-offsets --group lone --topic t2 --to-earliest
    kcg -B --reset-offsets --group lone --topic t2
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-latest
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-current
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-current
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-earliest
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-earliest --export
    kcg -B --reset-offsets --dry-run --group stored --group lone --all-topics --to-latest
    kcg -B --reset-offsets --dry-run --group lone --group lone --topic t2 --to-latest --export
    kcg -B --reset-offsets --dry-run --group stored --group lone --all-topics --to-latest --export
    kcg -B --reset-offsets --dry-run --all-groups --all-topics --to-latest
    kcg -B --reset-offsets --dry-run --all-groups --all-topics --to-latest --export
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-offset 100
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-offset -5
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-offset x
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --to-offset 1 --to-offset 2
    kcg -B --reset-offsets --dry-run --group lone --topic t1:1,0 --topic t2 --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic t1:0,7,9 --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic t1:x --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic t1: --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic a:b:c --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic nope --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --topic nope --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic nope:0 --to-offset 4
    kcg -B --reset-offsets --dry-run --group lone --topic "bad name" --to-latest
    kcg -B --reset-offsets --dry-run --group lone --topic t1 --shift-by 1
    kcg -B --reset-offsets --dry-run --group stored --all-topics --shift-by 1
    kcg -B --reset-offsets --dry-run --group stored --all-topics --shift-by -2
    kcg -B --reset-offsets --dry-run --group stored --all-topics --shift-by -200
    kcg -B --reset-offsets --dry-run --group stored --all-topics --shift-by x
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-datetime 2001-09-09T01:46:43.000
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-datetime 2001-09-09T01:46:43.5Z
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09T02:46:43.000+01
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09T02:46:43.000+0100
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-9-9T1:46:43.000
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09T01:46:43.000-01:00
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09T01:46:43
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-99-09T01:46:43.000
    kcg -B --reset-offsets --dry-run --group lone --topic t2 --to-datetime 2001-09-09T01:46:43.000-
    kcg -B --reset-offsets --dry-run --group stored --all-topics --to-datetime 2101-09-09T01:46:43.000
    kcg -B --reset-offsets --dry-run --group stored --all-topics --by-duration P1D
    kcg -B --reset-offsets --dry-run --group stored --all-topics --by-duration P19000D
    kcg -B --reset-offsets --dry-run --group stored --all-topics --by-duration pt1h30m2.5s
    kcg -B --reset-offsets --dry-run --group stored --all-topics --by-duration 1h
    kcg -B --reset-offsets --dry-run --group stored --all-topics --by-duration PT
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/two.csv
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/two.csv --export
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/quoted.csv --export
    kcg -B --reset-offsets --dry-run --group stored --group lone --from-file @D/two.csv
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/unknown.csv
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/negative.csv
    kcg -B --reset-offsets --dry-run --group stored --from-file @D/none.csv
    kcg -B --reset-offsets --dry-run --group live-classic --all-topics --to-earliest
    kcg -B --reset-offsets --dry-run --group live-modern --group lone --all-topics --to-earliest
    kcg -B --reset-offsets --dry-run --group rebalancing --topic t1 --to-earliest
    kcg -B --reset-offsets --dry-run --group new --all-topics --to-earliest
    kcg -B --reset-offsets --dry-run --group workers --topic t1 --to-earliest
    kcg -B --reset-offsets --dry-run --group "" --topic t1 --to-earliest
"""
CHANGE = """
    kcg -B --reset-offsets --execute --group new-% --topic t1 --to-latest
    kcg -B --reset-offsets --execute --group new-% --topic t1:1 --topic t2 --shift-by -2
    kcg -B --reset-offsets --execute --group new-% --topic t2 --to-offset 3
    kcg -B --reset-offsets --execute --group new-% --topic t1:1 --shift-by -2 --export
    kcg -B --describe --group new-% --verbose
    kcg -B --reset-offsets --execute --group new-% --from-file @D/two.csv
    kcg -B --describe --group new-%
    kcg -B --reset-offsets --execute --group long-% --topic a-rather-long-name-of-a-topic --to-latest
    kcg -B --reset-offsets --execute --group live-classic --topic t1 --to-latest
    kcg -B --reset-offsets --execute --group new-% --topic nope --to-latest
    kcg -B --delete-offsets --group new-% --topic t2
    kcg -B --delete-offsets --group new-% --topic t2 --topic t1:7
    kcg -B --delete-offsets --group long-% --topic a-rather-long-name-of-a-topic:3,1
    kcg -B --delete-offsets --group long-% --topic t2 --topic a-rather-long-name-of-a-topic
    kcg -B --delete-offsets --group new-% --topic nope
    kcg -B --delete-offsets --group live-classic --topic t1
    kcg -B --delete-offsets --group live-modern --topic t1
    kcg -B --delete-offsets --group live-modern --topic nope
    kcg -B --delete-offsets --group nope --topic t1
    kcg -B --delete-offsets --group nope --topic nope
    kcg -B --delete --group new-%
    kcg -B --delete --group long-%
    kcg -B --delete --group nope --group nope2
    kcg -B --delete --group live-classic
    kcg -B --delete --group workers
    kcg -B --delete-offsets --group workers --topic t1
    kcg -B --reset-offsets --execute --group first-% --topic t2 --to-earliest
    kcg -B --reset-offsets --execute --group second-% --topic t2 --to-earliest
    kcg -B --delete --group live-modern --group first-% --group nope
    kcg -B --delete --group second-%
    kcg -B --describe --group second-%
"""


@pytest.fixture(scope="module", params=["ottla", "apache"])
def server(request: pytest.FixtureRequest, tools: ApacheTools) -> Iterator[str]:
    with running(request.param, CONFIG) as server, ExitStack() as stack:
        fill(Groups(server, stack))
        yield server


def alike(did: Did, letter: str) -> Did:
    """What counts."""
    out, err = did.out, re.sub(r"^joptsimple\.\w+: ", "", did.err)
    if "command failed due to" in out:  # the rest of stderr is a stack trace
        err = "".join(line for line in err.splitlines(True) if line.startswith("WARN"))
    err = re.sub(r"\n(?:\tat |Option  |usage: ).*", "", err, flags=re.S).rstrip("\n")
    err = re.sub(r"(?<=: )(\[.*\]|[A-Z]\w+(?:, \w+)+)$", _sorted, err, flags=re.M)
    if letter:
        out, err = (re.sub(rf"(?<=-){letter}\b(?!-)", "%", each) for each in (out, err))
    return Did(did.code, out, err)


def _sorted(match: re.Match[str]) -> str:
    """A set in the order of its words."""
    return ", ".join(sorted(re.findall(r"[\w-]+", match[0])))


def compare(
    text: str, tools: ApacheTools, capfd: pytest.CaptureFixture[str], server: str, files: str
) -> None:
    differing = []
    for words in lines(text.replace("kcg", "kafka-consumer-groups"), server, files):
        apache, mine = ([word.replace("%", letter) for word in words] for letter in "ao")
        expected, found = Did(*tools.run(*apache)), ours(mine, capfd)
        is_own = apache != mine
        if alike(found, "o" if is_own else "") != alike(expected, "a" if is_own else ""):
            shown = "\n".join(f"  {who} {each}" for who, each in (("Apache", expected), ("ours", found)))
            differing.append(f"{' '.join(words)}\n{shown[:3000]}")
    assert not differing, "\n".join(differing)


def test_command_lines_that_need_no_broker_are_answered_alike(tools, files, capfd):
    compare(NO_BROKER, tools, capfd, "", files)


def test_command_lines_that_make_no_sense_are_refused_alike(tools, server, files, capfd):
    compare(REFUSED, tools, capfd, server, files)


def test_groups_with_and_without_members_look_alike(tools, server, files, capfd):
    compare(LOOK, tools, capfd, server, files)


def test_dry_runs_show_the_same_offsets(tools, server, files, capfd):
    compare(DRY, tools, capfd, server, files)


def test_groups_are_reset_and_deleted_alike(tools, server, files, capfd):
    compare(CHANGE, tools, capfd, server, files)
