"""SASL on a connection: choose a mechanism, exchange its tokens, learn how long that holds.

Whatever goes wrong is an AuthenticationError in a sentence that says what to do, and is not tried again: the same
credentials would be refused again, and brokers slow down clients that try. What is lost on the way stays an error of
the network.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, NoReturn

from ottla.client.config import ClientConfig
from ottla.client.deadline import Deadline
from ottla.client.errors import AuthenticationError, KafkaTimeoutError
from ottla.client.scram import ScramClient
from ottla.core.errors import ErrorCode, ProtocolError
from ottla.network.peer import Peer
from ottla.protocol.apis import api_of
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_HANDSHAKE, _AUTHENTICATE = 17, 36
_FRAMED_SINCE = 1  # the version of SaslHandshake after which tokens travel in SaslAuthenticate
_ONE = "\x01"  # between the parts of OAUTHBEARER

Exchange = AsyncGenerator[bytes, bytes]
"""Our tokens. It is sent the server's answer to each."""


async def authenticate(peer: Peer, config: ClientConfig, deadline: Deadline) -> int:
    """Authenticate as the settings say. Returns for how many milliseconds that holds, 0 is for ever."""
    await peer.negotiate()
    await _handshake(peer, config, deadline)
    exchange = _EXCHANGES[config.sasl_mechanism](config, deadline)
    lifetime_ms = 0
    try:
        token = await anext(exchange)
        while True:  # every exchange ends by itself
            answer = await _send(peer, token, deadline)
            lifetime_ms = answer.session_lifetime_ms
            token = await exchange.asend(bytes(answer.auth_bytes))
    except StopAsyncIteration:
        return lifetime_ms
    except ValueError as error:
        raise AuthenticationError(f"{peer.address}: {config.sasl_mechanism} failed: {error}") from error
    finally:
        await exchange.aclose()


async def _handshake(peer: Peer, config: ClientConfig, deadline: Deadline) -> None:
    mechanism = config.sasl_mechanism
    try:
        version = peer.version_of(api_of(_HANDSHAKE))
        peer.version_of(api_of(_AUTHENTICATE))
    except ProtocolError as error:
        raise AuthenticationError(f"{peer.address} cannot authenticate us: {error}") from error
    if version < _FRAMED_SINCE:
        raise AuthenticationError(f"{peer.address} is older than Kafka 1.0: its SASL is not spoken here")
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer: SaslHandshakeResponse = await peer.send(request, version, timeout_ms=_left(deadline))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationError(
            f"{peer.address} does not offer {mechanism}, but {offered}: set sasl_mechanism to what it offers"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        plain = "SSL" if config.is_tls else "PLAINTEXT"
        raise AuthenticationError(f"{peer.address} wants no SASL: set security_protocol to {plain}")
    if answer.error_code:
        _refused(peer, mechanism, answer.error_code, None)


async def _send(peer: Peer, token: bytes, deadline: Deadline) -> SaslAuthenticateResponse:
    request = SaslAuthenticateRequest(auth_bytes=token)
    answer: SaslAuthenticateResponse = await peer.send(request, timeout_ms=_left(deadline))
    if answer.error_code:
        _refused(peer, "our credentials", answer.error_code, answer.error_message)
    return answer


def _refused(peer: Peer, what: str, code: int, sentence: str | None) -> NoReturn:
    known = ErrorCode(code).name if code in set(ErrorCode) else f"error {code}"
    raise AuthenticationError(f"{peer.address} refused {what}: {sentence or known}")


def _left(deadline: Deadline) -> int:
    return max(1, int(deadline.left_ms(2**31 - 1)))


# --- mechanisms -----------------------------------------------------------------------------------------------------


def _credentials(config: ClientConfig) -> tuple[str, str]:
    name, password = config.sasl_plain_username, config.sasl_plain_password
    assert name is not None and password is not None, "the settings were checked"
    return name, password.value


async def _plain(config: ClientConfig, deadline: Deadline) -> Exchange:
    name, password = _credentials(config)
    if "\0" in name or "\0" in password:
        raise ValueError("neither the name nor the password may contain a zero byte")
    yield f"\0{name}\0{password}".encode()


async def _scram(config: ClientConfig, deadline: Deadline) -> Exchange:
    client = ScramClient(config.sasl_mechanism, *_credentials(config))
    server_first = yield client.first()
    # In a thread: many iterations would hold up the loop.
    server_final = yield await asyncio.to_thread(client.final, server_first)
    client.verify(server_final)


async def _oauth(config: ClientConfig, deadline: Deadline) -> Exchange:
    provider = config.sasl_oauth_token_provider
    token = await _asked(getattr(provider, "token", provider), deadline)
    if not isinstance(token, str) or not token or not token.isprintable() or not token.isascii():
        raise ValueError("sasl_oauth_token_provider gave no token: a string of printable characters is one")
    extensions = await _extensions(provider, deadline)
    parts = ["n,,", f"auth=Bearer {token}", *(f"{key}={value}" for key, value in extensions.items()), "", ""]
    answer = yield _ONE.join(parts).encode()
    if answer:
        # The server says why in JSON, and refuses when we have taken note. If it does not, this is the reason.
        yield _ONE.encode()
        raise ValueError(f"the server said {answer[:500].decode(errors='replace')}")


async def _extensions(provider: Any, deadline: Deadline) -> dict[str, str]:
    """What some providers add to the token: names and values."""
    ask = getattr(provider, "extensions", None)
    if not callable(ask):
        return {}
    found = await _asked(ask, deadline)
    rows = {str(key): str(value) for key, value in dict(found or {}).items()}
    if any(key == "auth" or not key.isalpha() or not value.isprintable() for key, value in rows.items()):
        raise ValueError("an extension of the token has a name or a value that cannot be sent")
    return rows


async def _asked(function: Callable[[], Any], deadline: Deadline) -> Any:
    """What a provider returns: a coroutine function is awaited, a plain one runs in a thread, for it may block."""
    try:
        async with asyncio.timeout(deadline.left_seconds()):
            if inspect.iscoroutinefunction(function):
                return await function()
            found = await asyncio.to_thread(function)
            return await found if inspect.isawaitable(found) else found
    except TimeoutError as error:
        if deadline.is_over:
            raise KafkaTimeoutError(f"sasl_oauth_token_provider gave no token within {deadline}") from error
        raise AuthenticationError(f"sasl_oauth_token_provider failed: {error!r}") from error
    except Exception as error:
        raise AuthenticationError(f"sasl_oauth_token_provider failed: {error!r}") from error


_EXCHANGES: dict[str, Callable[[ClientConfig, Deadline], Exchange]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauth,
}
