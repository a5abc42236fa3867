"""What a client raises, beyond the answers of brokers.

Everything is a `KafkaError`: it has a `code`, says whether it is `retriable`, and is a sentence. Brokers' answers are
`KafkaError` itself or the class for what can be done about it (`ottla.core.errors`); what a client finds out by itself
has a class here, with the code that Kafka's own clients would choose.
"""

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.core.errors import ErrorCode, FencedError, KafkaError, RetriableError, StaleMetadataError
from ottla.core.ids import TopicPartition

_NAMED_MAX = 50
"""Things that a sentence names one by one."""


class ClientError(KafkaError):
    """An error with the code of its class."""

    own_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, detail: str = "") -> None:
        super().__init__(type(self).own_code, detail)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.detail,), self.__dict__

    def __str__(self) -> str:
        return self.detail or self.code.name


class KafkaTimeoutError(ClientError, RetriableError, TimeoutError):
    """It took longer than was allowed. Whether a request was carried out is not known."""

    own_code = ErrorCode.REQUEST_TIMED_OUT


class UnknownTopicError(KafkaTimeoutError):
    """There is no such topic or partition, and it did not come into being in time either."""

    own_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NetworkError(ClientError, StaleMetadataError, ConnectionError):
    """A connection was refused or lost. Whether a request was carried out is not known."""

    own_code = ErrorCode.NETWORK_EXCEPTION


class NoBrokersAvailable(NetworkError):
    """None of the brokers took a connection; the sentence says for each why."""

    own_code = ErrorCode.NETWORK_EXCEPTION


class ProtocolMismatch(ClientError, ConnectionError):
    """The other side does not speak Kafka's protocol in plain: TLS, another protocol, or an answer that cannot be."""

    own_code = ErrorCode.UNSUPPORTED_VERSION


class UnsupportedVersionError(ClientError):
    """The broker does not know the request, or none of its versions that we speak."""

    own_code = ErrorCode.UNSUPPORTED_VERSION


class AuthenticationError(ClientError):
    """The broker refused our credentials, or its certificate is not one that we trust."""

    own_code = ErrorCode.SASL_AUTHENTICATION_FAILED


class ClosedError(ClientError, RuntimeError):
    """The client was closed, or never started."""

    own_code = ErrorCode.INVALID_REQUEST


class IllegalStateError(ClientError, RuntimeError):
    """The call makes no sense at this moment: the sentence says what would have to happen first."""

    own_code = ErrorCode.INVALID_REQUEST


class PartialFailure(KafkaError):
    """A call for many things, of which some failed. `results` has for each its value, or its error.

    The code is that of the first error. It is retriable if all are.
    """

    def __init__(self, what: str, results: Mapping[Any, Any]) -> None:
        self.results = dict(results)
        self.errors = {key: each for key, each in self.results.items() if isinstance(each, KafkaError)}
        some = itertools.islice(self.errors.items(), _NAMED_MAX)
        named = [str(each) if str(key) in each.detail else f"{key}: {each}" for key, each in some]
        if len(self.errors) > len(named):
            named.append(f"and {len(self.errors) - len(named)} more")
        first = next(iter(self.errors.values()), None)
        self.what = what
        super().__init__(
            first.code if first is not None else ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{what} failed for {len(self.errors)} of {len(self.results)}: {'; '.join(named)}",
        )

    @property
    def retriable(self) -> bool:
        return all(each.retriable for each in self.errors.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.results)

    def __str__(self) -> str:
        return self.detail


# --- producing ------------------------------------------------------------------------------------------------------


class SerializationError(ClientError, ValueError):
    """A key or value could not be turned into bytes."""

    own_code = ErrorCode.INVALID_RECORD


class RecordTooLargeError(ClientError, ValueError):
    """The record is larger than `max_request_size`, or than `buffer_memory`."""

    own_code = ErrorCode.MESSAGE_TOO_LARGE


class BufferFullError(KafkaTimeoutError):
    """There was no room in the buffer within `max_block_ms`. The record was not accepted."""


class RecordDroppedError(BufferFullError):
    """There was no room in the buffer, and the settings say that records are dropped then."""


class ProducerFencedError(ClientError, FencedError):
    """Another producer uses the same `transactional_id`. This one can only be closed."""

    own_code = ErrorCode.PRODUCER_FENCED


class TransactionAbortableError(ClientError):
    """The transaction cannot be committed any more. Abort it and begin another."""

    own_code = ErrorCode.TRANSACTION_ABORTABLE


# --- consuming ------------------------------------------------------------------------------------------------------


class DeserializationError(ClientError, ValueError):
    """A record that no deserializer could read. The position stays at it: seek past it to go on.

    `record` has the bytes as they are in the log.
    """

    own_code = ErrorCode.INVALID_RECORD

    def __init__(
        self, detail: str = "", partition: TopicPartition | None = None, offset: int = -1, record: Any = None
    ) -> None:
        super().__init__(detail)
        self.partition = partition
        self.offset = offset
        self.record = record


class CommitFailedError(ClientError):
    """The group has gone on without this member: its partitions belong to others, and its offsets do not count."""

    own_code = ErrorCode.REBALANCE_IN_PROGRESS


class RebalanceInProgressError(CommitFailedError):
    """The group is moving partitions: nothing was committed. Poll, and commit what is still ours."""


class NoOffsetForPartitionError(ClientError):
    """Nothing was committed for the partition, and `auto_offset_reset` is `none`."""

    own_code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, detail: str = "", partitions: frozenset[TopicPartition] = frozenset()) -> None:
        super().__init__(detail)
        self.partitions = partitions


class OffsetOutOfRangeError(ClientError):
    """The position lies outside the log, and `auto_offset_reset` is `none`. `offsets` has the positions."""

    own_code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, detail: str = "", offsets: dict[TopicPartition, int] | None = None) -> None:
        super().__init__(detail)
        self.offsets = offsets or {}


class LogTruncationError(OffsetOutOfRangeError):
    """Records that were read are gone: the log was cut below the position. `diverging` is where to go on from."""

    def __init__(
        self,
        detail: str = "",
        offsets: dict[TopicPartition, int] | None = None,
        diverging: dict[TopicPartition, int] | None = None,
    ) -> None:
        super().__init__(detail, offsets)
        self.diverging = diverging or {}


class MessageBusyError(ClientError, RetriableError):
    """Somebody else has claimed the message and is not done, or has crashed. Try again later."""

    own_code = ErrorCode.CONCURRENT_TRANSACTIONS


class WakeupError(ClientError):
    """`wakeup` was called: the call that waited, or the next one that would have, ends with this."""

    own_code = ErrorCode.NONE
