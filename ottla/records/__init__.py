"""Layer 1: Kafka's record formats as bytes and values."""


def is_compiled() -> bool:
    """Whether the loops over records run as machine code, or as the same source interpreted."""
    from ottla.records import section

    return section.COMPILED
