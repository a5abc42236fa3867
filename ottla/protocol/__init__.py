"""Layer 1: the Kafka wire protocol as data: declarations, codecs, framing."""
