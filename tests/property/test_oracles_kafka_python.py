"""Our codec against kafka-python's: the same bytes, the same values, for every version that both know."""

import pytest

from tests.oracles import kafka_python_codec as kafka_python
from tests.oracles.messages import from_bytes, message_classes, plain, random_messages, to_bytes

KNOWN = [
    (cls, version)
    for cls in message_classes()
    for version in cls.versions
    if kafka_python.container_class(cls, version)
]


@pytest.mark.parametrize("cls", sorted({cls for cls, _ in KNOWN}, key=lambda cls: cls.__name__))
def test_kafka_python_writes_and_reads_the_same(cls):
    for version in (version for known, version in KNOWN if known is cls):
        container = kafka_python.container_class(cls, version)
        for message in random_messages(cls, version):
            values = plain(message, version)
            ours = to_bytes(message, version)
            theirs = kafka_python.encode(kafka_python.to_container(container, values, version), version)
            assert ours.hex() == theirs.hex(), f"v{version} {message}"
            decoded = kafka_python.decode(container, ours, version)
            assert kafka_python.from_container(decoded, values) == values
            assert plain(from_bytes(cls, theirs, version), version) == values
