"""Client quotas (keys 48, 49)."""

from ottla.protocol.schema import Bool, Float64, Int8, Int16, Int32, String, api, field, struct


@struct
class Entity:
    """One part of whom a quota is for: `user`, `client-id` or `ip`, and a name. Null names the default."""

    entity_type: String
    entity_name: String | None


@api(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Ask for the quotas of users, client ids and addresses (KIP-546).

    `match_type` is exact (0), the default entity (1) or any (2).

    v1 is the first flexible version.
    """

    @struct
    class Component:
        entity_type: String
        match_type: Int8
        match: String | None

    components: list[Component]
    strict: Bool


@api(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """Quota values of each matching entity; null entries mean that none was asked for."""

    @struct
    class Entry:
        @struct
        class Value:
            key: String
            value: Float64

        entity: list[Entity]
        values: list[Value]

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    entries: list[Entry] | None


@api(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Set or remove quotas of users, client ids and addresses (KIP-546).

    v1 is the first flexible version.
    """

    @struct
    class Entry:
        @struct
        class Operation:
            key: String
            value: Float64
            remove: Bool

        entity: list[Entity]
        ops: list[Operation]

    entries: list[Entry]
    validate_only: Bool


@api(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """One error code per entity."""

    @struct
    class Entry:
        error_code: Int16
        error_message: String | None = field(default=None)
        entity: list[Entity]

    throttle_time_ms: Int32 = field(default=0)
    entries: list[Entry]
