"""-s avro: keys and values whose schemas are in a registry, as Avro's own JSON.

fastavro reads them. A schema is asked for once, by the first record that has it.
"""

from io import BytesIO, StringIO
from typing import NamedTuple

from ottla.cli.cat.packing import Unreadable
from ottla.client.serde.avro import ParsedAvro, parse_avro
from ottla.client.serde.confluent_registry import ConfluentRegistry
from ottla.client.serde.extras import library
from ottla.client.serde.framing import SchemaKey
from ottla.client.serde.reading import ReadSchemas
from ottla.client.serde.schema_registry import AVRO, SchemaRegistryError

_WHAT = "-s avro"


class Decoded(NamedTuple):
    """A value as JSON, and the schema that it was written with."""

    text: bytes
    schema: SchemaKey


class AvroText:
    """Raises ImportError in a sentence where fastavro is not installed."""

    def __init__(self, url: str, *, is_key: bool) -> None:
        self._fastavro = library("fastavro", _WHAT)
        registry = ConfluentRegistry(url.rstrip("/"))
        self._schemas: ReadSchemas[ParsedAvro] = ReadSchemas(
            registry, lambda schema: parse_avro(registry, schema), kind=AVRO, is_key=is_key
        )

    def show(self, data: bytes) -> bytes:
        """For the formats: only the JSON."""
        return self.decoded(data).text

    def decoded(self, data: bytes) -> Decoded:
        """Raises `Unreadable` for what is no such value, and where the registry does not say what it is."""
        try:
            parsed, framed = self._schemas.of((), data)
            payload = data[framed.start :]
            if parsed.check is not None:
                parsed.check(payload)
        except (ValueError, SchemaRegistryError) as error:
            raise Unreadable(f"Avro/Schema-registry deserialization: {error}") from error
        return Decoded(self._text(parsed, payload), framed.schema)

    def _text(self, parsed: ParsedAvro, payload: bytes) -> bytes:
        out = StringIO()
        try:
            value = (
                payload
                if parsed.is_plain_bytes
                else self._fastavro.schemaless_reader(BytesIO(payload), parsed.schema)
            )
            self._fastavro.json_writer(out, parsed.schema, [value])
        except Exception as error:  # whatever the library stumbles over, the bytes are no such value
            raise Unreadable(f"no Avro value of its schema: {type(error).__name__} {error}") from error
        return out.getvalue().strip().encode()
