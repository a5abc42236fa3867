"""Compaction: of each key's records the newest stays, and offsets stay what they were."""
