"""Three brokers on one machine: what replicas cost, how soon others lead, how fast a follower catches up.

`python -m bench.cluster produce` measures one part alone; there are produce, failover and catch_up.
"""

import importlib
import sys

PARTS = ("produce", "failover", "catch_up")


def main(parts: tuple[str, ...] = PARTS) -> None:
    for part in parts:
        importlib.import_module(f"bench.cluster_{part}").main()


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PARTS)
