"""The values of the areas: how they are read, written, and spelled."""

import hashlib

import pytest

import ottla.client.admin
from ottla.client.admin.config_values import ConfigEntry, ConfigResource, ConfigSource, config_text
from ottla.client.admin.group_values import GroupType
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.client.admin.operations import NOT_ASKED, AclOperation, known, operations_of
from ottla.client.admin.quotas import QUOTA_DEFAULT, QuotaEntity, _entity, _parts
from ottla.client.admin.scram import ScramMechanism, ScramUpsertion, _salted
from ottla.client.admin.tokens import DelegationToken, _pair
from ottla.core.errors import KafkaError
from ottla.protocol.messages.quotas import Entity


def test_every_name_of_the_package_is_there():
    for name, module in ottla.client.admin._PLACES.items():
        assert getattr(ottla.client.admin, name).__module__ in (f"ottla.client.admin.{module}", "enum"), name
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = ottla.client.admin.Nonsense


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("x", "x"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (0.5, "0.5"),
        (["a", True], "a,true"),
    ],
)
def test_values_of_settings_are_written_as_brokers_read_them(value, text):
    assert config_text(value) == text


def test_resources_say_what_they_are_and_whose():
    named = [ConfigResource.topic("orders"), ConfigResource.broker(), ConfigResource.broker_logger(3)]
    assert [str(each) for each in named] == ["topic orders", "all brokers", "broker logger 3"]
    assert [each.node_id for each in named] == [None, None, 3]
    assert ConfigEntry("a", "b", ConfigSource.DEFAULT_CONFIG).is_default
    assert str(TopicPartitionReplica("orders", 1, 2)) == "orders-1 on broker 2"


def test_operations_are_bits_and_unknown_numbers_do_no_harm():
    assert operations_of(NOT_ASKED) is None and operations_of(0) == frozenset()
    assert operations_of(1 << 3 | 1 << 8 | 1 << 30) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert known(AclOperation, 4) is AclOperation.WRITE and known(AclOperation, 99) is AclOperation.UNKNOWN


def test_types_of_groups_are_read_however_they_are_spelled():
    assert GroupType.parse("consumer") is GroupType.parse("Consumer") is GroupType.CONSUMER
    assert GroupType.parse("") is GroupType.parse("new") is GroupType.UNKNOWN


def test_entities_of_quotas_are_spelled_out_and_read_back():
    entity = QuotaEntity(user=QUOTA_DEFAULT, client_id="app")
    assert str(entity) == "user default, client-id app"
    assert _entity(_parts(entity)) == entity
    assert _entity([Entity(entity_type="planet", entity_name="earth")]) == QuotaEntity()


def test_a_password_is_salted_here_and_shown_nowhere():
    row = _salted(ScramUpsertion("carol", "secret", ScramMechanism.SCRAM_SHA_512, 4096, b"salt"))
    assert row.salted_password == hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    one, other = (_salted(ScramUpsertion("carol", "secret")) for _ in range(2))
    assert one.salt != other.salt and len(one.salted_password) == 32
    token = DelegationToken("id", b"secret", "User:a", "User:a", (), 0, 0, 0)
    assert "secret" not in repr(token)


def test_principals_have_a_type_and_a_name():
    assert _pair("User:alice:x") == ("User", "alice:x")
    for wrong in ("alice", "User:", ":alice", ""):
        with pytest.raises(KafkaError, match="is no principal"):
            _pair(wrong)
