"""The client of Confluent's REST interface, against a server that speaks it over a real socket."""

import base64
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import pytest

from ottla.client.serde.avro import AvroDeserializer, AvroSerializer
from ottla.client.serde.confluent_registry import ConfluentRegistry
from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.schema_registry import (
    JSON,
    Reference,
    Schema,
    SchemaRegistryError,
    UnknownSchemaError,
)
from ottla.core.errors import ConfigError


class Server(ThreadingHTTPServer):
    """A registry behind Confluent's paths. `script` answers first, if anything is in it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.registry = InMemoryRegistry()
        self.asked = []
        self.headers = []
        self.script = []
        self.is_old = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer(None)

    def do_POST(self):
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body):
        server = self.server
        server.asked.append(f"{self.command} {self.path}")
        server.headers.append(dict(self.headers))
        if server.script:
            status, content = server.script.pop(0)
            return self._send(status, content)
        try:
            return self._send(200, json.dumps(self._serve(body)).encode())
        except SchemaRegistryError as error:
            content = {"error_code": 40403, "message": str(error)}
            return self._send(error.status, json.dumps(content).encode())

    def _serve(self, body):
        address = urlsplit(self.path)
        path = [unquote(part) for part in address.path.strip("/").split("/")]
        normalize = "normalize" in parse_qs(address.query)
        registry = self.server.registry
        schema = body and Schema(
            body["schema"],
            body.get("schemaType", "AVRO"),
            tuple(Reference(**each) for each in body.get("references", ())),
        )
        match [self.command, *path]:
            case ["POST", "subjects", subject, "versions"]:
                return self._placed(
                    registry.register(subject, schema, normalize=normalize), id_only=self.server.is_old
                )
            case ["POST", "subjects", subject]:
                return self._placed(registry.lookup(subject, schema, normalize=normalize))
            case ["GET", "subjects"]:
                return registry.subjects()
            case ["GET", "subjects", subject, "versions"]:
                return registry.versions(subject)
            case ["GET", "subjects", subject, "versions", version]:
                return self._placed(registry.version(subject, None if version == "latest" else int(version)))
            case ["GET", "schemas", "ids", key]:
                return self._described(registry.by_key(int(key)))
            case ["GET", "schemas", "guids", key]:
                return self._described(registry.by_key(UUID(key)))
            case ["POST", "compatibility", "subjects", subject, "versions", _]:
                registry.version(subject)
                return {"is_compatible": registry.is_compatible(subject, schema)}
        raise SchemaRegistryError("no such path", 404)

    @staticmethod
    def _described(schema):
        row = {"schema": schema.text, "references": [each._asdict() for each in schema.references]}
        return row if schema.kind == "AVRO" else {**row, "schemaType": schema.kind}

    def _placed(self, placed, id_only=False):
        if id_only:
            return {"id": placed.id}
        row = {"id": placed.id, "subject": placed.subject, "version": placed.version}
        guid = {} if self.server.is_old else {"guid": str(placed.guid)}
        return {**row, **self._described(placed.schema), **guid}

    def _send(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def registry(server):
    return ConfluentRegistry(server.url)


A, B = Schema('"string"'), Schema('{"type": "integer"}', JSON)


@pytest.mark.parametrize("is_old", [False, True])
def test_it_answers_as_a_registry_in_memory_does(server, registry, is_old):
    server.is_old = is_old
    placed = registry.register("a/b c", A)
    other = registry.register("json", B)
    assert (placed.id, placed.version, other.id) == (1, 1, 2)
    assert (placed.guid is None) == is_old
    assert registry.lookup("a/b c", A) == placed
    assert registry.by_key(2) == B
    assert registry.version("json") == registry.version("json", 1) == other
    assert registry.versions("json") == [1]
    assert registry.subjects() == ["a/b c", "json"]
    assert registry.is_compatible("a/b c", A)
    assert not registry.is_compatible("json", A)
    assert registry.is_compatible("new", A)
    if not is_old:
        assert registry.by_key(other.guid) == B


def test_what_cannot_change_is_asked_once(server, registry):
    registry.register("s", A)
    count = len(server.asked)
    for _ in range(3):
        registry.by_key(1)
        registry.version("s", 1)
    assert server.asked[count:] == ["GET /schemas/ids/1?format=serialized"]


def test_references_go_along(server, registry):
    registry.register("base", A)
    schema = Schema('"x"', references=(Reference("x", "base", 1),))
    registry.register("s", schema, normalize=True)
    assert registry.by_key(2).references == schema.references


def test_serializers_work_with_it(server, registry):
    data = AvroSerializer(registry, "string").serialize("t", (), "a")
    assert data == b"\0\0\0\0\x01\x02a"
    count = len(server.asked)
    assert AvroSerializer(registry, "string", auto_register=False).serialize("t", (), "a") == data
    assert AvroDeserializer(registry).deserialize("t", (), data) == "a"
    assert len(server.asked) == count + 2
    with pytest.raises(UnknownSchemaError, match="no schema with the id 9"):
        AvroDeserializer(registry).deserialize("t", (), b"\0\0\0\0\x09")


@pytest.mark.parametrize("way", ["argument", "address"])
def test_credentials_are_sent(server, way):
    if way == "argument":
        registry = ConfluentRegistry(server.url, basic_auth=("ann", "p:w"))
    else:
        registry = ConfluentRegistry(server.url.replace("//", "//ann:p%3Aw@"))
    registry.subjects()
    assert server.headers[-1]["Authorization"] == f"Basic {base64.b64encode(b'ann:p:w').decode()}"
    ConfluentRegistry(server.url, bearer_token="abc").subjects()
    assert server.headers[-1]["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("status", "content", "sentence"),
    [
        (409, b'{"error_code": 409, "message": "not compatible"}', "409 not compatible"),
        (401, b"<html>", "401 Unauthorized"),
        (500, b"", "500 Internal Server Error"),
        (200, b"<html>", "something else"),
        (200, b"[]", "something else"),
        (200, b"[" * 100_000, "something else"),
        (200, b'{"version": 1, "guid": "x", "id": 1}', "without a place"),
        (200, b'{"version": "x", "guid": null, "id": {}}', "without a place"),
    ],
)
def test_every_failure_is_one_sentence(server, registry, status, content, sentence):
    server.script.append((status, content))
    with pytest.raises(SchemaRegistryError, match=sentence) as caught:
        registry.register("s", A)
    assert "\n" not in str(caught.value)


def test_a_registry_that_is_not_there_is_retriable():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(SchemaRegistryError, match=f"127.0.0.1:{port} did not answer") as caught:
        ConfluentRegistry(f"127.0.0.1:{port}").subjects()
    assert caught.value.retriable


def test_a_registry_that_is_silent_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SchemaRegistryError, match="did not answer: timed out"):
            ConfluentRegistry(url, timeout_ms=50).subjects()


def test_the_next_server_is_asked_when_one_is_down(server):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        down = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert ConfluentRegistry(f"{down},{server.url}").subjects() == []
    with pytest.raises(SchemaRegistryError, match="; the schema registry"):
        ConfluentRegistry([down, down]).subjects()


def test_an_address_that_is_none_is_refused():
    for url in ("ftp://x", "http://", []):
        with pytest.raises(ConfigError):
            ConfluentRegistry(url)
    with pytest.raises(ConfigError, match="ssl_cafile /nothing"):
        ConfluentRegistry("https://x", ssl_cafile="/nothing")
