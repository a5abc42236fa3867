"""Brokers that say what a test wants them to: a cluster of several, or one that lies."""

import asyncio
from contextlib import asynccontextmanager

from ottla.protocol.apis import APIS
from ottla.protocol.framing import ResponseHeader, decode_request, encode_response
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

SILENT = object()
"""No answer, ever."""


class FakeCluster:
    """`answer(node_id, request)` gives a response, or SILENT. Topics are {name: {partition: leader}}.

    `controller` is the id that the metadata names, or a function that says so each time."""

    def __init__(self, answer, topics=None, versions=None, controller=-1):
        self._controller = controller if callable(controller) else lambda: controller
        self._answer = answer
        self._topics = topics or {}
        self._versions = versions or {}
        self.ports = {}
        self.asked = []

    def handle(self, node_id, request):
        if isinstance(request, ApiVersionsRequest):
            rows = [
                ApiVersionsResponse.ApiVersion(
                    api_key=key,
                    min_version=api.versions.first,
                    max_version=self._versions.get(key, api.versions.last),
                )
                for key, api in APIS.items()
                if self._versions.get(key, 0) is not None
            ]
            return ApiVersionsResponse(error_code=0, api_keys=rows)
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        self.asked.append((node_id, request))
        return self._answer(node_id, request)

    def _metadata(self, request):
        names = self._topics if request.topics is None else [each.name for each in request.topics]
        row = MetadataResponse.Topic
        topics = [
            row(
                error_code=0 if name in self._topics else 3,
                name=name,
                partitions=[
                    row.Partition(
                        error_code=0, partition_index=index, leader_id=leader, replica_nodes=[], isr_nodes=[]
                    )
                    for index, leader in self._topics.get(name, {}).items()
                ],
            )
            for name in names
        ]
        brokers = [
            MetadataResponse.Broker(node_id=node, host="127.0.0.1", port=port)
            for node, port in self.ports.items()
        ]
        return MetadataResponse(brokers=brokers, topics=topics, controller_id=self._controller())

    async def _serve(self, node_id, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, request = decode_request(await reader.readexactly(size))
                response = self.handle(node_id, request)
                if response is not SILENT:
                    parts = encode_response(
                        ResponseHeader(correlation_id=header.correlation_id),
                        response,
                        header.request_api_version,
                    )
                    writer.write(b"".join(bytes(part) for part in parts))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_cluster(answer, nodes=(1, 2), **how):
    """Brokers with these ids, until the block ends."""
    fake = FakeCluster(answer, **how)
    servers = []
    for node_id in nodes:
        server = await asyncio.start_server(
            lambda reader, writer, node_id=node_id: fake._serve(node_id, reader, writer), "127.0.0.1", 0
        )
        servers.append(server)
        fake.ports[node_id] = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        for server in servers:
            server.close()
