"""The settings that all clients share, under Kafka's own names.

As parameters they are written with underscores: `bootstrap_servers`. A name with dots is taken as well, so that the
settings of another client, or of a file, can be handed over: `Producer(**{"bootstrap.servers": ...})`.
"""

import ssl
from typing import Any

from ottla.core.config import Config, Duration, Key, Password, Words, at_least, between, not_empty, one_of
from ottla.core.errors import ConfigError
from ottla.core.hosts import LOOPBACK, Address, parse_host
from ottla.core.values import INT32_MAX, ValueType, WireType

PORT = 9092
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def anything(accepts: str) -> ValueType[Any]:
    """The type of settings that are objects: whoever uses them says whether they fit."""
    return ValueType(WireType.CLASS, accepts, lambda value: value, _name_of)


def _name_of(value: Any) -> str:
    return value if isinstance(value, str) else str(getattr(value, "__name__", None) or repr(value))


def _read_servers(value: object) -> tuple[str, ...]:
    return Words.read([value] if isinstance(value, str) and "," not in value else value)


_Servers = ValueType(
    WireType.LIST, "host:port, several with commas between them, or a list", _read_servers, ",".join
)


class ClientConfig(Config):
    """Settings of producers, consumers and admin clients."""

    bootstrap_servers = Key(
        "bootstrap.servers",
        _Servers,
        (f"localhost:{PORT}",),
        not_empty(),
        doc="Where to look for the cluster: one broker or several. The others are found through them. The port is "
        "9092 unless it is there.",
    )
    client_id = Key(
        "client.id", str, "ottla", doc="Who asks, for the broker's log, its metrics and its quotas."
    )
    client_rack = Key(
        "client.rack",
        str,
        "",
        doc="Where this client is. Consumers read from replicas there, if the broker offers it.",
    )
    request_timeout_ms = Key(
        "request.timeout.ms",
        Duration,
        30_000,
        between(1, INT32_MAX),
        doc="How long a broker may take to answer. Then the connection is given up and the request tried again.",
    )
    retry_backoff_ms = Key(
        "retry.backoff.ms",
        Duration,
        100,
        at_least(0),
        doc="The pause before a request is tried again. It doubles with every failure in a row.",
    )
    retry_backoff_max_ms = Key(
        "retry.backoff.max.ms", Duration, 1000, at_least(0), doc="The longest of those pauses."
    )
    reconnect_backoff_ms = Key(
        "reconnect.backoff.ms",
        Duration,
        50,
        at_least(0),
        doc="The pause before a broker that did not take a connection is tried again. It doubles every time.",
    )
    reconnect_backoff_max_ms = Key(
        "reconnect.backoff.max.ms", Duration, 1000, at_least(0), doc="The longest of those pauses."
    )
    socket_connection_setup_timeout_ms = Key(
        "socket.connection.setup.timeout.ms",
        Duration,
        10_000,
        at_least(1),
        doc="How long a connection may take to come about, TLS and authentication included.",
    )
    metadata_max_age_ms = Key(
        "metadata.max.age.ms",
        Duration,
        300_000,
        at_least(0),
        doc="After so long the cluster is asked again who leads what, though nothing went wrong: new partitions are "
        "found that way.",
    )
    security_protocol = Key(
        "security.protocol",
        one_of(*PROTOCOLS),
        "PLAINTEXT",
        doc="How to speak to brokers. `SSL` means TLS.",
    )
    ssl_context = Key(
        "ssl.context",
        anything("an ssl.SSLContext"),
        None,
        doc="What TLS needs, made by yourself. Otherwise it is made from the files below.",
    )
    ssl_cafile = Key(
        "ssl.cafile", str, None, doc="Certificates that are trusted. Without it, the system's are."
    )
    ssl_certfile = Key("ssl.certfile", str, None, doc="Our certificate, if brokers want one.")
    ssl_keyfile = Key(
        "ssl.keyfile", str, None, doc="The key of our certificate, if it is in a file of its own."
    )
    ssl_password = Key("ssl.password", Password, None, doc="The password of that key.")
    ssl_check_hostname = Key(
        "ssl.check.hostname",
        bool,
        True,
        doc="Whether a broker's certificate must be for the name that it was connected to by.",
    )
    sasl_mechanism = Key(
        "sasl.mechanism",
        one_of(*MECHANISMS),
        "PLAIN",
        doc="How to authenticate, with `SASL_PLAINTEXT` and `SASL_SSL`.",
    )
    sasl_plain_username = Key("sasl.plain.username", str, None, doc="The name for PLAIN and SCRAM.")
    sasl_plain_password = Key("sasl.plain.password", Password, None, doc="The password for PLAIN and SCRAM.")
    sasl_oauth_token_provider = Key(
        "sasl.oauth.token.provider",
        anything("a function that returns a token, or an object with `token()`"),
        None,
        doc="Where OAUTHBEARER gets its token. It may be a coroutine function.",
    )

    @property
    def servers(self) -> list[Address]:
        """The bootstrap servers as addresses."""
        found = [parse_host(each, "bootstrap.servers") for each in self.bootstrap_servers if each]
        return [Address(each.host or LOOPBACK, each.port or PORT) for each in found]

    @property
    def is_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def is_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def check(self) -> None:
        if not self.servers:
            raise ConfigError("bootstrap.servers names no server")
        if self.ssl_context is not None and not isinstance(self.ssl_context, ssl.SSLContext):
            raise ConfigError("ssl.context must be an ssl.SSLContext")
        if self.is_sasl and self.sasl_mechanism == "OAUTHBEARER" and self.sasl_oauth_token_provider is None:
            raise ConfigError("sasl.mechanism is OAUTHBEARER: sasl.oauth.token.provider must be set")
        has_password = self.sasl_plain_username is not None and self.sasl_plain_password is not None
        if self.is_sasl and self.sasl_mechanism != "OAUTHBEARER" and not has_password:
            wanted = "sasl.plain.username and sasl.plain.password must be set"
            raise ConfigError(f"sasl.mechanism is {self.sasl_mechanism}: {wanted}")


class AdminConfig(ClientConfig):
    """Settings of admin clients."""

    default_api_timeout_ms = Key(
        "default.api.timeout.ms",
        Duration,
        60_000,
        at_least(-1),
        doc="How long a call may take that is given no timeout, retries included. -1 is for ever.",
    )
