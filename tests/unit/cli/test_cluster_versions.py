"""`ottla cluster versions` says what brokers speak, and what is spoken with them."""

from ottla.cli.cluster_versions import compared
from tests.unit.cli.nouns import asked, broker, ottla

__all__ = ["asked", "broker", "ottla"]


def test_a_broker_of_ours_speaks_what_we_speak(ottla):
    rows = {row["api"]: row for row in ottla("cluster", "versions").rows}
    assert rows["Produce"]["brokers"] == rows["Produce"]["client"]
    assert rows["Produce"]["used"] == rows["Produce"]["client"].rpartition("-")[2]
    assert rows["Produce"]["differing"] == "-"


def test_one_request_is_asked_for_by_name(ottla):
    told = ottla("cluster", "versions", "produce", "--json").json
    assert [row["api"] for row in told["apis"]] == ["Produce"]
    (only,) = told["brokers"]
    assert (only["broker"], [api["name"] for api in only["apis"]]) == (1, ["Produce"])
    assert ":" in only["address"]
    assert {"feature", "finalized", "supported"} == set(told["features"][0])


def test_features_have_levels(ottla):
    rows = {row["feature"]: row for row in ottla("cluster", "versions", "--features").rows}
    assert all(row["supported"] for row in rows.values())


def test_what_is_not_there_is_not_found(ottla):
    ran = ottla("cluster", "versions", "prodduce")
    assert (ran.code, "did you mean 'Produce'" in ran.err) == (4, True)
    assert ottla("cluster", "versions", "--broker", "77").code == 4


def test_brokers_that_differ_are_named():
    rows = {row["key"]: row for row in compared({1: {0: (0, 8), 1: (0, 4)}, 2: {0: (3, 9)}, 3: {0: (0, 8)}})}
    assert (rows[0]["brokers"], rows[0]["used"], rows[0]["differing"]) == ("3-8", 8, [2])
    assert (rows[1]["brokers"], rows[1]["used"], rows[1]["differing"]) == (None, None, [2, 3])
    apart = {row["key"]: row for row in compared({1: {0: (0, 2)}, 2: {0: (3, 3)}})}
    assert apart[0]["brokers"] is None


def test_a_request_that_only_brokers_know_has_its_number():
    rows = {row["key"]: row for row in compared({1: {9999: (0, 0)}})}
    assert (rows[9999]["api"], rows[9999]["brokers"], rows[9999]["client"]) == ("9999", "0", None)
