"""Assignors: who of a group reads which partitions. Pure functions."""
