"""Delegation tokens (keys 38-41)."""

from ottla.protocol.schema import Bytes, Int16, Int32, Int64, String, api, field, struct


@api(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Make a delegation token for the caller, or since v3 for another owner (KIP-48, KIP-373).

    v2 is the first flexible version, v3 added the owner.
    """

    @struct
    class Renewer:
        principal_type: String
        principal_name: String

    owner_principal_type: String | None = field("3+", default=None)
    owner_principal_name: String | None = field("3+", default=None)
    renewers: list[Renewer]
    max_lifetime_ms: Int64


@api(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The new token; `hmac` is its secret."""

    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = field(default=0)


@api(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Let a delegation token live on.

    v2 is the first flexible version.
    """

    hmac: Bytes
    renew_period_ms: Int64


@api(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """The new time of expiry."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)


@api(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Shorten the life of a delegation token; a negative period ends it at once.

    v2 is the first flexible version.
    """

    hmac: Bytes
    expiry_time_period_ms: Int64


@api(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """The new time of expiry."""

    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)


@api(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Ask for the delegation tokens of owners; null means all that the caller may see.

    v2 is the first flexible version, v3 added the requester to the reply.
    """

    @struct
    class Owner:
        principal_type: String
        principal_name: String

    owners: list[Owner] | None


@api(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """Tokens with owner, renewers and times."""

    @struct
    class Token:
        @struct
        class Renewer:
            principal_type: String
            principal_name: String

        principal_type: String
        principal_name: String
        token_requester_principal_type: String = field("3+", default="")
        token_requester_principal_name: String = field("3+", default="")
        issue_timestamp: Int64
        expiry_timestamp: Int64
        max_timestamp: Int64
        token_id: String
        hmac: Bytes
        renewers: list[Renewer]

    error_code: Int16
    tokens: list[Token]
    throttle_time_ms: Int32 = field(default=0)
