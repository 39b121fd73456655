"""Disks that are full, and homes that cannot be used: one sentence, and nothing is lost."""

import errno
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rookery.core.facts import CheckpointSaved, FilesChanged, Noted
from rookery.storage.verify import verify
from support.command_server import CommandServer, Ended
from support.twelve_turns import (
    BEFORE,
    EFFECTS,
    Playground,
    Record,
    check_settled,
    check_undone,
    compare,
    record,
)

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
FULL = os.strerror(errno.ENOSPC)
PAGES_LEFT = range(1, 9) if TORTURE else (1, 2, 8)
"""Too few to begin with, and to go on with when there is much to do and when there is less."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mounts a file system of 256 KiB on a folder."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("a file system can be mounted only by root")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Ballast that leaves only some pages of the disk free."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail - leave
    ballast.write_bytes(bytes(free * os.statvfs(disk).f_bsize))
    return ballast


def error_of(ended: Ended) -> str:
    """The error line: the last one before the advice how to continue."""
    assert ended.code == 9, ended.err
    assert "Traceback" not in ended.err
    return [line for line in ended.err.splitlines() if not line.startswith("Continue with: ")][-1]


# ── a full home ─────────────────────────────────────────────────────────────────────────


def test_a_session_on_a_full_disk_stops_and_resumes_once_there_is_space(
    small_disk: Callable[[Path], Path], server: CommandServer, whole: Record, tmp_path: Path
):
    stopped = 0
    for pages in PAGES_LEFT:
        ground = Playground(tmp_path / str(pages))
        ballast = fill(small_disk(ground.home), leave=pages)
        ended = ground.run(server, ground.first)
        if ended.code == 0:
            break
        assert FULL in error_of(ended)
        at_death = record(ground)
        ballast.unlink()
        if not ground.begun:
            continue
        stopped += 1
        assert re.search("Free some space|Make room", error_of(ended))
        assert verify(ground.task) == []
        ended = ground.run(server, ground.latest)
        assert (ended.code, ended.left) == (0, False), ended.err
        compare(record(ground, ended.out), [at_death], whole)
        assert verify(ground.task) == []
    assert stopped > 1, "the disk was never full at the right time"


@pytest.mark.parametrize("size", range(700, 21_000, 1_500) if TORTURE else (15_700,))
def test_a_journal_at_the_file_size_limit_stays_intact(
    size: int, server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    reported = error_of(ground.run(server, ground.first, largest_file=size))
    assert os.strerror(errno.EFBIG) in reported
    assert reported.startswith("The session's journal could not be written")
    assert reported.endswith("kept. Free some space, then continue with --continue.")
    assert verify(ground.task) == []
    at_death = record(ground)
    assert at_death.kinds == whole.kinds[: len(at_death.kinds)]
    ended = ground.run(server, ground.latest)
    assert (ended.code, ended.left) == (0, False), ended.err
    after = record(ground, ended.out)
    compare(after, [at_death], whole)
    check_settled(ground, after)
    check_undone(ground, server)


def test_stream_json_reports_a_full_disk(server: CommandServer, tmp_path: Path):
    ground = Playground(tmp_path / "run")
    arguments = ["--output-format", "stream-json", *ground.first]
    ended = ground.run(server, arguments, largest_file=15_000)
    assert ended.code == 9
    error, result = map(json.loads, ended.out.splitlines()[-2:])
    assert (error["type"], error["code"]) == ("error", "storage_failed")
    assert "Free some space" in error["content"]
    assert (result["type"], result["success"]) == ("result", False)


# ── a full workspace ────────────────────────────────────────────────────────────────────


def test_an_edit_in_a_full_workspace_fails_and_the_session_continues(
    small_disk: Callable[[Path], Path], server: CommandServer, tmp_path: Path
):
    disk = small_disk(tmp_path / "run" / "work")
    ground = Playground(tmp_path / "run")
    fill(disk)
    ended = ground.run(server, ground.first)
    assert ended.code == 0, ended.err
    after = record(ground, ended.out)
    assert {name: data for name, data in after.files.items() if data} == {
        **BEFORE,
        "ballast": after.files["ballast"],
    }
    for call_id in ("call_3_1", "call_4_1", "call_5_1", "call_6_1"):
        reported = after.result_of(call_id)
        assert reported.is_error
        assert f"{EFFECTS[call_id]} was not written: its file system is full." in reported.text
    assert verify(ground.task) == []


# ── no room, or no place, for checkpoints ───────────────────────────────────────────────


def unwritable(folder: Path) -> Path:
    folder.mkdir(parents=True)
    folder.chmod(0o500)
    return folder


def a_file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    return path


NO_CHECKPOINTS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a file": (a_file, os.strerror(errno.ENOTDIR)),
}
if TORTURE:
    NO_CHECKPOINTS["a folder that cannot be written"] = unwritable, os.strerror(errno.EACCES)


@pytest.mark.parametrize(("make", "why"), NO_CHECKPOINTS.values(), ids=NO_CHECKPOINTS)
def test_a_session_continues_without_checkpoints_and_reports_it_once(
    make: Callable[[Path], Path], why: str, server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    make(ground.checkpoints)
    demand_reported_once(ground, server, whole, why)


def test_a_session_continues_without_space_for_checkpoints(
    small_disk: Callable[[Path], Path], server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    fill(small_disk(ground.checkpoints))
    demand_reported_once(ground, server, whole, FULL)


def demand_reported_once(
    ground: Playground, server: CommandServer, whole: Record, why: str
) -> None:
    ended = ground.run(server, ground.first)
    assert ended.code == 0, ended.err
    after = record(ground, ended.out)
    compare(after, [], whole)
    [note] = [event.fact.text for event in after.events if isinstance(event.fact, Noted)]
    assert note.startswith("No checkpoint was made, so this cannot be undone: ")
    assert why.lower() in note.lower()
    assert ended.err.count(note) == 1
    assert not [e for e in after.events if isinstance(e.fact, CheckpointSaved | FilesChanged)]
    assert verify(ground.task) == []
    ended = ground.run(server, ground.to_the_beginning)
    assert ended.code == 1
    assert ended.err.startswith("The files cannot be restored. ")
    assert ground.files() == after.files


def test_checkpoints_undo_known_changes_once_there_is_space_again(
    small_disk: Callable[[Path], Path], server: CommandServer, whole: Record, tmp_path: Path
):
    """The task is killed, resumes on a full disk, and then there is room again."""
    ground = Playground(tmp_path / "run")
    disk = small_disk(ground.checkpoints)
    ground.run(server, ground.first, ROOKERY_KILLPOINT="tool.performed:4")
    at_death = record(ground)
    ballast = fill(disk)
    ended = ground.run(server, ground.again)
    assert ended.code == 0, ended.err
    compare(record(ground, ended.out), [at_death], whole)
    ballast.unlink()
    ended = ground.run(server, ground.to_the_beginning)
    assert ended.code == 0, ended.err
    unknown = {EFFECTS[call] for call in EFFECTS if call not in ("call_3_1", "call_4_1")}
    taken_back = {path: data for path, data in ground.files().items() if path not in unknown}
    assert taken_back == {path: BEFORE[path] for path in BEFORE if path not in unknown}
    assert verify(ground.task) == []


# ── a home that cannot be used ──────────────────────────────────────────────────────────


HOMES: dict[str, Callable[[Path], Path]] = {
    "a folder that cannot be written": unwritable,
    "below a folder that cannot be written": lambda path: unwritable(path) / "deeper",
    "a file": a_file,
    "below a file": lambda path: a_file(path) / "deeper",
}


@pytest.mark.parametrize("make", HOMES.values(), ids=HOMES)
def test_an_unusable_home_is_reported_with_a_remedy(
    make: Callable[[Path], Path], server: CommandServer, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    home = str(make(tmp_path / "home"))
    reported = error_of(ground.run(server, ground.first, ROOKERY_HOME=home))
    assert home in reported
    assert "ROOKERY_HOME" in reported
    assert "--ephemeral" in reported
    assert ground.files() == BEFORE


NOT_NEEDED = HOMES if TORTURE else {name: HOMES[name] for name in list(HOMES)[3:]}


@pytest.mark.parametrize("make", NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_an_ephemeral_run_needs_no_home_and_leaves_nothing(
    make: Callable[[Path], Path], server: CommandServer, whole: Record, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = str(make(tmp_path / "home"))
    ended = ground.run(
        server, ["--ephemeral", *ground.first], ROOKERY_HOME=home, TMPDIR=str(temporary)
    )
    assert (ended.code, ended.out) == (0, whole.out), ended.err
    assert ground.files().keys() == whole.files.keys()
    assert list(temporary.iterdir()) == []
    assert not ground.home.exists()
