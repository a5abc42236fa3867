"""What becomes of a cluster, record by record."""

import uuid

import pytest

from ottla.core.errors import ProtocolError
from ottla.metadata.kraft_image import KraftImage, KraftPartition
from ottla.protocol.messages import cluster_metadata as records
from tests.unit.metadata.kraft_files import DIRECTORY_ID, NODE_ID, TOPIC_ID, broker, partition, setting, topic


def after(*applied):
    image = KraftImage()
    for record in applied:
        image.apply(record)
    return image


def change(**fields):
    return records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)


def partition_after(*changes):
    return (
        after(topic(), partition(0, replicas=[4, 5], leader_epoch=7), *changes).topics[TOPIC_ID].partitions[0]
    )


def test_a_partition_is_what_its_record_says():
    assert partition_after() == KraftPartition((4, 5), (4, 5), 7, (DIRECTORY_ID, DIRECTORY_ID))


def test_a_change_names_only_what_is_different():
    assert partition_after(change(isr=[4])).isr == (4,)
    assert partition_after(change(isr=[4])).leader_epoch == 7
    assert partition_after(change(replicas=[4], directories=[DIRECTORY_ID])).replicas == (4,)


@pytest.mark.parametrize("leader", [5, 4, -1])
def test_every_election_begins_an_epoch_also_one_that_finds_nobody_or_the_same(leader):
    assert partition_after(change(leader=leader), change(leader=4)).leader_epoch == 9


def test_who_left_the_isr_with_everything_has_everything():
    left = partition_after(change(isr=[], leader=-1, eligible_leader_replicas=[5]))
    assert left.has_everything(5) and not left.has_everything(4)


@pytest.mark.parametrize(("name", "is_kept"), [("orders", False), ("", False), ("others", True)])
def test_nobody_is_eligible_after_the_list_was_cleared(name, is_kept):
    """It is cleared when settings change what having everything means."""
    left = change(isr=[], leader=-1, eligible_leader_replicas=[5])
    assert partition_after(left, records.ClearElrRecord(topic_name=name)).has_everything(5) is is_kept


def test_a_topic_goes_with_its_settings_and_may_come_again():
    again = uuid.UUID(int=2000)
    image = after(
        topic(),
        partition(),
        setting("orders", "retention.ms", "1"),
        records.RemoveTopicRecord(topic_id=TOPIC_ID),
    )
    assert not image.topics and not image.configs
    image.apply(topic(topic_id=again))
    assert list(image.topics) == [again] and not image.configs


def test_a_setting_is_replaced_and_taken_away():
    values = [setting("", "log.retention.ms", "1", 4), setting("", "log.retention.ms", "2", 4)]
    assert after(*values).configs == {(4, ""): {"log.retention.ms": "2"}}
    assert not after(*values, setting("", "log.retention.ms", None, 4)).configs
    assert not after(setting("orders", "retention.ms", None)).configs


@pytest.mark.parametrize("record", [partition(), change(), records.RemoveTopicRecord(topic_id=TOPIC_ID)])
def test_a_record_about_a_topic_that_is_not_there_is_refused(record):
    with pytest.raises(ProtocolError, match="which is not there"):
        after(record)


def test_a_change_of_a_partition_that_is_not_there_is_refused():
    with pytest.raises(ProtocolError, match="changes orders-0, which is not there"):
        after(topic(), change())


def test_a_transaction_holds_when_it_ends_and_not_before():
    begin, end = records.BeginTransactionRecord(name="bootstrap"), records.EndTransactionRecord()
    assert not after(begin, topic()).topics
    assert not after(begin, topic(), records.AbortTransactionRecord(reason="why not")).topics
    image = after(begin, topic(), partition(), end)
    assert list(image.topics[TOPIC_ID].partitions) == [0]
    image.apply(setting("orders", "retention.ms", "1"))
    assert image.configs


def test_brokers_come_change_and_go():
    other = uuid.UUID(int=3000)
    image = after(broker(), broker(5))
    assert image.brokers == {NODE_ID: (DIRECTORY_ID,), 5: (DIRECTORY_ID,)}
    image.apply(records.BrokerRegistrationChangeRecord(broker_id=5, broker_epoch=1, log_dirs=[other]))
    image.apply(records.BrokerRegistrationChangeRecord(broker_id=NODE_ID, broker_epoch=1, fenced=-1))
    assert image.brokers == {NODE_ID: (DIRECTORY_ID,), 5: (other,)}
    image.apply(records.UnregisterBrokerRecord(broker_id=5, broker_epoch=1))
    assert list(image.brokers) == [NODE_ID]


def test_producer_ids_never_go_back():
    blocks = [records.ProducerIdsRecord(broker_id=1, next_producer_id=each) for each in (1000, 3000, 2000)]
    assert after(*blocks).next_producer_id == 3000


def test_of_what_is_not_supported_the_number_is_known():
    entity = [records.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)]
    token = {"owner": "", "requester": "", "renewers": [], "token_id": "t"}
    times = {"issue_timestamp": 0, "max_timestamp": 0, "expiration_timestamp": 0}
    image = after(
        records.ClientQuotaRecord(entity=entity, key="a", value=1.0, remove=False),
        records.ClientQuotaRecord(entity=entity, key="b", value=1.0, remove=False),
        records.ClientQuotaRecord(entity=entity, key="a", value=1.0, remove=True),
        records.DelegationTokenRecord(**token, **times),
        records.ZkMigrationStateRecord(zk_migration_state=2),
    )
    assert len(image.quotas) == 1 and image.tokens == {"t"} and image.zk_migration_state == 2
    image.apply(records.RemoveDelegationTokenRecord(token_id="t"))
    assert not image.tokens
