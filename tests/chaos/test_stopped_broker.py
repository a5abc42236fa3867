"""Ends of a broker that are not crashes: SIGTERM under load, and a second one on the same data."""

from ottla.storage.checkpoints import CLEAN_SHUTDOWN
from tests.chaos.load import Load
from tests.chaos.processes import BrokerProcess
from tests.chaos.test_killed_broker import SETTINGS, check


def test_sigterm_under_load_is_a_clean_stop(tmp_path):
    data = tmp_path / "data"
    with BrokerProcess(data, SETTINGS) as broker:
        load = Load(broker.bootstrap_server)
        try:
            for _ in range(2):
                load.wait_for(1000)
                assert broker.terminate() == 0, broker.errors
                assert (data / CLEAN_SHUTDOWN).exists()
                broker.start()
                assert not (data / CLEAN_SHUTDOWN).exists()
        finally:
            load.finish()
        assert broker.terminate() == 0
    assert check(load, data) == (0, 0)
    assert not load.refused


def test_a_second_broker_on_the_same_data_refuses_and_names_the_first(tmp_path):
    with BrokerProcess(tmp_path / "data") as first:
        assert f"process {first.pid}" in BrokerProcess(tmp_path / "data").refuse_to_start()
        first.kill()
        first.start()  # what a killed one held is free
