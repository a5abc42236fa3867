"""SASL authentication and SCRAM credentials (keys 17, 36, 50, 51)."""

from ottla.protocol.schema import Bytes, Int8, Int16, Int32, Int64, String, api, field, struct


@api(key=17, versions="0-1")
class SaslHandshakeRequest:
    """Choose a SASL mechanism.

    After v0 raw tokens follow on the socket, after v1 SaslAuthenticate requests.
    """

    mechanism: String


@api(key=17, versions="0-1")
class SaslHandshakeResponse:
    """The mechanisms that the broker offers."""

    error_code: Int16
    mechanisms: list[String]


@api(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """Carry one token of the client's side of a SASL exchange.

    v1 added the session lifetime to the reply (KIP-368), v2 flexible encoding.
    """

    auth_bytes: Bytes


@api(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's token, or why the client was refused."""

    error_code: Int16
    error_message: String | None = field(default=None)
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)


@api(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Ask which SCRAM mechanisms users have credentials for; null users mean all (KIP-554)."""

    @struct
    class User:
        name: String

    users: list[User] | None


@api(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iteration counts, never secrets."""

    @struct
    class User:
        @struct
        class Credential:
            mechanism: Int8
            iterations: Int32

        user: String
        error_code: Int16
        error_message: String | None = field(default=None)
        credential_infos: list[Credential]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    results: list[User]


@api(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Add, replace or remove SCRAM credentials of users (KIP-554).

    The client salts and hashes: the password itself is never sent.
    """

    @struct
    class Deletion:
        name: String
        mechanism: Int8

    @struct
    class Upsertion:
        name: String
        mechanism: Int8
        iterations: Int32
        salt: Bytes
        salted_password: Bytes

    deletions: list[Deletion]
    upsertions: list[Upsertion]


@api(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """One error code per user."""

    @struct
    class User:
        user: String
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    results: list[User]
