import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.platform.disk import put


def test_a_written_file_is_complete_and_private_and_leaves_no_temporary_file(tmp_path: Path):
    file = tmp_path / "file"
    for words in (b"old", b"new"):
        put(file, [words, b"!"])
    assert file.read_bytes() == b"new!"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_in_the_way_is_reported_and_nothing_unfinished_is_left(tmp_path: Path):
    folder = tmp_path / "file"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        put(folder, [b"new"])
    assert list(tmp_path.iterdir()) == [folder]


def test_an_interrupted_write_leaves_only_the_old_file(tmp_path: Path):
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    file = tmp_path / "file"
    put(file, [b"old"])
    with pytest.raises(KeyboardInterrupt):
        put(file, pieces())
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
