"""A schema registry with Confluent's REST interface: Confluent's own, Karapace, Apicurio, Redpanda's.

Calls block, for at most `timeout_ms` per server; serializers make few, because what cannot change is remembered. Every
failure is a SchemaRegistryError in one sentence.
"""

import base64
import http.client
import json
import ssl
import threading
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from ottla.client.serde.framing import SchemaKey
from ottla.client.serde.schema_registry import (
    AVRO,
    Reference,
    Registered,
    Schema,
    SchemaRegistryError,
    UnknownSchemaError,
)
from ottla.core.errors import ConfigError

_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWER_BYTES_MAX = 16 * 1024 * 1024  # far above any schema
CACHED_MAX = 10_000
_NOT_FOUND = 404


class ConfluentRegistry:
    """`url` is one address or several, of servers that share their schemas: the next is asked when one does not answer.

    ConfluentRegistry("https://registry:8081", basic_auth=("name", "password"))

    Credentials may stand in the address as well. `ssl_cafile`, or an `ssl_context`, says whom to trust.
    """

    def __init__(
        self,
        url: str | list[str],
        *,
        basic_auth: tuple[str, str] | None = None,
        bearer_token: str | None = None,
        timeout_ms: int = 10_000,
        ssl_context: ssl.SSLContext | None = None,
        ssl_cafile: str | None = None,
    ) -> None:
        urls = url.split(",") if isinstance(url, str) else url
        self._servers = [_Server(each.strip(), basic_auth, bearer_token) for each in urls]
        if not self._servers:
            raise ConfigError("a schema registry needs an address")
        self._timeout_seconds = timeout_ms / 1000
        self._tls = ssl_context
        if ssl_context is None and any(each.is_tls for each in self._servers):
            self._tls = _trusting(ssl_cafile)
        self._lock = threading.Lock()
        self._schemas: dict[SchemaKey, Schema] = {}
        self._places: dict[tuple[str, int], Registered] = {}

    # --- what serializers ask -----------------------------------------------------------------------------------

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        path = f"/subjects/{_quoted(subject)}/versions{_normalized(normalize)}"
        answer = self._ask("POST", path, _body(schema))
        if "version" in answer and "guid" in answer:
            return self._remember(_registered(answer, subject, schema))
        return self.lookup(subject, schema, normalize=normalize)  # old servers answer with the id only

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> Registered:
        path = f"/subjects/{_quoted(subject)}{_normalized(normalize)}"
        return self._remember(_registered(self._ask("POST", path, _body(schema)), subject, schema))

    def by_key(self, key: SchemaKey) -> Schema:
        known = self._schemas.get(key)
        if known is not None:
            return known
        # A registry knows Protobuf as text too; only as a descriptor can it be used here. Others ignore the wish.
        path = f"/schemas/{'guids' if isinstance(key, UUID) else 'ids'}/{key}?format=serialized"
        answer = self._ask("GET", path)
        schema = _schema(answer)
        with self._lock:
            _put(self._schemas, key, schema)
        return schema

    def version(self, subject: str, version: int | None = None) -> Registered:
        if version is not None and (known := self._places.get((subject, version))) is not None:
            return known
        which = "latest" if version is None else str(version)
        answer = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/{which}?format=serialized")
        return self._remember(_registered(answer, subject, None))

    def versions(self, subject: str) -> list[int]:
        return [int(each) for each in self._list(f"/subjects/{_quoted(subject)}/versions")]

    def subjects(self) -> list[str]:
        return [str(each) for each in self._list("/subjects")]

    def is_compatible(self, subject: str, schema: Schema, version: int | None = None) -> bool:
        which = "latest" if version is None else str(version)
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/{which}"
        try:
            return self._ask("POST", path, _body(schema)).get("is_compatible") is True
        except UnknownSchemaError:
            return True  # the first version may be anything

    def _remember(self, registered: Registered) -> Registered:
        with self._lock:
            _put(self._places, (registered.subject, registered.version), registered)
        return registered

    # --- HTTP -----------------------------------------------------------------------------------------------------

    def _list(self, path: str) -> list[Any]:
        answer = self._ask("GET", path, wanted=list)
        return list(answer)

    def _ask(self, method: str, path: str, body: Any = None, wanted: type = dict) -> Any:
        """The answer, as an object of the wanted type. The next server is asked if one is down."""
        failures: list[SchemaRegistryError] = []
        for server in self._servers:
            try:
                answer = server.ask(method, path, body, self._timeout_seconds, self._tls)
            except SchemaRegistryError as error:
                if not error.retriable:
                    raise
                failures.append(error)
                continue
            if not isinstance(answer, wanted):
                raise SchemaRegistryError(
                    f"{server} answered {method} {path} with something else than JSON of ours", 502
                )
            return answer
        if len(failures) == 1:
            raise failures[0]
        raise SchemaRegistryError("; ".join(str(each) for each in failures), failures[-1].status)


class _Server:
    """One address."""

    def __init__(self, url: str, basic_auth: tuple[str, str] | None, bearer_token: str | None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{parts.scheme}://{parts.hostname} is no address of a schema registry")
        self.is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        if basic_auth is None and parts.username is not None:
            basic_auth = unquote(parts.username), unquote(parts.password or "")
        self._headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "Content-Type": _MEDIA_TYPE}
        if basic_auth is not None:
            secret = base64.b64encode(":".join(basic_auth).encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {secret}"
        elif bearer_token is not None:
            self._headers["Authorization"] = f"Bearer {bearer_token}"

    def __str__(self) -> str:
        return f"the schema registry {self._host}{f':{self._port}' if self._port else ''}"

    def ask(self, method: str, path: str, body: Any, timeout: float, tls: ssl.SSLContext | None) -> Any:
        connection: http.client.HTTPConnection
        if self.is_tls:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self._base + path, data, self._headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise SchemaRegistryError(f"{self} did not answer: {error or type(error).__name__}") from error
        finally:
            connection.close()
        return self._read(answer.status, content, f"{method} {path}")

    def _read(self, status: int, content: bytes, question: str) -> Any:
        if len(content) > ANSWER_BYTES_MAX:
            raise SchemaRegistryError(f"{self} answered {question} with too many bytes", 502)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300:
            return answer
        row = answer if isinstance(answer, dict) else {}
        code = row.get("error_code")
        code = code if isinstance(code, int) else 0
        said = str(row.get("message") or http.client.responses.get(status, ""))[:500]
        error = UnknownSchemaError if status == _NOT_FOUND else SchemaRegistryError
        raise error(f"{self} refused {question}: {status} {said}", status, code)


def _trusting(cafile: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cafile)
    except OSError as error:
        raise ConfigError(f"ssl_cafile {cafile}: {error.strerror or error}") from error


def _put(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= CACHED_MAX:
        cache.clear()
    cache[key] = value


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _normalized(normalize: bool) -> str:
    return "?normalize=true" if normalize else ""


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != AVRO:
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [each._asdict() for each in schema.references]
    return body


def _schema(answer: dict[str, Any]) -> Schema:
    try:
        references = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in answer.get("references") or ()
        )
        return Schema(str(answer["schema"]), str(answer.get("schemaType") or AVRO), references)
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaRegistryError(f"the schema registry answered without a schema: {error!r}", 502) from error


def _registered(answer: dict[str, Any], subject: str, schema: Schema | None) -> Registered:
    try:
        guid = UUID(answer["guid"]) if answer.get("guid") else None
        found = _schema(answer) if schema is None else schema
        return Registered(int(answer["id"]), subject, int(answer["version"]), found, guid)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaRegistryError(f"the schema registry answered without a place: {error!r}", 502) from error
