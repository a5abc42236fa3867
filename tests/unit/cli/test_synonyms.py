"""Settings in the spellings of Java and librdkafka."""

import pytest

from ottla.cli.synonyms import MEANINGLESS, SAME, translated
from ottla.client.config import AdminConfig
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import ProducerConfig
from ottla.core.errors import ConfigError


def test_every_synonym_leads_to_a_setting_that_exists():
    known = {*AdminConfig.keys, *ConsumerConfig.keys, *ProducerConfig.keys}
    assert [own for own in SAME.values() if own not in known] == []
    assert not MEANINGLESS & SAME.keys()


def test_librdkafka_s_spellings_are_understood():
    assert translated(
        {
            "metadata.broker.list": "a:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "anna",
            "sasl.password": "tea",
            "ssl.ca.location": "ca.pem",
            "auto.offset.reset": "smallest",
            "debug": "all",
        }
    ) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.plain.username": "anna",
        "sasl.plain.password": "tea",
        "ssl.cafile": "ca.pem",
        "auto.offset.reset": "earliest",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("beginning", "earliest"),
        ("largest", "latest"),
        ("end", "latest"),
        ("error", "none"),
        ("latest", "latest"),
    ],
)
def test_where_to_begin_has_many_names(written, meant):
    assert translated({"auto.offset.reset": written}) == {"auto.offset.reset": meant}


def test_java_s_login_modules_are_understood():
    module = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="anna" password="a \\"b\\" \\\\ c";'
    )
    assert translated({"sasl.jaas.config": module}) == {
        "sasl.plain.username": "anna",
        "sasl.plain.password": 'a "b" \\ c',
    }


def test_a_login_module_without_a_user_is_refused():
    with pytest.raises(ConfigError, match="no username and no password"):
        translated({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"})


@pytest.mark.parametrize(("value", "is_checked"), [("https", "true"), ("", "false"), ("HTTPS", "true")])
def test_java_s_check_of_host_names_is_understood(value, is_checked):
    assert translated({"ssl.endpoint.identification.algorithm": value}) == {"ssl.check.hostname": is_checked}


def test_serializers_of_java_mean_nothing_here():
    assert translated({"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"}) == {}


def test_what_is_written_under_its_own_name_wins():
    both = {"sasl.password": "other", "sasl.plain.password": "own"}
    assert translated(both) == translated(dict(reversed(both.items()))) == {"sasl.plain.password": "own"}


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.truststore.location": "trust.jks"},
        {"ssl.keystore.location": "own.p12"},
        {"ssl.truststore.location": "trust", "ssl.truststore.type": "pkcs12"},
    ],
)
def test_a_java_keystore_is_refused_with_a_way_out(settings):
    with pytest.raises(ConfigError, match="is a Java keystore; export it as PEM"):
        translated(settings)


def test_a_keystore_in_pem_is_taken():
    assert translated({"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}) == {
        "ssl.cafile": "ca.pem"
    }


def test_nobody_is_trusted_blindly():
    assert translated({"enable.ssl.certificate.verification": "true"}) == {}
    with pytest.raises(ConfigError, match="certificates are always verified"):
        translated({"enable.ssl.certificate.verification": "false"})
