"""Producer ids and transactions (keys 22, 24-28, 61, 65, 66)."""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, String, api, field, struct


@api(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Get a producer id and epoch; and fence earlier owners of a transactional id.

    v2 is the first flexible version, v3 lets a producer bump its own epoch (KIP-360), v4 added
    PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE, v6 two-phase commit (KIP-939).
    """

    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)


@api(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The id and epoch to stamp on batches."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)


@struct
class AddedTopic:
    """A topic and those of its partitions that a transaction will write."""

    name: String
    partitions: list[Int32]


@api(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Tell the coordinator which partitions a transaction is about to write.

    Up to v3 producers send it about their own transaction; from v4 on brokers batch and verify.

    v2 added PRODUCER_FENCED, v3 flexible encoding, v4 batches and verify_only, v5 TRANSACTION_ABORTABLE.
    """

    @struct
    class Transaction:
        transactional_id: String
        producer_id: Int64
        producer_epoch: Int16
        verify_only: Bool = field(default=False)
        topics: list[AddedTopic]

    transactions: list[Transaction] = field("4+", default=[])
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddedTopic] = field("0-3", default=[])


@struct
class AddedTopicResult:
    """A topic with the outcome for each of its partitions."""

    @struct
    class Partition:
        partition_index: Int32
        partition_error_code: Int16

    name: String
    results_by_partition: list[Partition]


@api(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """One error code per partition, since v4 grouped by transaction."""

    @struct
    class Transaction:
        transactional_id: String
        topic_results: list[AddedTopicResult]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[Transaction] = field("4+", default=[])
    results_by_topic_v3_and_below: list[AddedTopicResult] = field("0-3", default=[])


@api(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Tell the coordinator that a transaction will commit offsets of a group.

    v2 added PRODUCER_FENCED, v3 flexible encoding, v4 TRANSACTION_ABORTABLE.
    """

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@api(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """One error code."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16


@api(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit or abort the open transaction.

    v2 added PRODUCER_FENCED, v3 flexible encoding, v4 TRANSACTION_ABORTABLE, v5 a new epoch after each
    transaction (KIP-890).
    """

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@api(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """v5 carries the id and epoch to go on with."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)


@api(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """Broker to broker: write commit or abort markers into partition logs.

    v1 is the first flexible version, v2 added transaction_version (KIP-1228).
    """

    @struct
    class Marker:
        @struct
        class Topic:
            name: String
            partition_indexes: list[Int32]

        producer_id: Int64
        producer_epoch: Int16
        transaction_result: Bool
        topics: list[Topic]
        coordinator_epoch: Int32
        transaction_version: Int8 = field("2+", default=0, ignorable=True)

    markers: list[Marker]


@api(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One error code per partition and producer."""

    @struct
    class Marker:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: Int32
                error_code: Int16

            name: String
            partitions: list[Partition]

        producer_id: Int64
        topics: list[Topic]

    markers: list[Marker]


@api(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commit offsets of a group inside a transaction; they show once it commits.

    v2 added leader epochs, v3 the member's identity and flexible encoding (KIP-447), v4
    TRANSACTION_ABORTABLE, v5 spares AddOffsetsToTxn (KIP-890).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            committed_offset: Int64
            committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
            committed_metadata: String | None

        name: String
        partitions: list[Partition]

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: list[Topic]


@api(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """One error code per partition."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]


@api(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Ask a partition's leader for the producers it keeps state of (KIP-664)."""

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]

    topics: list[Topic]


@api(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """Producers with epoch, last sequence and open transaction."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Producer:
                producer_id: Int64
                producer_epoch: Int32
                last_sequence: Int32 = field(default=-1)
                last_timestamp: Int64 = field(default=-1)
                coordinator_epoch: Int32
                current_txn_start_offset: Int64 = field(default=-1)

            partition_index: Int32
            error_code: Int16
            error_message: String | None = field(default=None)
            active_producers: list[Producer]

        name: String
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    topics: list[Topic]


@api(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Ask the coordinator about some transactional ids (KIP-664)."""

    transactional_ids: list[String]


@api(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """State, owner, age and partitions of each transaction."""

    @struct
    class Transaction:
        @struct
        class Topic:
            topic: String
            partitions: list[Int32]

        error_code: Int16
        transactional_id: String
        transaction_state: String
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: list[Topic]

    throttle_time_ms: Int32 = field(default=0)
    transaction_states: list[Transaction]


@api(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """List the transactions that this broker coordinates (KIP-664).

    v1 filters by duration (KIP-994), v2 by a pattern on the transactional id (KIP-1152).
    """

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


@api(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """Transactional ids with producer and state."""

    @struct
    class Transaction:
        transactional_id: String
        producer_id: Int64
        transaction_state: String

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[Transaction]
