"""The consumer: positions, fetches, groups, commits."""
