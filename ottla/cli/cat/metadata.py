"""-L: brokers, topics and partitions, in kcat's words. -L -J gives kcat's JSON.

A topic that is asked for and does not exist is not created, which kcat does where the brokers let it.
"""

import json
from typing import Any, NamedTuple

from ottla.cli.remote import NOT_FOUND, Admin
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse

ALL = "*"
_MEANINGS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Broker: Unknown topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "Broker: Leader not available",
    ErrorCode.REPLICA_NOT_AVAILABLE: "Broker: Replica not available",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Broker: Invalid topic",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Broker: Topic authorization failed",
    ErrorCode.LISTENER_NOT_FOUND: "Broker: No matching listener found",
}
"""As librdkafka words them."""


class Origin(NamedTuple):
    """The broker that answered. Its number is -1 if it goes by another name in the cluster."""

    node_id: int
    name: str


async def ask(admin: Admin, topic: str | None) -> tuple[MetadataResponse, Origin]:
    """What one of the brokers says, of all topics or of one."""
    asked = None if topic is None else [MetadataRequest.Topic(name=topic)]
    peer = await admin._routes.cluster.any_peer()
    answer: MetadataResponse = await peer.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return answer, _origin(answer, peer.address)


def _origin(answer: MetadataResponse, address: str) -> Origin:
    for each in answer.brokers:
        if f"{each.host}:{each.port}" == address:
            return Origin(each.node_id, f"{address}/{each.node_id}")
    return Origin(-1, f"{address}/bootstrap")


def exit_code(answer: MetadataResponse) -> int:
    """0, or that of a topic that does not exist."""
    missing = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
    return NOT_FOUND if any(each.error_code in missing for each in answer.topics) else 0


def meaning(code: int) -> str:
    """What an error code means, in librdkafka's words if it is one that metadata has."""
    error = ErrorCode(code)
    return _MEANINGS.get(error, f"Broker: {error.name}")


# --- for people -------------------------------------------------------------------------------------------------------


def as_text(answer: MetadataResponse, origin: Origin, topic: str | None) -> str:
    lines = [f"Metadata for {topic or 'all topics'} (from broker {origin.node_id}: {origin.name}):"]
    lines.append(f" {len(answer.brokers)} brokers:")
    for each in answer.brokers:
        controls = " (controller)" if each.node_id == answer.controller_id else ""
        lines.append(f"  broker {each.node_id} at {each.host}:{each.port}{controls}")
    lines.append(f" {len(answer.topics)} topics:")
    for row in answer.topics:
        lines += _topic(row)
    return "\n".join(lines) + "\n"


def _topic(row: MetadataResponse.Topic) -> list[str]:
    fault = f" {meaning(row.error_code)}" if row.error_code else ""
    if row.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
        fault += " (try again)"
    return [
        f'  topic "{row.name}" with {len(row.partitions)} partitions:{fault}',
        *map(_partition, row.partitions),
    ]


def _partition(row: MetadataResponse.Topic.Partition) -> str:
    fault = f", {meaning(row.error_code)}" if row.error_code else ""
    return (
        f"    partition {row.partition_index}, leader {row.leader_id}, "
        f"replicas: {_numbers(row.replica_nodes)}, isrs: {_numbers(row.isr_nodes)}{fault}"
    )


def _numbers(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


# --- for programs -----------------------------------------------------------------------------------------------------


def as_json(answer: MetadataResponse, origin: Origin, topic: str | None) -> str:
    """One object, without a newline behind it."""
    found = {
        "originating_broker": {"id": origin.node_id, "name": origin.name},
        "query": {"topic": topic or ALL},
        "controllerid": answer.controller_id,
        "brokers": [{"id": each.node_id, "name": f"{each.host}:{each.port}"} for each in answer.brokers],
        "topics": [
            {
                "topic": row.name,
                **_error(row.error_code),
                "partitions": [_partition_object(each) for each in row.partitions],
            }
            for row in answer.topics
        ],
    }
    return compact(found)


def _partition_object(row: MetadataResponse.Topic.Partition) -> dict[str, Any]:
    return {
        "partition": row.partition_index,
        **_error(row.error_code),
        "leader": row.leader_id,
        "replicas": [{"id": each} for each in row.replica_nodes],
        "isrs": [{"id": each} for each in row.isr_nodes],
    }


def _error(code: int) -> dict[str, str]:
    return {"error": meaning(code)} if code else {}


def compact(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)
