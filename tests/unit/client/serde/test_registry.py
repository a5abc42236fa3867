"""What a setting means."""

import warnings

import confluent_kafka.serialization
import pytest

from ottla.client.serde.json import JsonSerializer
from ottla.client.serde.registry import NAMES, deserializer_of, serializer_of
from ottla.core.errors import ConfigError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas in a way that Python is about to drop
    import kafka.serializer

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    "setting", [None, "bytes", bytes, f"{JAVA}ByteArraySerializer", "kafka.serializer.DefaultEncoder"]
)
def test_bytes_are_left_alone(setting):
    assert serializer_of(setting) is None


@pytest.mark.parametrize(
    "setting", [None, "bytes", bytes, f"{JAVA}ByteArrayDeserializer", "kafka.serializer.DefaultDecoder"]
)
def test_bytes_stay_bytes(setting):
    assert deserializer_of(setting) is None


@pytest.mark.parametrize(
    ("written", "read", "value", "data"),
    [
        ("string", "string", "ž", b"\xc5\xbe"),
        (str, str, "a", b"a"),
        ("short", "int16", 1, b"\x00\x01"),
        ("Integer", "int32", 1, b"\x00\x00\x00\x01"),
        ("long", "int64", 1, b"\x00" * 7 + b"\x01"),
        ("double", "float64", 0.0, b"\x00" * 8),
        ("json", "json", {"a": 1}, b'{"a":1}'),
        (f"{JAVA}StringSerializer", f"{JAVA}StringDeserializer", "a", b"a"),
        (f"{JAVA}UUIDSerializer", f"{JAVA}VoidDeserializer", None, None),
        ("kafka.serializer.StringEncoder", "kafka.serializer.StringDecoder", "a", b"a"),
    ],
)
def test_a_name_stands_for_a_kind_of_value(written, read, value, data):
    assert serializer_of(written)("t", (), value) == data
    assert deserializer_of(read)("t", (), data) == value


def test_every_name_is_both_a_serializer_and_a_deserializer():
    for name in NAMES:
        serializer_of(name)
        deserializer_of(name)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("strng", "perhaps string is meant"),
        ("xyzzy", "there are bytes, string"),
        (f"{JAVA}StringDeserializer", "StringSerializer is"),
        (f"{JAVA}NoSuchSerializer", "there is no serializer"),
        ("io.confluent.kafka.serializers.KafkaAvroSerializer", "needs a schema registry"),
        (7, "int is no serializer"),
        (lambda: b"", "does not take one value"),
        (lambda a, b, c: b"", "does not take one value"),
        (type("Wrong", (), {"serialize": lambda self: b""}), "does not take"),
        (
            type("Costly", (), {"__init__": lambda self, x: None, "serialize": lambda self, x: b""}),
            "without arguments",
        ),
    ],
)
def test_what_is_no_serializer_is_said_in_a_sentence(setting, sentence):
    with pytest.raises(ConfigError, match=sentence):
        serializer_of(setting)


def test_a_coroutine_function_is_no_serializer():
    async def later(value):
        return b""

    with pytest.raises(ConfigError, match="must be a plain one"):
        serializer_of(later)


def test_functions_are_called_with_the_value_and_not_for_null():
    assert serializer_of(lambda value: value.encode())("t", (), "a") == b"a"
    assert serializer_of(lambda value: value.encode())("t", (), None) is None
    assert deserializer_of(int)("t", (), b"12") == 12
    assert deserializer_of(int)("t", (), None) is None
    assert deserializer_of(bytes.decode)("t", (), b"a") == "a"


def test_objects_are_called_in_the_form_that_they_have():
    class Three:
        def serialize(self, topic, headers, value):
            return f"{topic} {headers} {value}".encode()

        def deserialize(self, topic, headers, data):
            return topic, headers, data

    class Two:
        def serialize(self, topic, value):
            return f"{topic} {value}".encode()

        def deserialize(self, topic, data):
            return topic, data

    class One:
        def serialize(self, value):
            return value.encode()

    headers = (("h", b"1"),)
    assert serializer_of(Three())("t", headers, 1) == b"t (('h', b'1'),) 1"
    assert serializer_of(Three)("t", (), 1) == b"t () 1"
    assert serializer_of(Two)("t", headers, 1) == b"t 1"
    assert serializer_of(One)("t", headers, "v") == b"v"
    assert deserializer_of(Three)("t", headers, b"1") == ("t", headers, b"1")
    assert deserializer_of(Two)("t", headers, b"1") == ("t", b"1")


def test_serializers_of_other_clients_are_taken():
    ours = serializer_of(kafka.serializer.JsonSerializer())
    assert ours("t", (), {"a": 1}) == b'{"a": 1}'
    assert deserializer_of(kafka.serializer.JsonSerializer)("t", (), b"[1]") == [1]
    assert serializer_of(confluent_kafka.serialization.StringSerializer("utf_8"))("t", (), "a") == b"a"
    assert deserializer_of(confluent_kafka.serialization.DoubleDeserializer())("t", (), b"\0" * 8) == 0.0


def test_confluents_context_says_topic_field_and_headers():
    def serialize(value, ctx):
        return f"{ctx.topic} {ctx.field} {ctx.headers} {value}".encode()

    assert serializer_of(serialize)("t", (), 1) == b"t value () 1"
    assert serializer_of(serialize, is_key=True)("t", (), 1) == b"t key () 1"


def test_a_serializer_must_make_bytes():
    assert serializer_of(bytearray.copy)("t", (), bytearray(b"a")) == b"a"
    assert serializer_of(lambda value: None)("t", (), 1) is None
    with pytest.raises(TypeError, match="made str, not bytes"):
        serializer_of(lambda value: "text")("t", (), 1)


def test_what_a_serializer_raises_is_left_to_the_caller():
    with pytest.raises(ZeroDivisionError):
        serializer_of(lambda value: 1 // 0)("t", (), 1)


def test_objects_that_know_keys_are_asked_for_their_other_self():
    class Serializer(JsonSerializer):
        def for_key(self):
            return JsonSerializer(sort_keys=True)

    assert serializer_of(Serializer())("t", (), {"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert serializer_of(Serializer(), is_key=True)("t", (), {"b": 1, "a": 2}) == b'{"a":2,"b":1}'
