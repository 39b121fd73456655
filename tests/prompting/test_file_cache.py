"""What was read from files is read again when one of them has changed, and only then."""

import time
from pathlib import Path

from rookery.prompting.config_files import ConfigScan, FileCache

MUCH_LATER = 60 * 10**9
"""Nanoseconds after which every change of a file shows in its times."""


class Reader:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.reads = 0

    def __call__(self, scan: ConfigScan) -> str:
        self.reads += 1
        scan.note(str(self._file))
        return self._file.read_text() if self._file.exists() else ""


def remembered(read: Reader) -> FileCache[str]:
    return FileCache(read, now=lambda: time.time_ns() + MUCH_LATER)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path):
    (tmp_path / "a").write_text("one")
    read = Reader(tmp_path / "a")
    known = remembered(read)
    assert [known.get() for _ in range(3)] == ["one"] * 3
    assert read.reads == 1


def test_a_changed_new_or_deleted_file_is_read_again(tmp_path: Path):
    file = tmp_path / "a"
    read = Reader(file)
    known = remembered(read)
    assert known.get() == ""
    file.write_text("one")
    assert known.get() == "one"
    file.write_text("other")
    assert known.get() == "other"
    file.unlink()
    assert known.get() == ""
    assert read.reads == 4


def test_a_file_that_may_change_within_one_clock_tick_is_read_again(tmp_path: Path):
    (tmp_path / "a").write_text("one")
    read = Reader(tmp_path / "a")
    known = FileCache(read)
    known.get()
    known.get()
    assert read.reads == 2
