"""`kafka-broker-api-versions`: on a broker of ours, and on brokers that are older or newer."""

from ottla.cli.classic.broker_api_versions import described
from ottla.cli.main import main
from ottla.testing import Broker


def test_every_broker_is_printed_with_what_it_speaks(capsys):
    with Broker() as broker:
        assert main(["kafka-broker-api-versions", "--bootstrap-server", broker.bootstrap_server]) == 0
        head = f"{broker.bootstrap_server} (id: 1 rack: null isFenced: false) -> ("
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == head
    assert "\tProduce(0): 0 to 13 [usable: 13]," in lines
    assert "\tLeaderAndIsr(4): 5 to 7 [unusable: node too new]," in lines
    assert "\tSaslHandshake(17): UNSUPPORTED," in lines
    assert lines[-2:] == ["\tDeleteShareGroupOffsets(92): UNSUPPORTED", ")"]


def test_versions_are_judged_from_the_point_of_view_of_kafkas_clients():
    text = described({0: (0, 99), 1: (0, 3), 18: (2, 2), 3: (90, 99), 2000: (1, 4)})
    lines = [line.strip(",") for line in text.splitlines()]
    assert "\tProduce(0): 0 to 99 [usable: 13]" in lines
    assert "\tFetch(1): 0 to 3 [unusable: node too old]" in lines
    assert "\tApiVersions(18): 2 [usable: 2]" in lines
    assert "\tMetadata(3): 90 to 99 [unusable: node too new]" in lines
    assert "\tUNKNOWN(2000): 1 to 4" in lines
    assert not any("LeaderAndIsr" in line or "AlterPartition(" in line for line in lines)
