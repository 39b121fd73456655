"""No content of a worktree is lost, wherever rookery is killed.

The usual run is short; ROOKERY_TORTURE=1 makes it long.
"""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.manager.worktrees.remove import clear
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import (
    Finished,
    RecoveredWork,
    Removed,
    Worktree,
)
from support import worktree_folders
from support.chance import new_seed
from support.warm_programs import run_program, start_program
from support.worktree_folders import WorktreeBench, git, put, result

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
EXAMPLES = 300 if TORTURE else 3
KILLS = 50 if TORTURE else 1

NAMES = ("a.txt", "b.txt", "crlf.txt", "run.sh", "src/deep/c.py", "picture.bin")
NEW = (
    "new.txt",
    "x.log",
    ".env",
    ".env.local",
    "cache/kept.db",
    "deep/er/secret.key",
    'odd "name"\n\\x',
    "-dash",
    "caf\u00e9",
    "\udcff\udcfe",
    "src/deep",
    "a.txt/inside",
    ".gitignore",
    ".gitattributes",
    "CON:x",
)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES + NEW), st.binary(max_size=40)),
    st.tuples(st.just("stage"), st.sampled_from(NAMES + NEW), st.just(b"")),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(b"")),
    st.tuples(st.just("link"), st.sampled_from(NEW), st.just(b"/nowhere/else")),
    st.tuples(st.just("overlook"), st.sampled_from(NAMES), st.just(b"")),
    st.tuples(st.just("commit"), st.just(""), st.just(b"")),
    st.tuples(st.just("mode"), st.sampled_from(NAMES), st.just(b"")),
)


def take(folder: Path, step: tuple[str, str, bytes]) -> None:
    """One random step of work; impossible steps are skipped."""
    what, name, data = step
    path = folder / name
    try:
        match what:
            case "write":
                if any(each.is_file() for each in path.parents):
                    next(each for each in path.parents if each.is_file()).unlink()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            case "stage":
                git(folder, "add", "-f", "--", name)
            case "delete":
                path.unlink()
            case "link":
                path.symlink_to(os.fsdecode(data))
            case "overlook":
                git(folder, "update-index", "--assume-unchanged", name)
            case "commit":
                git(folder, "commit", "-q", "-m", "step")
            case "mode":
                path.chmod(0o755)
    except (OSError, subprocess.CalledProcessError):
        return


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=not TORTURE)
def test_after_any_work_a_removal_loses_no_byte(steps: list[tuple[str, str, bytes]]):
    with tempfile.TemporaryDirectory() as folder:
        bench = WorktreeBench.new(Path(folder) / "project")
        worktree = bench.begun()
        put(bench.folder, {".env": b"", "cache/kept.db": b"project's"})
        for step in steps:
            take(Path(worktree.path), step)
        treasure = bench.treasure(Path(worktree.path))
        removed = result(Removed, bench.handler.remove(bench.planned(worktree)))
        clear(removed)
        git(bench.folder, "gc", "-q", "--prune=now")
        assert treasure - bench.held() == set()


@given(st.lists(STEPS, max_size=8))
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=not TORTURE)
def test_after_any_work_finishing_and_applying_lose_no_byte(steps: list[tuple[str, str, bytes]]):
    with tempfile.TemporaryDirectory() as folder:
        bench = WorktreeBench.new(Path(folder) / "project")
        worktree = bench.begun()
        for at, step in enumerate(steps):
            take(Path(worktree.path) if at % 3 else bench.folder, step)
        treasure = bench.treasure(Path(worktree.path)) | bench.treasure(bench.folder)
        bench.handler.apply(worktree)
        lost = treasure - bench.held() - bench.treasure(bench.folder)
        assert lost == set()
        finished = bench.handler.finish(worktree)
        assert isinstance(finished, Finished | InTheWay)
        bench.handler.apply(worktree)
        bench.handler.merge(worktree)
        assert treasure - bench.held() - bench.treasure(bench.folder) == set()


def at_work(bench: WorktreeBench) -> Worktree:
    """Work of every kind in the worktree, and some in the project."""
    put(bench.folder, {".env": b"KEY=project\n", "cache/kept.db": b"project's\n"})
    worktree = bench.made()
    folder = Path(worktree.path)
    bench.handler.copy_included(worktree)
    put(folder, {"b.txt": b"staged\n"})
    git(folder, "add", "b.txt")
    put(folder, {"b.txt": b"after\n", "a.txt": b"1\none\ntwo\nthree\nfour\nfive\n", "new": b"n\n"})
    put(folder, {".env": b"KEY=changed\n", "x.log": b"log\n", "crlf.txt": b"a\r\nb\r\n"})
    put(bench.folder, {"a.txt": b"one\ntwo\nthree\nfour\nfive\nlocal\n"})
    return worktree


def committed(bench: WorktreeBench) -> Worktree:
    worktree = bench.made()
    put(Path(worktree.path), {"a.txt": b"done\n", "new": b"n\n"})
    assert isinstance(bench.handler.finish(worktree), Finished)
    put(bench.folder, {"b.txt": b"meanwhile\n"})
    git(bench.folder, "commit", "-q", "-am", "meanwhile")
    return worktree


def gone(bench: WorktreeBench) -> Worktree:
    """Delete the folder and its files; git still has the staged content."""
    worktree = at_work(bench)
    Path(worktree.path).rename(bench.folder / ".git" / "elsewhere")
    return worktree


ONE_OPERATION = """
import sys
from support import worktree_folders
worktree_folders.main(*sys.argv[1:])
"""
POINTS = [
    ("remove", at_work, "worktree.renamed"),
    ("remove", at_work, "worktree.kept"),
    ("remove", at_work, "worktree.deleting"),
    ("remove", at_work, "worktree.pruned"),
    ("drop", committed, "worktree.branch"),
    ("finish", at_work, "worktree.kept"),
    ("finish", at_work, "worktree.staged"),
    ("finish", at_work, "worktree.committed"),
    ("apply", at_work, "worktree.kept"),
    ("apply", at_work, "worktree.applying"),
    ("apply", at_work, "worktree.applied"),
    ("merge", committed, "worktree.merging"),
    ("merge", committed, "worktree.merged"),
    ("resume", gone, "worktree.kept"),
    ("resume", gone, "worktree.dismissing"),
    ("create", at_work, "worktree.made"),
    ("create", at_work, "worktree.noted"),
]


@pytest.mark.parametrize(
    ("operation", "begin", "point"), POINTS, ids=[f"{each[0]} {each[2]}" for each in POINTS]
)
def test_killed_at_any_point_nothing_is_lost_and_the_next_start_continues(
    bench: WorktreeBench, operation: str, begin: Callable[[WorktreeBench], Worktree], point: str
):
    bench.begun(begin)
    treasure = bench.treasure(bench.folder) | bench.held()
    treasure = {each for each in treasure if not each[0].startswith(".roo")}
    name = "another" if operation == "create" else "agent-work"
    died = run_program(ONE_OPERATION, operation, str(bench.folder), name, ROOKERY_KILLPOINT=point)
    assert died.returncode == -9, died
    assert treasure - bench.held() - bench.treasure(bench.folder) == set()
    recovered = result(RecoveredWork, bench.handler.recover())
    assert recovered.trouble == ()
    assert treasure - bench.held() - bench.treasure(bench.folder) == set()
    assert not [each for each in bench.place.iterdir() if each.name.startswith(".")]
    again = bench.made("afterwards")
    assert Path(again.path).is_dir()


def works_in_group(group: int) -> bool:
    """Whether a killed git process of the group is still alive."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group, *_ = stat.read_bytes().rpartition(b")")[2].split()
            if int(its_group) == group and state not in b"ZX":
                return True
    return False


@pytest.mark.parametrize("operation", ["remove", "finish", "apply", "resume"])
def test_killed_with_all_its_gits_at_any_instant_nothing_is_lost(tmp_path: Path, operation: str):
    chance = random.Random(new_seed())
    for at in range(KILLS):
        bench = WorktreeBench.new(tmp_path / f"project{at}")
        bench.begun(gone if operation == "resume" else at_work)
        treasure = bench.treasure(bench.folder) | bench.held()
        process = start_program(ONE_OPERATION, operation, str(bench.folder), "agent-work")
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, 0.4))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while works_in_group(process.pid):
            time.sleep(0.01)
        assert treasure - bench.held() - bench.treasure(bench.folder) == set()
        result(RecoveredWork, bench.handler.recover())
        assert treasure - bench.held() - bench.treasure(bench.folder) == set()


def test_every_point_is_known():
    """So that a new kill point does not go untested."""
    source = Path(worktree_folders.__file__).parents[2] / "src/rookery/manager/worktrees"
    said = "".join(path.read_text(encoding="utf-8") for path in source.glob("*.py"))
    known = {each.split('"')[1] for each in said.split("faults.kp(")[1:]}
    assert known == {point for _, _, point in POINTS}
