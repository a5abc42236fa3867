"""What the tables of the client say, for people and for type checkers: docs/reference/client.md, and `parameters.py`.

Pure functions from declarations to text; `make docs` writes them.
"""

from typing import Any

from ottla.client import errors
from ottla.client.config import AdminConfig, ClientConfig
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import OLD, ProducerConfig
from ottla.core.key import Key
from ottla.core.reference import first_paragraph, parameters_markdown, table
from ottla.core.values import WireType

_INTRO = """The parameters of `Producer`, `Consumer` and `Admin`, and of their twins with `Async`. They are Kafka's own
names. Write them with underscores (`bootstrap_servers=`), or with dots as in a file (`**{"bootstrap.servers": ...}`).
Times are milliseconds, or text such as `"30s"`; sizes are bytes, or text such as `"1 MiB"`."""


def client_markdown() -> str:
    """Every setting of every client, the old ones, and the errors."""
    return parameters_markdown(
        "Client",
        _INTRO,
        [ClientConfig, ProducerConfig, AdminConfig, ConsumerConfig],
        "## Settings of Kafka 0.8 and 0.9",
        "Producers take them with a warning that names what to write today.",
        table(("Then", "Now"), [(f"`{name}`", old.modern) for name, old in OLD.items()]),
        "## Errors",
        "In `ottla.client.errors`. Each is a `KafkaError`, with a `code`, with `retriable`, and a sentence. What a "
        "broker answers is a `KafkaError` as well, or one of its classes for what can be done about it: "
        "[errors](errors.md).",
        table(("Error", "Code", "Retriable", "Meaning"), _errors()),
    )


def _errors() -> list[tuple[str, str, str, str]]:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    return [
        (
            f"`{each.__name__}`",
            f"`{each.own_code.name}`",
            "yes" if each.own_code.retriable else "",
            first_paragraph(each),
        )
        for each in found
        if issubclass(each, errors.ClientError) and each is not errors.ClientError
    ]


_TYPES = {
    WireType.BOOLEAN: "bool | str",
    WireType.STRING: "str",
    WireType.INT: "int | str",
    WireType.LONG: "int | str",
    WireType.DOUBLE: "float | str",
    WireType.LIST: "str | Sequence[str]",
    WireType.PASSWORD: "str",
    WireType.CLASS: "Any",
}


def parameters_source() -> str:
    """The settings as the types of constructors' parameters."""
    lines = [
        '"""The parameters of clients, for editors and type checkers. Written by `make docs` from their tables."""',
        "",
        "from collections.abc import Sequence",
        "from typing import Any, TypedDict",
        "",
    ]
    for name, config, parent in (
        ("ClientParameters", ClientConfig, None),
        ("ProducerParameters", ProducerConfig, "ClientParameters"),
        ("AdminParameters", AdminConfig, "ClientParameters"),
        ("ConsumerParameters", ConsumerConfig, "AdminParameters"),
    ):
        bases = f"{parent or 'TypedDict'}, total=False"
        lines += ["", f"class {name}({bases}):", f'    """{first_paragraph(config)}"""', ""]
        inherited = {each for base in config.__bases__ for each in getattr(base, "keys", {})}
        lines += [
            f"    {key.replace('.', '_')}: {_type(config.keys[key])}"
            for key in sorted(config.keys)
            if key not in inherited
        ]
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _type(key: Key[Any]) -> str:
    found = "int | str" if key.name == "acks" else _TYPES[key.type.wire]
    return f"{found} | None" if key.default is None and found != "Any" else found
