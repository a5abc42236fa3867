"""Settings of topics, brokers and other resources (keys 32, 33, 44, 74)."""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, String, api, field, struct


@api(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """Read the settings of topics, brokers, groups and others; null keys mean all.

    v1 added synonyms, v3 documentation (KIP-569), v4 flexible encoding.
    """

    @struct
    class Resource:
        resource_type: Int8
        resource_name: String
        configuration_keys: list[String] | None

    resources: list[Resource]
    include_synonyms: Bool = field("1+", default=False)
    include_documentation: Bool = field("3+", default=False)


@api(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """Settings with type, source and synonyms; sensitive values are null.

    v1 replaced is_default by config_source.
    """

    @struct
    class Resource:
        @struct
        class Setting:
            @struct
            class Synonym:
                name: String
                value: String | None
                source: Int8

            name: String
            value: String | None
            read_only: Bool
            is_default: Bool = field("0", default=False)
            config_source: Int8 = field("1+", default=-1, ignorable=True)
            is_sensitive: Bool
            synonyms: list[Synonym] = field("1+", default=[], ignorable=True)
            config_type: Int8 = field("3+", default=0, ignorable=True)
            documentation: String | None = field("3+", default=None, ignorable=True)

        error_code: Int16
        error_message: String | None = field(default=None)
        resource_type: Int8
        resource_name: String
        configs: list[Setting]

    throttle_time_ms: Int32 = field(default=0)
    results: list[Resource]


@struct
class AlteredResource:
    """How the change of one resource went."""

    error_code: Int16
    error_message: String | None = field(default=None)
    resource_type: Int8
    resource_name: String


@api(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace all dynamic settings of resources; what is left out goes back to its default.

    v2 is the first flexible version. IncrementalAlterConfigs is the safer choice.
    """

    @struct
    class Resource:
        @struct
        class Setting:
            name: String
            value: String | None

        resource_type: Int8
        resource_name: String
        configs: list[Setting]

    resources: list[Resource]
    validate_only: Bool


@api(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """One error code per resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlteredResource]


@api(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Change single settings: set (0), delete (1), append (2), subtract (3) (KIP-339).

    v1 is the first flexible version.
    """

    @struct
    class Resource:
        @struct
        class Setting:
            name: String
            config_operation: Int8
            value: String | None

        resource_type: Int8
        resource_name: String
        configs: list[Setting]

    resources: list[Resource]
    validate_only: Bool


@api(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One error code per resource."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlteredResource]


@api(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """List resources that have settings of their own.

    v0 (ListClientMetricsResources in Kafka 3.7 to 4.0) lists client metrics only, v1 chooses by type
    (KIP-1142).
    """

    resource_types: list[Int8] = field("1+", default=[])


@api(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Names, and since v1 types, of the resources."""

    @struct
    class Resource:
        resource_name: String
        resource_type: Int8 = field("1+", default=16, ignorable=True)

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    config_resources: list[Resource]
