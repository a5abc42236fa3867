"""What an answer, or the lack of one, means for a batch: decided here, done by the sender.

The rule behind it: a batch that may have been written keeps its number until the broker's word is known. Only an answer
that proves that it was not written, and cannot be under its number, lets it be sent under another.
"""

import enum

from ottla.client.errors import ClientError
from ottla.core.errors import ErrorCode, KafkaError


class Verdict(enum.Enum):
    """What is to be done with a batch."""

    WRITTEN = "written"
    RETRY = "send it again, as it is"
    SPLIT = "send it again, in halves"
    RENUMBER = "send it again, as somebody else"
    FAIL = "tell its senders"


_TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
_GAP = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
_NOT_WRITTEN = {
    *_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""With these a broker refuses a batch before it writes anything."""


def judge(
    code: ErrorCode,
    *,
    count: int,
    has_sequence: bool,
    is_first_unresolved: bool,
    is_transactional: bool,
    may_retry: bool,
    is_written_perhaps: bool = False,
) -> Verdict:
    """`count` is of records in the batch, `is_first_unresolved` whether all that was sent before it is settled,
    `is_written_perhaps` whether an earlier attempt had no answer: then halves would not be known as what they are."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if code in _TOO_LARGE and count > 1 and not (has_sequence and is_written_perhaps):
        return Verdict.SPLIT
    if not may_retry:
        return Verdict.FAIL
    if has_sequence and code in _GAP:
        if not is_first_unresolved:
            return Verdict.RETRY  # what is missing before it is still to come
        return Verdict.FAIL if is_transactional else Verdict.RENUMBER
    if has_sequence and code == ErrorCode.INVALID_PRODUCER_EPOCH and not is_transactional:
        return Verdict.RENUMBER
    return Verdict.RETRY if code.retriable else Verdict.FAIL


def is_refusal(error: Exception) -> bool:
    """Whether a broker has said with this that the attempt wrote nothing."""
    if not isinstance(error, KafkaError) or isinstance(error, ClientError):
        return False
    return error.code in _NOT_WRITTEN or error.code in _GAP


def is_number_free(error: Exception, attempts: int) -> bool:
    """Whether the number of a batch that failed with this can be another's. Only if a broker has said so when it was
    sent for the first time: of a batch that is sent again, an earlier attempt may have been written."""
    if not isinstance(error, KafkaError) or isinstance(error, ClientError):
        return False
    return attempts == 1 and error.code in _NOT_WRITTEN
