"""Client quotas: how much users, client ids and addresses may take (KIP-546)."""

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.routes import Answers, Client, all_of, check, outcome
from ottla.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    Entity,
)

_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
_FIELDS = {value: key for key, value in _TYPES.items()}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


class QuotaMatch(enum.Enum):
    """What stands where a name could stand."""

    DEFAULT = "default"
    """The entity that stands for all those without a quota of their own."""
    ANY = "any"
    """In filters: whatever the name is."""


QUOTA_DEFAULT, QUOTA_ANY = QuotaMatch.DEFAULT, QuotaMatch.ANY


class QuotaEntity(NamedTuple):
    """Whose quota: a user, a client id, a user's client id, or an address. None is not part of it."""

    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None

    def __str__(self) -> str:
        named = {_TYPES[key]: each for key, each in self._asdict().items() if each is not None}
        return ", ".join(
            f"{key} {each.value if isinstance(each, QuotaMatch) else each}" for key, each in named.items()
        )


async def describe_client_quotas(
    admin: Client,
    entity_filter: QuotaEntity | None = None,
    *,
    strict: bool = False,
    timeout_ms: float | None = None,
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of all entities that have what the filter has; with `strict`, of those that have nothing else."""
    routes = admin._routes
    kind = DescribeClientQuotasRequest.Component
    named = (entity_filter or QuotaEntity())._asdict().items()
    components = [
        kind(
            entity_type=_TYPES[key],
            match_type=_EXACT if isinstance(each, str) else _DEFAULT if each is QUOTA_DEFAULT else _ANY,
            match=each if isinstance(each, str) else None,
        )
        for key, each in named
        if each is not None
    ]

    async def ask() -> dict[QuotaEntity, dict[str, float]]:
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        answer: DescribeClientQuotasResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the client quotas", answer.error_message)
        return {
            _entity(row.entity): {each.key: each.value for each in row.values} for row in answer.entries or []
        }

    return await routes.patient(ask, routes.deadline(timeout_ms), "the client quotas were not described")


async def alter_client_quotas(
    admin: Client,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout_ms: float | None = None,
) -> None:
    """Set quotas, such as `producer_byte_rate`; None removes one."""
    routes = admin._routes
    kind = AlterClientQuotasRequest.Entry

    def operations(entity: QuotaEntity) -> list[AlterClientQuotasRequest.Entry.Operation]:
        return [
            kind.Operation(key=key, value=0.0 if value is None else float(value), remove=value is None)
            for key, value in changes[entity].items()
        ]

    async def ask(some: list[QuotaEntity]) -> Answers[QuotaEntity, None]:
        request = AlterClientQuotasRequest(
            entries=[kind(entity=_parts(each), ops=operations(each)) for each in some],
            validate_only=validate_only,
        )
        answer: AlterClientQuotasResponse = await routes.cluster.ask_controller(request)
        return {
            (key := _entity(row.entity)): outcome(row.error_code, str(key), row.error_message, None)
            for row in answer.entries
        }

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(changes, ask, deadline, "the client quotas were not altered")
    all_of(answers, "the change of client quotas")


def _parts(entity: QuotaEntity) -> list[Entity]:
    return [
        Entity(entity_type=_TYPES[key], entity_name=each if isinstance(each, str) else None)
        for key, each in entity._asdict().items()
        if each is not None
    ]


def _entity(rows: Iterable[Entity]) -> QuotaEntity:
    """Types that are newer than ours are left out."""
    named = {
        _FIELDS[row.entity_type]: QUOTA_DEFAULT if row.entity_name is None else row.entity_name
        for row in rows
        if row.entity_type in _FIELDS
    }
    return QuotaEntity(**named)
