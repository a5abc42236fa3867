"""All measurements, or those that are named: `python -m bench log records`."""

import importlib
import sys

ALL = [
    "log",
    "segments",
    "cleaning",
    "records",
    "codec",
    "timers",
    "assignors",
    "broker",
    "coordinators",
    "cluster",
    "client",
    "pipes",
    "startup",
]


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in ALL]:
        print(f"no measurement is called {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    for name in names or ALL:
        module = importlib.import_module(f"bench.{name}")
        print(f"\n{(module.__doc__ or name).splitlines()[0]}", flush=True)
        module.main()
    return 0


sys.exit(main(sys.argv[1:]))
