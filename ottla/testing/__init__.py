"""Layer 5: what tests need, shipped to users.

broker, faults    a broker inside the program: `Broker`, its async twin `AsyncBroker`, errors and delays on demand
plugin            the same as pytest fixtures
disk              a simulated disk that forgets, tears and fails
cluster           several brokers as processes, and what befalls them: `Cluster`
proxy             a network between clients and a broker that holds, loses, delays and repeats requests
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import AsyncBroker as AsyncBroker
    from ottla.testing.broker import Broker as Broker
    from ottla.testing.cluster import Cluster as Cluster

__all__ = ["AsyncBroker", "Broker", "Cluster"]


def __getattr__(name: str) -> Any:
    """`ottla.testing.Broker` is found when it is asked for: pytest imports this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Cluster":
        from ottla.testing import cluster

        return cluster.Cluster
    from ottla.testing import broker

    return getattr(broker, name)
