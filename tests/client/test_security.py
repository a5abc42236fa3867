"""TLS and SASL against Apache Kafka: one broker with a listener of each kind."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from ottla.client.cluster import Cluster
from ottla.client.config import ClientConfig
from ottla.client.connections import GENERAL
from ottla.client.consumer.consumer import AsyncConsumer
from ottla.client.deadline import Deadline
from ottla.client.errors import AuthenticationError, ProtocolMismatch
from ottla.client.producer.producer import AsyncProducer
from ottla.core.errors import KafkaError
from ottla.core.hosts import Address
from ottla.network.peer import connect
from ottla.protocol.messages.sasl import AlterUserScramCredentialsRequest
from tests.oracles import apache_kafka

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLSSL": "SASL_SSL",
    "SCRAMONLY": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
}
LIFETIME_MS = 1000
NAME, PASSWORD = "ann", "tr0ub4dor,=&3"


class Secured(NamedTuple):
    """The broker, and what its clients need."""

    ports: dict[str, int]
    cafile: str
    certfile: str
    other_certfile: str
    """A certificate that the broker does not trust."""

    def settings(self, listener: str, **more: Any) -> dict[str, Any]:
        protocol = LISTENERS.get(listener, "PLAINTEXT")
        settings = {"bootstrap_servers": f"localhost:{self.ports[listener]}", "security_protocol": protocol}
        if "SSL" in protocol:
            settings["ssl_cafile"] = self.cafile
        if "SASL" in protocol:
            settings |= {"sasl_plain_username": NAME, "sasl_plain_password": PASSWORD}
        return {**settings, **more}


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, stranger = trustme.CA(), trustme.CA()
    cafile = directory / "ca.pem"
    authority.cert_pem.write_to_path(cafile)
    files = {}
    for name, signer in (("broker", authority), ("client", authority), ("stranger", stranger)):
        files[name] = directory / f"{name}.pem"
        files[name].write_bytes(_key_and_chain(signer.issue_cert("localhost")))
    ports = dict(zip(LISTENERS, apache_kafka._free_ports(len(LISTENERS)), strict=True))
    config = _broker_settings(str(files["broker"]), str(cafile))
    listeners = [f"{name}://localhost:{port}" for name, port in ports.items()]
    try:
        with apache_kafka.apache_kafka(config, data_dir=directory / "kafka", listeners=listeners) as broker:
            ports["PLAINTEXT"] = broker.port
            asyncio.run(_add_scram_users(broker.port))
            yield Secured(ports, str(cafile), str(files["client"]), str(files["stranger"]))
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


def _key_and_chain(issued: trustme.LeafCert) -> bytes:
    """In one file, the key as PKCS #8, which is the form that Java reads."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, *form)
    return text + b"".join(each.bytes() for each in issued.cert_chain_pems)


def _broker_settings(keystore: str, truststore: str) -> dict[str, str]:
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
    settings = {
        "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": truststore,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.short.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    }
    modules = "org.apache.kafka.common.security."
    jaas = {
        "PLAIN": f'{modules}plain.PlainLoginModule required user_{NAME}="{PASSWORD}";',
        "SCRAM-SHA-256": f"{modules}scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{modules}scram.ScramLoginModule required;",
        "OAUTHBEARER": f"{modules}oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    offers = {"sasl": MECHANISMS, "saslssl": MECHANISMS, "scramonly": MECHANISMS[1:3], "short": ("PLAIN",)}
    for listener, mechanisms in offers.items():
        settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
        for mechanism in mechanisms:
            settings[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = jaas[mechanism]
    return settings


async def _add_scram_users(port: int) -> None:
    rows = [
        AlterUserScramCredentialsRequest.Upsertion(
            name=NAME,
            mechanism=number,
            iterations=4096,
            salt=b"salt of the earth",
            salted_password=hashlib.pbkdf2_hmac(name, PASSWORD.encode(), b"salt of the earth", 4096),
        )
        for number, name in ((1, "sha256"), (2, "sha512"))
    ]
    async with await connect("127.0.0.1", port) as peer:
        for row in rows:  # a user may be named once in a request
            answer = await peer.send(AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]))
            assert [each.error_code for each in answer.results] == [0], answer.results


def token(subject: str = NAME, seconds: int = 3600) -> str:
    """A token that nobody signed: the broker is set up to believe those."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": subject, "iat": now, "exp": now + seconds}
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
        + "."
    )


def brokers(settings: dict[str, Any]) -> set[int]:
    """The brokers of a cluster, by one question that needs a connection and an authentication."""

    async def run() -> set[int]:
        cluster = Cluster(ClientConfig({key.replace("_", "."): value for key, value in settings.items()}))
        try:
            await cluster.patiently(
                lambda: cluster.refresh([]), Deadline(20_000), "the cluster did not answer"
            )
            return set(cluster.metadata.brokers)
        finally:
            await cluster.close()

    return asyncio.run(run())


# --- what works -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_without_authentication(secured, listener):
    assert brokers(secured.settings(listener)) == {1}


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("listener", ["SASL", "SASLSSL"])
def test_a_name_and_a_password(secured, listener, mechanism):
    assert brokers(secured.settings(listener, sasl_mechanism=mechanism)) == {1}


@pytest.mark.parametrize("kind", ["function", "coroutine", "object"])
def test_a_token(secured, kind):
    async def later():
        return token()

    class Provider:
        def token(self):
            return token()

        def extensions(self):
            return {}

    provider = {"function": token, "coroutine": later, "object": Provider()}[kind]
    more = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}
    assert brokers(secured.settings("SASL", **more)) == {1}


def test_a_certificate_of_ours(secured):
    assert brokers(secured.settings("MUTUAL", ssl_certfile=secured.certfile)) == {1}


def test_without_a_look_at_the_host_name(secured):
    here = f"127.0.0.1:{secured.ports['SSL']}"
    assert brokers(secured.settings("SSL", bootstrap_servers=here, ssl_check_hostname=False)) == {1}


# --- what does not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize(
    "wrong", [{"sasl_plain_password": "guess"}, {"sasl_plain_username": "bob"}], ids=["pw", "name"]
)
def test_wrong_credentials_are_refused_in_the_brokers_words(secured, mechanism, wrong):
    with pytest.raises(
        AuthenticationError, match=r"refused our credentials: Authentication failed"
    ) as caught:
        brokers(secured.settings("SASL", sasl_mechanism=mechanism, **wrong))
    assert not caught.value.retriable
    assert "guess" not in str(caught.value)


def test_a_token_that_has_expired(secured):
    more = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: token(seconds=-60)}
    with pytest.raises(AuthenticationError, match="invalid_token"):
        brokers(secured.settings("SASL", **more))


def test_a_mechanism_that_is_not_offered(secured):
    with pytest.raises(
        AuthenticationError, match=r"does not offer PLAIN, but SCRAM-SHA-\d+, SCRAM-SHA-\d+: set"
    ):
        brokers(secured.settings("SCRAMONLY"))


def test_sasl_where_none_is_wanted(secured):
    with pytest.raises(AuthenticationError, match="wants no SASL: set security_protocol to PLAINTEXT"):
        brokers(secured.settings("SASL", bootstrap_servers=f"localhost:{secured.ports['PLAINTEXT']}"))
    with pytest.raises(AuthenticationError, match="wants no SASL: set security_protocol to SSL"):
        brokers(secured.settings("SASLSSL", bootstrap_servers=f"localhost:{secured.ports['SSL']}"))


def test_a_certificate_that_is_not_trusted(secured):
    with pytest.raises(AuthenticationError, match=r"is not trusted \(.*\): set ssl_cafile"):
        brokers(secured.settings("SSL", ssl_cafile=None))


def test_a_certificate_for_another_host(secured):
    with pytest.raises(AuthenticationError, match=r"is for another host \(.*\): connect by a name"):
        brokers(secured.settings("SSL", bootstrap_servers=f"127.0.0.1:{secured.ports['SSL']}"))


@pytest.mark.parametrize("port", ["PLAINTEXT", "SASL"])
def test_tls_to_a_plain_port(secured, port):
    with pytest.raises(ProtocolMismatch, match="does not speak TLS on this port: set security_protocol"):
        brokers(secured.settings("SSL", bootstrap_servers=f"localhost:{secured.ports[port]}"))


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_plain_to_a_tls_port(secured, listener):
    with pytest.raises(ProtocolMismatch, match="TLS"):
        brokers(secured.settings(listener, bootstrap_servers=f"localhost:{secured.ports['SSL']}"))


@pytest.mark.parametrize("has_one", [False, True], ids=["none", "untrusted"])
def test_a_broker_that_wants_a_certificate_of_ours(secured, has_one):
    more = {"ssl_certfile": secured.other_certfile} if has_one else {}
    with pytest.raises(AuthenticationError, match="set ssl_certfile and ssl_keyfile"):
        brokers(secured.settings("MUTUAL", **more))


def test_no_sasl_where_it_is_wanted_is_hinted_at(secured):
    async def run() -> None:
        where = f"localhost:{secured.ports['SASL']}"
        cluster = Cluster(ClientConfig({"bootstrap.servers": where}))
        try:
            with pytest.raises(KafkaError, match="perhaps this listener wants SASL"):
                await cluster.refresh([])
        finally:
            await cluster.close()

    asyncio.run(run())


# --- authentications that end ---------------------------------------------------------------------------------------


def test_a_connection_is_replaced_before_its_authentication_ends(secured):
    async def run() -> None:
        config = ClientConfig({k.replace("_", "."): v for k, v in secured.settings("SHORT").items()})
        cluster = Cluster(config)
        address = Address("localhost", secured.ports["SHORT"])
        try:
            first = await cluster.connections.to(address, GENERAL)
            deadline = Deadline(20_000)
            while first.is_open and not deadline.is_over:
                await cluster.refresh([])  # never fails: a connection whose time is up is not used
            assert not first.is_open
            assert cluster.connections.existing(address, GENERAL) is not first
        finally:
            await cluster.close()

    asyncio.run(run())


@pytest.mark.parametrize("listener", ["SASLSSL", "SHORT"])
def test_records_go_through(secured, listener):
    """On the listener where authentications end soon, for longer than they last."""
    mechanism = "SCRAM-SHA-512" if listener == "SASLSSL" else "PLAIN"
    settings = secured.settings(listener, sasl_mechanism=mechanism)
    topic = f"secured-{listener.lower()}"

    async def run() -> None:
        deadline = Deadline(LIFETIME_MS * 2.5 if listener == "SHORT" else 0)
        consumer = AsyncConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        written, read = 0, []
        async with AsyncProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"0")
            async with consumer:
                while not deadline.is_over or written < 10:
                    written += 1
                    await producer.send_and_wait(topic, b"%d" % written)
                    read += await _polled(consumer, 50)
                while len(read) <= written:
                    read += await _polled(consumer, 10_000)
        assert read == [b"%d" % number for number in range(written + 1)]

    asyncio.run(run())


async def _polled(consumer: AsyncConsumer, timeout_ms: int) -> list[bytes]:
    return [record.value for records in (await consumer.poll(timeout_ms)).values() for record in records]
