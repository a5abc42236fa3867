"""What a partition knows of producers: their epoch, and whether they have a transaction open in it.

Real partitions keep this beside their log. Here it is the part that fences: who has an older epoch does not write, and
a marker that comes late does not end the next transaction.
"""

from typing import NamedTuple

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.machine import Producer

_STRICT_SINCE = 2  # the version of transactions since which every one has an epoch of its own


class Marker(NamedTuple):
    """The end of a transaction."""

    producer: Producer
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = _STRICT_SINCE


class _State(NamedTuple):
    epoch: int
    coordinator_epoch: int = -1
    is_open: bool = False


_UNKNOWN = _State(-1)


class ProducerStates:
    """Of one partition. Check before anything is written, then say that it was."""

    def __init__(self) -> None:
        self._states: dict[int, _State] = {}

    def is_open(self, producer: Producer) -> bool:
        """Whether it has a transaction open here, in this very epoch."""
        known = self._states.get(producer.id, _UNKNOWN)
        return known.is_open and known.epoch == producer.epoch

    def check(self, producer: Producer) -> None:
        """May it write? Raises INVALID_PRODUCER_EPOCH."""
        known = self._states.get(producer.id, _UNKNOWN)
        if producer.epoch < known.epoch:
            detail = f"producer {producer.id} has epoch {known.epoch} by now, not {producer.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)

    def check_marker(self, marker: Marker) -> None:
        """Does it end what is open? Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        self.check(marker.producer)
        known = self._states.get(marker.producer.id, _UNKNOWN)
        if marker.coordinator_epoch < known.coordinator_epoch:
            detail = f"coordinator epoch {marker.coordinator_epoch} is over"
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, detail)
        is_strict = marker.transaction_version >= _STRICT_SINCE
        if is_strict and known.is_open and marker.producer.epoch <= known.epoch:
            detail = f"a marker of epoch {marker.producer.epoch} for a transaction of epoch {known.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, detail)

    def write(self, producer: Producer) -> None:
        known = self._states.get(producer.id, _UNKNOWN)
        self._states[producer.id] = _State(producer.epoch, known.coordinator_epoch, is_open=True)

    def end(self, marker: Marker) -> None:
        self._states[marker.producer.id] = _State(marker.producer.epoch, marker.coordinator_epoch)
