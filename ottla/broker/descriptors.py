"""File descriptors: how many this process may have, and who gets how many of them.

Logs and connections draw on the same number. A broker that lets in as many peers as want to come finds, at the next
segment, that it can open no file: so connections are refused before that, and logs keep fewer files open where there
are few to be had.
"""

import contextlib
from typing import NamedTuple

from ottla.storage.files import HANDLES_MAX

RESERVED = 128
"""For what is neither: listeners, pages over HTTP, the store, locks, directories being synced, connections on their way
out."""
LIMIT_MAX = 1 << 20  # more than that is "without limit", which no kernel means
_LEAST = 16


class Shares(NamedTuple):
    """How many descriptors there are for open files, and for connections."""

    files: int
    connections: int


def shares(limit: int) -> Shares:
    """Half of them for files, as far as they are of use there; the rest for connections."""
    free = max(0, limit - RESERVED)
    files = max(_LEAST, min(HANDLES_MAX, free // 2))
    return Shares(files, max(_LEAST, free - files))


def limit() -> int:
    """How many descriptors this process may have (`ulimit -n`)."""
    try:
        import resource
    except ImportError:  # not a Unix
        return LIMIT_MAX
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LIMIT_MAX if soft == resource.RLIM_INFINITY else min(soft, LIMIT_MAX)


def raise_limit() -> None:
    """Take as many as we may have without asking anybody. The usual limit is meant for programs that use `select`."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # a system may promise more than it grants
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
        if wanted > limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
