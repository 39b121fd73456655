import os
from pathlib import Path

import pytest

from rookery.errors import StorageError, ToolError
from rookery.storage.sessions import TaskArtifacts


def kept(artifacts: TaskArtifacts, data: bytes) -> str:
    artifact = artifacts.create()
    artifact.write(data)
    artifact.close()
    return artifact.id


def test_an_artifact_file_is_private_from_its_first_byte(tmp_path: Path):
    artifact = TaskArtifacts(tmp_path).create()
    folder = tmp_path / "command-output"
    assert not folder.exists()
    artifact.write(b"one ")
    artifact.write(b"two")
    artifact.close()
    assert (artifact.id, artifact.size) == ("cmd-1.txt", 7)
    assert (folder / "cmd-1.txt").read_bytes() == b"one two"
    assert [oct(path.stat().st_mode)[-3:] for path in (folder, folder / "cmd-1.txt")] == [
        "700",
        "600",
    ]


def test_ids_are_never_given_twice(tmp_path: Path):
    first = TaskArtifacts(tmp_path)
    assert [first.create().id, kept(first, b"x")] == ["cmd-1.txt", "cmd-2.txt"]
    assert TaskArtifacts(tmp_path).create().id == "cmd-3.txt"


def test_bytes_are_read_from_any_offset(tmp_path: Path):
    artifacts = TaskArtifacts(tmp_path)
    name = kept(artifacts, b"0123456789")
    assert artifacts.read(name, 0, 4) == (b"0123", 10)
    assert artifacts.read(name, 8, 4) == (b"89", 10)
    assert artifacts.read(name, 10, 4) == (b"", 10)


@pytest.mark.parametrize("offset", [-1, 11])
def test_an_offset_outside_the_file_is_refused(tmp_path: Path, offset: int):
    artifacts = TaskArtifacts(tmp_path)
    with pytest.raises(ToolError, match="10 bytes"):
        artifacts.read(kept(artifacts, b"0123456789"), offset, 1)


@pytest.mark.parametrize("name", ["cmd-9.txt", "../secret", "cmd-1.txt/../x", "cmd-.txt", ""])
def test_only_artifacts_can_be_read(tmp_path: Path, name: str):
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    artifacts = TaskArtifacts(tmp_path)
    kept(artifacts, b"x")
    with pytest.raises(ToolError):
        artifacts.read(name, 0, 1)
    with pytest.raises(ToolError):
        artifacts.lines(name, "x", 100)


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [("ERROR", [2, 4]), (r"^warn", [3]), ("[unclosed", [5]), ("a{99999999999}", []), ("€", [4])],
)
def test_lines_are_found_by_expression_or_else_literally(
    tmp_path: Path, pattern: str, numbers: list[int]
):
    artifacts = TaskArtifacts(tmp_path)
    name = kept(artifacts, "start\nError one\nWarn\n€ error\nan [unclosed one".encode())
    assert [number for number, _ in artifacts.lines(name, pattern, 1000)] == numbers


def test_a_search_ends_with_the_line_that_goes_beyond_what_was_asked_for(tmp_path: Path):
    artifacts = TaskArtifacts(tmp_path)
    name = kept(artifacts, b"".join(b"line %d\n" % number for number in range(100_000)))
    assert artifacts.lines(name, "line", 24) == [(1, "line 0"), (2, "line 1"), (3, "line 2")]
    assert artifacts.lines(name, "line", 1) == [(1, "line 0")]
    assert artifacts.lines(name, "99999", 1000) == [(100_000, "line 99999")]


def test_a_line_of_many_mebibytes_is_searched_at_its_beginning(tmp_path: Path):
    artifacts = TaskArtifacts(tmp_path)
    name = kept(artifacts, b"needle" + b"x" * 10_000_000 + b"\nlast needle")
    found = artifacts.lines(name, "needle", 100_000)
    assert [(number, len(line)) for number, line in found] == [(1, 4096), (2, 11)]


def test_a_search_expression_that_takes_too_long_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rookery.storage.sessions.SEARCH_SECONDS", 0.5)
    artifacts = TaskArtifacts(tmp_path)
    name = kept(artifacts, b"a" * 4000 + b"!")
    with pytest.raises(ToolError, match="simpler"):
        artifacts.lines(name, "(a+)+$", 1000)


def test_a_disk_error_is_reported(tmp_path: Path):
    (tmp_path / "command-output").write_text("in the way", encoding="utf-8")
    with pytest.raises(StorageError):
        TaskArtifacts(tmp_path).create().write(b"x")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_reported_with_the_file(tmp_path: Path):
    artifact = TaskArtifacts(tmp_path).create()
    artifact._fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(StorageError, match=r"cmd-1\.txt .No space"):
        artifact.write(b"x")
    artifact.close()
