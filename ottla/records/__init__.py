"""Layer 1: Kafka's record formats as bytes and values."""
