"""A pattern of topic names that the brokers match, instead of the consumer (KIP-848)."""

from typing import NamedTuple


class SubscriptionPattern(NamedTuple):
    """For `subscribe(pattern=SubscriptionPattern("orders-.*"))`, with `group_protocol="consumer"`.

    The expression is one of Google's RE2, and matches whole names.
    """

    pattern: str

    def __str__(self) -> str:
        return self.pattern
