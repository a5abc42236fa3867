"""COMPATIBILITY.md has the rows and columns that the tests have; `make compat` finds what stands in the cells."""

from tests.interop import compatibility
from tests.interop.clients.table import CLIENTS
from tests.interop.features import CROSSING, FEATURES, MIXED


def rows(text):
    """The tables of a page without their cells: first column, or the whole of a head."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [line if line[0] == "" or line[-1] in CLIENTS else line[0] for line in lines]


def test_the_page_is_fresh():
    assert rows(compatibility.PAGE.read_text()) == rows(compatibility.page([])), "run `make compat`"


def test_the_page_leaves_nothing_untried():
    assert compatibility.UNTRIED not in compatibility.PAGE.read_text()


def test_what_clients_lack_is_a_row():
    assert {name for entry in CLIENTS.values() for name in entry.lacks} <= FEATURES.keys()


def result(feature, state, **names):
    return {"feature": feature, "state": state, "detail": "the reason", **names}


def cells(text, row):
    *_, line = (line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return dict(zip(CLIENTS, line.strip("| ").split(" | ")[1:], strict=True))


def test_a_failure_is_shown_and_outweighs_a_success():
    text = compatibility.page(
        [result("Keys", state, client_name="java") for state in ("passed", "failed", "passed")]
    )
    assert cells(text, "Keys")["java"] == compatibility.NO
    assert "- Keys, java: the reason" in text
    assert cells(text, "Keys")["aiokafka"] == compatibility.UNTRIED


def test_a_client_that_lacks_a_feature_has_not_failed():
    assert cells(compatibility.page([]), "Timestamps")["kcat"] == compatibility.LACKS


def test_records_that_travel_decide_about_both_ends():
    names = {"producer_name": "kafkajs", "consumer_name": "java"}
    text = compatibility.page([result(MIXED, "failed", **names), result(CROSSING, "passed", **names)])
    assert cells(text, f"{MIXED}, as producer")["kafkajs"] == compatibility.NO
    assert cells(text, f"{MIXED}, as consumer")["java"] == compatibility.NO
    assert cells(text, "kafkajs")["java"] == compatibility.YES
