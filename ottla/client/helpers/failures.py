"""Records that failed, as they are written elsewhere: as they were, with headers that say where from and why.

    x-original-topic, -partition, -offset, -timestamp     where the record was read first
    ottla-retry-attempt                                   how often it was tried
    ottla-retry-exception, ottla-retry-reason             the class of the last error, and its sentence
    ottla-retry-first-failure, ottla-retry-last-failure   when, in milliseconds since 1970
    ottla-retry-due                                       not before this moment, where it is to be tried again

All values are text. A record that fails again keeps its origin and its first failure; the other headers are replaced.
Headers of the application stay as they are, in front. What is read back was written by anybody: a number that is none
is as good as a header that is missing.
"""

from typing import NamedTuple

from ottla.client.records import ConsumerRecord
from ottla.records.record import Header

ORIGINAL, RETRY = "x-original-", "ottla-retry-"
_OURS = frozenset(
    [ORIGINAL + each for each in ("topic", "partition", "offset", "timestamp")]
    + [RETRY + each for each in ("attempt", "exception", "reason", "first-failure", "last-failure", "due")]
)
_SENTENCE_MAX = 2000  # characters of an error: some quote the whole record
_DIGITS_MAX = 20


class Failure(NamedTuple):
    """What the headers of a failed record say."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    attempt: int = 0
    exception: str = ""
    reason: str = ""
    first_failure_ms: int = -1
    last_failure_ms: int = -1
    due_ms: int = -1
    """-1 for one that nobody is to try again."""

    @classmethod
    def of(cls, record: ConsumerRecord) -> "Failure":
        """What is known of a record: of one that never failed, only where it is."""
        said = {
            key: value.decode(errors="replace") for key, value in record.headers if key in _OURS and value
        }

        def number(name: str, default: int) -> int:
            text = said.get(name, "")
            return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else default

        here = (record.topic, record.partition, record.offset, record.timestamp)
        partition, offset = number(ORIGINAL + "partition", -1), number(ORIGINAL + "offset", -1)
        if ORIGINAL + "topic" in said and partition >= 0 and offset >= 0:
            here = (said[ORIGINAL + "topic"], partition, offset, number(ORIGINAL + "timestamp", -1))
        return cls(
            *here,
            number(RETRY + "attempt", 0),
            said.get(RETRY + "exception", ""),
            said.get(RETRY + "reason", ""),
            number(RETRY + "first-failure", -1),
            number(RETRY + "last-failure", -1),
            number(RETRY + "due", -1),
        )

    def again(self, error: Exception, attempts: int, now_ms: int, pause_ms: float | None = None) -> "Failure":
        """It has failed once more, after so many attempts since; to be tried again in `pause_ms`, or never."""
        kind = type(error)
        return self._replace(
            attempt=self.attempt + attempts,
            exception=f"{kind.__module__}.{kind.__qualname__}",
            reason=str(error)[:_SENTENCE_MAX],
            first_failure_ms=now_ms if self.first_failure_ms < 0 else self.first_failure_ms,
            last_failure_ms=now_ms,
            due_ms=-1 if pause_ms is None else now_ms + round(pause_ms),
        )

    def headers(self, record: ConsumerRecord) -> list[Header]:
        """The headers to write beside the key and value of the record."""
        rows = {
            ORIGINAL + "topic": self.topic,
            ORIGINAL + "partition": self.partition,
            ORIGINAL + "offset": self.offset,
            ORIGINAL + "timestamp": self.timestamp,
            RETRY + "attempt": self.attempt,
            RETRY + "exception": self.exception,
            RETRY + "reason": self.reason,
            RETRY + "first-failure": self.first_failure_ms,
            RETRY + "last-failure": self.last_failure_ms,
        }
        if self.due_ms >= 0:
            rows[RETRY + "due"] = self.due_ms
        ours = [(key, str(value).encode(errors="replace")) for key, value in rows.items()]
        return [*_without_ours(record), *ours]

    def original(self, record: ConsumerRecord) -> ConsumerRecord:
        """The record as it was when it was read first."""
        return record._replace(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            timestamp=self.timestamp,
            headers=tuple(_without_ours(record)),
        )


def _without_ours(record: ConsumerRecord) -> list[Header]:
    return [header for header in record.headers if header[0] not in _OURS]
