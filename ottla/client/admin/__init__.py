"""The admin client: topics, settings, groups, transactions, the cluster.

    admin blocking                       the client, on a loop and without one
    routes                               whom to ask, and what to wait for
    topics partitions compaction configs cluster log_dirs groups group_offsets share_offsets transactions acls
    quotas scram tokens                  one area each

Values are here by name, and imported when they are asked for: `from ottla.client.admin import NewTopic`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl as Acl
    from ottla.client.admin.acls import AclFilter as AclFilter
    from ottla.client.admin.acls import AclPermissionType as AclPermissionType
    from ottla.client.admin.acls import PatternType as PatternType
    from ottla.client.admin.acls import ResourceType as ResourceType
    from ottla.client.admin.admin import AsyncAdmin as AsyncAdmin
    from ottla.client.admin.blocking import Admin as Admin
    from ottla.client.admin.cluster import BrokerDescription as BrokerDescription
    from ottla.client.admin.cluster import ClusterDescription as ClusterDescription
    from ottla.client.admin.cluster import FeatureMetadata as FeatureMetadata
    from ottla.client.admin.cluster import FeatureUpdate as FeatureUpdate
    from ottla.client.admin.cluster import Levels as Levels
    from ottla.client.admin.cluster import QuorumInfo as QuorumInfo
    from ottla.client.admin.cluster import QuorumReplicaState as QuorumReplicaState
    from ottla.client.admin.cluster import UpgradeType as UpgradeType
    from ottla.client.admin.compaction import CompactionStatus as CompactionStatus
    from ottla.client.admin.config_values import AlterConfigOp as AlterConfigOp
    from ottla.client.admin.config_values import AlterConfigOpType as AlterConfigOpType
    from ottla.client.admin.config_values import ConfigEntry as ConfigEntry
    from ottla.client.admin.config_values import ConfigResource as ConfigResource
    from ottla.client.admin.config_values import ConfigResourceType as ConfigResourceType
    from ottla.client.admin.config_values import ConfigSource as ConfigSource
    from ottla.client.admin.config_values import ConfigSynonym as ConfigSynonym
    from ottla.client.admin.config_values import ConfigType as ConfigType
    from ottla.client.admin.group_values import GroupDescription as GroupDescription
    from ottla.client.admin.group_values import GroupListing as GroupListing
    from ottla.client.admin.group_values import GroupType as GroupType
    from ottla.client.admin.group_values import MemberDescription as MemberDescription
    from ottla.client.admin.log_dirs import LogDirDescription as LogDirDescription
    from ottla.client.admin.log_dirs import ReplicaInfo as ReplicaInfo
    from ottla.client.admin.log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from ottla.client.admin.operations import AclOperation as AclOperation
    from ottla.client.admin.partitions import OffsetSpec as OffsetSpec
    from ottla.client.admin.quotas import QUOTA_ANY as QUOTA_ANY
    from ottla.client.admin.quotas import QUOTA_DEFAULT as QUOTA_DEFAULT
    from ottla.client.admin.quotas import QuotaEntity as QuotaEntity
    from ottla.client.admin.quotas import QuotaMatch as QuotaMatch
    from ottla.client.admin.scram import ScramCredentialInfo as ScramCredentialInfo
    from ottla.client.admin.scram import ScramDeletion as ScramDeletion
    from ottla.client.admin.scram import ScramMechanism as ScramMechanism
    from ottla.client.admin.scram import ScramUpsertion as ScramUpsertion
    from ottla.client.admin.share_offsets import SharePartitionOffset as SharePartitionOffset
    from ottla.client.admin.tokens import DelegationToken as DelegationToken
    from ottla.client.admin.topic_values import CreatedTopic as CreatedTopic
    from ottla.client.admin.topic_values import ElectionType as ElectionType
    from ottla.client.admin.topic_values import NewPartitions as NewPartitions
    from ottla.client.admin.topic_values import NewTopic as NewTopic
    from ottla.client.admin.topic_values import PartitionDescription as PartitionDescription
    from ottla.client.admin.topic_values import PartitionReassignment as PartitionReassignment
    from ottla.client.admin.topic_values import TopicDescription as TopicDescription
    from ottla.client.admin.topic_values import TopicListing as TopicListing
    from ottla.client.admin.transactions import FencedProducer as FencedProducer
    from ottla.client.admin.transactions import ProducerState as ProducerState
    from ottla.client.admin.transactions import TransactionDescription as TransactionDescription
    from ottla.client.admin.transactions import TransactionListing as TransactionListing

_PLACES = {
    "Acl": "acls",
    "AclFilter": "acls",
    "AclOperation": "operations",
    "AclPermissionType": "acls",
    "Admin": "blocking",
    "AlterConfigOp": "config_values",
    "AlterConfigOpType": "config_values",
    "AsyncAdmin": "admin",
    "BrokerDescription": "cluster",
    "ClusterDescription": "cluster",
    "CompactionStatus": "compaction",
    "ConfigEntry": "config_values",
    "ConfigResource": "config_values",
    "ConfigResourceType": "config_values",
    "ConfigSource": "config_values",
    "ConfigSynonym": "config_values",
    "ConfigType": "config_values",
    "CreatedTopic": "topic_values",
    "DelegationToken": "tokens",
    "ElectionType": "topic_values",
    "FeatureMetadata": "cluster",
    "FeatureUpdate": "cluster",
    "FencedProducer": "transactions",
    "GroupDescription": "group_values",
    "GroupListing": "group_values",
    "GroupType": "group_values",
    "Levels": "cluster",
    "LogDirDescription": "log_dirs",
    "MemberDescription": "group_values",
    "NewPartitions": "topic_values",
    "NewTopic": "topic_values",
    "OffsetSpec": "partitions",
    "PartitionDescription": "topic_values",
    "PartitionReassignment": "topic_values",
    "PatternType": "acls",
    "ProducerState": "transactions",
    "QuorumInfo": "cluster",
    "QuorumReplicaState": "cluster",
    "QUOTA_ANY": "quotas",
    "QUOTA_DEFAULT": "quotas",
    "QuotaEntity": "quotas",
    "QuotaMatch": "quotas",
    "ReplicaInfo": "log_dirs",
    "ResourceType": "acls",
    "ScramCredentialInfo": "scram",
    "ScramDeletion": "scram",
    "ScramMechanism": "scram",
    "ScramUpsertion": "scram",
    "SharePartitionOffset": "share_offsets",
    "TopicDescription": "topic_values",
    "TopicListing": "topic_values",
    "TopicPartitionReplica": "log_dirs",
    "TransactionDescription": "transactions",
    "TransactionListing": "transactions",
    "UpgradeType": "cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
