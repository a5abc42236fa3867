"""TLS: whom to trust, who we are, and sentences for what goes wrong before the first question. SASL is in `sasl`.

A handshake fails in the words of OpenSSL. They are turned into what a user can do: trust another file, use another
name, another port. A connection that is merely lost stays an error of the network, which is tried again.
"""

import asyncio
import ssl
from pathlib import Path
from typing import NoReturn

from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, ProtocolMismatch
from ottla.core.errors import ConfigError

_HOSTNAME_MISMATCH, _IP_MISMATCH = 62, 64
_EXPIRED, _NOT_YET_VALID = 10, 9
_NO_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """The context from the settings. Raises ConfigError that names the key of a file that cannot be used."""
    if config.ssl_context is not None:
        context: ssl.SSLContext = config.ssl_context
        return context
    _check_file("ssl.cafile", config.ssl_cafile)
    _check_file("ssl.certfile", config.ssl_certfile)
    _check_file("ssl.keyfile", config.ssl_keyfile)
    try:
        context = ssl.create_default_context(cafile=config.ssl_cafile)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"ssl.cafile {config.ssl_cafile} has no certificates that can be read") from error
    context.check_hostname = config.ssl_check_hostname
    if config.ssl_certfile is not None:
        _load_own(context, config)
    elif config.ssl_keyfile is not None:
        raise ConfigError("ssl.keyfile is set without ssl.certfile: a key needs its certificate")
    return context


def _check_file(key: str, path: str | None) -> None:
    if path is not None and not Path(path).is_file():
        raise ConfigError(f"{key}: there is no file {path}")


def _load_own(context: ssl.SSLContext, config: ClientConfig) -> None:
    was_asked = False

    def password() -> str:
        # A function, also where there is no password: OpenSSL would ask for it at the terminal.
        nonlocal was_asked
        was_asked = True
        return config.ssl_password.value if config.ssl_password is not None else ""

    try:
        context.load_cert_chain(config.ssl_certfile or "", config.ssl_keyfile, password)
    except (ssl.SSLError, OSError) as error:
        keys = "ssl.certfile" if config.ssl_keyfile is None else "ssl.certfile and ssl.keyfile"
        hint = ": the key is encrypted, and ssl.password is wrong or missing" if was_asked else ""
        raise ConfigError(f"{keys} cannot be used{hint} ({_words(error)})") from error


def handshake_failed(address: object, error: ssl.SSLError) -> NoReturn:
    """Raises what a failed TLS handshake means to a user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        raise AuthenticationError(_untrusted(address, error)) from error
    if any(reason in str(error) for reason in _NO_TLS):
        raise ProtocolMismatch(speaks_plain(address)) from error
    if is_alert(str(error)):
        raise AuthenticationError(refused_certificate(address, error)) from error
    raise AuthenticationError(f"no TLS with {address}: {_words(error)}") from error


def speaks_plain(address: object) -> str:
    wanted = "set security_protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of its TLS listener"
    return f"{address} does not speak TLS on this port: {wanted}"


def speaks_tls(address: object) -> str:
    wanted = "set security_protocol to SSL or SASL_SSL, or use the port of a listener that is not encrypted"
    return f"{address} speaks TLS on this port: {wanted}"


async def takes_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer there. Nobody is trusted by this: nothing is said after it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, host, port, ssl=context)
    except ssl.SSLError as error:
        return is_alert(str(error))  # it wants a certificate, or another version
    except OSError:
        return False
    transport.abort()
    return True


def is_alert(text: str) -> bool:
    """Whether the other side broke off in TLS, as it does if it does not like our certificate, or misses it."""
    return "SSL" in text and "ALERT" in text.upper()


def refused_certificate(address: object, error: object) -> str:
    wanted = "set ssl_certfile and ssl_keyfile to a certificate that it trusts"
    return (
        f"{address} refused our TLS handshake ({_words(error)}): if it wants a certificate of ours, {wanted}"
    )


def _untrusted(address: object, error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message or _words(error)
    if error.verify_code in (_HOSTNAME_MISMATCH, _IP_MISMATCH):
        wanted = "connect by a name that is in it, or set ssl_check_hostname to False"
        return f"the certificate of {address} is for another host ({why}): {wanted}"
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return f"the certificate of {address} is not valid at this time: {why}"
    return (
        f"the certificate of {address} is not trusted ({why}): set ssl_cafile to the authority that signed it"
    )


def _words(error: object) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).replace("_", " ").lower() if isinstance(reason, str) else str(error)
