"""The records of Apache's `__cluster_metadata`, as far as they must be shown: with those that say nothing about data.

Nothing here writes them: Ottla keeps its metadata elsewhere.
"""

from collections.abc import Mapping
from typing import Any

from ottla.protocol.messages.cluster_metadata import KINDS, RegisterBrokerRecord
from ottla.protocol.schema import Bool, Int32, Int64, Uuid, message


@message(versions="0", flexible="0+")
class FenceBrokerRecord:
    """A broker is silent."""

    id: Int32
    epoch: Int64


@message(versions="0", flexible="0+")
class UnfenceBrokerRecord:
    """A broker may lead again."""

    id: Int32
    epoch: Int64


@message(versions="0", flexible="0+")
class RegisterControllerRecord:
    """A controller has come."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]


@message(versions="0", flexible="0+")
class NoOpRecord:
    """Nothing; it shows that the controller lives."""


RECORDS: Mapping[int, type[Any]] = {
    **KINDS,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    20: NoOpRecord,
    27: RegisterControllerRecord,
}
