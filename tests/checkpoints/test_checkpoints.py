import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from rookery.checkpoints.checkpoints import NOT_KEPT, ProtectedFilesOnly, ShadowCheckpoints
from rookery.core.facts import Effect, FileVersion
from rookery.core.limits import KIB, MIB, Limits
from rookery.core.undo_plan import folder_with
from rookery.engine.ports.workspace import Checkpoint
from rookery.errors import StorageError
from support.stored_checkpoints import content_at, files_at
from support.warm_programs import Process, start_program

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
TWO_BLOB = "64c5e5885a4b06010b3a0c20edb7900dd0311025"
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class Ground:
    """A workspace and the home of its checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.home = folder / "home"
        self.work.mkdir(exist_ok=True)

    def open(self, **limits: float) -> ShadowCheckpoints:
        return ShadowCheckpoints(self.work, self.home, Limits(**limits))  # type: ignore[arg-type]

    def put(self, path: str, text: str | bytes = "", mode: int = 0o644) -> Path:
        file = self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(mode)
        return file

    def texts(self) -> dict[str, str]:
        found = [path for path in self.work.rglob("*") if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(self.work)): path.read_text() for path in found}

    @property
    def repository(self) -> Path:
        (only,) = self.home.iterdir()
        return only

    def git(self, *arguments: str) -> str:
        command = ["git", f"--git-dir={self.repository}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def demand_valid(self) -> None:
        assert self.git("fsck", "--full", "--strict", "--no-dangling") == ""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def make_repository(folder: Path, *options: str) -> None:
    subprocess.run(["git", "init", "-q", *options, folder], check=True)


async def step(
    checkpoints: ShadowCheckpoints, do: Callable[[], object], paths: list[str] | None = None
) -> tuple[str, str]:
    before = await checkpoints.save(paths)
    do()
    after = await checkpoints.save(paths)
    assert (before.problem, after.problem) == ("", "")
    return before.id, after.id


# ── what a checkpoint holds ─────────────────────────────────────────────────────────────


async def test_a_checkpoint_is_readable_with_git(ground: Ground):
    ground.put("src/a.py", "print()\n", 0o640)
    saved = await ground.open().save(None)
    assert ground.git("show", f"{saved.id}:files/src/a.py") == "print()\n"
    assert ground.git("show", f"{saved.id}:rights/src/a.py") == "0640\n"
    assert ground.git("rev-parse", "checkpoints@{0}") == f"{saved.id}\n"
    assert (ground.repository / "workspace").read_bytes() == os.fsencode(ground.work) + b"\n"
    ground.demand_valid()


async def test_an_unchanged_workspace_creates_no_new_checkpoint(ground: Ground):
    ground.put("a.txt", "a")
    checkpoints = ground.open()
    first = await checkpoints.save(None)
    size = await checkpoints.usage()
    assert await checkpoints.save(None) == await checkpoints.save(["a.txt"]) == first
    assert await ground.open().save(None) == first
    assert await checkpoints.usage() == size


@pytest.mark.parametrize("name", [".~undo-mine", ".~0123456789abcdef-01234567.tmp.txt", ".~x"])
async def test_a_file_named_like_a_temporary_file_is_saved(name: str, ground: Ground):
    ground.put(name, "mine")
    checkpoints = ground.open()
    saved = await checkpoints.save(None)
    assert list(await files_at(checkpoints, saved.id)) == [name]
    assert ground.texts() == {name: "mine"}


async def test_a_change_within_the_clock_resolution_is_noticed(ground: Ground):
    file = ground.put("a.txt", "aaaa")
    checkpoints = ground.open()
    for number in range(200 if TORTURE else 12):
        status = file.stat()
        before, after = await step(checkpoints, lambda n=number: file.write_text(f"{n:04}"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert before != after
        assert await content_at(checkpoints, after, "a.txt") == f"{number:04}".encode()


async def test_every_change_to_an_old_file_is_noticed(ground: Ground):
    """Files are not read again while nothing but the time has changed; everything else counts."""
    names = ["edited", "touched back", "rights", "replaced", "link", "same"]
    for name in names:
        ground.put(name, f"{name:20}")
    checkpoints = ground.open()
    await at_rest((ground.work / "same").stat())
    await checkpoints.save(None)
    before = await checkpoints.save(None)

    def work() -> None:
        times = (ground.work / "touched back").stat()
        for name in ("edited", "touched back"):
            (ground.work / name).write_text("x" * 20)
        os.utime(ground.work / "touched back", ns=(times.st_atime_ns, times.st_mtime_ns))
        (ground.work / "rights").chmod(0o600)
        (ground.work / "same").read_text()
        (ground.work / "edited").rename(ground.work / "replaced")
        (ground.work / "link").unlink()
        (ground.work / "link").symlink_to("same")

    done = await step(checkpoints, work)
    assert done[0] == before.id
    assert {effect.path for effect in await checkpoints.effects(*done)} == {*names} - {"same"}


async def at_rest(status: os.stat_result) -> None:
    """Until the file could not have changed since without its times telling."""
    await anyio.sleep(max(0, status.st_ctime + 2.1 - time.time()))


async def test_nested_repositories_are_stored_as_folders(ground: Ground):
    for folder in ("", "inner", "inner/deeper"):
        make_repository(ground.work / folder)
        ground.put(f"{folder}/file.txt".lstrip("/"), folder)
    ground.put("module/.git", "gitdir: ../elsewhere\n")
    ground.put("module/code.c", "int x;")
    checkpoints = ground.open()
    saved = await checkpoints.save(None)
    assert set(await files_at(checkpoints, saved.id)) == {
        "file.txt",
        "inner/file.txt",
        "inner/deeper/file.txt",
        "module/code.c",
    }
    assert (saved.skipped, saved.problem) == ((), "")


async def test_skipped_files_are_reported(ground: Ground):
    ground.put("large.bin", bytes(2000))
    ground.put("small.bin", bytes(1000))
    ground.put("secret", "x", 0o000)
    os.mkfifo(ground.work / "pipe")
    (ground.work / "closed").mkdir(mode=0o000)
    saved = await ground.open(checkpoint_file_bytes=1500).save(None)
    (ground.work / "closed").chmod(0o755)
    assert sorted(saved.skipped) == [
        "closed (permission denied)",
        "large.bin (too large)",
        "pipe (no file)",
        "secret (permission denied)",
    ]
    assert set(await files_at(ground.open(), saved.id)) == {"small.bin"}


async def test_files_beyond_the_limit_are_skipped_and_reported(ground: Ground):
    for number in range(200):
        ground.put(f"d{number // 50}/f{number}", str(number))
    checkpoints = ground.open(checkpoint_files=20)
    saved = await checkpoints.save(None)
    assert len(await files_at(checkpoints, saved.id)) == 20
    assert all(reported.endswith("(too many files)") for reported in saved.skipped[:-1])
    assert len(saved.skipped) <= 51


async def test_a_previously_skipped_file_is_not_treated_as_new(ground: Ground):
    ground.put("shrinking.bin", bytes(2000))
    checkpoints = ground.open(checkpoint_file_bytes=1500)
    done = await step(checkpoints, lambda: ground.put("shrinking.bin", "small"))
    assert await checkpoints.effects(*done) == ()
    assert (await checkpoints.restore([done], overwrite=True)).effects == ()
    assert ground.texts() == {"shrinking.bin": "small"}


async def test_ignored_files_are_stored_only_when_named(ground: Ground):
    ground.put(".gitignore", "*.log\n/build/\n!keep.log\n")
    for path in ("a.log", "keep.log", "build/x", "src/build/x"):
        ground.put(path, "old")
    checkpoints = ground.open()
    saved = await checkpoints.save(None)
    assert set(await files_at(checkpoints, saved.id)) == {".gitignore", "keep.log", "src/build/x"}
    done = [
        await step(checkpoints, lambda: ground.put("build/x", "new"), ["build/x"]),
        await step(checkpoints, lambda: ground.put("build/y", "new"), ["build/y"]),
        await step(checkpoints, (ground.work / "a.log").unlink, ["a.log"]),
    ]
    await checkpoints.restore(done, overwrite=False)
    assert ground.texts() == {
        ".gitignore": "*.log\n/build/\n!keep.log\n",
        **dict.fromkeys(["a.log", "keep.log", "build/x", "src/build/x"], "old"),
    }


async def test_protected_files_are_stored_even_if_ignored(ground: Ground):
    ground.put(".gitignore", ".*/\n.env*\nbuild/\nnode_modules/\n")
    stored = [".envrc", ".vscode/tasks.json", "a/.zed/b/c.json", "build/.envrc"]
    passed_over = [
        *(".env/lib/x.py", ".cache/x", "build/Makefile", "build/deep/conftest.py"),
        *("node_modules/.vscode/x", ".vscode/node_modules/x", ".vscode/.git/config"),
    ]
    for path in (*stored, *passed_over):
        ground.put(path, "x\n")
    ground.put(".vscode/large", "x" * 2000)
    checkpoints = ground.open(checkpoint_file_bytes=1000)
    saved = await checkpoints.save(None)
    assert set(await files_at(checkpoints, saved.id)) == {".gitignore", *stored}


IN_IGNORED_FOLDERS: dict[str, tuple[str, set[str]]] = {
    "made": ("mkdir -p build/deep; echo x > build/deep/.envrc", {"build/deep/.envrc"}),
    "changed": ("echo x > build/.env", {"build/.env"}),
    "removed": ("rm build/.env", {"build/.env"}),
    "removed with its folder": ("rm -r build/sub", {"build/sub/AGENTS.md"}),
    "removed with all": ("rm -r build", {"build/.env", "build/sub/AGENTS.md"}),
    "others": ("touch build/x build/Makefile build/conftest.py; rm build/o", set()),
    "dependencies": ("mkdir -p build/node_modules/a; touch build/node_modules/a/.npmrc", set()),
    "no longer ignored": ("rm .gitignore", {".gitignore"}),
    "also ignored": ("mkdir -p src; echo src >> .gitignore", {".gitignore"}),
}


@pytest.mark.parametrize(
    ("command", "changed"),
    IN_IGNORED_FOLDERS.values(),
    ids=[f"{name}" for name in IN_IGNORED_FOLDERS],
)
async def test_changes_to_protected_files_in_ignored_folders_are_restored(
    ground: Ground, command: str, changed: set[str]
):
    ground.put(".gitignore", "build/\n")
    ground.put("src/.env", "src")
    for path in ("build/.env", "build/sub/AGENTS.md", "build/o", "build/sub/o"):
        ground.put(path, path)
    before = ground.texts()
    checkpoints = ground.open()

    def act() -> None:
        subprocess.run(["bash", "-c", command], cwd=ground.work, check=True)

    done = await step(checkpoints, act)
    found = await checkpoints.effects(*done)
    assert {effect.path for effect in found if effect.path in before or effect.after} == changed
    await checkpoints.restore([done], overwrite=False)
    after = ground.texts()
    assert {path: after.get(path) for path in changed} == {p: before.get(p) for p in changed}
    again = ground.open()
    await again.save(None)
    assert await again.effects(done[0], (await again.save(None)).id) == ()


async def test_protected_files_beyond_the_folder_limit_are_not_treated_as_new(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
):
    ground.put(".gitignore", "build/\n")
    ground.put("build/a/.env", "mine")
    monkeypatch.setattr("rookery.checkpoints.stat_index.MOST_FOLDERS", 1)
    checkpoints = ground.open()
    first = await checkpoints.save(None)
    assert any("too many" in reported for reported in first.skipped)
    monkeypatch.undo()
    second = await checkpoints.save(None)
    assert await checkpoints.effects(first.id, second.id) == ()


async def test_a_protected_file_is_saved_beyond_the_file_limit(ground: Ground):
    for number in range(20):
        ground.put(f"many/{number}/a.txt", "x")
    checkpoints = ground.open(checkpoint_files=5)
    first = await checkpoints.save(None)
    ground.put("many/19/.envrc", "evil")
    ground.put(".vscode/tasks.json", "evil")
    second = await checkpoints.save(None)
    effects = await checkpoints.effects(first.id, second.id)
    assert {effect.path for effect in effects} >= {"many/19/.envrc", ".vscode/tasks.json"}


@pytest.mark.parametrize("ignored", ["", ".orchestration/\n"])
async def test_ledger_files_are_not_in_checkpoints(ground: Ground, ignored: str):
    ground.put(".gitignore", ignored)
    ground.put(".orchestration/active_intents.yaml", "a")
    kept = ProtectedFilesOnly(ground.work, ground.home, Limits())
    for checkpoints in (kept, ground.open()):
        before = await checkpoints.save(None)
        for name in ("agent_trace.jsonl", "trace/0001.jsonl", ".state/leases/one.json"):
            ground.put(f".orchestration/{name}", "more")
        after = await checkpoints.save(None)
        assert await checkpoints.effects(before.id, after.id) == ()
        shutil.rmtree(ground.work / ".orchestration")
        ground.put(".orchestration/active_intents.yaml", "a")


async def test_only_protected_files_are_saved_when_checkpoints_are_off(
    ground: Ground,
):
    protected = {".env": "a", "src/AGENTS.md": "b", "build/.vscode/x.json": "c"}
    for path, text in {**protected, "src/a.py": "d", ".gitignore": "build/\n"}.items():
        ground.put(path, text, 0o640)
    kept = ProtectedFilesOnly(ground.work, ground.home, Limits())
    assert await kept.save(["src/a.py"]) == Checkpoint()
    before = await kept.save(None)
    for path in protected:
        ground.put(path, "evil")
    ground.put("lib/conftest.py", "evil")
    ground.put("src/a.py", "fine")
    after = await kept.save(None)
    effects = await kept.effects(before.id, after.id)
    assert {effect.path for effect in effects} == {*protected, "lib/conftest.py"}
    steps = [(before.id, after.id)]
    assert (await kept.restore(steps, overwrite=True)).problem == NOT_KEPT
    done = await kept.restore(steps, overwrite=True, only=[*protected, "lib/conftest.py"])
    assert await kept.effects(before.id, done.after) == ()
    assert ground.texts() == {**protected, "src/a.py": "fine", ".gitignore": "build/\n"}
    assert (ground.work / ".env").stat().st_mode & 0o777 == 0o640


async def test_restoring_moves_a_new_repository_aside(ground: Ground):
    ground.put("lib/mine", "x")
    make_repository(ground.work / "lib")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: make_repository(ground.work / "new" / "sub"))
    planned = await checkpoints.restore([done], overwrite=False, rehearse=True)
    assert "new/sub/.git" in [effect.path for effect in planned.effects]
    restored = await checkpoints.restore([done], overwrite=False)
    assert [path.name for path in ground.work.iterdir()] == ["lib"]
    assert (ground.work / "lib" / ".git").exists()
    (kept,) = (ground.home / "set-aside").iterdir()
    assert (kept / "HEAD").exists()
    assert str(kept) in restored.problem


async def test_a_repository_that_is_no_longer_ignored_is_not_treated_as_new(ground: Ground):
    ground.put(".gitignore", "lib/\n")
    make_repository(ground.work / "lib")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: ground.put(".gitignore", ""))
    await checkpoints.restore([done], overwrite=True)
    assert (ground.work / "lib" / ".git").exists()


@pytest.mark.parametrize("after", ["", "*.log\nsecret*\n*.txt\n"], ids=["ignored less", "more"])
async def test_changing_ignore_rules_neither_creates_nor_removes_files(after: str, ground: Ground):
    ground.put(".gitignore", "*.log\nsecret*\n")
    for path in ("a.log", "secret/key", "b.txt"):
        ground.put(path, "mine")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: ground.put(".gitignore", after))
    assert [effect.path for effect in await checkpoints.effects(*done)] == [".gitignore"]
    await checkpoints.restore([done], overwrite=True)
    kept = dict.fromkeys(["a.log", "secret/key", "b.txt"], "mine")
    assert ground.texts() == {".gitignore": "*.log\nsecret*\n", **kept}


async def test_checkpoints_do_not_contain_their_own_storage(tmp_path: Path):
    ground = Ground(tmp_path)
    ground.home = ground.work / ".state"
    ground.put("a.txt", "a")
    checkpoints = ground.open()
    first = await checkpoints.save(None)
    assert await checkpoints.save(None) == first
    assert set(await files_at(checkpoints, first.id)) == {"a.txt"}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../b", ".git/config", "a/.GIT/x", ""])
async def test_paths_that_are_not_workspace_files_are_skipped(path: str, ground: Ground):
    checkpoints = ground.open()
    saved = await checkpoints.save([path])
    assert saved.skipped == (f"{path} (not a file of the workspace)",)
    assert await files_at(checkpoints, saved.id) == {}


async def test_a_named_path_through_a_link_stores_only_the_link(ground: Ground, tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (ground.work / "link").symlink_to(tmp_path / "outside")
    checkpoints = ground.open()
    saved = await checkpoints.save(["link/secret"])
    assert list(await files_at(checkpoints, saved.id)) == ["link"]
    assert await content_at(checkpoints, saved.id, "link") == os.fsencode(tmp_path / "outside")


async def test_a_step_excludes_changes_by_another_session(ground: Ground):
    ground.put("a.txt", "a")
    ground.put("b.txt", "b")
    one, other = ground.open(), ground.open()
    await one.save(None)
    await other.save(None)
    before = await one.save(["a.txt"])
    await step(other, lambda: ground.put("b.txt", "b2"))
    ground.put("a.txt", "a2")
    after = await one.save(["a.txt"])
    assert [effect.path for effect in await one.effects(before.id, after.id)] == ["a.txt"]


# ── hostile repositories ────────────────────────────────────────────────────────────────


async def test_a_hostile_repository_runs_no_programs(ground: Ground, tmp_path: Path):
    marker = tmp_path / "marker"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    trap.chmod(0o755)
    for folder in (ground.work, ground.work / "nested"):
        make_repository(folder)
        with (folder / ".git" / "config").open("a") as config:
            config.write(
                f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {tmp_path}\n\tautocrlf = true\n"
                f'\tworktree = {tmp_path}\n[filter "trap"]\n\tclean = {trap}\n\tsmudge = {trap}\n'
                f'\tprocess = {trap}\n[diff "trap"]\n\ttextconv = {trap}\n\tcommand = {trap}\n'
            )
        (folder / ".gitattributes").write_text(
            "* filter=trap diff=trap text eol=crlf ident working-tree-encoding=UTF-16\n"
        )
        for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
            (folder / ".git" / "hooks" / hook).write_bytes(trap.read_bytes())
            (folder / ".git" / "hooks" / hook).chmod(0o755)
    make_repository(ground.work / "bare", "--bare")
    (ground.work / "bare" / "config").write_text(f"[core]\n\tbare=true\n\tfsmonitor={trap}\n")
    data = b"$Id$ one\r\ntwo\n\xff\xfe\x00"
    files = [ground.put(path, data) for path in ("a.txt", "nested/b.txt", "bare/c.txt")]
    untouched = {path: path.read_bytes() for path in ground.work.rglob("*") if path.is_file()}
    checkpoints = ground.open()

    def spoil() -> None:
        for file in files:
            file.write_bytes(b"spoilt")

    done = await step(checkpoints, spoil)
    assert len(await checkpoints.effects(*done)) == 3
    await checkpoints.restore([done], overwrite=False)
    assert {
        path: path.read_bytes() for path in ground.work.rglob("*") if path.is_file()
    } == untouched
    assert not marker.exists()
    ground.demand_valid()


# ── restoring ───────────────────────────────────────────────────────────────────────────


async def test_a_restore_is_previewed_applied_and_undone(ground: Ground):
    ground.put("edited", "old", 0o640)
    ground.put("gone/deep/file", "old")
    checkpoints = ground.open()

    def work() -> None:
        ground.put("edited", "new", 0o755)
        ground.put("made/new", "new")
        (ground.work / "gone/deep/file").unlink()
        (ground.work / "gone/deep").rmdir()
        (ground.work / "gone").rmdir()

    done = await step(checkpoints, work)
    later = ground.texts()
    rehearsed = await checkpoints.restore([done], overwrite=False, rehearse=True)
    assert (ground.texts(), rehearsed.before, rehearsed.after) == (later, "", "")
    assert [effect.path for effect in rehearsed.effects] == ["edited", "gone/deep/file", "made/new"]
    restored = await checkpoints.restore([done], overwrite=False)
    assert (restored.effects, restored.kept) == (rehearsed.effects, ())
    assert ground.texts() == {"edited": "old", "gone/deep/file": "old"}
    assert (ground.work / "edited").stat().st_mode & 0o7777 == 0o640
    assert not (ground.work / "made").exists()
    await checkpoints.restore([(restored.before, restored.after)], overwrite=False)
    assert ground.texts() == later


async def test_old_folders_stay_and_new_folders_are_removed(ground: Ground):
    (ground.work / "empty").mkdir()
    (ground.work / "removed").mkdir()
    checkpoints = ground.open()

    def work() -> None:
        ground.put("empty/file", "x")
        ground.put("fresh/deep/file", "x")
        (ground.work / "alone").mkdir(0o750)
        (ground.work / "removed").rmdir()

    done = await step(checkpoints, work)
    assert Effect("alone", None, folder_with(0o750)) in await checkpoints.effects(*done)
    named = await step(checkpoints, lambda: ground.put("empty/by/tool", "x"), ["empty/by/tool"])
    await checkpoints.restore([done, named], overwrite=False)
    assert sorted(path.name for path in ground.work.rglob("*")) == ["empty", "removed"]


@pytest.mark.parametrize("rights", [0o700, 0o755, 0o775, 0o500])
async def test_folder_permissions_are_restored(rights: int, ground: Ground):
    ground.put("d/inner/file", "old")
    for folder in ("d/inner", "d"):
        (ground.work / folder).chmod(rights)
    checkpoints = ground.open()

    def loosen() -> None:
        for folder in ("d", "d/inner"):
            (ground.work / folder).chmod(0o777)

    def remove() -> None:
        ground.put("d/inner/file").unlink()
        (ground.work / "d/inner").rmdir()

    done = [await step(checkpoints, do) for do in (loosen, remove)]
    restored = await checkpoints.restore(done, overwrite=False)
    assert (restored.problem, restored.kept) == ("", ())
    for folder in ("d", "d/inner"):
        assert (ground.work / folder).stat().st_mode & 0o7777 == rights
        (ground.work / folder).chmod(0o755)
    assert ground.texts() == {"d/inner/file": "old"}


async def test_outside_changes_are_kept_or_overwritten_and_recoverable(ground: Ground):
    ground.put("both", "old")
    ground.put("mine", "old")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: [ground.put("both", "new"), ground.put("own", "new")])
    ground.put("both", "a person's")
    ground.put("mine", "a person's")
    kept = await checkpoints.restore([done], overwrite=False)
    assert (kept.kept, ground.texts()) == (("both",), dict.fromkeys(["both", "mine"], "a person's"))
    forced = await checkpoints.restore([done], overwrite=True)
    assert (forced.kept, ground.texts()) == ((), {"both": "old", "mine": "a person's"})
    await checkpoints.restore([(forced.before, forced.after)], overwrite=False)
    assert ground.texts() == dict.fromkeys(["both", "mine"], "a person's")


async def test_selected_files_can_be_restored_alone(ground: Ground):
    ground.put("kept/a", "old")
    ground.put("gone/b", "old")
    ground.put("gone/c", "old")
    checkpoints = ground.open()

    def work() -> None:
        ground.put("kept/a", "new")
        ground.put("made/d", "new")
        ground.put("made/e", "new")
        for name in "bc":
            (ground.work / "gone" / name).unlink()
        (ground.work / "gone").rmdir()

    done = await step(checkpoints, work)
    wanted = ["gone/b", "made/d"]
    rehearsed = await checkpoints.restore([done], overwrite=False, rehearse=True, only=wanted)
    restored = await checkpoints.restore([done], overwrite=False, only=wanted)
    assert [effect.path for effect in rehearsed.effects] == wanted
    assert (restored.effects, restored.kept) == (rehearsed.effects, ())
    assert ground.texts() == {"kept/a": "new", "made/e": "new", "gone/b": "old"}


async def test_a_file_that_cannot_be_saved_is_never_overwritten(ground: Ground):
    ground.put("file", "old")
    checkpoints = ground.open(checkpoint_file_bytes=1000)
    done = await step(checkpoints, lambda: ground.put("file", "new"))
    ground.put("file", bytes(2000))
    restored = await checkpoints.restore([done], overwrite=True)
    assert (restored.kept, (ground.work / "file").stat().st_size) == (("file",), 2000)


def a_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "target")


def a_folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("mine")


def below_a_link(path: Path, outside: Path) -> None:
    path.parent.rename(outside / "moved")
    path.parent.symlink_to(outside / "moved")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("befall", [a_link, a_folder, below_a_link], ids=lambda f: f"{f.__name__}")
async def test_a_path_that_changed_its_type_is_kept(
    befall: Callable[[Path, Path], None], overwrite: bool, ground: Ground, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("outside")
    ground.put("d/file", "old")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: ground.put("d/file", "new"))
    befall(ground.work / "d" / "file", outside)
    restored = await checkpoints.restore([done], overwrite=overwrite)
    if befall is a_link and overwrite:
        assert restored.kept == ()
        assert (ground.work / "d" / "file").read_text() == "old"
    else:
        assert restored.kept == ("d/file",)
    assert (outside / "target").read_text() == "outside"
    if befall is below_a_link:
        assert (outside / "moved" / "file").read_text() == "new"
    if befall is a_folder:
        assert (ground.work / "d/file/mine").read_text() == "mine"


async def test_a_restore_does_not_write_through_a_hard_link(ground: Ground, tmp_path: Path):
    twin = tmp_path / "twin"
    file = ground.put("file", "old")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: file.write_text("new"))
    os.link(file, twin)
    await checkpoints.restore([done], overwrite=False)
    assert (file.read_text(), twin.read_text()) == ("old", "new")


async def test_a_restore_that_fails_midway_lists_the_remaining_files(ground: Ground):
    for folder in ("open", "shut"):
        ground.put(f"{folder}/file", "old")
    checkpoints = ground.open()
    done = await step(
        checkpoints, lambda: [ground.put(f"{f}/file", "new") for f in ("open", "shut")]
    )
    (ground.work / "shut").chmod(0o555)
    restored = await checkpoints.restore([done], overwrite=False)
    (ground.work / "shut").chmod(0o755)
    assert restored.problem == (
        "These were not restored (shut/file: permission denied). Fix the cause, then restore again."
    )
    assert ground.texts() == {"open/file": "old", "shut/file": "new"}
    assert [effect.path for effect in restored.effects] == ["open/file"]
    assert (await checkpoints.restore([done], overwrite=False)).problem == ""
    assert ground.texts() == {"open/file": "old", "shut/file": "old"}


@pytest.mark.parametrize("known", ["", "0" * 40, "HEAD", "--all", "é" * 40])
async def test_a_missing_checkpoint_restores_nothing(known: str, ground: Ground):
    ground.put("a.txt", "a")
    checkpoints = ground.open()
    saved = await checkpoints.save(None)
    restored = await checkpoints.restore([(known, saved.id)], overwrite=True)
    assert restored.problem.startswith("Nothing was restored: ")
    assert await checkpoints.effects(known, saved.id) == ()


async def test_two_checkpoints_can_be_compared(ground: Ground):
    ground.put("a.txt", "one")
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: [ground.put("a.txt", "two"), ground.put("b.txt", "")])
    assert await checkpoints.diff(*done) == [("a.txt", b"one", b"two"), ("b.txt", None, b"")]
    assert await checkpoints.diff(*done, files=1) == [("a.txt", b"one", b"two")]
    assert await checkpoints.diff(*done, size=2) == [("b.txt", None, b"")]
    assert await files_at(checkpoints, done[1]) == {
        "a.txt": FileVersion(TWO_BLOB, 0o100644),
        "b.txt": FileVersion(EMPTY_BLOB, 0o100644),
    }
    with pytest.raises(StorageError):
        await content_at(checkpoints, "0" * 40, "a.txt")


# ── when things go wrong ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", "Desktop", "Documents", "Downloads", ".."])
async def test_checkpoints_of_home_and_similar_folders_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "user" / name).mkdir(parents=True, exist_ok=True)
    checkpoints = ShadowCheckpoints(tmp_path / "user" / name, tmp_path / "state", Limits())
    assert (await checkpoints.save(None)).problem.startswith("There are no checkpoints here: ")
    assert (await checkpoints.restore([], overwrite=False)).problem
    assert not (tmp_path / "state").exists()


async def test_a_save_that_times_out_is_reported_and_works_next_time(ground: Ground):
    ground.put("a.txt", "a")
    assert (await ground.open(checkpoint_seconds=0).save(None)).problem == (
        "No checkpoint was made, so this cannot be undone: it took longer than 0 s."
    )
    assert (await ground.open().save(None)).problem == ""


async def test_a_cancelled_save_leaves_consistent_storage(ground: Ground):
    for number in range(300):
        ground.put(f"d{number // 100}/f{number}", str(number))
    checkpoints = ground.open()
    for seconds in (0.0, 0.01, 0.03):
        with anyio.move_on_after(seconds):
            await checkpoints.save(None)
    saved = await checkpoints.save(None)
    assert len(await files_at(checkpoints, saved.id)) == 300
    ground.demand_valid()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(data)


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "index cut": ("stat_index", cut),
    "index garbled": ("stat_index", garble),
    "index gone": ("stat_index", Path.unlink),
    "pack index cut": ("objects/pack/*.idx", cut),
    "pack index garbled": ("objects/pack/*.idx", garble),
    "pack garbled": ("objects/pack/*.pack", garble),
    "pack gone": ("objects/pack/*.pack", Path.unlink),
    "log cut": ("logs/refs/heads/checkpoints", cut),
    "log gone": ("logs/refs/heads/checkpoints", Path.unlink),
    "branch gone": ("refs/heads/checkpoints", Path.unlink),
    "head gone": ("HEAD", Path.unlink),
}


@pytest.mark.parametrize(("pattern", "damage"), DAMAGES.values(), ids=[f"{d}" for d in DAMAGES])
async def test_a_damaged_repository_is_usable_at_once(
    pattern: str, damage: Callable[[Path], None], ground: Ground
):
    for number in range(300 if TORTURE else 60):
        ground.put(f"d{number // 10}/f{number}", str(number) * 50)
    before = ground.texts()
    assert (await ground.open().save(None)).problem == ""
    for path in ground.repository.glob(pattern):
        damage(path)
    checkpoints = ground.open()
    reported = await checkpoints.health()
    assert ("damaged" in reported) == pattern.startswith("objects")
    spoilt = sorted(before)[::6]
    done = await step(checkpoints, lambda: [ground.put(path, "spoilt") for path in spoilt])
    assert (await checkpoints.restore([done], overwrite=False)).problem == ""
    assert ground.texts() == before
    assert await checkpoints.health() == ""


async def test_many_checkpoints_are_kept_in_few_packs(ground: Ground):
    checkpoints = ground.open()
    made: list[str] = []
    for number in range(130):
        ground.put("a.txt", str(number))
        made.append((await checkpoints.save(["a.txt"])).id)
    assert len(list(ground.repository.glob("objects/pack/*.pack"))) <= 51
    for number, known in enumerate(made):
        assert await content_at(checkpoints, known, "a.txt") == str(number).encode()
    ground.demand_valid()


async def test_damage_on_disk_is_reported(ground: Ground):
    ground.put("a.txt", "one")
    checkpoints = ground.open()
    await checkpoints.save(None)
    (pack,) = ground.repository.glob("objects/pack/*.pack")
    head = pack.read_bytes()
    tree = head.index(b"x", head.index(b"x", 12) + 1)  # the second object is a tree
    pack.write_bytes(head[:tree] + bytes(8) + head[tree + 8 :])
    assert "damaged" in await checkpoints.health()


async def test_the_newest_intact_checkpoint_is_found(ground: Ground):
    ground.put("a.txt", "one")
    checkpoints = ground.open()
    first = await checkpoints.save(None)
    packs = set(ground.repository.glob("objects/pack/*.pack"))
    ground.put("a.txt", "two")
    await checkpoints.save(None)
    (newest,) = set(ground.repository.glob("objects/pack/*.pack")) - packs
    newest.write_bytes(newest.read_bytes()[:40] + bytes(400))
    again = ground.open()
    assert "The newest 1 checkpoints" in await again.health()
    assert await content_at(again, first.id, "a.txt") == b"one"
    saved = await again.save(None)
    assert await content_at(again, saved.id, "a.txt") == b"two"


async def test_a_damaged_file_copy_is_named_and_other_files_are_restored(
    ground: Ground,
):
    ground.put("large", os.urandom(100 * KIB))
    ground.put("small", "old")
    checkpoints = ground.open()
    await checkpoints.save(None)
    (pack,) = ground.repository.glob("objects/pack/*.pack")
    done = await step(checkpoints, lambda: [ground.put("large", "new"), ground.put("small", "new")])
    garble(pack)
    restored = await checkpoints.restore([done], overwrite=False)
    assert re.match(
        r"These were not restored \(large: Object \w+ .* is damaged\)", restored.problem
    )
    assert ground.texts() == {"large": "new", "small": "old"}


# ── disks that are full ─────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], Path]]:
    """Mounts a file system of one MiB on a folder."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("a file system can be mounted only by root")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_prevents_checkpoints_until_space_is_free(
    small_disk: Callable[[Path], Path], ground: Ground
):
    disk = small_disk(ground.home)
    ground.put("a.txt", "a")
    checkpoints = ground.open()
    first = await checkpoints.save(None)
    for number in range(30):
        ground.put(f"noise{number}", os.urandom(100 * KIB))
    reported = await checkpoints.save(None)
    assert reported.problem.endswith("cannot be undone: no space left on device.")
    assert not list(disk.rglob("tmp_*"))
    for number in range(2, 30):
        (ground.work / f"noise{number}").unlink()
    saved = await checkpoints.save(None)
    assert (saved.problem, len(await files_at(checkpoints, saved.id))) == ("", 3)
    assert await content_at(checkpoints, first.id, "a.txt") == b"a"
    ground.demand_valid()


async def test_a_restore_on_a_full_disk_leaves_every_file_whole(
    small_disk: Callable[[Path], Path], ground: Ground
):
    disk = small_disk(ground.work)
    ground.put("a", b"a" * 200 * KIB)
    ground.put("b", b"b" * 200 * KIB)
    checkpoints = ground.open()
    done = await step(checkpoints, lambda: [ground.put("a", "new"), ground.put("b", "new")])
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    ground.put("ballast", bytes(free - 250 * KIB))
    restored = await checkpoints.restore([done], overwrite=False)
    assert "(b: no space left on device)" in restored.problem
    assert {name: text[:3] for name, text in ground.texts().items() if name != "ballast"} == {
        "a": "aaa",
        "b": "new",
    }
    (ground.work / "ballast").unlink()
    await checkpoints.restore([done], overwrite=False)
    assert (ground.work / "b").read_bytes() == b"b" * 200 * KIB


# ── many checkpoints ────────────────────────────────────────────────────────────────────


async def test_the_number_of_packs_stays_bounded(ground: Ground):
    checkpoints = ground.open()
    ids = []
    for number in range(60):
        ground.put("a.txt", str(number))
        ids.append((await checkpoints.save(["a.txt"])).id)
    assert len(list(ground.repository.glob("objects/pack/*.pack"))) <= 55
    fresh = ground.open()
    assert [await content_at(fresh, known, "a.txt") for known in ids] == [
        b"%d" % n for n in range(60)
    ]
    ground.demand_valid()


async def test_reading_checkpoints_creates_none(ground: Ground):
    checkpoints = ground.open()
    assert await checkpoints.usage() == 0
    assert (await checkpoints.health(), await checkpoints.clean_up(0, [])) == ("", "")
    assert not ground.home.exists()


async def test_dropping_the_oldest_checkpoints_is_reported(ground: Ground):
    checkpoints = ground.open()
    ids = []
    for _ in range(10):
        ground.put("a.bin", os.urandom(100 * KIB))
        ids.append((await checkpoints.save(None)).id)
    assert await checkpoints.clean_up(2 * MIB, []) == ""
    reported = await checkpoints.clean_up(500 * KIB, [ids[0]])
    assert re.fullmatch(
        r"The 7 oldest checkpoints of \S+ were dropped to free 0\.7 MiB; "
        r"changes before them can no longer be undone\.",
        reported,
    )
    assert await checkpoints.usage() < 500 * KIB
    left = [known for known in ids if known in ground.git("log", "-g", "--format=%H")]
    assert left == [ids[0], *ids[-2:]]
    assert (await checkpoints.restore([(ids[1], ids[2])], overwrite=True)).problem == (
        f"Nothing was restored: checkpoint {ids[1][:12]} was removed."
    )
    assert (await checkpoints.save(None)).id == ids[-1]
    ground.demand_valid()


# ── several processes, and killed ones ──────────────────────────────────────────────────

CHILD = """
import sys
from pathlib import Path
import anyio
from rookery.core.limits import Limits
from rookery.checkpoints.checkpoints import ShadowCheckpoints

work, home, said = map(Path, sys.argv[1:4])

def tell(*words):
    with said.open("a") as file:
        file.write(" ".join(words) + "\\n")

async def alone():
    checkpoints = ShadowCheckpoints(work, home, Limits())
    steps = []
    before = await checkpoints.save(None)
    (work / "a.txt").write_text("new")
    (work / "made").mkdir()
    (work / "made" / "b.txt").write_text("new")
    (work / "gone.txt").unlink()
    after = await checkpoints.save(None)
    steps.append((before.id, after.id))
    tell(before.id, after.id)
    before = await checkpoints.save(["c.txt"])
    (work / "c.txt").write_text("new")
    after = await checkpoints.save(["c.txt"])
    steps.append((before.id, after.id))
    tell(before.id, after.id)
    await checkpoints.restore(steps, overwrite=False)
    await checkpoints.clean_up(0, [known for step in steps for known in step])

async def crowd():
    checkpoints = ShadowCheckpoints(work, home, Limits())
    for number in range(6):
        name = f"{sys.argv[5]}.txt"
        before = await checkpoints.save([name])
        (work / name).write_text(str(number))
        after = await checkpoints.save([name] if number % 2 else None)
        assert before.id and after.id, (before, after)
        tell(before.id, after.id, name, str(number))

anyio.run({"alone": alone, "crowd": crowd}[sys.argv[4]])
"""


def child(ground: Ground, *arguments: str, **environ: str) -> Process:
    said = str(ground.home.parent / "said")
    return start_program(CHILD, str(ground.work), str(ground.home), said, *arguments, **environ)


def said_by(ground: Ground) -> list[list[str]]:
    path = ground.home.parent / "said"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def test_concurrent_saves_take_turns(ground: Ground):
    children = [child(ground, "crowd", str(number)) for number in range(3)]
    assert [process.wait(60) for process in children] == [0, 0, 0]
    checkpoints = ground.open()
    rows = said_by(ground)
    assert len(rows) == 18
    for _, after, name, number in rows:
        assert await content_at(checkpoints, after, name) == number.encode()
    ground.demand_valid()


INSTANTS = {
    "checkpoint.packed": 5,
    "checkpoint.stored": 4,
    "checkpoint.entered": 4,
    "checkpoint.dropped": 1,
    "checkpoint.repacked": 1,
    "disk.before_rename": 2,
    "restore.saved": 1,
    "restore.before_file": 5,
    "restore.file_done": 5,
    "restore.temp_written": 2,
    "restore.done": 1,
}
"""How often the child reaches each point; a dry run keeps these numbers honest."""
OLD = {"a.txt": "old", "gone.txt": "old", "still.txt": "old"}


def prepared(ground: Ground) -> None:
    for path, text in OLD.items():
        ground.put(path, text)


def test_kill_points_are_reached_the_expected_number_of_times(ground: Ground, tmp_path: Path):
    prepared(ground)
    log = tmp_path / "instants"
    assert child(ground, "alone", ROOKERY_KILLPOINT_LOG=str(log)).wait(60) == 0
    assert Counter(log.read_text().split()) == INSTANTS
    assert ground.texts() == OLD


def instants() -> list[str]:
    if TORTURE:
        return [f"{p}:{nth}" for p, times in INSTANTS.items() for nth in range(1, times + 1)]
    return [f"{p}:{(times + 1) // 2}" for p, times in INSTANTS.items()]  # each kind once


@pytest.mark.parametrize("instant", instants(), ids=lambda instant: f"{instant}")
async def test_a_kill_at_any_point_loses_nothing(instant: str, ground: Ground):
    prepared(ground)
    assert child(ground, "alone", ROOKERY_KILLPOINT=instant).wait(60) == -signal.SIGKILL
    for path, text in ground.texts().items():
        assert text == "new" or text == OLD.get(path) or ".~undo-" in path
    checkpoints = ground.open()
    assert (await checkpoints.save(None)).problem == ""
    assert checkpoints.recovered == ""
    assert not [path for path in ground.work.rglob("*") if ".~undo-" in path.name]
    assert not [*ground.home.rglob("tmp_*"), *ground.home.rglob("*.unfinished")]
    steps = [(before, after) for before, after in said_by(ground)]
    for known in {known for each in steps for known in each}:
        assert "still.txt" in await files_at(checkpoints, known)
    if len(steps) == 2:
        restored = await checkpoints.restore(steps, overwrite=False)
        assert (restored.problem, restored.kept, ground.texts()) == ("", (), OLD)
    assert await checkpoints.health() == ""
    ground.demand_valid()


@pytest.mark.parametrize("name", [".roo/worktrees/agent-a/f.txt", "sub/.roo/worktrees/b/f.txt"])
async def test_changes_in_worktrees_of_other_sessions_are_not_restored(tmp_path: Path, name: str):
    ground = Ground(tmp_path)
    ground.put("mine.txt", "one")
    ground.put(name, "theirs")
    checkpoints = ground.open()
    before = await checkpoints.save(None)
    ground.put("mine.txt", "two")
    ground.put(name, "more of theirs")
    after = await checkpoints.save(None)
    effects = await checkpoints.effects(before.id, after.id)
    assert [each.path for each in effects] == ["mine.txt"]
    await checkpoints.restore([(before.id, after.id)], overwrite=True)
    assert ground.texts() == {"mine.txt": "one", name: "more of theirs"}
