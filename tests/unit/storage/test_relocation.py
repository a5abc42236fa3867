"""A log whose directory is renamed under it."""

from ottla.storage import relocation
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from tests.unit.storage.helpers import NOW, config, end_txn, put, values_of


def test_a_log_is_read_and_written_under_its_new_name(tmp_path):
    files = OsFiles()
    log = Log.open(files, f"{tmp_path}/before", config(segment_bytes=400))
    for number in range(20):
        put(log, b"%d" % number)
    put(log, b"no", producer=(7, 0, 0), is_transactional=True)
    end_txn(log, 7, commit=False)
    held = log.read(0, 1 << 20)
    (tmp_path / "before").rename(tmp_path / "after")
    relocation.renamed(log, f"{tmp_path}/after")
    assert held.read() == log.read(0, 1 << 20).read()
    for number in range(20):
        put(log, b"more %d" % number, epoch=1)
    log.advance_high_watermark(log.end_offset)
    log.advance_log_start(12)
    log.delete_old(NOW)
    log.truncate_to(40)
    expected = values_of(log)
    log.close()
    assert not (tmp_path / "before").exists()
    assert values_of(Log.open(files, f"{tmp_path}/after", config(), log_start_offset=12)) == expected


def test_files_that_gave_up_their_descriptors_are_found_again(tmp_path):
    files = OsFiles(handles_max=1)
    log = Log.open(files, f"{tmp_path}/before", config(segment_bytes=200))
    for number in range(20):
        put(log, b"%d" % number)
    held = log.read(0, 1 << 20)
    (tmp_path / "before").rename(tmp_path / "after")
    relocation.renamed(log, f"{tmp_path}/after")
    assert len(values_of(log)) == 20
    assert held.read() == log.read(0, 1 << 20).read()
    log.close()
