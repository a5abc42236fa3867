"""Produce (key 0): append record batches to partition logs."""

from ottla.protocol.schema import NULL_UUID, Int16, Int32, Int64, Records, String, Uuid, api, field, struct


@api(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    """Append record batches to partition logs.

    `acks` says who must hold the records before the reply leaves: nobody (0), the leader (1), the in-sync
    replicas (-1). With 0 there is no reply at all.

    v3 brought magic-2 batches and transactional_id, v7 zstd, v8 errors per record (KIP-467), v9 flexible
    encoding, v10 leader hints in the reply (KIP-951), v11 and v12 the steps of KIP-890, v13 topic ids for
    names.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            index: Int32
            records: Records | None

        name: String = field("0-12", default="", ignorable=True)
        topic_id: Uuid = field("13+", default=NULL_UUID, ignorable=True)
        partition_data: list[Partition]

    transactional_id: String | None = field("3+", default=None)
    acks: Int16
    timeout_ms: Int32
    topic_data: list[Topic]


@api(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    """Where each batch landed, or why it did not.

    `node_endpoints` and `current_leader` spare a client with stale metadata the round trip to find the
    new leader.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class RecordError:
                batch_index: Int32
                batch_index_error_message: String | None = field(default=None)

            @struct
            class Leader:
                leader_id: Int32 = field(default=-1)
                leader_epoch: Int32 = field(default=-1)

            index: Int32
            error_code: Int16
            base_offset: Int64
            log_append_time_ms: Int64 = field("2+", default=-1, ignorable=True)
            log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = field("8+", default=[], ignorable=True)
            error_message: String | None = field("8+", default=None, ignorable=True)
            current_leader: Leader | None = field("10+", tag=0, default=None)

        name: String = field("0-12", default="", ignorable=True)
        topic_id: Uuid = field("13+", default=NULL_UUID, ignorable=True)
        partition_responses: list[Partition]

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: String
        port: Int32
        rack: String | None = field(default=None)

    responses: list[Topic]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, default=[])
