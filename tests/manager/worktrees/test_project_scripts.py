"""What a new worktree gets: files, ports and the project's set-up script."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.manager.worktrees.create import free_block
from rookery.manager.worktrees.project_scripts import (
    ProjectScript,
    run_setup,
    setup_script,
)
from rookery.platform.worktree_values import PortBlock, Worktree
from support.worktree_folders import WorktreeBench, git, put

pytestmark = pytest.mark.anyio


def test_environment_files_and_listed_ignored_files_are_copied(bench: WorktreeBench):
    put(bench.folder, {".env": b"A=1\n", ".env.local": b"B=2\n", "sub/.env": b"not at the top\n"})
    put(bench.folder, {"cache/kept.db": b"db", "cache/other": b"no", "seen.key": b"not ignored"})
    put(bench.folder, {"packages/deep/my.key": b"key", ".env.shared": b"tracked\n"})
    git(bench.folder, "add", "-f", ".env.shared")
    git(bench.folder, "commit", "-q", "-m", "env")
    put(bench.folder, {".env.shared": b"changed\n"})
    (bench.folder / ".env").chmod(0o600)
    worktree = bench.made()
    copied = bench.handler.copy_included(worktree)
    assert copied == [".env", ".env.local", "cache/kept.db", "packages/deep/my.key"]
    folder = Path(worktree.path)
    assert (folder / "packages/deep/my.key").read_bytes() == b"key"
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(folder / "cache")) == ["kept.db"]
    assert not (folder / "sub").exists()
    assert (folder / ".env.shared").read_bytes() == b"tracked\n", "the branch has its own file"


def test_nothing_is_overwritten_and_no_link_is_followed(bench: WorktreeBench, tmp_path: Path):
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "outside").mkdir()
    put(
        bench.folder, {".env": b"project's\n", "way/x.key": b"key", ".gitignore": b"*.key\n.env*\n"}
    )
    (bench.folder / ".env.link").symlink_to(tmp_path / "secret")
    os.mkfifo(bench.folder / ".env.pipe")
    worktree = bench.made()
    folder = Path(worktree.path)
    put(folder, {".env": b"worktree's\n"})
    (folder / "way").symlink_to(tmp_path / "outside")
    assert bench.handler.copy_included(worktree) == []
    assert not {".env.link", ".env.pipe"} & {*os.listdir(folder)}
    assert (folder / ".env").read_bytes() == b"worktree's\n"
    assert os.listdir(tmp_path / "outside") == []


def test_a_block_with_a_used_port_is_not_given_out():
    first = free_block("/a/place", ())
    assert first
    with socket.create_server(("127.0.0.1", first.first + 4)):
        other = free_block("/a/place", ())
    assert other
    assert other != first
    assert free_block("/a/place", ()) == first
    assert free_block("/a/place", [first]) != first


def written(bench: WorktreeBench, text: str) -> ProjectScript:
    put(bench.folder, {".roo/setup-script": text.encode()})
    script = setup_script(bench.folder)
    assert script
    return script


async def run(bench: WorktreeBench, worktree: Worktree, text: str, **more: Any) -> tuple[str, str]:
    """The output as it arrived, and what went wrong."""
    script, received = written(bench, text), list[str]()
    given = {"approved": script.digest, "on_output": received.append, **more}
    trouble = await run_setup(script, worktree, bench.folder, **given)
    return "".join(received), trouble


async def test_the_setup_script_runs_in_the_worktree_with_live_output(bench: WorktreeBench):
    worktree = replace(bench.begun(), ports=PortBlock(first=20_010))
    named = "$REPO_PATH $WORKTREE_PATH $WORKTREE_PORT $WORKTREE_PORTS"
    text = f'pwd; echo "{named}"; echo oops >&2; touch made\n'
    done = await run(bench, worktree, text)
    assert done == (f"{worktree.path}\n{bench.folder} {worktree.path} 20010 10\noops\n", "")
    assert (Path(worktree.path) / "made").exists()
    failed = await run(bench, worktree, "echo before\nexit 3\n")
    assert failed == ("before\n", "The set-up script ended with status 3.")
    _, changed = await run(bench, worktree, "touch sprung\n", approved="that of another text")
    assert "You have not agreed to" in changed
    assert not (Path(worktree.path) / "sprung").exists()
    environ = {"PATH": os.defpath, "SOME_API_KEY": "xyzzy", "HOME": "/nowhere"}
    said, _ = await run(bench, worktree, "env\n", environ=environ)
    assert ("xyzzy" in said, "HOME=/nowhere" in said) == (False, True), "the script gets no keys"


async def test_a_slow_script_is_ended_with_its_children(bench: WorktreeBench):
    worktree = bench.begun()
    text = "echo begun; sleep 600 & echo $! >pid; wait\n"
    ended = await run(bench, worktree, text, seconds=1.0)
    assert ended == ("begun\n", "The set-up script was stopped after 1 s.")
    assert not _runs(int((Path(worktree.path) / "pid").read_text()))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_linked_or_large_script_is_ignored(bench: WorktreeBench):
    assert setup_script(bench.folder) is None
    put(bench.folder, {".roo/other": b"true\n"})
    (bench.folder / ".roo/setup-script").symlink_to("other")
    assert setup_script(bench.folder) is None
    put(bench.folder, {".roo/setup-script.sh": b"#" * 200_000})
    assert setup_script(bench.folder) is None
