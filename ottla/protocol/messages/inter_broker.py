"""What brokers and the controller say to each other (keys 4-7, 56, 67), and one word of our own (20001)."""

from ottla.protocol.schema import NULL_UUID, Bool, Int8, Int16, Int32, Int64, String, Uuid, api, field, struct


@struct
class LeaderAndIsrState:
    """A partition's leader, replicas and epochs, as the controller decided them."""

    topic_name: String = field("0-1", default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32] = field("3+", default=[], ignorable=True)
    removing_replicas: list[Int32] = field("3+", default=[], ignorable=True)
    is_new: Bool = field("1+", default=False, ignorable=True)
    leader_recovery_state: Int8 = field("6+", default=0)


@api(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """Controller to broker: lead or follow these partitions (last spoken by Kafka 3.9).

    v1 added is_new, v2 broker epochs and grouping by topic, v3 replicas of a reassignment, v4 flexible
    encoding, v5 topic ids, v6 leader_recovery_state (KIP-704), v7 is_kraft_controller.
    """

    @struct
    class Topic:
        topic_name: String
        topic_id: Uuid = field("5+", default=NULL_UUID, ignorable=True)
        partition_states: list[LeaderAndIsrState]

    @struct
    class Broker:
        broker_id: Int32
        host_name: String
        port: Int32

    controller_id: Int32
    is_kraft_controller: Bool = field("7+", default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = field("2+", default=-1, ignorable=True)
    type: Int8 = field("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrState] = field("0-1", default=[])
    topic_states: list[Topic] = field("2+", default=[])
    live_leaders: list[Broker]


@struct
class LeaderAndIsrPartitionError:
    """How one partition took the order."""

    topic_name: String = field("0-4", default="", ignorable=True)
    partition_index: Int32
    error_code: Int16


@api(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """One error code per partition, since v5 grouped by topic id."""

    @struct
    class Topic:
        topic_id: Uuid
        partition_errors: list[LeaderAndIsrPartitionError]

    error_code: Int16
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", default=[])
    topics: list[Topic] = field("5+", default=[])


@api(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    """Controller to broker: stop replicas, and delete their logs when told so (last spoken by Kafka 3.9).

    v1 added the broker epoch and grouping by topic, v2 flexible encoding, v3 leader epochs and
    delete_partition for each partition (KIP-570), v4 is_kraft_controller.
    """

    @struct
    class UngroupedPartition:
        topic_name: String
        partition_index: Int32

    @struct
    class Topic:
        name: String
        partition_indexes: list[Int32]

    @struct
    class TopicState:
        @struct
        class PartitionState:
            partition_index: Int32
            leader_epoch: Int32 = field(default=-1)
            delete_partition: Bool

        topic_name: String
        partition_states: list[PartitionState]

    controller_id: Int32
    is_kraft_controller: Bool = field("4+", default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: Bool = field("0-2", default=False)
    ungrouped_partitions: list[UngroupedPartition] = field("0", default=[])
    topics: list[Topic] = field("1-2", default=[])
    topic_states: list[TopicState] = field("3+", default=[])


@api(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    """One error code per partition."""

    @struct
    class Partition:
        topic_name: String
        partition_index: Int32
        error_code: Int16

    error_code: Int16
    partition_errors: list[Partition]


@struct
class UpdateMetadataState:
    """A partition's leader, replicas and epochs, as every broker should know them."""

    topic_name: String = field("0-4", default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    offline_replicas: list[Int32] = field("4+", default=[], ignorable=True)


@api(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """Controller to broker: this is the state of the cluster (last spoken by Kafka 3.9).

    v1 allowed many endpoints per broker, v2 added racks, v3 listener names, v4 offline replicas, v5
    broker epochs and grouping by topic, v6 flexible encoding, v7 topic ids, v8 is_kraft_controller and
    full or incremental updates.
    """

    @struct
    class Topic:
        topic_name: String
        topic_id: Uuid = field("7+", default=NULL_UUID, ignorable=True)
        partition_states: list[UpdateMetadataState]

    @struct
    class Broker:
        @struct
        class Endpoint:
            port: Int32
            host: String
            listener: String = field("3+", default="", ignorable=True)
            security_protocol: Int16

        id: Int32
        v0_host: String = field("0", default="", ignorable=True)
        v0_port: Int32 = field("0", default=0, ignorable=True)
        endpoints: list[Endpoint] = field("1+", default=[], ignorable=True)
        rack: String | None = field("2+", default=None, ignorable=True)

    controller_id: Int32
    is_kraft_controller: Bool = field("8+", default=False)
    type: Int8 = field("8+", tag=0, default=0)
    controller_epoch: Int32
    broker_epoch: Int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataState] = field("0-4", default=[])
    topic_states: list[Topic] = field("5+", default=[])
    live_brokers: list[Broker]


@api(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    """One error code."""

    error_code: Int16


@api(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest:
    """Broker to controller: move my leaderships away, I am about to stop (last spoken by Kafka 3.9).

    v0 has a request header without client id, v2 added broker_epoch, v3 flexible encoding.
    """

    broker_id: Int32
    broker_epoch: Int64 = field("2+", default=-1, ignorable=True)


@api(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse:
    """The partitions that this broker still leads."""

    @struct
    class Partition:
        topic_name: String
        partition_index: Int32

    error_code: Int16
    remaining_partitions: list[Partition]


@api(key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest:
    """Leader to controller: change the in-sync replicas of a partition (KIP-497).

    v1 added leader_recovery_state (KIP-704), v2 replaced names by topic ids, v3 replaced new_isr by
    new_isr_with_epochs (KIP-903).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Broker:
                broker_id: Int32
                broker_epoch: Int64 = field(default=-1)

            partition_index: Int32
            leader_epoch: Int32
            new_isr: list[Int32] = field("0-2", default=[])
            new_isr_with_epochs: list[Broker] = field("3+", default=[])
            leader_recovery_state: Int8 = field("1+", default=0)
            partition_epoch: Int32

        topic_name: String = field("0-1", default="", ignorable=True)
        topic_id: Uuid = field("2+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    topics: list[Topic]


@api(key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse:
    """The partition's state as the controller has it now."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16
            leader_id: Int32
            leader_epoch: Int32
            isr: list[Int32]
            leader_recovery_state: Int8 = field("1+", default=0, ignorable=True)
            partition_epoch: Int32

        topic_name: String = field("0-1", default="", ignorable=True)
        topic_id: Uuid = field("2+", default=NULL_UUID, ignorable=True)
        partitions: list[Partition]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    topics: list[Topic]


@api(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """Broker to controller: reserve a block of producer ids (KIP-730)."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)


@api(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """The first id of the block and its length."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32


@api(key=20001, versions="0", flexible="0+")
class ReplicasFailedRequest:
    """Broker to controller: the disk under these replicas has failed. Kafka's brokers write it into ZooKeeper."""

    @struct
    class Topic:
        topic_name: String
        partitions: list[Int32]

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    topics: list[Topic]


@api(key=20001, versions="0", flexible="0+")
class ReplicasFailedResponse:
    """Others lead now, where there are any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
