"""The quarantine keeps what it is given, once, and nothing takes its place."""

from pathlib import Path

from ottla.core.ids import PartitionDirectory
from ottla.storage.files import OsFiles
from ottla.storage.inspection.quarantine import Quarantine
from ottla.testing.disk import SimDisk
from tests.unit.storage.inspection.logs import write


def test_the_same_bytes_are_kept_once_and_others_get_another_name():
    disk = SimDisk()
    disk.make_directory("d")
    quarantine = Quarantine(disk, "d")
    write(disk, "d/a.log", b"0123456789")
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/orders-0.a.log.2-5.quarantine"
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/orders-0.a.log.2-5.quarantine"
    write(disk, "d/a.log", b"abcdefghij")
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/orders-0.a.log.2-5.1.quarantine"
    assert quarantine.keep("d/a.log") == "d/a.log.quarantine"
    assert disk.read("d/orders-0.a.log.2-5.quarantine") == b"234"
    assert disk.read("d/orders-0.a.log.2-5.1.quarantine") == b"cde"


def test_the_longest_names_fit_and_none_is_taken_for_a_partition(tmp_path):
    topic = "t" * 249
    log = tmp_path / f"{2**62:020d}.timeindex"
    log.write_bytes(b"0123456789")
    quarantine = Quarantine(OsFiles(), str(tmp_path))
    kept = [quarantine.keep(str(log), f"{topic}-{2**31 - 1}", 0, end) for end in (5, 10)]
    kept += [quarantine.keep(str(log), owner) for owner in ("orders-0", "copy")]
    assert len(set(kept)) == 4
    assert not any(PartitionDirectory.parse(Path(path).name) for path in kept)
