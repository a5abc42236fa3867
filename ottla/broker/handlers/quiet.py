"""Partitions at whose end a follower waits: most of them, most of the time.

A follower's session names hundreds of partitions, and whenever one of them has news all of them are looked at. Of one
in which nothing has moved since, there is nothing to find out: the answer is the one of last time, and the follower is
noted to be there still.
"""

from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.replication.exchange import BrokerLife
from ottla.replication.leading import Leading
from ottla.replication.partition import Partition

_Answer = FetchResponse.Topic.Partition
_Asked = FetchRequest.Topic.Partition


class Quiet:
    """A follower was told that it is at the end of a partition."""

    __slots__ = ("answer", "asked", "partition", "reign")

    def __init__(self, partition: Partition, reign: Leading, asked: _Asked, answer: _Answer) -> None:
        self.partition = partition
        self.reign = reign
        self.asked = asked
        self.answer = answer

    def is_still_so(self, asked: _Asked) -> bool:
        """Is it the same question, and has nothing moved? A reign is one leader epoch: so that is the same, too."""
        partition, answer = self.partition, self.answer
        log = partition.log
        return (
            asked is self.asked
            and partition.leading is self.reign
            and log.end_offset == asked.fetch_offset
            and partition.high_watermark.value == answer.high_watermark
            and log.log_start_offset == answer.log_start_offset
        )

    def note(self, life: BrokerLife, now_ms: int) -> bool:
        """The follower is there still. False if there is more to it: another life, one that may join the ISR, or a high
        watermark that is behind, which other things than logs may move."""
        follower, asked = self.reign.followers.get(life.broker), self.asked
        if follower is None or follower.broker_epoch != life.epoch or life.broker not in self.partition.isr:
            return False
        if self.answer.high_watermark < asked.fetch_offset:
            return False
        follower.fetched_all(asked.fetch_offset, asked.log_start_offset, now_ms)
        return True
