"""Compaction on demand (key 20000): an API of Ottla's own. Kafka has no request for it, so no client of Kafka asks."""

from ottla.protocol.schema import Bool, Float64, Int16, Int32, Int64, String, api, field, struct


@api(key=20000, versions="0", flexible="0+")
class CompactTopicsRequest:
    """Ask the leader of partitions to compact them now, or only how far it is with them.

    With `start` the active segment is rolled, so that what it holds is compacted too. A compaction that is under way
    already is not disturbed: another follows it.
    """

    @struct
    class Topic:
        name: String
        partitions: list[Int32]

    topics: list[Topic]
    start: Bool


@api(key=20000, versions="0", flexible="0+")
class CompactTopicsResponse:
    """Each partition by itself: an error, or how far its compaction is."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            state: String = field(default="")
            done_bytes: Int64 = field(default=0)
            total_bytes: Int64 = field(default=0)
            first_dirty_offset: Int64 = field(default=-1)
            end_offset: Int64 = field(default=-1)
            dirty_ratio: Float64 = field(default=0.0)
            runs: Int32 = field(default=0)
            last_error: String | None = field(default=None)
            last_run_ms: Int64 = field(default=-1)
            bytes_before: Int64 = field(default=-1)
            bytes_after: Int64 = field(default=-1)
            records_before: Int64 = field(default=-1)
            records_after: Int64 = field(default=-1)

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]
