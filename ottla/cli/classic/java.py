"""What Java adds to the output of Apache's tools: the order of its hash maps, its numbers, its names of errors.

Scripts read that output, so that it is the same here down to the order of topics in `kafka-topics --describe`, which is
that of a `HashMap`. Where a broker sends an error without a sentence, the sentence is the one that Java's clients know.
"""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.core.errors import ConfigError, ErrorCode, KafkaError, OttlaError
from ottla.core.ids import TopicPartition

K = TypeVar("K")
_MASK = 0xFFFFFFFF
_CAPACITY = 16  # of a map that nobody gave a size
_FULL = 0.75
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7  # doubles outside are written with an exponent
_DIGITS_MAX = 18


class Illegal(OttlaError):
    """What the tool itself finds wrong with its arguments, beyond their spelling."""


# --- hash maps --------------------------------------------------------------------------------------------------------


def hash_ordered(
    keys: Iterable[K], size: int | None = None, hash_of: Callable[[K], int] | None = None
) -> list[K]:
    """The keys as a `HashMap` hands them out that they were put into one by one; `size` is what it was made with.

    Strings, numbers and partitions have the hash that they have in Java; for the rest, `hash_of` says it.
    """
    wanted = list(keys)
    known = hash_of or java_hash
    capacity = _CAPACITY if size is None else _power_of_two(size)
    while len(wanted) > capacity * _FULL:
        capacity *= 2
    return sorted(wanted, key=lambda key: _bucket(known(key), capacity))


def _power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def _bucket(hashed: int, capacity: int) -> int:
    return (hashed ^ (hashed >> 16)) & (capacity - 1)


def java_hash(key: object) -> int:
    """What `hashCode` returns, as an unsigned number."""
    if isinstance(key, TopicPartition):
        return (31 * (31 + key.partition) + java_hash(key.topic)) & _MASK
    if isinstance(key, int):
        return key & _MASK
    found = 0
    units = str(key).encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & _MASK
    return found


# --- numbers ----------------------------------------------------------------------------------------------------------


def double_text(value: float) -> str:
    """A number as `Double.toString` writes it: `3.0`, `1.2345678E7`."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        return repr(value)
    for places in range(_DIGITS_MAX):
        digits, _, exponent = f"{value:.{places}e}".partition("e")
        if float(f"{digits}e{exponent}") == value:
            break
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def integer(text: str, bits: int = 32) -> int:
    """As `Integer.parseInt` reads it, with its complaint; with 64 bits as `Long.parseLong`."""
    limit = 1 << (bits - 1)
    try:
        if text != text.strip() or "_" in text or not -limit <= int(text) < limit:
            raise ValueError
        return int(text)
    except ValueError:
        raise Illegal(f'For input string: "{text}"') from None


# --- errors -----------------------------------------------------------------------------------------------------------

_CLASSES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
}
_SENTENCES = {
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "Topic with this name already exists.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Topic deletion is disabled.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    ErrorCode.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: ("The request attempted to perform an operation on an invalid topic."),
}


def class_of(error: KafkaError) -> str:
    """The name of the exception that Java's clients raise for it."""
    name = _CLASSES.get(error.code)
    if name is None:
        words = error.code.name.lower().split("_")
        name = "".join(word.capitalize() for word in words) + "Exception"
    return f"org.apache.kafka.common.errors.{name}"


def first_of(error: KafkaError) -> KafkaError:
    """Of a call for many things, the first error; otherwise the error itself."""
    from ottla.client.errors import PartialFailure

    while isinstance(error, PartialFailure) and error.errors:
        error = next(iter(error.errors.values()))
    return error


def message_of(error: Exception, about: str = "") -> str:
    """The sentence that the broker sent, or that Java's clients know; `about` is what ours puts in front of it."""
    from ottla.cli.dump.output import printable
    from ottla.client.errors import ClientError

    if isinstance(error, ConfigError):
        return f"Failed to create new KafkaAdminClient\n{error}"
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}\nThere is no such file."  # Java says its name, and no more
    if not isinstance(error, KafkaError):
        return "\n".join(map(printable, str(error).split("\n")))
    error = first_of(error)
    if isinstance(error, ClientError):
        return printable(str(error))
    if about and error.detail.startswith(f"{about}: "):
        return printable(error.detail.removeprefix(f"{about}: "))
    if error.detail and error.detail != about:
        return printable(error.detail)
    return _SENTENCES.get(error.code) or error.code.meaning


def exception_text(error: Exception, about: str = "") -> str:
    """As `Throwable.toString` writes it: the name, a colon, the sentence."""
    if isinstance(error, KafkaError):
        return f"{class_of(first_of(error))}: {message_of(error, about)}"
    return str(error)
