"""TLS contexts from settings, and sentences for handshakes that fail."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, ProtocolMismatch
from ottla.client.security import handshake_failed, is_alert, tls_context
from ottla.core.errors import ConfigError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"sesame"),
    )
    contents = {
        "ca": authority.cert_pem.bytes(),
        "cert": issued.cert_chain_pems[0].bytes(),
        "key": issued.private_key_pem.bytes(),
        "locked": locked,
        "both": issued.private_key_and_cert_chain_pem.bytes(),
        "other": trustme.CA().issue_cert("x").private_key_pem.bytes(),
        "rubbish": b"no certificate",
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return {name: str(directory / name) for name in contents} | {"nothing": str(Path(directory) / "nothing")}


def context(files: dict[str, str], **settings: Any) -> ssl.SSLContext:
    values = {
        f"ssl.{key.replace('_', '.')}": files.get(value, value) if isinstance(value, str) else value
        for key, value in settings.items()
    }
    return tls_context(ClientConfig({"security.protocol": "SSL", **values}))


def test_only_the_file_is_trusted_if_there_is_one(files):
    made = context(files, cafile="ca")
    assert made.verify_mode == ssl.CERT_REQUIRED and made.check_hostname
    assert made.cert_store_stats()["x509_ca"] == 1
    assert made.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_the_host_name_need_not_be_checked_but_the_signature_is(files):
    made = context(files, cafile="ca", check_hostname=False)
    assert made.verify_mode == ssl.CERT_REQUIRED and not made.check_hostname


def test_a_context_of_ones_own_is_taken_as_it_is(files):
    own = ssl.create_default_context()
    assert context(files, context=own) is own


@pytest.mark.parametrize(
    "settings",
    [
        {"certfile": "both"},
        {"certfile": "cert", "keyfile": "key"},
        {"certfile": "cert", "keyfile": "locked", "password": "sesame"},
    ],
)
def test_a_certificate_of_ours(files, settings):
    context(files, cafile="ca", **settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"cafile": "nothing"}, r"ssl\.cafile: there is no file .*nothing"),
        ({"cafile": "rubbish"}, r"ssl\.cafile .*rubbish has no certificates"),
        ({"certfile": "nothing"}, r"ssl\.certfile: there is no file"),
        ({"certfile": "cert", "keyfile": "nothing"}, r"ssl\.keyfile: there is no file"),
        ({"certfile": "cert"}, r"ssl\.certfile cannot be used"),
        ({"certfile": "rubbish"}, r"ssl\.certfile cannot be used"),
        ({"certfile": "cert", "keyfile": "other"}, r"ssl\.certfile and ssl\.keyfile cannot be used"),
        ({"certfile": "cert", "keyfile": "locked"}, r"ssl\.password is wrong or missing"),
        (
            {"certfile": "cert", "keyfile": "locked", "password": "wrong"},
            r"ssl\.password is wrong or missing",
        ),
        ({"keyfile": "key"}, r"ssl\.keyfile is set without ssl\.certfile"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_by_its_key(files, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        context(files, **settings)


def failed(text: str) -> ssl.SSLError:
    error = ssl.SSLError(1, text)
    error.reason = text.partition("] ")[0].partition(": ")[2]
    return error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (failed("[SSL: WRONG_VERSION_NUMBER] wrong version number"), ProtocolMismatch, "does not speak TLS"),
        (failed("[SSL: RECORD_LAYER_FAILURE] x"), ProtocolMismatch, "does not speak TLS"),
        (
            failed("[SSL: TLSV1_ALERT_UNKNOWN_CA] x"),
            AuthenticationError,
            "TLS handshake .tlsv1 alert unknown",
        ),
        (
            failed("[SSL: NO_CIPHERS_AVAILABLE] x"),
            AuthenticationError,
            "no TLS with b:1: no ciphers available",
        ),
    ],
)
def test_a_failed_handshake_says_what_to_do(error, kind, sentence):
    with pytest.raises(kind, match=sentence):
        handshake_failed("b:1", error)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (62, "for another host .*: connect by a name that is in it, or set ssl_check_hostname"),
        (64, "for another host"),
        (10, "not valid at this time: words"),
        (19, "not trusted .words.: set ssl_cafile"),
    ],
)
def test_a_certificate_that_fails_says_which_way(code, sentence):
    error = ssl.SSLCertVerificationError(1, "text")
    error.verify_code, error.verify_message = code, "words"
    with pytest.raises(AuthenticationError, match=sentence):
        handshake_failed("b:1", error)


def test_alerts_are_recognised_in_what_a_connection_says():
    assert is_alert("b:1 closed the connection: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert")
    assert not is_alert("b:1 closed the connection")
