"""Access control lists (keys 29-31).

Types and operations are small numbers: resource type, pattern type, operation, permission; 1 means "any"
in filters.
"""

from ottla.protocol.schema import Int8, Int16, Int32, String, api, field, struct


@api(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """Ask for the ACLs that a filter matches.

    v1 added pattern types (KIP-290), v2 flexible encoding, v3 user resources.
    """

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@api(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """Matching ACLs, grouped by resource."""

    @struct
    class Resource:
        @struct
        class Acl:
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        resource_type: Int8
        resource_name: String
        pattern_type: Int8 = field("1+", default=3)
        acls: list[Acl]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    resources: list[Resource]


@api(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    """Add ACLs.

    v1 added pattern types (KIP-290), v2 flexible encoding, v3 user resources.
    """

    @struct
    class Acl:
        resource_type: Int8
        resource_name: String
        resource_pattern_type: Int8 = field("1+", default=3)
        principal: String
        host: String
        operation: Int8
        permission_type: Int8

    creations: list[Acl]


@api(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    """One error code per ACL."""

    @struct
    class Result:
        error_code: Int16
        error_message: String | None = field(default=None)

    throttle_time_ms: Int32 = field(default=0)
    results: list[Result]


@api(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """Remove the ACLs that filters match.

    v1 added pattern types (KIP-290), v2 flexible encoding, v3 user resources.
    """

    @struct
    class Filter:
        resource_type_filter: Int8
        resource_name_filter: String | None
        pattern_type_filter: Int8 = field("1+", default=3)
        principal_filter: String | None
        host_filter: String | None
        operation: Int8
        permission_type: Int8

    filters: list[Filter]


@api(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """Per filter, the ACLs it removed."""

    @struct
    class FilterResult:
        @struct
        class Acl:
            error_code: Int16
            error_message: String | None = field(default=None)
            resource_type: Int8
            resource_name: String
            pattern_type: Int8 = field("1+", default=3)
            principal: String
            host: String
            operation: Int8
            permission_type: Int8

        error_code: Int16
        error_message: String | None = field(default=None)
        matching_acls: list[Acl]

    throttle_time_ms: Int32 = field(default=0)
    filter_results: list[FilterResult]
