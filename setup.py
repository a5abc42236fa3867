"""Optional compilation of the hot path with mypyc; see docs/decisions/0003-optional-mypyc-build.md.

Without OTTLA_COMPILE=1 (the default) the package is pure Python; nothing but speed depends on it.

    OTTLA_COMPILE=1 pip install --no-build-isolation .     (needs the `compile` extra and a C compiler)

To have both side by side, build the compiled one into a tree of its own and put that in front:

    OTTLA_COMPILE=1 python setup.py build --build-base build/compiled --build-lib build/compiled/lib
    PYTHONSAFEPATH=1 PYTHONPATH=build/compiled/lib pytest
"""

import os

from setuptools import setup

COMPILED_MODULES = [
    "ottla/core/clock.py",
    "ottla/core/watermark.py",
    "ottla/protocol/exchange.py",
    "ottla/records/record.py",
    "ottla/records/varint.py",
    "ottla/records/section.py",
    "ottla/records/builder.py",
    "ottla/records/batch.py",
    "ottla/records/checksum.py",
    "ottla/storage/files.py",
    "ottla/storage/producers.py",
    "ottla/storage/replay.py",
    "ottla/storage/segments.py",
    "ottla/storage/index.py",
    "ottla/storage/scan.py",
    "ottla/storage/segment.py",
    "ottla/storage/validation.py",
    "ottla/storage/check.py",
    "ottla/storage/epochs.py",
    "ottla/storage/flushing.py",
    "ottla/storage/log.py",
    "ottla/storage/cleaning/offset_map.py",
    "ottla/storage/cleaning/reading.py",
    "ottla/storage/cleaning/sieve.py",
    "ottla/storage/cleaning/transactions.py",
    "ottla/storage/cleaning/mapping.py",
    "ottla/storage/cleaning/output.py",
    "ottla/storage/cleaning/copying.py",
    "ottla/replication/partition.py",
    "ottla/broker/intake.py",
    "ottla/broker/call.py",
    "ottla/broker/shortcut.py",
    "ottla/client/producer/accumulator.py",
    "ottla/client/producer/batch.py",
    "ottla/client/producer/intake.py",
    "ottla/client/producer/partitioners.py",
]


def extensions() -> list:
    if os.environ.get("OTTLA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    return mypycify(COMPILED_MODULES, opt_level="3", target_dir="build/compiled/c")


setup(ext_modules=extensions())
