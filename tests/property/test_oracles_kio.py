"""Our codec against kio's: the same bytes, the same values, for every version that both know."""

import pytest

from tests.oracles import kio_codec
from tests.oracles.messages import from_bytes, message_classes, plain, random_messages, to_bytes

KNOWN = [
    (cls, version)
    for cls in message_classes()
    for version in cls.versions
    if kio_codec.entity_class(cls, version)
]


@pytest.mark.parametrize("cls", sorted({cls for cls, _ in KNOWN}, key=lambda cls: cls.__name__))
def test_kio_writes_and_reads_the_same(cls):
    for version in (version for known, version in KNOWN if known is cls):
        entity = kio_codec.entity_class(cls, version)
        for message in random_messages(cls, version):
            values = plain(message, version)
            ours = to_bytes(message, version)
            theirs = kio_codec.encode(kio_codec.to_entity(entity, values))
            assert ours.hex() == theirs.hex(), f"v{version} {message}"
            assert kio_codec.from_entity(kio_codec.decode(entity, ours), values) == values
            assert plain(from_bytes(cls, theirs, version), version) == values
