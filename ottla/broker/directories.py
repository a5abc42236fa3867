"""The data directories before any log in them is opened: made, locked, and found to be this broker's.

`meta.properties` says whose a directory is. One of another broker or cluster is refused: two clusters mixed in one
directory cannot be told apart again.
"""

import logging
import os
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.stores import described
from ottla.core.errors import ConfigError, ProtocolError
from ottla.core.ids import random_id
from ottla.metadata.embedded import MEMORY
from ottla.storage.files import Files, OsFiles
from ottla.storage.lock import DirectoryLock
from ottla.storage.meta import ADOPTED, METADATA_DIRECTORY, Meta, read_meta, write_meta

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig

logger = logging.getLogger(__name__)

METADATA_NAME = "ottla-metadata.db"


class Directories:
    """The paths of `log.dirs`."""

    def __init__(self, files: Files, config: "BrokerConfig", chance: random.Random | None = None) -> None:
        self._files = files
        self._chance = chance
        self._node_id = config.node_id
        self._metadata_log_dir: str | None = config.metadata_log_dir
        self.paths: list[str] = _distinct(config.log_dirs)
        self._is_store_here = not (config.zookeeper_connect or config.metadata_store_connect)
        self._store = described(config, self.metadata_path)
        self.unusable: dict[str, str] = {}
        """Directories that cannot be used, and why. The broker starts without them as long as one is left."""
        self._locks: list[DirectoryLock] = []

    @property
    def metadata_path(self) -> str:
        """Where the embedded store lies: beside the logs of the first directory; nowhere if the disk is simulated."""
        return f"{self.paths[0]}/{METADATA_NAME}" if isinstance(self._files, OsFiles) else MEMORY

    def lock(self) -> list[str]:
        """Make every directory ours; those that can be used. Raises DirectoryInUseError if another broker has one, and
        ConfigError if they cannot be used as they are."""
        usable = []
        for path in self.paths:
            try:
                self._files.make_directory(path)
                self._locks.append(DirectoryLock(self._files, path))
            except OSError as error:
                logger.error("the log directory %s cannot be used: %s", path, error)
                self.unusable[path] = str(error)
            else:
                usable.append(path)
        if not usable:
            reasons = "; ".join(f"{path}: {reason}" for path, reason in self.unusable.items())
            raise ConfigError(f"no log directory can be used: {reasons}")
        if self._is_store_here and self.paths[0] in self.unusable:
            reason = self.unusable[self.paths[0]]
            raise ConfigError(f"the first log directory holds what the cluster knows of its topics: {reason}")
        self._check_store(usable)
        return usable

    def kafka_metadata(self) -> str | None:
        """The directory in which Apache Kafka kept what its cluster knew, if there is one. Raises ConfigError if there
        are several: only one of them can be right."""
        places = _distinct([*filter(None, [self._metadata_log_dir]), *self.paths])
        found = [path for path in places if self._files.exists(f"{path}/{METADATA_DIRECTORY}")]
        if len(found) > 1:
            raise ConfigError(
                f"{' and '.join(found)} have metadata of Apache Kafka: a broker has one {METADATA_DIRECTORY}"
            )
        return found[0] if found else None

    def _check_store(self, paths: Iterable[str]) -> None:
        """A new store beside logs that somebody knew would know none of them, and hide that the old one is missing.
        What Apache Kafka knew of its logs can be taken over, once, by a broker that is a cluster of its own."""
        store, kafka = self.metadata_path, self.kafka_metadata()
        if not self._is_store_here:
            if kafka is not None:
                raise ConfigError(
                    f"{kafka} has {METADATA_DIRECTORY} of Apache Kafka, which can be taken over by a broker that is a "
                    f"cluster of its own, not by one of {self._store}. Nothing was changed"
                )
            return
        if store == MEMORY or (self._files.exists(store) and self._files.size(store) > 0):
            return
        if kafka is not None and not self._files.exists(f"{kafka}/{ADOPTED}"):
            return
        for path in paths:
            meta = read_meta(self._files, path)
            if meta is not None and meta.cluster_id is not None:
                raise ConfigError(_why_unknown(path, meta, store))

    def sign(self, cluster_id: str) -> None:
        """Write whose directories these are; raise ConfigError, and write nothing, if one is somebody else's."""
        found = {path: read_meta(self._files, path) for path in self.paths if path not in self.unusable}
        for path, meta in found.items():
            if meta is not None:
                self._check(path, meta, cluster_id)
        for path, meta in found.items():
            if meta is None:
                write_meta(self._files, path, Meta(self._node_id, cluster_id, random_id(self._chance)))

    def _check(self, path: str, meta: Meta, cluster_id: str) -> None:
        if meta.node_id not in (None, self._node_id):
            raise ConfigError(
                f"{path} belongs to broker {meta.node_id}, this one is {self._node_id}: "
                f"start it with node.id={meta.node_id}"
            )
        if meta.cluster_id not in (None, cluster_id):
            raise ConfigError(
                f"{path} belongs to cluster {meta.cluster_id}, this broker is in {cluster_id}, "
                f"as {self._store} says: choose another directory, or the metadata store of that cluster"
            )

    def release(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def stored_node_id(paths: Iterable[str], files: Files | None = None) -> int | None:
    """Whose directories these are, as far as they say: a broker that nobody gave a number has that one."""
    for path in paths:
        try:
            meta = read_meta(files or OsFiles(), path)
        except (OSError, ProtocolError):
            continue  # who opens them will say what is wrong
        if meta is not None and meta.node_id is not None:
            return meta.node_id
    return None


def _distinct(paths: Iterable[str]) -> list[str]:
    """Each directory once, however it is spelled."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def _why_unknown(path: str, meta: Meta, store: str) -> str:
    if meta.version == 0:
        return (
            f"{path} was written by Apache Kafka with ZooKeeper, which has all that is known of its topics: migrate "
            "that cluster to KRaft first. Nothing was changed"
        )
    return (
        f"{path} belongs to cluster {meta.cluster_id}, but {store}, which knows the topics of a cluster, is not "
        f"there: bring it back, or choose another directory. (One of Apache Kafka can be taken over once, with "
        f"its {METADATA_DIRECTORY}, there or in metadata.log.dir.) Nothing was changed"
    )
