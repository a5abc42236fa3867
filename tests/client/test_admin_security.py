"""ACLs, quotas, SCRAM users and tokens: of an Apache broker that keeps them. Ours says that it does not."""

import pytest
from confluent_kafka.admin import AclBindingFilter, AdminClient, ResourcePatternType
from confluent_kafka.admin import AclOperation as TheirOperation
from confluent_kafka.admin import AclPermissionType as TheirPermission
from confluent_kafka.admin import ResourceType as TheirType

from ottla.client.admin.acls import Acl, AclFilter, AclPermissionType, PatternType, ResourceType
from ottla.client.admin.blocking import Admin
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.quotas import QUOTA_ANY, QUOTA_DEFAULT, QuotaEntity
from ottla.client.admin.scram import ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.errors import AuthenticationError, PartialFailure, UnsupportedVersionError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing import Broker
from tests.interop.brokers import eventually
from tests.oracles import apache_kafka

READ = Acl(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
ALL = Acl(
    ResourceType.GROUP,
    "billing-",
    "User:bob",
    AclOperation.ALL,
    AclPermissionType.DENY,
    "10.0.0.1",
    PatternType.PREFIXED,
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """host:port of a plain listener, and of one with SASL."""
    (port,) = apache_kafka._free_ports(1)
    modules = "org.apache.kafka.common.security"
    users = f'{modules}.plain.PlainLoginModule required user_alice="alice-secret" user_bob="bob-secret";'
    scram = f"{modules}.scram.ScramLoginModule required;"
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "delegation.token.secret.key": "secret",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": users,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
    }
    listeners, directory = [f"SASL://127.0.0.1:{port}"], tmp_path_factory.mktemp("secured")
    try:
        with apache_kafka.apache_kafka(settings, data_dir=directory, listeners=listeners) as kafka:
            yield kafka.bootstrap_server, f"127.0.0.1:{port}"
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def admin(secured):
    with Admin(bootstrap_servers=secured[0]) as client:
        yield client


def as_user(server, user, password, mechanism="PLAIN"):
    return Admin(
        bootstrap_servers=server,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
    )


def test_acls_are_created_described_and_deleted_as_librdkafka_sees_them(admin, secured):
    admin.create_acls([READ, ALL])
    assert eventually(lambda: len(admin.describe_acls()) == 2)
    assert admin.describe_acls() == [READ, ALL]
    assert admin.describe_acls(AclFilter(principal="User:bob")) == [ALL]
    matching = AclFilter(ResourceType.GROUP, "billing-eu", pattern_type=PatternType.MATCH)
    assert admin.describe_acls(matching) == [ALL]
    librdkafka = AdminClient({"bootstrap.servers": secured[0], "log_level": 0})
    anything = AclBindingFilter(
        TheirType.ANY, None, ResourcePatternType.ANY, None, None, TheirOperation.ANY, TheirPermission.ANY
    )
    theirs = librdkafka.describe_acls(anything).result(20)
    assert {(each.name, each.principal, each.host) for each in theirs} == {
        (each.resource_name, each.principal, each.host) for each in (READ, ALL)
    }
    everything, nothing = AclFilter(), AclFilter(principal="User:nobody")
    assert admin.delete_acls([nothing, everything]) == {nothing: [], everything: [READ, ALL]}
    assert eventually(lambda: not admin.describe_acls())
    with pytest.raises(PartialFailure) as failed:
        admin.create_acls([READ, READ._replace(resource_type=ResourceType.CLUSTER)])
    assert failed.value.results[READ] is None and failed.value.code is ErrorCode.INVALID_REQUEST
    admin.delete_acls([everything])


def test_who_may_not_is_told_so_and_operations_tell_what_one_may(admin, secured, name):
    admin.create_topic(name)
    with as_user(secured[1], "bob", "bob-secret") as bob:
        with pytest.raises(KafkaError) as error:
            bob.describe_topic(name)
        assert error.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError) as error:
            bob.describe_acls()
        assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        admin.create_acls([Acl(ResourceType.TOPIC, name, "User:bob", AclOperation.WRITE)])
        assert eventually(lambda: name in bob.list_topics())
        found = bob.describe_topic(name, include_authorized_operations=True)
        assert found.authorized_operations == {AclOperation.WRITE, AclOperation.DESCRIBE}
    admin.delete_acls([AclFilter()])


def test_quotas_are_set_described_and_removed(admin):
    alice, everyone = QuotaEntity(user="alice"), QuotaEntity(user=QUOTA_DEFAULT, client_id="app")
    admin.alter_client_quotas({alice: {"producer_byte_rate": 1000}}, validate_only=True)
    assert admin.describe_client_quotas() == {}
    admin.alter_client_quotas({alice: {"producer_byte_rate": 1000}, everyone: {"request_percentage": 50.5}})
    assert eventually(lambda: len(admin.describe_client_quotas()) == 2)
    assert admin.describe_client_quotas() == {
        alice: {"producer_byte_rate": 1000.0},
        everyone: {"request_percentage": 50.5},
    }
    assert admin.describe_client_quotas(alice).keys() == {alice}
    assert admin.describe_client_quotas(QuotaEntity(user=QUOTA_ANY)).keys() == {alice, everyone}
    assert admin.describe_client_quotas(QuotaEntity(user=QUOTA_ANY), strict=True).keys() == {alice}
    assert admin.describe_client_quotas(QuotaEntity(user=QUOTA_DEFAULT)).keys() == {everyone}
    with pytest.raises(PartialFailure, match="alice") as failed:
        admin.alter_client_quotas({alice: {"no_such_rate": 1}})
    assert failed.value.code is ErrorCode.INVALID_REQUEST
    admin.alter_client_quotas({alice: {"producer_byte_rate": None}, everyone: {"request_percentage": None}})
    assert eventually(lambda: admin.describe_client_quotas() == {})


def test_a_user_gets_a_password_logs_in_with_it_and_loses_it(admin, secured):
    kinds = ScramMechanism
    wanted = ScramUpsertion("carol", "carols secret", kinds.SCRAM_SHA_512, 4096)
    assert "secret" not in repr(wanted)
    admin.alter_user_scram_credentials([wanted, ScramUpsertion("dave", "x")])
    assert eventually(lambda: len(admin.describe_user_scram_credentials()) == 2)
    found = admin.describe_user_scram_credentials(["carol"])
    assert found == {"carol": ((kinds.SCRAM_SHA_512, 4096),)}
    assert admin.describe_user_scram_credentials().keys() == {"carol", "dave"}
    with as_user(secured[1], "carol", "carols secret", "SCRAM-SHA-512") as carol:
        assert carol.describe_cluster().brokers
    with (
        as_user(secured[1], "carol", "another", "SCRAM-SHA-512") as carol,
        pytest.raises(AuthenticationError),
    ):
        carol.describe_cluster()
    with pytest.raises(PartialFailure, match="erin") as failed:
        admin.alter_user_scram_credentials(
            [ScramDeletion("carol", kinds.SCRAM_SHA_512), ScramDeletion("erin"), ScramDeletion("dave")]
        )
    assert failed.value.results["carol"] is None and failed.value.results["dave"] is None
    assert failed.value.results["erin"].code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(PartialFailure, match="nobody"):
        admin.describe_user_scram_credentials(["nobody"])


def test_a_token_is_made_renewed_and_ended_by_who_is_authenticated(admin, secured):
    with pytest.raises(KafkaError) as error:
        admin.create_delegation_token()
    assert error.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with as_user(secured[1], "alice", "alice-secret") as alice:
        token = alice.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert token.owner == token.requester == "User:alice" and token.renewers == ("User:bob",)
        assert token.max_timestamp - token.issue_timestamp == 3_600_000
        assert eventually(lambda: alice.describe_delegation_token() == [token])
        assert alice.describe_delegation_token(["User:bob"]) == [token], "who may renew it counts too"
        assert alice.describe_delegation_token(["User:carol"]) == []
        assert alice.renew_delegation_token(token.hmac, renew_period_ms=60_000) < token.max_timestamp
        assert alice.expire_delegation_token(token.hmac) <= token.max_timestamp
        assert eventually(lambda: alice.describe_delegation_token() == [])
        with pytest.raises(KafkaError, match="as in User:alice"):
            alice.create_delegation_token(owner="alice")


def test_a_broker_without_such_things_says_so():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap_server) as admin:
        for api, call in {
            "CreateAcls": lambda: admin.create_acls([READ]),
            "DescribeAcls": admin.describe_acls,
            "DeleteAcls": lambda: admin.delete_acls([AclFilter()]),
            "DescribeClientQuotas": admin.describe_client_quotas,
            "AlterClientQuotas": lambda: admin.alter_client_quotas({QuotaEntity(user="a"): {"x": 1}}),
            "DescribeUserScramCredentials": admin.describe_user_scram_credentials,
            "AlterUserScramCredentials": lambda: admin.alter_user_scram_credentials([ScramDeletion("a")]),
            "CreateDelegationToken": admin.create_delegation_token,
            "RenewDelegationToken": lambda: admin.renew_delegation_token(b"x"),
            "ExpireDelegationToken": lambda: admin.expire_delegation_token(b"x"),
            "DescribeDelegationToken": admin.describe_delegation_token,
        }.items():
            with pytest.raises(UnsupportedVersionError, match=f"does not offer {api}"):
                call()
