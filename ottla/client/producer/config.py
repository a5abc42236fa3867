"""The settings of producers, and those of the 0.8 and 0.9 producers in today's words."""

from collections.abc import Mapping
from typing import Any

from ottla.client.config import ClientConfig, anything
from ottla.client.settings import Old, read_settings
from ottla.core.config import Bytes, Duration, Key, at_least, between, one_of
from ottla.core.errors import ConfigError
from ottla.core.values import INT32_MAX, ValueType, WireType
from ottla.records.compression import Codec

CODECS = {codec.name.lower(): codec for codec in Codec}
_IN_FLIGHT_MAX = 5  # of an idempotent producer: brokers remember so many batches of it


def _read_acks(value: object) -> int:
    if str(value).strip().lower() in ("all", "-1"):
        return -1
    if isinstance(value, bool) or str(value).strip() not in ("0", "1"):
        raise ValueError("no such acks")
    return int(str(value))


_Acks = ValueType(
    WireType.STRING, "0, 1 or all", _read_acks, lambda value: "all" if value == -1 else str(value)
)


class ProducerConfig(ClientConfig):
    """Settings of producers."""

    acks = Key(
        "acks",
        _Acks,
        -1,
        doc="Who must have a record before it counts as sent: `0` nobody, `1` the leader, `all` the in-sync replicas.",
    )
    enable_idempotence = Key(
        "enable.idempotence",
        bool,
        True,
        doc="Whether brokers recognise records that are sent again, so that a retry neither doubles them nor changes "
        "their order. Settings that contradict it (`acks`, `retries=0`, more than 5 in flight) switch it off.",
    )
    transactional_id = Key(
        "transactional.id",
        str,
        None,
        doc="A name that is this producer's alone, and stays over restarts: with it, records are written in "
        "transactions, and an earlier producer of that name is shut out.",
    )
    transaction_timeout_ms = Key(
        "transaction.timeout.ms",
        Duration,
        60_000,
        between(1, INT32_MAX),
        doc="A transaction that is open for longer is aborted by the broker.",
    )
    batch_size = Key(
        "batch.size",
        Bytes,
        128 * 1024,
        between(0, INT32_MAX),
        doc="How large a batch of one partition becomes before the next is begun. Batches leave earlier if nothing "
        "stands in their way. 0 is a batch for every record.",
    )
    linger_ms = Key(
        "linger.ms",
        Duration,
        0,
        at_least(0),
        doc="How long a batch that is not full waits for more records. 0 is while others are under way.",
    )
    buffer_memory = Key(
        "buffer.memory",
        Bytes,
        32 * 1024 * 1024,
        at_least(1),
        doc="How many bytes of records may wait, or be under way. When they are that many, `send` waits.",
    )
    buffer_max_records = Key(
        "buffer.max.records",
        int,
        0,
        at_least(0),
        doc="How many records may wait, or be under way; 0 is no limit. (Kafka has no such setting since 0.9.)",
    )
    buffer_full = Key(
        "buffer.full",
        one_of("block", "raise", "drop"),
        "block",
        doc="What `send` does where there is no room: `block` waits, `raise` fails at once. `drop`: the record is "
        "dropped and counted, and its delivery fails. (Kafka has no such setting since 0.9.)",
    )
    batch_max_records = Key(
        "batch.max.records",
        int,
        0,
        at_least(0),
        doc="How many records a batch holds at most; 0 is no limit. (Kafka has no such setting since 0.9.)",
    )
    send_waits = Key(
        "send.waits",
        bool,
        False,
        doc="Whether `send` returns only when its record was acknowledged, and raises if it failed. (Kafka has no such "
        "setting since 0.9: there it is `send(...).get()`.)",
    )
    max_block_ms = Key(
        "max.block.ms",
        Duration,
        60_000,
        at_least(-1),
        doc="How long `send` may wait for room or to hear of a topic, and calls of transactions for the broker. "
        "-1 is for ever.",
    )
    max_request_size = Key(
        "max.request.size",
        Bytes,
        1024 * 1024,
        between(1, INT32_MAX),
        doc="The largest record, and the most that is sent to a broker at once.",
    )
    max_in_flight_requests_per_connection = Key(
        "max.in.flight.requests.per.connection",
        int,
        _IN_FLIGHT_MAX,
        at_least(1),
        aliases=("max.in.flight",),
        doc="How many requests to a broker may wait for their answer. More than 1 without idempotence may change the "
        "order of records when one is sent again.",
    )
    retries = Key(
        "retries",
        int,
        INT32_MAX,
        at_least(0),
        doc="How often a batch is sent again. `delivery.timeout.ms` is the better limit.",
    )
    delivery_timeout_ms = Key(
        "delivery.timeout.ms",
        Duration,
        120_000,
        between(1, INT32_MAX),
        doc="After so long a record has been acknowledged, or has failed.",
    )
    compression_type = Key(
        "compression.type", one_of(*CODECS), "none", doc="How batches are compressed. Brokers store them so."
    )
    compression_gzip_level = Key(
        "compression.gzip.level", int, 6, between(1, 9), doc="From 1, fast, to 9, small."
    )
    compression_lz4_level = Key(
        "compression.lz4.level", int, 1, between(1, 17), doc="From 1, fast, to 17, small."
    )
    compression_zstd_level = Key(
        "compression.zstd.level", int, 3, between(1, 22), doc="From 1, fast, to 22, small."
    )
    allow_auto_create_topics = Key(
        "allow.auto.create.topics",
        bool,
        True,
        doc="Whether a topic that is sent to may come into being, where brokers create topics that are asked for.",
    )
    key_serializer = Key(
        "key.serializer",
        anything("a function to bytes, a serializer, or the name of one"),
        None,
        doc="Makes bytes of keys. Without it they must be bytes.",
    )
    value_serializer = Key(
        "value.serializer",
        anything("a function to bytes, a serializer, or the name of one"),
        None,
        doc="Makes bytes of values. Without it they must be bytes.",
    )
    partitioner = Key(
        "partitioner",
        anything("a partitioner, or the name of one"),
        "default",
        aliases=("partitioner.class",),
        doc="Chooses the partition of records that do not name one: `default` (by key as Java's client, without a key "
        "one partition for as long as a batch takes), `round_robin`, `random`, `key`, `rack`, `host`, or your own.",
    )
    interceptors = Key(
        "interceptors",
        anything("a list of interceptors"),
        (),
        aliases=("interceptor.classes",),
        doc="Objects with `on_send(record) -> record` and `on_acknowledgement(metadata, error)`, in this order.",
    )

    @property
    def codec(self) -> Codec:
        return CODECS[self.compression_type]

    @property
    def level(self) -> int | None:
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        return levels.get(self.codec)

    def check(self) -> None:
        super().check()
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError("delivery.timeout.ms must be at least linger.ms + request.timeout.ms")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional.id is set: enable.idempotence must be true")
        if self.enable_idempotence:
            for key, why in _against_idempotence(self.__dict__["_values"]).items():
                raise ConfigError(f"enable.idempotence is true: {key} must be {why}")


def _against_idempotence(values: Mapping[str, Any]) -> dict[str, str]:
    """The settings that idempotence cannot live with, and what they would have to be."""
    found = {}
    if values.get("acks", -1) != -1:
        found["acks"] = "all"
    if values.get("retries", 1) == 0:
        found["retries"] = "at least 1"
    if values.get("max.in.flight.requests.per.connection", 1) > _IN_FLIGHT_MAX:
        found["max.in.flight.requests.per.connection"] = f"at most {_IN_FLIGHT_MAX}"
    return found


def _sync_or_async(value: object) -> dict[str, object]:
    if value not in ("sync", "async"):
        raise ConfigError(f"producer.type is {value!r}, but must be sync or async")
    return {"send.waits": value == "sync"}


def _enqueue_timeout(value: object) -> dict[str, object]:
    return {"buffer.full": "drop"} if str(value).strip() == "0" else {"max.block.ms": value}


def _block_on_full(value: object) -> dict[str, object]:
    """Without it the buffer is not waited for; a topic that is not known yet is."""
    if str(value).lower() not in ("true", "false"):
        raise ConfigError(f"block.on.buffer.full is {value!r}, but must be true or false")
    return {"max.block.ms": -1} if str(value).lower() == "true" else {"buffer.full": "raise"}


OLD: dict[str, Old] = {
    "producer.type": Old("send(...).get(), or send.waits", _sync_or_async),
    "request.required.acks": Old("acks", lambda value: {"acks": value}),
    "queue.buffering.max.ms": Old("linger.ms", lambda value: {"linger.ms": value}),
    "queue.buffering.max.messages": Old(
        "buffer.memory, or buffer.max.records", lambda value: {"buffer.max.records": value}
    ),
    "batch.num.messages": Old("batch.size, or batch.max.records", lambda value: {"batch.max.records": value}),
    "timeout.ms": Old("request.timeout.ms", lambda value: {"request.timeout.ms": value}),
    "metadata.fetch.timeout.ms": Old("max.block.ms", lambda value: {"max.block.ms": value}),
    "queue.enqueue.timeout.ms": Old("max.block.ms, or buffer.full", _enqueue_timeout),
    "block.on.buffer.full": Old("max.block.ms, or buffer.full", _block_on_full),
}
"""Where two say something about the same key, the later one in this table wins."""


_OPEN = ("enable_idempotence", "enable.idempotence", "delivery_timeout_ms", "delivery.timeout.ms")


def producer_config(settings: Mapping[str, object]) -> ProducerConfig:
    """The settings of a producer. What contradicts idempotence switches it off, unless it was asked for; deliveries
    take as long as `linger.ms` and `request.timeout.ms` want, unless a limit was asked for."""
    spelled = {name.replace(".", "_") for name, value in settings.items() if value is not None}
    given = {name: value for name, value in settings.items() if value is not None or name not in _OPEN}
    is_decided = "enable_idempotence" in spelled or "transactional_id" in spelled
    is_limited = "delivery_timeout_ms" in spelled
    open_yet: dict[str, object] = {} if is_decided else {"enable.idempotence": False}
    open_yet |= {} if is_limited else {"delivery.timeout.ms": INT32_MAX}
    draft = read_settings(ProducerConfig, {**given, **open_yet}, OLD)
    values = {name: draft[name] for name in ProducerConfig.keys if draft[name] is not None}
    if not is_limited:
        usual_ms = ProducerConfig.keys["delivery.timeout.ms"].default
        values["delivery.timeout.ms"] = max(usual_ms, draft.linger_ms + draft.request_timeout_ms)
    if not is_decided:
        values["enable.idempotence"] = not _against_idempotence(values)
    return ProducerConfig(values)
