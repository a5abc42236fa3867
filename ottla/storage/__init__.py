"""Layer 2: a partition's log on disk, in Kafka's own file format."""
