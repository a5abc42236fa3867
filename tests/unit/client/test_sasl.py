"""The SASL exchange, against a server that says what the test wants it to say."""

import asyncio
from typing import Any

import pytest
import scramp

from ottla.client.config import ClientConfig
from ottla.client.deadline import Deadline
from ottla.client.errors import AuthenticationError, KafkaTimeoutError
from ottla.client.sasl import authenticate
from ottla.network.peer import PeerClosed, connect
from ottla.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.unit.network.test_peer import Asking, play

SPOKEN = {17: (0, 1), 18: (0, 3), 36: (0, 2)}


def config(mechanism: str = "PLAIN", **more: Any) -> ClientConfig:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.plain.username": "ann",
        "sasl.plain.password": "secret",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return ClientConfig(settings)


def run(
    settings: ClientConfig, *answers: Any, spoken: Any = None, timeout_ms: int = 20_000
) -> tuple[int, list[Any]]:
    """Authenticate with a server that gives these answers: what was returned, and what the server was asked."""
    asked: list[Any] = []
    returned: list[int] = []

    async def server(asking: Asking) -> None:
        await asking.answer_versions(SPOKEN if spoken is None else spoken)
        for answer in answers:
            header, request = await asking.next()
            asked.append(request)
            await asking.answer(header, answer(request) if callable(answer) else answer)
        await asking.reader.read()

    async def client(host: str, port: int) -> None:
        async with await connect(host, port, negotiate=False) as peer:
            returned.append(await authenticate(peer, settings, Deadline(timeout_ms)))

    play(server, client)
    return returned[0], asked


def offers(*mechanisms: str, error_code: int = 0) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def says(token: bytes = b"", lifetime_ms: int = 0, error_code: int = 0, message: str | None = None) -> Any:
    return SaslAuthenticateResponse(
        error_code=error_code, error_message=message, auth_bytes=token, session_lifetime_ms=lifetime_ms
    )


def test_plain_is_one_token_and_the_session_has_a_lifetime():
    lifetime_ms, (handshake, request) = run(config(), offers("PLAIN"), says(lifetime_ms=5000))
    assert lifetime_ms == 5000
    assert handshake.mechanism == "PLAIN"
    assert bytes(request.auth_bytes) == b"\0ann\0secret"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_request_will_do(version):
    spoken = {**SPOKEN, 36: (0, version)}
    lifetime_ms, _ = run(config(), offers("PLAIN"), says(lifetime_ms=5000), spoken=spoken)
    assert lifetime_ms == (5000 if version else 0)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_with_a_server_of_somebody_else(mechanism):
    kind = scramp.ScramMechanism(mechanism)
    record = kind.make_auth_info("secret", iteration_count=4096)
    server = kind.make_server(lambda name: record)

    def first(request: Any) -> Any:
        server.set_client_first(bytes(request.auth_bytes).decode())
        return says(server.get_server_first().encode())

    def final(request: Any) -> Any:
        server.set_client_final(bytes(request.auth_bytes).decode())
        return says(server.get_server_final().encode(), lifetime_ms=7)

    assert run(config(mechanism), offers(mechanism), first, final)[0] == 7


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([says(b"r=other,s=AAAA,i=4096")], "nonce does not go on from ours"),
        ([lambda request: says(_nonce(request) + b"x,s=AAAA,i=2000000")], "iterations"),
        ([lambda request: says(_nonce(request) + b"x,s=AAAA,i=4096"), says(b"v=AAAA")], "signature is wrong"),
        ([lambda request: says(_nonce(request) + b"x,s=AAAA,i=4096"), says(b"")], "no SCRAM message"),
    ],
)
def test_a_scram_server_that_lies_is_not_believed(answers, sentence):
    with pytest.raises(AuthenticationError, match=f"SCRAM-SHA-256 failed: .*{sentence}"):
        run(config("SCRAM-SHA-256"), offers("SCRAM-SHA-256"), *answers)


def _nonce(request: Any) -> bytes:
    return b"r=" + bytes(request.auth_bytes).partition(b"r=")[2]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [offers("GSSAPI", "SCRAM-SHA-256", error_code=33)],
            "does not offer PLAIN, but GSSAPI, SCRAM-SHA-256: set",
        ),
        ([offers(error_code=33)], "does not offer PLAIN, but none"),
        ([offers(error_code=34)], "wants no SASL: set security_protocol to PLAINTEXT"),
        ([offers(error_code=42)], "refused PLAIN: INVALID_REQUEST"),
        ([offers("PLAIN"), says(error_code=58, message="Not you.")], "refused our credentials: Not you."),
        ([offers("PLAIN"), says(error_code=58)], "SASL_AUTHENTICATION_FAILED"),
        ([offers("PLAIN"), says(error_code=9999)], "error 9999"),
    ],
)
def test_a_refusal_is_the_brokers_sentence_and_not_tried_again(answers, sentence):
    with pytest.raises(AuthenticationError, match=sentence) as caught:
        run(config(), *answers)
    assert not caught.value.retriable
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("spoken", "sentence"),
    [
        ({17: (0, 0), 18: (0, 3), 36: (0, 2)}, "older than Kafka 1.0"),
        ({17: (0, 1), 18: (0, 3)}, "does not offer SaslAuthenticate"),
        ({18: (0, 3)}, "does not offer SaslHandshake"),
    ],
)
def test_a_broker_without_our_sasl(spoken, sentence):
    with pytest.raises(AuthenticationError, match=sentence):
        run(config(), spoken=spoken)


def test_a_connection_that_is_lost_stays_an_error_of_the_network():
    async def server(asking: Asking) -> None:
        await asking.answer_versions(SPOKEN)
        await asking.next()

    async def client(host: str, port: int) -> None:
        async with await connect(host, port, negotiate=False) as peer:
            with pytest.raises(PeerClosed):
                await authenticate(peer, config(), Deadline(20_000))

    play(server, client)


def test_a_name_with_a_zero_byte_is_never_sent():
    with pytest.raises(AuthenticationError, match="zero byte"):
        run(config(sasl_plain_username="a\0b"), offers("PLAIN"))


# --- tokens ---------------------------------------------------------------------------------------------------------


class Provider:
    def token(self) -> str:
        return "abc.def"

    def extensions(self) -> dict[str, str]:
        return {"tenant": "t1"}


async def coroutine() -> str:
    return "abc.def"


@pytest.mark.parametrize(
    "provider", [lambda: "abc.def", coroutine, lambda: coroutine()], ids=["f", "async", "lambda"]
)
def test_a_token_comes_from_a_function(provider):
    settings = config("OAUTHBEARER", sasl_oauth_token_provider=provider)
    _, (_, request) = run(settings, offers("OAUTHBEARER"), says())
    assert bytes(request.auth_bytes) == b"n,,\x01auth=Bearer abc.def\x01\x01"


def test_a_provider_may_be_an_object_with_extensions():
    settings = config("OAUTHBEARER", sasl_oauth_token_provider=Provider())
    _, (_, request) = run(settings, offers("OAUTHBEARER"), says())
    assert bytes(request.auth_bytes) == b"n,,\x01auth=Bearer abc.def\x01tenant=t1\x01\x01"


def test_the_servers_reason_is_noted_before_it_refuses():
    settings = config("OAUTHBEARER", sasl_oauth_token_provider=Provider())
    reason = says(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationError, match="refused our credentials: no"):
        run(settings, offers("OAUTHBEARER"), reason, says(error_code=58, message="no"))
    with pytest.raises(AuthenticationError, match=r'said \{"status":"invalid_token"\}'):
        run(settings, offers("OAUTHBEARER"), reason, says())


@pytest.mark.parametrize("found", [None, "", b"abc", "a\x01b", "ž"])
def test_what_is_no_token_is_never_sent(found):
    settings = config("OAUTHBEARER", sasl_oauth_token_provider=lambda: found)
    with pytest.raises(AuthenticationError, match="gave no token"):
        run(settings, offers("OAUTHBEARER"))


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a b": "x"}, {"a": "x\x01"}])
def test_an_extension_that_cannot_be_sent(extensions):
    provider = Provider()
    provider.extensions = lambda: extensions
    with pytest.raises(AuthenticationError, match="an extension"):
        run(config("OAUTHBEARER", sasl_oauth_token_provider=provider), offers("OAUTHBEARER"))


@pytest.mark.parametrize("error", [OSError("no network"), TimeoutError("slow")])
def test_a_provider_that_fails_is_named(error):
    def fail() -> str:
        raise error

    settings = config("OAUTHBEARER", sasl_oauth_token_provider=fail)
    with pytest.raises(AuthenticationError, match="sasl_oauth_token_provider failed: "):
        run(settings, offers("OAUTHBEARER"))


def test_a_provider_that_takes_too_long_is_given_up():
    async def never() -> str:
        return await asyncio.get_running_loop().create_future()

    settings = config("OAUTHBEARER", sasl_oauth_token_provider=never)
    with pytest.raises(KafkaTimeoutError, match="gave no token within 50 ms"):
        run(settings, offers("OAUTHBEARER"), timeout_ms=50)
