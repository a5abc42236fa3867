"""SCRAM by the vectors of the RFCs, against another implementation, and against servers that lie."""

import base64
from typing import Any

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.scram import ScramClient

# RFC 7677, section 3.
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_PROOF = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def rfc_client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", RFC_NONCE)


def server_of(mechanism: str, password: str) -> Any:
    kind = scramp.ScramMechanism(mechanism)
    record = kind.make_auth_info(password, iteration_count=4096)
    return kind.make_server(lambda name: record)


def test_the_example_of_the_rfc():
    client = rfc_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(RFC_FIRST) == RFC_PROOF
    client.verify(RFC_FINAL)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=10, deadline=None)
@given(password=st.text("abcxyz0189,=%+/ ", min_size=1).filter(lambda text: text.strip()))
def test_another_implementation_agrees(mechanism, password):
    client, server = ScramClient(mechanism, "ann", password), server_of(mechanism, password)
    server.set_client_first(client.first().decode())
    server.set_client_final(client.final(server.get_server_first().encode()).decode())
    client.verify(server.get_server_final().encode())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_no_proof(mechanism):
    client, server = ScramClient(mechanism, "ann", "wrong"), server_of(mechanism, "right")
    server.set_client_first(client.first().decode())
    proof = client.final(server.get_server_first().encode())
    with pytest.raises(scramp.ScramException):
        server.set_client_final(proof.decode())


def test_a_name_with_the_marks_of_the_message_is_escaped():
    assert ScramClient("SCRAM-SHA-256", "a=b,c", "x", "N").first() == b"n,,n=a=3Db=2Cc,r=N"


def test_every_exchange_has_a_nonce_of_its_own():
    assert ScramClient("SCRAM-SHA-256", "a", "x").first() != ScramClient("SCRAM-SHA-256", "a", "x").first()


def first_with(**changes: str) -> bytes:
    fields = {"r": RFC_NONCE + "more", "s": "W22ZaJ0SNY7soEsUEjb6gQ==", "i": "4096", **changes}
    return ",".join(f"{name}={value}" for name, value in fields.items()).encode()


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (first_with(r="another"), "does not go on from ours"),
        (first_with(r=RFC_NONCE), "does not go on from ours"),
        (first_with(i="4095"), "'4095' iterations, 4096 to 1000000 are allowed"),
        (first_with(i="1000001"), "iterations"),
        (first_with(i="99999999999999999999999"), "iterations"),
        (first_with(i="-1"), "iterations"),
        (first_with(i="٥٠٠٠"), "iterations"),
        (first_with(i=""), "iterations"),
        (first_with(s="%%%"), "salt is no base64"),
        (first_with(s=""), "no salt"),
        (first_with(m="x"), "an extension"),
        (b"", "no SCRAM message"),
        (b"r=a,r=b", "no SCRAM message"),
        (b"\xff\xfe", "no text"),
        (b"r=" + b"a" * 10_000, "10002 bytes"),
    ],
)
def test_what_a_server_must_not_say_first(message, sentence):
    with pytest.raises(ValueError, match=sentence):
        rfc_client().final(message)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"v=" + base64.b64encode(b"x" * 32), "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"v=%", "no base64"),
        (b"e=other-error", "said 'other-error'"),
        (b"x=1", "signature is wrong"),
        (b"", "no SCRAM message"),
    ],
)
def test_what_a_server_must_not_say_last(message, sentence):
    client = rfc_client()
    client.final(RFC_FIRST)
    with pytest.raises(ValueError, match=sentence):
        client.verify(message)


def test_a_server_that_skips_the_proof_is_not_believed():
    with pytest.raises(ValueError, match="signature is wrong"):
        rfc_client().verify(b"v=")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_error(message):
    with pytest.raises(ValueError):
        rfc_client().final(message)
    with pytest.raises(ValueError):
        rfc_client().verify(message)
