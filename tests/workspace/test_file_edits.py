"""Several file changes are applied together or not at all."""

import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from rookery.core.facts import Change
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied, ToolError
from rookery.workspace.file_edits import FileEdit, make
from support.access_lists import restrict, still_restricted
from support.warm_programs import run_program
from support.workspace_folder import Workbench

pytestmark = pytest.mark.anyio

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    root = tmp_path / "work"
    root.mkdir()
    return Workbench(root)


def digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def edit(path: str, before: bytes | None, after: bytes | None) -> tuple[Change, bytes | None]:
    return Change(path=path, before=digest(before), after=digest(after)), after


async def apply(bench: Workbench, *edits: tuple[Change, bytes | None]) -> None:
    await bench.files.apply(edits, Permit("", changes=frozenset(change for change, _ in edits)))


def tree(root: Path) -> dict[str, bytes | None]:
    """All files with their content; folders map to None."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


async def test_files_are_replaced_created_and_removed_together(bench: Workbench):
    bench.put("a.txt", "a").chmod(0o640)
    bench.put("old/b.txt", "b")
    await apply(
        bench,
        edit("a.txt", b"a", b"A"),
        edit("old/b.txt", b"b", None),
        edit("new/deep/b.txt", None, b"b"),
    )
    assert tree(bench.root) == {
        "a.txt": b"A",
        "old": None,
        "new": None,
        "new/deep": None,
        "new/deep/b.txt": b"b",
    }
    assert (bench.root / "a.txt").stat().st_mode & 0o777 == 0o640


async def test_access_rights_of_a_file_are_kept(bench: Workbench):
    file = restrict(bench.put("a.txt", "a"))
    await apply(bench, edit("a.txt", b"a", b"A"), edit("b.txt", None, b"B"))
    assert still_restricted(file)


async def test_a_changed_program_loses_its_setuid_bit(bench: Workbench):
    bench.put("run", "a").chmod(0o6755)
    await apply(bench, edit("run", b"a", b"A"))
    assert (bench.root / "run").stat().st_mode & 0o7777 == 0o755


FAILING = {
    "changed": (edit("c.txt", b"other", b"C"), "changed on disk"),
    "created": (edit("c.txt", None, b"C"), "created by another program"),
    "gone": (edit("gone.txt", b"c", b"C"), "no longer exists"),
    "gone before its removal": (edit("gone.txt", b"c", None), "no longer exists"),
    "removal of another": (edit("c.txt", b"other", None), "changed on disk"),
    "read-only": (edit("locked.txt", b"l", b"L"), "read-only"),
    "closed folder": (edit("closed/c.txt", b"c", b"C"), "permission is denied"),
    "removal in it": (edit("closed/c.txt", b"c", None), "permission is denied"),
    "name too long": (edit(f"new/{'x' * 300}", None, b"C"), "too long"),
    "file for a folder": (edit("c.txt/d.txt", None, b"C"), "not a folder"),
}


async def test_one_failing_edit_leaves_all_files_unchanged(bench: Workbench):
    for name, text in {"a.txt": "a", "b.txt": "b", "c.txt": "c", "closed/c.txt": "c"}.items():
        bench.put(name, text)
    bench.put("locked.txt", "l").chmod(0o400)
    (bench.root / "closed").chmod(0o500)
    before = tree(bench.root)
    inodes = {path: path.stat().st_ino for path in bench.root.rglob("*")}
    good = [edit("a.txt", b"a", b"A"), edit("b.txt", b"b", None), edit("fresh/d.txt", None, b"D")]
    for name, (failing, words) in FAILING.items():
        for place in (0, 1, 3):
            with pytest.raises(ToolError, match=words):
                await apply(bench, *good[:place], failing, *good[place:])
            assert tree(bench.root) == before, (name, place)
            now = {path: path.stat().st_ino for path in bench.root.rglob("*")}
            assert now == inodes, (name, place)


def test_a_failure_in_the_middle_is_rolled_back(bench: Workbench):
    """The checks before cannot see it: the folder accepts the first file."""
    bench.put("a.txt", "a")
    bench.put("b.txt", "b")
    long = "n" * 250  # valid itself, but too long for a temporary name derived from it
    before = tree(bench.root)
    with pytest.raises(ToolError, match="created by another program"):
        make(
            [
                _edit(bench, "a.txt", b"a", b"A"),
                _edit(bench, "b.txt", b"b", None),
                _edit(bench, f"new/{long}", None, b"1"),
                _edit(bench, f"new/{long}", None, b"2"),
            ]
        )
    assert tree(bench.root) == before


def _edit(bench: Workbench, path: str, before: bytes | None, after: bytes | None) -> FileEdit:
    change, data = edit(path, before, after)
    return FileEdit(change, data, bench.root, tuple(path.split("/")))


async def test_every_change_needs_its_permit_and_its_exact_content(bench: Workbench):
    bench.put("a.txt", "a")
    wanted = [edit("a.txt", b"a", b"A"), edit("b.txt", None, b"B")]
    with pytest.raises(Denied, match=r"This change of b\.txt was not permitted"):
        await bench.files.apply(wanted, Permit("", changes=frozenset([wanted[0][0]])))
    swapped = [(wanted[0][0], None), wanted[1]]
    with pytest.raises(Denied, match="not what was permitted"):
        await apply(bench, *swapped)
    assert tree(bench.root) == {"a.txt": b"a"}


async def test_one_file_cannot_be_changed_twice_together(bench: Workbench):
    bench.put("a.txt", "a")
    with pytest.raises(ToolError, match="twice"):
        await apply(bench, edit("a.txt", b"a", b"1"), edit("A.txt", None, b"2"))


async def test_other_hard_links_keep_the_old_content(bench: Workbench):
    file = bench.put("a.txt", "a")
    os.link(file, bench.root / "twin.txt")
    bench.put("b.txt", "b")
    await apply(bench, edit("a.txt", b"a", b"A"), edit("b.txt", b"b", b"B"))
    assert tree(bench.root) == {"a.txt": b"A", "twin.txt": b"a", "b.txt": b"B"}
    assert file.stat().st_nlink == 1


def test_a_large_file_is_hashed_without_being_held_in_memory(bench: Workbench):
    with (bench.root / "big").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    program = """
import resource, sys, anyio
from pathlib import Path
from rookery.core.limits import Limits
from rookery.workspace.files import WorkspaceFiles
resource.setrlimit(resource.RLIMIT_DATA, (150 * 1024 * 1024,) * 2)
print(anyio.run(WorkspaceFiles(Path(sys.argv[1]), Limits()).sha, "big"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(bench.root)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.strip()) == 64


THREE_CHANGES = """
import sys
from hashlib import sha256
from pathlib import Path
import anyio
from rookery.core.facts import Change, ToolStarted
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.engine.tool_turn import reconcile
from rookery.workspace.files import WorkspaceFiles

def digest(data):
    return "" if data is None else sha256(data).hexdigest()

wanted = [("a.txt", b"a", b"A"), ("b.txt", b"b", None), ("new/c.txt", None, b"C")]
edits = [(Change(path=p, before=digest(b), after=digest(a)), a) for p, b, a in wanted]
files = WorkspaceFiles(Path(sys.argv[1]), Limits())
changes = tuple(change for change, _ in edits)

async def main():
    if sys.argv[2] == "apply":
        await files.apply(edits, Permit("", changes=frozenset(changes)))
    else:
        started = ToolStarted(call_id="c", tool="apply_patch", title="t", changes=changes)
        print((await reconcile(started, files)).ending.value)

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("point", "ending", "changed"),
    [
        ("files.temp_written", "failed", 0),
        ("files.before_rename:1", "failed", 0),
        ("files.renamed:1", "unknown", 1),
        ("files.before_rename:2", "unknown", 1),
        ("files.renamed:2", "unknown", 2),
        ("files.before_rename:3", "unknown", 2),
        ("files.renamed:3", "done", 3),
        ("files.synced", "done", 3),
    ],
)
def test_a_kill_leaves_each_file_old_or_new_and_can_be_reconciled(
    bench: Workbench, point: str, ending: str, changed: int
):
    bench.put("a.txt", "a")
    bench.put("b.txt", "b")

    def run(what: str, killpoint: str) -> str:
        done = run_program(THREE_CHANGES, str(bench.root), what, ROOKERY_KILLPOINT=killpoint)
        assert done.returncode == (-signal.SIGKILL if killpoint else 0)
        assert not done.stderr
        return done.stdout.strip()

    run("apply", point)
    assert run("reconcile", "") == ending
    there = tree(bench.root)
    there.pop("new", None)
    assert there == {
        "a.txt": b"A" if changed >= 1 else b"a",
        **({} if changed >= 2 else {"b.txt": b"b"}),
        **({"new/c.txt": b"C"} if changed >= 3 else {}),
    }
