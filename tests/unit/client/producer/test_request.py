"""Batches as a Produce request."""

import pytest

from ottla.client.metadata import Metadata
from ottla.client.producer.config import producer_config
from ottla.client.producer.request import produce_request
from ottla.core.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_a_broker_cannot_read_is_not_sent_to_it(codec):
    """Brokers before 2.1 answer zstd with UNKNOWN_SERVER_ERROR, and with acks=0 not at all."""
    config = producer_config({"compression_type": codec})
    if codec == "zstd":
        with pytest.raises(KafkaError, match="zstd takes Kafka 2") as refusal:
            produce_request([], config, None, Metadata(), 6)
        assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert not refusal.value.retriable
    else:
        assert produce_request([], config, None, Metadata(), 6).topic_data == []
    assert produce_request([], config, None, Metadata(), 7).topic_data == []
