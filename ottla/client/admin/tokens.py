"""Delegation tokens (KIP-48): with one, others may act for its owner. The secret of a token is in no `repr`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.admin.routes import Client, check
from ottla.core.errors import ErrorCode, KafkaError
from ottla.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token, with which others may act for its owner. Principals are as in `User:alice`, times in milliseconds."""

    token_id: str
    hmac: bytes = field(repr=False)
    """Its secret: the password that goes with the token's id."""
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


async def create_delegation_token(
    admin: Client,
    *,
    renewers: Iterable[str] = (),
    owner: str | None = None,
    max_lifetime_ms: int = -1,
    timeout_ms: float | None = None,
) -> DelegationToken:
    """A token for the one who asks, or for another owner. It takes a connection that is authenticated, and not by a
    token. -1 is the broker's longest life."""
    routes = admin._routes
    kind = CreateDelegationTokenRequest.Renewer
    named = tuple(renewers)
    pairs = [_pair(each) for each in named]
    owner_type, owner_name = _pair(owner) if owner is not None else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[kind(principal_type=first, principal_name=last) for first, last in pairs],
        max_lifetime_ms=max_lifetime_ms,
    )

    async def ask() -> DelegationToken:
        row: CreateDelegationTokenResponse = await routes.cluster.ask_controller(request)
        check(row.error_code, "the delegation token")
        owned_by = f"{row.principal_type}:{row.principal_name}"
        asker = row.token_requester_principal_name
        return DelegationToken(
            row.token_id,
            bytes(row.hmac),
            owned_by,
            f"{row.token_requester_principal_type}:{asker}" if asker else owned_by,
            named,
            row.issue_timestamp_ms,
            row.expiry_timestamp_ms,
            row.max_timestamp_ms,
        )

    return await routes.patient(ask, routes.deadline(timeout_ms), "the delegation token was not created")


async def renew_delegation_token(
    admin: Client, hmac: bytes, *, renew_period_ms: int = -1, timeout_ms: float | None = None
) -> int:
    """Let a token live on for so long, or for the broker's default. Returns when it expires now."""
    routes = admin._routes
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)

    async def ask() -> int:
        answer: RenewDelegationTokenResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the delegation token")
        return answer.expiry_timestamp_ms

    return await routes.patient(ask, routes.deadline(timeout_ms), "the delegation token was not renewed")


async def expire_delegation_token(
    admin: Client, hmac: bytes, *, expiry_period_ms: int = -1, timeout_ms: float | None = None
) -> int:
    """Let a token live for so long only; -1 ends it at once. Returns when it expires now."""
    routes = admin._routes
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_period_ms)

    async def ask() -> int:
        answer: ExpireDelegationTokenResponse = await routes.cluster.ask_controller(request)
        check(answer.error_code, "the delegation token")
        return answer.expiry_timestamp_ms

    return await routes.patient(ask, routes.deadline(timeout_ms), "the delegation token was not expired")


async def describe_delegation_token(
    admin: Client, owners: Iterable[str] | None = None, *, timeout_ms: float | None = None
) -> list[DelegationToken]:
    """The tokens that these own or may renew, or all, as far as the one who asks may see them."""
    routes = admin._routes
    kind = DescribeDelegationTokenRequest.Owner
    pairs = None if owners is None else [_pair(each) for each in owners]
    wanted = None if pairs is None else [kind(principal_type=a, principal_name=b) for a, b in pairs]

    async def ask() -> list[DelegationToken]:
        request = DescribeDelegationTokenRequest(owners=wanted)
        answer: DescribeDelegationTokenResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the delegation tokens")
        return [_token(row) for row in answer.tokens]

    return await routes.patient(ask, routes.deadline(timeout_ms), "the delegation tokens were not described")


def _token(row: DescribeDelegationTokenResponse.Token) -> DelegationToken:
    owner = f"{row.principal_type}:{row.principal_name}"
    asker = row.token_requester_principal_name
    return DelegationToken(
        row.token_id,
        bytes(row.hmac),
        owner,
        f"{row.token_requester_principal_type}:{asker}" if asker else owner,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in row.renewers),
        row.issue_timestamp,
        row.expiry_timestamp,
        row.max_timestamp,
    )


def _pair(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not kind or not colon or not name:
        sentence = f"{principal!r} is no principal, as in User:alice"
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, sentence)
    return kind, name
