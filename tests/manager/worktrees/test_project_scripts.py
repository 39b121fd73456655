"""What a new worktree is given: files, ports, and the project's own set-up."""

import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.manager.worktrees.create import free_block
from rookery.manager.worktrees.project_scripts import ProjectScript, run_setup, setup_script
from rookery.manager.worktrees.worktree_values import Copied, PortBlock, environment_of
from support.worktree_folders import WorktreeBench, git, put

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> WorktreeBench:
    return WorktreeBench.new(tmp_path / "project")


def test_environment_files_and_listed_ignored_files_are_copied(bench: WorktreeBench):
    put(bench.folder, {".env": b"A=1\n", ".env.local": b"B=2\n", "sub/.env": b"not at the top\n"})
    put(bench.folder, {"cache/kept.db": b"db", "cache/other": b"no", "seen.key": b"not ignored"})
    put(bench.folder, {"packages/deep/my.key": b"key"})
    (bench.folder / ".env").chmod(0o600)
    worktree = bench.made()
    heard: list[tuple[int, int]] = []
    copied = bench.desk.copy_included(worktree, lambda done, of: heard.append((done, of)))
    expected = (".env", ".env.local", "cache/kept.db", "packages/deep/my.key")
    assert copied == Copied(paths=expected)
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
    folder = Path(worktree.path)
    assert (folder / "packages/deep/my.key").read_bytes() == b"key"
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(folder / "cache")) == ["kept.db"]
    assert not (folder / "sub").exists()


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
    copied = bench.desk.copy_included(worktree)
    assert isinstance(copied, Copied)
    assert copied.paths == ()
    assert copied.skipped == (".env", ".env.link", ".env.pipe", "way/x.key")
    assert (folder / ".env").read_bytes() == b"worktree's\n"
    assert os.listdir(tmp_path / "outside") == []


def test_tracked_files_are_not_copied_over_the_branchs_own(bench: WorktreeBench):
    put(bench.folder, {".env": b"tracked\n"})
    git(bench.folder, "add", "-f", ".env")
    git(bench.folder, "commit", "-q", "-m", "env")
    put(bench.folder, {".env": b"changed\n"})
    worktree = bench.made()
    assert bench.desk.copy_included(worktree) == Copied(paths=())
    assert (Path(worktree.path) / ".env").read_bytes() == b"tracked\n"


def test_each_worktree_has_ports_of_its_own(bench: WorktreeBench):
    made = [bench.made(name) for name in ("one", "two", "three")]
    blocks = [each.ports for each in made]
    assert all(blocks)
    ports = [port for block in blocks if block for port in block.ports]
    assert len(set(ports)) == 30
    assert all(20_000 <= port < 32_000 for port in ports)


def test_a_block_that_somebody_listens_in_is_not_given_out():
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


async def test_the_set_up_script_runs_in_the_worktree_and_is_heard_live(bench: WorktreeBench):
    worktree = replace(bench.made(), ports=PortBlock(first=20_010))
    script = written(bench, 'pwd; echo "$REPO_PATH $WORKTREE_PORT"; echo oops >&2; touch made\n')
    heard: list[str] = []
    run = await run_setup(
        script, worktree, bench.folder, approved=script.digest, heard=heard.append
    )
    assert run.trouble == ""
    assert run.output == f"{worktree.path}\n{bench.folder} 20010\noops\n"
    assert "".join(heard) == run.output
    assert (Path(worktree.path) / "made").exists()


async def test_a_script_that_fails_is_told_and_no_more(bench: WorktreeBench):
    script = written(bench, "echo before\nexit 3\n")
    worktree = bench.made()
    run = await run_setup(
        script, worktree, bench.folder, approved=script.digest, heard=lambda _: None
    )
    assert run.output == "before\n"
    assert run.trouble == "The set-up script ended with status 3."


async def test_a_script_that_takes_too_long_is_ended_with_all_it_started(bench: WorktreeBench):
    script = written(bench, "echo begun; sleep 600 & echo $! >pid; wait\n")
    worktree = bench.made()
    run = await run_setup(
        script, worktree, bench.folder, approved=script.digest, heard=lambda _: None, seconds=3.0
    )
    assert run.trouble == "The set-up script was stopped after 3 s."
    assert run.output == "begun\n"
    pid = int((Path(worktree.path) / "pid").read_text())
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_script_that_was_changed_since_it_was_agreed_to_is_not_run(
    bench: WorktreeBench,
):
    agreed = written(bench, "true\n")
    changed = written(bench, "touch sprung\n")
    worktree = bench.made()
    run = await run_setup(
        changed, worktree, bench.folder, approved=agreed.digest, heard=lambda _: None
    )
    assert "You have not agreed to" in run.trouble
    assert not (Path(worktree.path) / "sprung").exists()


async def test_the_script_gets_no_keys(bench: WorktreeBench):
    script = written(bench, "env\n")
    worktree = bench.made()
    run = await run_setup(
        script,
        worktree,
        bench.folder,
        approved=script.digest,
        heard=lambda _: None,
        environ={"PATH": os.defpath, "SOME_API_KEY": "xyzzy", "HOME": "/nowhere"},
    )
    assert "xyzzy" not in run.output
    assert "HOME=/nowhere" in run.output


def test_a_script_that_is_a_link_or_too_large_is_none(bench: WorktreeBench):
    assert setup_script(bench.folder) is None
    put(bench.folder, {".roo/other": b"true\n"})
    (bench.folder / ".roo/setup-script").symlink_to("other")
    assert setup_script(bench.folder) is None
    put(bench.folder, {".roo/setup-script.sh": b"#" * 200_000})
    assert setup_script(bench.folder) is None


def test_sessions_are_told_where_they_are(bench: WorktreeBench):
    worktree = replace(bench.made(), ports=PortBlock(first=20_010))
    assert environment_of(worktree, "/project") == {
        "WORKTREE_PATH": worktree.path,
        "REPO_PATH": "/project",
        "WORKTREE_PORT": "20010",
        "WORKTREE_PORTS": "10",
    }
