"""The quarantine keeps what it is given, once, and nothing takes its place."""

from ottla.storage.inspection.quarantine import Quarantine
from ottla.testing.disk import SimDisk
from tests.unit.storage.inspection.logs import write


def test_the_same_bytes_are_kept_once_and_others_get_another_name():
    disk = SimDisk()
    disk.make_directory("d")
    quarantine = Quarantine(disk, "d/quarantine")
    write(disk, "d/a.log", b"0123456789")
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/quarantine/orders-0/a.log.2-5"
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/quarantine/orders-0/a.log.2-5"
    write(disk, "d/a.log", b"abcdefghij")
    assert quarantine.keep("d/a.log", "orders-0", 2, 5) == "d/quarantine/orders-0/a.log.2-5.1"
    assert quarantine.keep("d/a.log") == "d/quarantine/a.log"
    assert [disk.read(f"d/quarantine/{name}") for name in ("orders-0/a.log.2-5", "orders-0/a.log.2-5.1")] == [
        b"234",
        b"cde",
    ]
