"""What a decided transaction asks its host to do: have markers written where it wrote."""

from typing import NamedTuple

from ottla.core.ids import TopicPartition
from ottla.replication.machine import Producer


class WriteMarkers(NamedTuple):
    """Write a marker to each of these partitions, and tell `decide_marked` of those that have it. Until all have, try
    again: writing a marker twice does no harm. A partition that is gone for good counts as marked.

    Carry it out only once the entries of its decision are committed: they are what makes the outcome final.
    """

    transactional_id: str
    producer: Producer
    """As the marker names it. With transaction version 2 its epoch is one above that of the transaction's records, so
    that whatever of them comes late is refused."""
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    transaction_version: int
