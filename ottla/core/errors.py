"""Errors, declared once.

    OttlaError
    ├── KafkaError(code, detail)   an answer the protocol has a code for; the request's boundary sends it
    │   ├── RetriableError         the same request may succeed later
    │   │   └── StaleMetadataError   ...after asking again who leads, coordinates or controls
    │   ├── FencedError            somebody newer has taken over: what the sender holds is no longer its own
    │   └── AuthorizationError     the principal may not do this
    ├── ProtocolError              the peer (or a file) broke the format: close the connection, name the file
    └── ConfigError                a setting that cannot be; names the key

Failures of the outside world stay `OSError`, handled by the resource's owner. Our own bugs are `assert`s.
The categories below KafkaError are for users of a client; `KafkaError.of(code)` chooses one from the table.
"""

import enum


class Category(enum.Enum):
    """What the receiver of an error code can do about it."""

    FINAL = "final"
    """The same request will fail again."""
    RETRY = "retry"
    """The same request may succeed later."""
    STALE = "stale metadata"
    """The same request may succeed elsewhere: look up the leader, coordinator or controller, then retry."""
    FENCED = "fenced"
    """A newer epoch exists; the sender must give up what it holds."""
    DENIED = "denied"
    """The principal lacks the permission."""


# Short names, so that the table reads as a table.
_FINAL, _RETRY, _STALE = Category.FINAL, Category.RETRY, Category.STALE
_FENCED, _DENIED = Category.FENCED, Category.DENIED


class ErrorCode(enum.IntEnum):
    """Kafka's error codes as of 4.3: number, what the receiver can do about it, and what it means.

    Names may change, numbers never do. `retriable` agrees with Kafka's own Java client for every code.
    """

    category: Category
    retriable: bool
    meaning: str

    def __new__(cls, code: int, category: Category = Category.FINAL, meaning: str = "") -> "ErrorCode":
        self = int.__new__(cls, code)
        self._value_, self.category, self.meaning = code, category, meaning
        self.retriable = category is Category.RETRY or category is Category.STALE
        return self

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "The broker failed in a way that no other code describes; see its log."
    NONE = 0, _FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "No record at that offset: deleted already, or not written yet."
    CORRUPT_MESSAGE = 2, _RETRY, "The batch failed its checksum, has an impossible size or is damaged."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _STALE, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, _FINAL, "The size limit of the fetch is not one a broker can serve."
    LEADER_NOT_AVAILABLE = 5, _STALE, "The partition has no leader yet; an election is due or under way."
    NOT_LEADER_OR_FOLLOWER = 6, _STALE, "This broker does not lead that partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, _RETRY, "The request's own timeout passed before the work was done."
    BROKER_NOT_AVAILABLE = 8, _FINAL, "The broker asked for is not alive."
    REPLICA_NOT_AVAILABLE = 9, _STALE, "A replica of the partition that the request needs is not available."
    MESSAGE_TOO_LARGE = 10, _FINAL, "The batch is larger than the broker accepts."
    STALE_CONTROLLER_EPOCH = 11, _FENCED, "The request comes from a controller that has since been replaced."
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "The note that accompanies a committed offset is too long."
    NETWORK_EXCEPTION = 13, _STALE, "The connection was lost before the answer arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "The coordinator is still reading its state from the log."
    COORDINATOR_NOT_AVAILABLE = 15, _STALE, "No broker is the coordinator at the moment."
    NOT_COORDINATOR = 16, _STALE, "This broker is not the coordinator of that group or transactional id."
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "The topic name is not legal, or the topic does not allow this."
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "The batch does not fit into one segment of the log."
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "Fewer in-sync replicas than min.insync.replicas; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "Written by the leader, then in-sync replicas fell away."
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, _FINAL, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "The member names no protocol that its group also speaks."
    INVALID_GROUP_ID = 24, _FINAL, "The group id is not legal for this operation."
    UNKNOWN_MEMBER_ID = 25, _FINAL, "The group has no such member; it may have been expelled."
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "The session timeout lies outside the range that the broker allows."
    REBALANCE_IN_PROGRESS = 27, _FINAL, "The group is rebalancing; the member must join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "The offsets to commit do not fit into one batch."
    TOPIC_AUTHORIZATION_FAILED = 29, _DENIED, "The principal may not do this to the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _DENIED, "The principal may not do this to the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _DENIED, "The principal may not do this to the cluster."
    INVALID_TIMESTAMP = 32, _FINAL, "A record's timestamp is too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "The listener does not offer that SASL mechanism."
    ILLEGAL_SASL_STATE = 34, _FINAL, "The request does not fit into this step of the SASL exchange."
    UNSUPPORTED_VERSION = 35, _FINAL, "The broker does not speak this version of the request."
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "A topic of that name, or one too similar, exists already."
    INVALID_PARTITIONS = 37, _FINAL, "The number of partitions is not possible: too small, or not a growth."
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "The replication factor is below 1 or above the live brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "The list of replicas contradicts itself or the live brokers."
    INVALID_CONFIG = 40, _FINAL, "A setting has a value that is not allowed."
    NOT_CONTROLLER = 41, _STALE, "This broker is not the controller."
    INVALID_REQUEST = 42, _FINAL, "The request was understood but makes no sense."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "The topic's record format cannot carry what is asked."
    POLICY_VIOLATION = 44, _FINAL, "A policy of the cluster forbids the change."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "The producer's batch does not follow its last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "An idempotent producer's batch was written before."
    INVALID_PRODUCER_EPOCH = 47, _FENCED, "The producer's epoch is older than the one the log has seen."
    INVALID_TXN_STATE = 48, _FINAL, "The transaction is not in a state that allows this step."
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "The producer id does not belong to that transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "The transaction timeout exceeds transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "An earlier step of the same transactional id has not finished."
    TRANSACTION_COORDINATOR_FENCED = 52, _FENCED, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _DENIED, "The principal may not use that transactional id."
    SECURITY_DISABLED = 54, _FINAL, "The broker runs without an authorizer: no permissions to handle."
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "Another part of the request failed first; this was not tried."
    KAFKA_STORAGE_ERROR = 56, _STALE, "The broker's disk failed under that partition."
    LOG_DIR_NOT_FOUND = 57, _FINAL, "The broker has no log directory of that name."
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "The credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "The log holds no trace of that producer; its records may have expired."
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "The partition is being moved to other brokers."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "The broker is not set up for delegation tokens."
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "The principal neither owns nor renews the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "Tokens are not handed out on this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _DENIED, "The principal may not do this to the token."
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "The broker knows no principals of that type."
    NON_EMPTY_GROUP = 68, _FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _FINAL, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "The broker has forgotten that fetch session; open a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "The fetch is not the next of its session; open a new one."
    LISTENER_NOT_FOUND = 72, _STALE, "The leader has no listener of the kind the metadata was asked on."
    TOPIC_DELETION_DISABLED = 73, _FINAL, "The cluster does not allow topics to be deleted."
    FENCED_LEADER_EPOCH = 74, _STALE, "The request carries an older leader epoch than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "The request carries a newer leader epoch than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "The batch uses a codec that is not supported here."
    STALE_BROKER_EPOCH = 77, _FENCED, "The request belongs to an earlier life of the broker."
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "The new leader cannot vouch for its end offset yet."
    MEMBER_ID_REQUIRED = 79, _FINAL, "Join again with the member id that came with this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _STALE, "The preferred leader is not alive or not in sync."
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "The group has as many members as the broker allows."
    FENCED_INSTANCE_ID = 82, _FENCED, "Another member has registered with the same group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _STALE, "No replica that may lead the partition is alive."
    ELECTION_NOT_NEEDED = 84, _STALE, "The partition already has the leader that the election would give it."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "The group still consumes the topic whose offsets should go."
    INVALID_RECORD = 87, _FINAL, "The batch contradicts itself or the rules of its topic."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "A transaction that commits offsets for the group is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "The client's quota is used up; wait as the answer says."
    PRODUCER_FENCED = 90, _FENCED, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, _FINAL, "The request refers to something that does not exist."
    DUPLICATE_RESOURCE = 92, _FINAL, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "The credential is too weak, malformed or otherwise not acceptable."
    INCONSISTENT_VOTER_SET = 94, _FINAL, "Sender or receiver is not among the other's voters."
    INVALID_UPDATE_VERSION = 95, _FINAL, "The feature level asked for is not possible."
    FEATURE_UPDATE_FAILED = 96, _FINAL, "The feature levels could not be written."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "The principal in a forwarded request cannot be read."
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "There is no such snapshot of the metadata log."
    POSITION_OUT_OF_RANGE = 99, _FINAL, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, _STALE, "This broker knows no topic with that id."
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "Another live broker has registered under that broker id."
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "No broker has registered under that id."
    INCONSISTENT_TOPIC_ID = 103, _STALE, "The topic id in the request is not the one in the partition's log."
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "The coordinator knows no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "The fetch session mixes requests with and without topic ids."
    INELIGIBLE_REPLICA = 107, _FINAL, "A replica of the new in-sync set may not be in it."
    NEW_LEADER_ELECTED = 108, _FINAL, "The in-sync set was changed, and the change elected another leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "The offset is no longer on the broker's own disk."
    FENCED_MEMBER_EPOCH = 110, _FENCED, "The member was replaced: give up all partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "Another member still holds that instance id and must leave first."
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "The group has no assignor of that name, or not in that version."
    STALE_MEMBER_EPOCH = 113, _FINAL, "The member's epoch is behind; a heartbeat brings the current one."
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "Meant for a controller but sent to a broker, or vice versa."
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "Endpoints of that type cannot be described."
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "There is no controller with that id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "The telemetry belongs to no current subscription."
    TELEMETRY_TOO_LARGE = 118, _FINAL, "The pushed telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, _FINAL, "The controller refuses the broker's registration."
    TRANSACTION_ABORTABLE = 120, _FINAL, "The transaction cannot be committed; abort it and carry on."
    INVALID_RECORD_STATE = 121, _FINAL, "The record was not out for delivery, so it cannot be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "The broker has forgotten that share session; open a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "The request is not the next one of its share session."
    FENCED_STATE_EPOCH = 124, _FENCED, "The share group's state has moved on to a newer epoch."
    INVALID_VOTER_KEY = 125, _FINAL, "The voter key names another replica than the receiver."
    DUPLICATE_VOTER = 126, _FINAL, "That voter is among the voters already."
    VOTER_NOT_FOUND = 127, _FINAL, "That voter is not among the voters."
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "The regular expression cannot be parsed."
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "The client must start over from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "The topology of the streams application contradicts itself."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "The epoch of the topology is not a possible one."
    STREAMS_TOPOLOGY_FENCED = 132, _FENCED, "The group has moved on to a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "The broker holds as many share sessions as it allows."


class OttlaError(Exception):
    """Whatever Ottla raises on purpose."""


class KafkaError(OttlaError):
    """An answer the protocol has a code for. `detail` names the thing: it ends up in logs and messages."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(code, detail)  # both stay in `args`, so the error survives copying and pickling
        self.code = code
        self.detail = detail

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code.retriable

    def __str__(self) -> str:
        return f"{self.code.name}: {self.detail}" if self.detail else self.code.name

    @staticmethod
    def of(code: int, detail: str = "") -> "KafkaError":
        """The error for a code received from a peer, in the class that tells a client what to do about it.

        A code newer than the table becomes UNKNOWN_SERVER_ERROR and is named in the detail.
        """
        try:
            known = ErrorCode(code)
        except ValueError:
            known = ErrorCode.UNKNOWN_SERVER_ERROR
            detail = f"error code {code}: {detail}" if detail else f"error code {code}"
        return _CLASSES[known.category](known, detail)


class RetriableError(KafkaError):
    """The same request may succeed later."""


class StaleMetadataError(RetriableError):
    """The same request may succeed after a fresh look at who leads, coordinates or controls."""


class FencedError(KafkaError):
    """Somebody newer has taken over; what the sender holds is no longer its own."""


class AuthorizationError(KafkaError):
    """The principal may not do this."""


class ProtocolError(OttlaError):
    """The peer, or the file, broke the format."""


class ConfigError(OttlaError):
    """A setting that cannot be: the message names the key."""


_CLASSES: dict[Category, type[KafkaError]] = {
    Category.FINAL: KafkaError,
    Category.RETRY: RetriableError,
    Category.STALE: StaleMetadataError,
    Category.FENCED: FencedError,
    Category.DENIED: AuthorizationError,
}
