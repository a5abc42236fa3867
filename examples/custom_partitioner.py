"""Two data centres, one cluster: every order is written where its customer lives.

A key starts with the site of the customer, as in `berlin/anna`. It goes to a partition whose leader is in the rack
(`broker.rack`) of that name, always to the same one while leaders stay where they are; if that site has no leader, to
any partition. What was acknowledged is in the log whatever this program does afterwards; what was not may be missing.
"""

from arguments import arguments

from ottla.client import Producer
from ottla.client.metadata import Metadata, TopicInfo
from ottla.client.producer.partitioners import Outgoing, murmur2

args = arguments(__doc__, sites="berlin,tokyo")


class BySite:
    def partition(self, record: Outgoing, topic: TopicInfo, cluster: Metadata) -> int:
        site = record.key_bytes.partition(b"/")[0].decode()
        racks = {broker.node_id: broker.rack for broker in cluster.brokers.values()}
        near = [each.partition for each in topic.partitions if racks.get(each.leader) == site]
        choice = near or range(len(topic.partitions))
        return choice[murmur2(record.key_bytes) % len(choice)]


with Producer(bootstrap_servers=args.bootstrap_server, partitioner=BySite()) as producer:
    sites = args.sites.split(",")
    for number in range(args.count or 10):
        key = f"{sites[number % len(sites)]}/customer-{number}"
        metadata = producer.send(args.topic, f"order {number}".encode(), key=key.encode()).get(timeout=10)
        print(f"{key} is at offset {metadata.offset} of partition {metadata.partition}", flush=True)
