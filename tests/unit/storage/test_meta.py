"""`meta.properties`: both versions, read and written."""

import uuid

import pytest

from ottla.core.errors import ProtocolError
from ottla.storage.files import write_whole
from ottla.storage.meta import Meta, read_meta, write_meta
from ottla.testing.disk import SimDisk

DIRECTORY_ID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("d")
    return disk


def test_version_one_names_node_cluster_and_directory(disk):
    meta = Meta(3, "vPeOCWypqUOSepEvx0cbog", DIRECTORY_ID)
    write_meta(disk, "d", meta)
    assert disk.read("d/meta.properties").decode().splitlines() == [
        "version=1",
        "cluster.id=vPeOCWypqUOSepEvx0cbog",
        "node.id=3",
        "directory.id=-B1Prn3sEdCnZQCgyR5r9g",
    ]
    assert read_meta(disk, "d") == meta


def test_version_zero_names_the_broker(disk):
    meta = Meta(3, "abc", None, version=0)
    write_meta(disk, "d", meta)
    assert b"broker.id=3\n" in disk.read("d/meta.properties")
    assert read_meta(disk, "d") == meta


def test_what_kafka_writes_is_read(disk):
    text = b"#\n#Thu Nov 07 10:00:00 UTC 2024\nbroker.id=0\nversion=0\ncluster.id=jR_7x\n"
    write_whole(disk, "d/meta.properties", text)
    assert read_meta(disk, "d") == Meta(0, "jR_7x", None, version=0)


def test_a_directory_that_nobody_has_used_has_no_meta(disk):
    assert read_meta(disk, "d") is None


def test_all_but_the_version_may_be_missing(disk):
    write_whole(disk, "d/meta.properties", b"version=1\n")
    assert read_meta(disk, "d") == Meta(None, None)
    write_meta(disk, "d", Meta(None, None))
    assert read_meta(disk, "d") == Meta(None, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"node.id=1\n",
        b"version=2\n",
        b"version=x\n",
        b"version=\n",
        b"version=1\nnode.id=one\n",
        b"version=1\ndirectory.id=short\n",
        b"version=1\ncluster.id=\\u12\n",
        b"version=1\n\xff",
        b"version=" + b"1" * 5000,
    ],
)
def test_what_makes_no_sense_is_a_protocol_error_that_names_the_file(disk, content):
    write_whole(disk, "d/meta.properties", content)
    with pytest.raises(ProtocolError, match=r"meta\.properties"):
        read_meta(disk, "d")
