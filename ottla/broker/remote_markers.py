"""Markers for partitions wherever they are led: here by a call, elsewhere by WriteTxnMarkers.

Who leads a partition is looked up for every attempt. An answer that does not come says nothing: the marker is sent
again, to whoever leads by then, and a second one does no harm.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ottla.broker.couriers import Couriers
from ottla.broker.markers import Marker, MarkerWriter, marker_for, places_of
from ottla.broker.metadata import Metadata
from ottla.broker.peers import Peers
from ottla.core.errors import ErrorCode, KafkaError, OttlaError, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer
from ottla.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

logger = logging.getLogger(__name__)

Codes = dict[TopicPartition, ErrorCode]


class MarkerRouter:
    """Writes each marker where its partition is led."""

    def __init__(
        self,
        node_id: int,
        writer: MarkerWriter,
        metadata: Metadata,
        leads: Callable[[TopicPartition], bool],
        peers: Peers,
    ) -> None:
        """`leads`: does this broker lead the partition, as far as it knows?"""
        self._node_id = node_id
        self._writer = writer
        self._metadata = metadata
        self._leads = leads
        self._couriers: Couriers[Marker, Codes] = Couriers(peers, _deliver)

    def spread(self, places: Collection[TopicPartition]) -> list[Collection[TopicPartition]]:
        """The places by who leads them: each part can be seen to by itself."""
        if all(map(self._leads, places)):
            return [places]  # nearly always, on a node that is alone
        return list(self._by_leader(places).values())

    async def write(self, marker: Marker) -> Codes:
        """Return when every marker is committed, or it is known why not, or it is not known."""
        places = places_of(marker)
        if all(map(self._leads, places)):
            return await self._writer.write(marker)
        parts = [
            self._write_at(leader, marker_for(marker, part))
            for leader, part in self._by_leader(places).items()
        ]
        if len(parts) == 1:
            return await parts[0]
        return {place: code for codes in await asyncio.gather(*parts) for place, code in codes.items()}

    def _by_leader(self, places: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """What nobody leads is ours to answer for: the writer here knows whether it is gone."""
        found: dict[int, list[TopicPartition]] = {}
        for place in places:
            found.setdefault(self._leader_of(place), []).append(place)
        return found

    def _leader_of(self, place: TopicPartition) -> int:
        image = self._metadata.topics.get(place.topic)
        if self._leads(place) or image is None or place.partition >= len(image.partitions):
            return self._node_id
        leader = image.partitions[place.partition].leader
        return leader if leader in self._metadata.brokers else self._node_id

    async def _write_at(self, leader: int, marker: Marker) -> Codes:
        if leader == self._node_id:
            return await self._writer.write(marker)
        try:
            return await self._couriers.ask(leader, marker)
        except (OttlaError, OSError) as error:
            logger.info("broker %d does not say whether it has written markers: %s", leader, error)
            return dict.fromkeys(places_of(marker), ErrorCode.NETWORK_EXCEPTION)

    def keep(self, alive: Collection[int]) -> None:
        """Wait for nobody else."""
        self._couriers.keep(alive)

    async def close(self) -> None:
        await self._couriers.close()


async def _deliver(peer: Peer, markers: Sequence[Marker]) -> list[Codes]:
    answer: WriteTxnMarkersResponse = await peer.send(WriteTxnMarkersRequest(markers=list(markers)))
    if [each.producer_id for each in answer.markers] != [each.producer_id for each in markers]:
        raise ProtocolError(f"{peer.address} answers for other producers than those of the markers")
    return [_codes(marker, told) for marker, told in zip(markers, answer.markers, strict=True)]


def _codes(marker: Marker, told: Any) -> Codes:
    """A partition about which nothing is said is one about which nothing is known."""
    codes = dict.fromkeys(places_of(marker), ErrorCode.UNKNOWN_SERVER_ERROR)
    for topic in told.topics:
        for each in topic.partitions:
            codes[TopicPartition(topic.name, each.partition_index)] = KafkaError.of(each.error_code).code
    return codes
