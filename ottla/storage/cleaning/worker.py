"""The process in which logs are cleaned, so that the broker's event loop never waits for it.

    python -m ottla.storage.cleaning.worker

It speaks lines of JSON. On its input come a job, `{"clean": {...}}`; after every group that was put in place, or given
up, `{"go": true}`; and at any time `{"rate": bytes per second}`, null for no limit, 0 to pause. On its output go the
events of `job.py`. When its input ends, the broker is gone, and it ends at once: what it leaves is swept up by the
next start.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any, TextIO

from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Event, Failed, Group, Job, event_to_json
from ottla.storage.files import OsFiles

HANDLES_MAX = 64
NICENESS = 10
"""Clients come first."""
WAIT_S_MAX = 1.0


class Throttle:
    """Lets so many bytes pass in a second. The rate may be changed meanwhile, from another thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rate: float | None = None
        self._free_at = 0.0

    def set_rate(self, rate: float | None) -> None:
        with self._changed:
            self._rate = rate
            self._free_at = 0.0
            self._changed.notify_all()

    def __call__(self, count: int) -> None:
        """Return when what `count` bytes cost is paid: not at all while the rate is 0."""
        if self._rate is None:
            return
        with self._changed:
            if self._rate:
                self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
            while self._rate is not None and (self._rate <= 0 or self._free_at > time.monotonic()):
                self._changed.wait(min(WAIT_S_MAX, max(0.001, self._free_at - time.monotonic())))


class Worker:
    """Cleans one log after the other, as it is told."""

    def __init__(self, source: TextIO, sink: TextIO) -> None:
        self._source = source
        self._sink = sink
        self._throttle = Throttle()
        self._orders: queue.Queue[dict[str, Any]] = queue.Queue()

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            order = self._orders.get()
            if "clean" in order:
                self._clean(Job.from_json(json.dumps(order["clean"])))

    def _listen(self) -> None:
        for line in self._source:
            order = json.loads(line)
            if "rate" in order:
                self._throttle.set_rate(order["rate"])
            else:
                self._orders.put(order)
        os._exit(0)  # in the midst of whatever the other thread does: nobody waits for it any more

    def _clean(self, job: Job) -> None:
        try:
            for event in clean(OsFiles(HANDLES_MAX, syncs=job.syncs), job, self._throttle):
                self._tell(event)
                if isinstance(event, Group):
                    self._orders.get()
        except Exception as error:  # whatever it is, the broker must hear of it, and this process can go on
            self._tell(Failed(f"a failure of ours: {type(error).__name__}: {error}"))

    def _tell(self, event: Event) -> None:
        self._sink.write(event_to_json(event) + "\n")
        self._sink.flush()


def main() -> None:
    # Ctrl-C and a stopped service reach the broker too, which ends this process when it has no more use for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    Worker(sys.stdin, sys.stdout).run()


if __name__ == "__main__":
    main()
