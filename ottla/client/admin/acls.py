"""Access control lists: who may do what to what, from where."""

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.client.admin.operations import AclOperation, known
from ottla.client.admin.routes import Answers, Client, all_of, check, failure, outcome
from ottla.core.errors import KafkaError
from ottla.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class ResourceType(enum.IntEnum):
    """What an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How its name is meant. MATCH, in filters, finds whatever applies to a name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermissionType(enum.IntEnum):
    """DENY wins over ALLOW."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule. `*` as a literal name means all resources of the type, as a host any."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    """As in `User:alice`."""
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """Which rules: None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


async def create_acls(admin: Client, acls: Iterable[Acl], *, timeout_ms: float | None = None) -> None:
    """Add rules. One that is there already stays."""
    routes = admin._routes

    async def ask(some: list[Acl]) -> Answers[Acl, None]:
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequest.Acl(
                    resource_type=int(each.resource_type),
                    resource_name=each.resource_name,
                    resource_pattern_type=int(each.pattern_type),
                    principal=each.principal,
                    host=each.host,
                    operation=int(each.operation),
                    permission_type=int(each.permission_type),
                )
                for each in some
            ]
        )
        answer: CreateAclsResponse = await routes.cluster.ask_controller(request)
        # Answers are in the order of the questions, and say nothing else of which is which.
        return {
            key: outcome(row.error_code, f"the ACL of {key.principal}", row.error_message, None)
            for key, row in zip(some, answer.results, strict=False)
        }

    deadline = routes.deadline(timeout_ms)
    all_of(await routes.settle(acls, ask, deadline, "the ACLs were not created"), "the creation of ACLs")


async def describe_acls(
    admin: Client, acl_filter: AclFilter | None = None, *, timeout_ms: float | None = None
) -> list[Acl]:
    """The rules that the filter matches, or all."""
    routes = admin._routes
    wanted = acl_filter or AclFilter()
    request = DescribeAclsRequest(**_filter_fields(wanted))

    async def ask() -> list[Acl]:
        answer: DescribeAclsResponse = await routes.cluster.ask_any(request)
        check(answer.error_code, "the ACLs", answer.error_message)
        return sorted(
            Acl(
                known(ResourceType, resource.resource_type),
                resource.resource_name,
                row.principal,
                known(AclOperation, row.operation),
                known(AclPermissionType, row.permission_type),
                row.host,
                known(PatternType, resource.pattern_type),
            )
            for resource in answer.resources
            for row in resource.acls
        )

    return await routes.patient(ask, routes.deadline(timeout_ms), "the ACLs were not described")


async def delete_acls(
    admin: Client, acl_filters: Iterable[AclFilter], *, timeout_ms: float | None = None
) -> dict[AclFilter, list[Acl]]:
    """Remove the rules that the filters match, and return which those were."""
    routes = admin._routes

    async def ask(some: list[AclFilter]) -> Answers[AclFilter, list[Acl]]:
        request = DeleteAclsRequest(
            filters=[DeleteAclsRequest.Filter(**_filter_fields(each)) for each in some]
        )
        answer: DeleteAclsResponse = await routes.cluster.ask_controller(request)
        return {key: _deleted(row) for key, row in zip(some, answer.filter_results, strict=False)}

    deadline = routes.deadline(timeout_ms)
    answers = await routes.settle(acl_filters, ask, deadline, "the ACLs were not deleted")
    return all_of(answers, "the deletion of ACLs")


def _deleted(row: DeleteAclsResponse.FilterResult) -> list[Acl] | KafkaError:
    """An error of one rule is the filter's: its name says which."""
    for each in row.matching_acls:
        if each.error_code:
            return failure(each.error_code, f"the ACL of {each.principal}", each.error_message)
    found = [
        Acl(
            known(ResourceType, each.resource_type),
            each.resource_name,
            each.principal,
            known(AclOperation, each.operation),
            known(AclPermissionType, each.permission_type),
            each.host,
            known(PatternType, each.pattern_type),
        )
        for each in row.matching_acls
    ]
    return outcome(row.error_code, "the ACLs", row.error_message, sorted(found))


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    """A filter is written the same way in both requests."""
    return {
        "resource_type_filter": int(wanted.resource_type),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": int(wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission_type),
    }
