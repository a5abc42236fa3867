"""A broker as the child process of a test: `ottla start`, which dies when the process that started it does.

    python -m ottla.testing.broker_process PARENT_PID start --broker-id 1 ...

A test that is killed cleans nothing up. On Linux the kernel sends us SIGKILL then, also while we are stopped. It takes
the thread that started us for the parent: that must be one that stays. Elsewhere a thread looks at who the parent is.
"""

import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 1.0


def die_with(parent: int) -> None:
    """From now on we end when that process does."""
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0:
            if os.getppid() != parent:  # it has died already
                os._exit(1)
            return
    threading.Thread(target=_look_after, args=(parent,), daemon=True).start()


def _look_after(parent: int) -> None:
    nothing = threading.Event()
    while os.getppid() == parent:
        nothing.wait(_LOOK_SECONDS)
    os._exit(1)


def main(args: list[str]) -> int:
    die_with(int(args[0]))
    from ottla.cli.main import main as ottla

    return ottla(args[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
