"""Optional compilation of the hot path: `OTTLA_COMPILE=1 pip install .` builds it with mypyc.

Without the variable (the default) the package is pure Python; nothing but speed depends on it.
"""

import os

from setuptools import setup

COMPILED_MODULES = [
    "ottla/records/record.py",
    "ottla/records/varint.py",
    "ottla/records/section.py",
]


def extensions() -> list:
    if os.environ.get("OTTLA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    return mypycify(COMPILED_MODULES, opt_level="3")


setup(ext_modules=extensions())
