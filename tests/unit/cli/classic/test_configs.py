"""`kafka-configs`: whose settings a command line means, what is to change, and what a broker of ours answers."""

import asyncio

import pytest

from ottla.cli.classic import config_changes, config_descriptions
from ottla.cli.classic.config_changes import _added, _deleted, _password
from ottla.cli.classic.configs import Entity, _parser, entity_of
from ottla.cli.classic.java import Illegal
from ottla.cli.main import main
from ottla.client.admin.config_values import ConfigEntry, ConfigSource, ConfigSynonym
from ottla.client.admin.quotas import QUOTA_ANY, QUOTA_DEFAULT, QuotaEntity
from ottla.client.admin.scram import ScramCredentialInfo, ScramMechanism
from ottla.client.errors import PartialFailure
from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing import Broker


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        assert (
            main(["kafka-topics", "--broker-list", broker.bootstrap_server, "--create", "--topic", "t"]) == 0
        )
        yield broker.bootstrap_server


@pytest.fixture
def run(server, capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.classic.zookeeper.servers_from", {"zk:2181": server}.__getitem__)

    def once(line: str) -> tuple[int, str, str]:
        code = main(["kafka-configs", *line.replace("@", server).split()])
        return code, *capsys.readouterr()

    return once


def read(line: str):
    return _parser().read(line.split())


@pytest.mark.parametrize(
    ("line", "types", "names"),
    [
        ("--entity-type topics --entity-name t", ["topics"], ["t"]),
        ("--entity-type topics", ["topics"], []),
        ("--topic t", ["topics"], ["t"]),
        ("--broker 1", ["brokers"], ["1"]),
        ("--broker-defaults", ["brokers"], [""]),
        ("--broker-logger 1", ["broker-loggers"], ["1"]),
        ("--user u --client c", ["clients", "users"], ["c", "u"]),
        ("--user u --client-defaults", ["users", "clients"], ["u", ""]),
        ("--ip 127.0.0.1", ["ips"], ["127.0.0.1"]),
        ("--group g", ["groups"], ["g"]),
        ("--client-metrics m", ["client-metrics"], ["m"]),
        (
            "--entity-type clients --entity-default --entity-type users --entity-name u",
            ["clients", "users"],
            ["", "u"],
        ),
    ],
)
def test_entities_are_named_in_two_ways(line, types, names):
    assert entity_of(read(line)) == Entity(types, names)


def test_brackets_hold_lists_together():
    options = read("--add-config a=[1,2],b=,c=x")
    assert _added(options) == {"a": "1,2", "b": "", "c": "x"}
    assert _deleted(read("--delete-config a,b --delete-config c")) == ["a", "b", "c"]


def test_settings_are_added_from_a_file(tmp_path):
    (tmp_path / "some.properties").write_text("# settings\nretention.ms = 5\ncleanup.policy=compact,delete\n")
    found = _added(read(f"--add-config-file {tmp_path}/some.properties"))
    assert found == {"retention.ms": "5", "cleanup.policy": "compact,delete"}


@pytest.mark.parametrize("text", ["a", "a=b=c", "a=1,b"])
def test_settings_without_a_value_are_refused(text):
    with pytest.raises(Illegal, match="all configs to be added must be in the format"):
        _added(read(f"--add-config {text}"))


def test_passwords_have_iterations():
    assert _password("SCRAM-SHA-256", "iterations=8192,password=a=b,c") == (8192, "a=b,c")
    assert _password("SCRAM-SHA-256", "password=x") == (4096, "x")
    assert _password("SCRAM-SHA-256", "iterations=-1,password=x") == (4096, "x")
    with pytest.raises(
        Illegal, match=r"^Iterations 1 is less than the minimum 4096 required for SCRAM-SHA-512$"
    ):
        _password("SCRAM-SHA-512", "iterations=1,password=x")
    with pytest.raises(Illegal, match=r"^Invalid credential property SCRAM_SHA_256=foo$"):
        _password("SCRAM-SHA-256", "foo")


def test_the_settings_of_a_topic_are_altered_and_described(run):
    done = "Completed updating config for topic t.\n"
    assert run("--bootstrap-server @ --alter --topic t --add-config cleanup.policy=[compact,delete]") == (
        0,
        done,
        "",
    )
    assert run("--bootstrap-server @ --describe --topic t")[1] == (
        "Dynamic configs for topic t are:\n"
        "  cleanup.policy=compact,delete sensitive=false"
        " synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
    )
    assert run("--bootstrap-server @ --alter --topic t --delete-config cleanup.policy") == (0, done, "")
    assert run("--bootstrap-server @ --describe --topic t")[1] == "Dynamic configs for topic t are:\n"
    assert len(run("--bootstrap-server @ --describe --topic t --all")[1].splitlines()) > 20


def test_old_command_lines_work_with_zookeeper_and_print_what_they_printed(run):
    warning = (
        "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
        "Use --bootstrap-server instead to specify a broker to connect to.\n"
    )
    entity = "--entity-type topics --entity-name t"
    code, out, _ = run(f"--zookeeper zk:2181 --alter {entity} --add-config flush.ms=9")
    assert (code, out) == (0, f"{warning}Completed updating config for entity: topic 't'.\n")
    code, out, _ = run(f"--zookeeper zk:2181 --describe {entity}")
    assert (code, out) == (0, f"{warning}Configs for topic 't' are flush.ms=9\n")
    assert run(f"--zookeeper zk:2181 --alter {entity} --delete-config flush.ms")[0] == 0


def test_what_a_broker_refuses_is_told_with_the_name_of_javas_exception(run):
    code, out, err = run("--bootstrap-server @ --alter --topic nope --add-config flush.ms=1")
    first, second, *_ = err.splitlines()
    assert (code, out) == (1, "")
    assert first.startswith("Error while executing config command with args '--bootstrap-server 127.0.0.1:")
    assert "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: " in second


# --- what brokers of ours do not have ---------------------------------------------------------------------------------


@pytest.fixture
def quotas(monkeypatch):
    """Quotas and passwords of a cluster that has some; what is changed."""
    changed = []
    found = {
        QuotaEntity(user="u", client_id="c"): {"producer_byte_rate": 12345678.0},
        QuotaEntity(user="u", client_id=QUOTA_DEFAULT): {"request_percentage": 50.5},
    }

    async def describe(admin, wanted, *, strict):
        assert strict
        return found

    async def alter(admin, changes):
        changed.append(changes)

    async def passwords(admin, users):
        has = (ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192),)
        nobody = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "user nobody: there is none")
        denied = KafkaError.of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "user x")
        raise PartialFailure("the description", {"s": has, "nobody": nobody, "x": denied})

    monkeypatch.setattr("ottla.client.admin.quotas.describe_client_quotas", describe)
    monkeypatch.setattr("ottla.client.admin.quotas.alter_client_quotas", alter)
    monkeypatch.setattr("ottla.client.admin.scram.alter_user_scram_credentials", alter)
    monkeypatch.setattr("ottla.client.admin.scram.describe_user_scram_credentials", passwords)
    return changed


def test_quotas_are_described_with_javas_numbers(quotas, capsys):
    options = read("--describe --entity-type users --entity-type clients")
    asyncio.run(config_descriptions.describe(None, options, entity_of(options)))
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "Quota configs for user-principal 'u', client-id 'c' are producer_byte_rate=1.2345678E7",
        "Quota configs for user-principal 'u', the default client-id are request_percentage=50.5",
    ]


def test_users_without_a_password_are_passed_over(quotas, capsys):
    options = read("--describe --entity-type users")
    asyncio.run(config_descriptions.describe(None, options, entity_of(options)))
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "SCRAM credential configs for user-principal 's' are SCRAM-SHA-256=iterations=8192",
        "Error retrieving SCRAM credential configs for user-principal 'x':"
        " ClusterAuthorizationException: Cluster authorization failed.",
    ]


def test_quotas_are_set_and_removed(quotas, capsys):
    options = read(
        "--alter --user u --client c --add-config consumer_byte_rate=5 --delete-config producer_byte_rate"
    )
    asyncio.run(config_changes.alter(None, options, entity_of(options)))
    entity = QuotaEntity(user="u", client_id="c")
    assert quotas == [{entity: {"consumer_byte_rate": 5.0, "producer_byte_rate": None}}]
    assert capsys.readouterr().out == "Completed updating config for client c.\n"


def test_passwords_are_set_and_removed(quotas, capsys):
    options = read("--alter --user s --add-config SCRAM-SHA-512=[password=x] --delete-config SCRAM-SHA-256")
    asyncio.run(config_changes.alter(None, options, entity_of(options)))
    ((deletion, upsertion),) = quotas
    assert deletion.mechanism is ScramMechanism.SCRAM_SHA_256
    assert (upsertion.user, upsertion.password, upsertion.iterations) == ("s", "x", 4096)
    assert capsys.readouterr().out == "Completed updating config for user s.\n"


def test_types_without_a_name_mean_any_name():
    found = config_descriptions.quota_entity(Entity(["users", "clients"], ["u"]))
    assert found == QuotaEntity(user="u", client_id=QUOTA_ANY)
    assert config_descriptions.quota_entity(Entity(["ips"], [""])) == QuotaEntity(ip=QUOTA_DEFAULT)


def test_values_that_would_move_a_cursor_are_escaped():
    entry = ConfigEntry(
        "a",
        "\x1b[2J",
        ConfigSource.TOPIC_CONFIG,
        synonyms=(ConfigSynonym("a", None, ConfigSource.DEFAULT_CONFIG),),
    )
    assert config_descriptions._line(entry) == "a=\\x1b[2J sensitive=false synonyms={DEFAULT_CONFIG:a=null}"
