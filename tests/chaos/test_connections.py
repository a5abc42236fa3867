"""Idle connections: five thousand of them in `make chaos`, a tenth of that in `make test`."""

import os

from tests.scenarios.idle import cost_of

CONNECTIONS = 5000 if "OTTLA_CHAOS_ROUNDS" in os.environ else 500
BYTES_EACH_MAX = 60 * 1024


def test_idle_connections_cost_little_and_are_served(tmp_path, capsys):
    cost = cost_of(CONNECTIONS, tmp_path)
    with capsys.disabled():
        print(f"\n{cost}")
    assert cost.bytes_each <= BYTES_EACH_MAX, cost
