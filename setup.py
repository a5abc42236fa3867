"""Optional compilation of the hot path: `OTTLA_COMPILE=1 pip install .` builds it with mypyc.

Without the variable (the default) the package is pure Python; nothing but speed depends on it. To have both side by
side, build the compiled one into a tree of its own and put that in front:

    OTTLA_COMPILE=1 python setup.py build --build-base build/compiled --build-lib build/compiled/lib
    PYTHONPATH=build/compiled/lib pytest
"""

import os

from setuptools import setup

COMPILED_MODULES = [
    "ottla/records/record.py",
    "ottla/records/varint.py",
    "ottla/records/section.py",
    "ottla/records/builder.py",
]


def extensions() -> list:
    if os.environ.get("OTTLA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    return mypycify(COMPILED_MODULES, opt_level="3", target_dir="build/compiled/c")


setup(ext_modules=extensions())
