"""`meta.properties`: whose directory this is. A broker that finds another's refuses to touch it."""

import uuid
from typing import NamedTuple

from ottla.core.errors import ConfigError, ProtocolError
from ottla.core.ids import format_id, parse_id
from ottla.core.properties import format_properties, parse_properties
from ottla.storage.checkpoints import META_PROPERTIES
from ottla.storage.files import Files, write_whole

METADATA_DIRECTORY = "__cluster_metadata-0"
"""Where Apache Kafka keeps what its cluster knows. It is no partition of a topic, and never changed here."""
ADOPTED = "ottla-adopted.json"
"""Says beside it that we have taken the cluster over, and up to where its metadata was written then."""


class Meta(NamedTuple):
    """Version 0 is what brokers with ZooKeeper wrote, version 1 what later ones write."""

    node_id: int | None
    cluster_id: str | None
    directory_id: uuid.UUID | None = None
    version: int = 1


def read_meta(files: Files, directory: str) -> Meta | None:
    """What the file says, or None if there is none. Raises ProtocolError if it makes no sense."""
    path = f"{directory}/{META_PROPERTIES}"
    if not files.exists(path):
        return None
    try:
        entries = parse_properties(files.read(path).decode("utf-8"), path)
        version = int(entries["version"])
        if version not in (0, 1):
            raise ValueError(f"version {version} is not known")
        node_id = entries.get("broker.id" if version == 0 else "node.id")
        directory_id = entries.get("directory.id")
        return Meta(
            None if node_id is None else int(node_id),
            entries.get("cluster.id"),
            None if directory_id is None else parse_id(directory_id),
            version,
        )
    except KeyError:
        raise ProtocolError(f"{path} has no version") from None
    except (ValueError, ConfigError) as error:
        raise ProtocolError(f"{path}: {error}") from error


def write_meta(files: Files, directory: str, meta: Meta) -> None:
    entries: dict[str, object] = {"version": meta.version}
    if meta.cluster_id is not None:
        entries["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        entries["broker.id" if meta.version == 0 else "node.id"] = meta.node_id
    if meta.directory_id is not None:
        entries["directory.id"] = format_id(meta.directory_id)
    write_whole(files, f"{directory}/{META_PROPERTIES}", format_properties(entries).encode("ascii"))
