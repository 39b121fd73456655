"""Files in one checkpoint stay in later ones, even if they become ignored or too large."""

import os
import subprocess
from pathlib import Path

import pytest

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.limits import Limits
from rookery.platform.git_index import GitIndexes, tracked_paths
from support.access_lists import ACL, NOBODY, acl, restrict, still_restricted
from support.stored_checkpoints import files_at

pytestmark = pytest.mark.anyio
MOST = 1000
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


class Bench:
    """A workspace in which commands are run, with a checkpoint before and after each."""

    def __init__(self, folder: Path) -> None:
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.checkpoints = self.open()
        self.steps: list[tuple[str, str]] = []
        self.skipped: tuple[str, ...] = ()

    def open(self) -> ShadowCheckpoints:
        return ShadowCheckpoints(self.work, self.home, Limits(checkpoint_file_bytes=MOST))

    def shell(self, command: str) -> None:
        subprocess.run(["bash", "-ec", command], cwd=self.work, check=True)

    async def run(self, command: str, paths: list[str] | None = None) -> None:
        before = await self.checkpoints.save(paths)
        self.skipped = before.skipped
        self.shell(command)
        after = await self.checkpoints.save(paths)
        assert (before.problem, after.problem) == ("", "")
        self.steps.append((before.id, after.id))

    async def back(self) -> str:
        restored = await self.checkpoints.restore(self.steps, overwrite=False)
        assert restored.kept == ()
        return restored.problem

    def texts(self) -> dict[str, str]:
        found = [path for path in self.work.rglob("*") if path.is_file()]
        return {
            str(path.relative_to(self.work)): path.read_text()
            for path in found
            if ".git" not in path.relative_to(self.work).parts
        }

    def aside(self) -> list[Path]:
        folder = self.home / "set-aside"
        return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# ── ignore files ────────────────────────────────────────────────────────────────────────

GONE = {
    "a folder": ["echo src/ > .gitignore", "rm -r src"],
    "in one command": ["echo src/ > .gitignore; rm -r src"],
    "all": [r"printf '*\n!.gitignore\n' > .gitignore", "rm -r src a.txt"],
    "files": ["echo '*.txt' > .gitignore", "rm a.txt src/b.txt"],
    "a part": ["echo src/ > .gitignore", "rm -r src/deep", "rm src/b.txt"],
    "changed": ["echo src/ > .gitignore", "echo x > src/b.txt"],
    "made": ["echo src/ > .gitignore", "echo x > src/new; mkdir src/more; echo x > src/more/y"],
    "inside": [r"printf '*\n!.gitignore\n' > src/.gitignore", "rm src/b.txt; rm -r src/deep"],
    "another thing": ["echo a.txt > .gitignore", "rm a.txt; mkdir a.txt; touch a.txt/x"],
    "a faulty line": [r"printf 'x[]\nsrc/\n' > .gitignore", "rm -r src"],
    "back again": ["echo src/ > .gitignore", "rm .gitignore", "rm -r src"],
    "twice": ["echo src/ > .gitignore", "echo x > src/b.txt", "rm -r src", "rm a.txt"],
}


# what one process remembers several look up: that is tried with every sequence at length only
SEVERAL = GONE.keys() if TORTURE else {"a folder", "in one command", "back again", "twice"}
TRIES = [(name, anew) for name in GONE for anew in (False, True) if not anew or name in SEVERAL]


@pytest.mark.parametrize(
    ("name", "anew"),
    TRIES,
    ids=[f"{name}, {'several processes' if anew else 'one'}" for name, anew in TRIES],
)
async def test_a_new_ignore_rule_does_not_drop_saved_files(bench: Bench, name: str, anew: bool):
    bench.shell("mkdir -p src/deep; echo a > a.txt; echo b > src/b.txt; echo c > src/deep/c")
    before = bench.texts()
    for command in GONE[name]:
        await bench.run(command)
        if anew:
            bench.checkpoints = bench.open()
    assert await bench.back() == ""
    assert bench.texts() == before


async def test_everything_is_saved_before_a_tool_changes_an_ignore_file(bench: Bench):
    bench.shell("mkdir src; echo a > src/a")
    await bench.run("echo src/ > .gitignore", [".gitignore"])
    await bench.run("rm -r src")
    assert await bench.back() == ""
    assert bench.texts() == {"src/a": "a\n"}


async def test_in_an_ignored_folder_only_saved_files_are_followed(bench: Bench):
    bench.shell("echo build/ > .gitignore; mkdir build; touch build/{a,b}")
    await bench.run("echo tool > build/a", ["build/a"])
    await bench.run("echo more >> build/a; echo more >> build/b; touch build/c")
    assert set(await files_at(bench.checkpoints, bench.steps[-1][1])) == {".gitignore", "build/a"}
    await bench.run("rm build/a")
    assert await bench.back() == ""
    assert bench.texts() == {".gitignore": "build/\n", "build/a": "", "build/b": "more\n"} | {
        "build/c": ""
    }


async def test_a_followed_file_that_becomes_a_folder_is_restored(bench: Bench):
    bench.shell("echo build/ > .gitignore; mkdir build; echo mine > build/a")
    await bench.run("true", ["build/a"])
    await bench.run("rm build/a; mkdir build/a; echo x > build/a/x")
    assert await bench.back() == ""
    assert bench.texts() == {".gitignore": "build/\n", "build/a": "mine\n"}


async def test_dependencies_that_become_ignored_are_no_longer_followed(bench: Bench):
    bench.shell("mkdir -p node_modules/x; touch node_modules/x/y")
    await bench.run("echo node_modules > .gitignore")
    assert set(await files_at(bench.checkpoints, bench.steps[-1][1])) == {".gitignore"}


async def test_followed_files_are_saved_beyond_the_file_limit(bench: Bench):
    bench.shell("touch a; echo b > b; mkdir c; echo d > c/d")
    few = ShadowCheckpoints(bench.work, bench.home, Limits(checkpoint_files=3))
    first = await few.save(None)
    bench.shell("mkdir 0 z; touch {0,z}/{0..9} {0..9}x; echo x > b; echo x > c/d")
    second = await few.save(None)
    await few.restore([(first.id, second.id)], overwrite=False)
    assert ((bench.work / "b").read_text(), (bench.work / "c/d").read_text()) == ("b\n", "d\n")


# ── what git tracks ─────────────────────────────────────────────────────────────────────


TRACKED = (
    *("keep.log", "build/keep.txt", "build/deep/er/keep.txt", "node_modules/x/index.js"),
    "inner/keep.log",  # in a repository inside
)


async def test_a_tracked_file_is_saved_even_if_ignored(bench: Bench):
    (bench.work / ".gitignore").write_text("*.log\nbuild/\nnode_modules/\n")
    for path in TRACKED:
        (bench.work / path).parent.mkdir(parents=True, exist_ok=True)
        (bench.work / path).write_text("committed")
    outer = [path for path in TRACKED if not path.startswith("inner/")]
    bench.shell(f"git init -q .; git add -f {' '.join(outer)}")
    bench.shell("git init -q inner; cd inner; git config index.version 4; git add -f keep.log")
    for path in TRACKED:
        (bench.work / path).write_text("not committed")
        (bench.work / path).with_name("other.log").write_text("ignored")
    await bench.run(f"rm {' '.join(TRACKED)}")
    assert set(await files_at(bench.checkpoints, bench.steps[0][0])) == {".gitignore", *TRACKED}
    assert await bench.back() == ""
    assert {bench.texts()[path] for path in TRACKED} == {"not committed"}


async def test_a_file_that_git_stops_tracking_is_still_followed(bench: Bench):
    bench.shell("git init -q .; echo '*.log' > .gitignore; echo mine > a.log; git add -f a.log")
    await bench.run("git rm -q --cached a.log")
    await bench.run("rm a.log")
    await bench.back()
    assert bench.texts() == {".gitignore": "*.log\n", "a.log": "mine\n"}


def test_tracked_files_in_a_linked_worktree_are_found(tmp_path: Path):
    main = tmp_path / "main"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], cwd=main, check=True)
    subprocess.run([*git, "worktree", "add", "-q", "../linked/work"], cwd=main, check=True)
    work = tmp_path / "linked" / "work"
    (work / "a.log").write_text("x")
    subprocess.run([*git, "add", "-f", "a.log"], cwd=work, check=True)
    assert "a.log" in GitIndexes(str(work)).tracked_in("")


def test_the_git_index_is_parsed_like_git_does(tmp_path: Path):
    names = ["a.b", "a/b/c", "a-b", "dir/x", "dir/y/z", "é", "long/" + "n" * 200, "sp ace"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    (tmp_path / "later").write_text("x")
    subprocess.run(["git", "add", "-N", "later"], cwd=tmp_path, check=True)
    for version in ("2", "3", "4"):
        subprocess.run(["git", "update-index", "--index-version", version], cwd=tmp_path)
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=tmp_path, check=True, capture_output=True
        ).stdout
        data = (tmp_path / ".git" / "index").read_bytes()
        assert tracked_paths(data) == listed.split(b"\0")[:-1]
    tracked = GitIndexes(str(tmp_path)).tracked_in("")
    assert tracked.names_in("dir") == {"x", "y"}
    assert tracked.names_in("a") == {"b"}
    assert tracked.names_in("di") == set()


HARMFUL = ["../outside", "/etc/passwd", ".git/config", "build/../../outside", "build/.git/x"]


async def test_harmful_index_paths_are_not_saved(bench: Bench):
    (bench.work.parent / "outside").write_text("secret")
    bench.shell(
        "git init -q .; echo 'build/' > .gitignore; mkdir -p build/.git; touch build/.git/x; "
        "mkdir -p 000/x; touch 000/x/x; git add -f 000/x/x"
    )
    data = (bench.work / ".git/index").read_bytes()[:-20]
    for path in HARMFUL:
        name = path.encode()
        entry = data[12 : 12 + 60] + len(name).to_bytes(2, "big") + name
        entry += bytes(8 - len(entry) % 8)
        (bench.work / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1" + entry + bytes(20))
        assert path in GitIndexes(str(bench.work)).tracked_in("")
        saved = await bench.open().save(None)
        assert saved.problem == ""
        found = set(await files_at(bench.checkpoints, saved.id))
        assert found == {".gitignore", "000/x/x"}, path


# ── files that become what no checkpoint holds ──────────────────────────────────────────

BECOMES = {
    "large": "head -c 5000 /dev/zero > {0}",
    "grown": "head -c 5000 /dev/zero >> {0}",
    "a pipe": "rm {0}; mkfifo {0}",
    "closed": "chmod 000 {0}",
    "large, then small": "head -c 5000 /dev/zero > {0}; echo small > {0}",
    "a folder": "rm {0}; mkdir {0}; head -c 5000 /dev/zero > {0}/x",
}


@pytest.mark.parametrize("named", [False, True], ids=["command", "tool"])
async def test_a_saved_file_replaced_by_an_unsavable_one_is_restored(bench: Bench, named: bool):
    paths = {f"{place}{name.split()[-1]}": command for name, command in BECOMES.items()
             for place in ("", "src/")}  # fmt: skip
    (bench.work / "src").mkdir()
    for path in paths:
        (bench.work / path).write_text("mine\n")
    commands = "\n".join(command.format(path) for path, command in paths.items())
    await bench.run(commands, list(paths) if named else None)
    rehearsed = await bench.checkpoints.restore(bench.steps, overwrite=False, rehearse=True)
    assert paths.keys() <= {effect.path for effect in rehearsed.effects}
    reported = await bench.back()
    assert bench.texts() == dict.fromkeys(paths, "mine\n")
    for kept in bench.aside():
        assert str(kept) in reported
    large = [kept for kept in bench.aside() if kept.stat().st_size >= 5000]
    assert len(large) == 2 * len(("large", "grown", "a folder"))


async def test_steps_that_grow_and_shrink_a_file_are_undone(bench: Bench):
    bench.shell("echo mine > a")
    await bench.run("head -c 5000 /dev/zero > a; head -c 5000 /dev/zero > new")
    await bench.run("echo x > a; echo x > new")
    assert await bench.back() == ""
    assert bench.texts() == {"a": "mine\n"}


async def test_a_later_change_by_the_user_is_kept(bench: Bench):
    bench.shell("echo mine > a")
    await bench.run("head -c 5000 /dev/zero > a")
    bench.shell("echo by hand > a")
    restored = await bench.checkpoints.restore(bench.steps, overwrite=False)
    assert (restored.kept, bench.texts()) == (("a",), {"a": "by hand\n"})


async def test_undo_removes_new_pipes_and_moves_large_files_aside(bench: Bench):
    await bench.run("head -c 5000 /dev/zero > large; mkfifo pipe; mkdir d; mkfifo d/pipe")
    reported = await bench.back()
    (kept,) = bench.aside()
    assert (list(bench.work.iterdir()), kept.stat().st_size) == ([], 5000)
    assert str(kept) in reported


async def test_a_folder_replaced_by_a_pipe_is_restored_with_its_files(bench: Bench):
    bench.shell("mkdir -p d/e; echo mine > d/e/f")
    await bench.run("rm -r d; mkfifo d")
    await bench.back()
    assert bench.texts() == {"d/e/f": "mine\n"}


NOT_KEPT = {"deleted": "rm large", "changed": "echo x >> large", "replaced": "echo x > large"}


@pytest.mark.parametrize("command", NOT_KEPT.values(), ids=[f"{name}" for name in NOT_KEPT])
async def test_a_file_that_cannot_be_saved_is_reported_on_save_and_undo(bench: Bench, command: str):
    bench.shell("head -c 5000 /dev/zero > large; echo a > a")
    await bench.run(f"{command}; echo x > a")
    assert bench.skipped == ("large (too large)",)
    left = bench.texts()
    assert "could not be saved" in (reported := await bench.back())
    assert "large" in reported
    assert bench.texts() == left | {"a": "a\n"}


async def test_unchanged_files_that_cannot_be_saved_are_not_reported(bench: Bench):
    bench.shell("head -c 5000 /dev/zero > large; mkfifo pipe; echo a > a")
    await bench.run("echo x > a")
    assert await bench.back() == ""


async def test_a_folder_made_unreadable_by_a_command_is_reopened(bench: Bench):
    bench.shell("mkdir d; echo mine > d/f")
    await bench.run("chmod 000 d")
    try:
        await bench.back()
        assert bench.texts() == {"d/f": "mine\n"}
    finally:
        (bench.work / "d").chmod(0o755)


async def test_a_restored_file_keeps_its_user_attributes(bench: Bench):
    file = bench.work / "a"
    file.write_text("mine\n")
    try:
        os.setxattr(file, "user.tag", b"red")
    except OSError:
        pytest.skip("there are no such attributes here")
    await bench.run("echo x > a; chmod 444 a")
    await bench.run("chmod 400 a")
    await bench.back()
    assert (file.read_text(), os.getxattr(file, "user.tag")) == ("mine\n", b"red")


async def test_a_restored_file_keeps_its_access_rights(bench: Bench):
    file = bench.work / "a"
    file.write_text("mine\n")
    restrict(file)
    await bench.run("echo x > a")
    await bench.back()
    assert file.read_text() == "mine\n"
    assert still_restricted(file)


@pytest.mark.parametrize("how", ["rm a", "cp a b; chmod 664 b; mv b a; echo x > a"])
@pytest.mark.parametrize("anew", [False, True])
async def test_a_lost_access_list_is_restored_with_the_file(bench: Bench, how: str, anew: bool):
    """Otherwise its group could do what the list denied it."""
    file = bench.work / "a"
    file.write_text("mine\n")
    os.setxattr(file, ACL, acl())
    await bench.run("echo other > c")
    if anew:
        bench.checkpoints = bench.open()
    await bench.run(how)
    await bench.back()
    assert file.read_text() == "mine\n"
    assert os.getxattr(file, ACL) == acl()
    assert file.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("how", ["rm a", "mv a b", "mkdir d; mv a d/a"])
@pytest.mark.parametrize("anew", [False, True])
async def test_noted_attributes_are_restored_with_the_file(bench: Bench, how: str, anew: bool):
    file = bench.work / "a"
    file.write_text("mine\n")
    restrict(file)
    await bench.run("echo other > c")
    if anew:
        bench.checkpoints = bench.open()
    await bench.run(how)
    assert await bench.back() == ""
    assert bench.texts() == {"a": "mine\n"}
    assert still_restricted(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_owner_of_a_deleted_file_is_restored(bench: Bench):
    file = bench.work / "a"
    file.write_text("mine\n")
    os.chown(file, NOBODY, NOBODY)
    await bench.run("rm a")
    assert await bench.back() == ""
    assert (file.stat().st_uid, file.stat().st_gid) == (NOBODY, NOBODY)


async def test_undo_keeps_an_attribute_that_the_user_changed_later(bench: Bench):
    file = bench.work / "a"
    file.write_text("mine\n")
    os.setxattr(file, "user.tag", b"red")
    await bench.run("echo x > a")
    os.setxattr(file, "user.tag", b"blue")
    await bench.back()
    assert (file.read_text(), os.getxattr(file, "user.tag")) == ("mine\n", b"blue")


# ── what counts as a change ─────────────────────────────────────────────────────────────

ONLY_IGNORED = [
    *("echo x > x.log", "echo more >> old.log", "rm old.log"),
    "mkdir -p out/deep; echo x > out/deep/x.log",
    "mkdir -p .cache/v; echo '*' > .cache/.gitignore; echo x > .cache/v/x",
    *("mkdir build; echo x > build/x", "rm -r logs"),
]
CHANGES = [
    *("echo x > a", "chmod 600 a", "rm a", "mkdir empty", "git init -q inner"),
    *("echo x > out/y.log; echo x > out/a", "head -c 5000 /dev/zero > large"),
    *("echo x >> large.bin", "echo '*.txt' >> .gitignore"),
]


async def test_a_step_that_changed_only_ignored_files_does_not_count(bench: Bench):
    bench.shell("printf '*.log\\nbuild/\\n' > .gitignore; echo a > a; echo l > old.log")
    bench.shell("mkdir logs; echo l > logs/a.log; head -c 3000 /dev/zero > large.bin")
    for command in (*ONLY_IGNORED, *CHANGES):
        await bench.run(command)
        counts = await bench.checkpoints.changed_files(*bench.steps[-1])
        assert counts is (command in CHANGES), command


# ── files that hold secrets ─────────────────────────────────────────────────────────────

SECRET = "token-4711"


def stored(bench: Bench) -> bytes:
    """All that is in the packs."""
    [folder] = bench.home.glob("*.git")
    command = ["git", f"--git-dir={folder}", "cat-file", "--batch", "--batch-all-objects"]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.parametrize("where", [".env", "conf/.env.local", "ignored/deep/.env"])
async def test_ignored_secret_files_are_never_stored(bench: Bench, where: str):
    bench.shell(f"mkdir -p $(dirname {where}); echo {SECRET} > {where}; echo mine > a")
    bench.shell("printf '.env*\\nignored/\\n' > .gitignore")
    await bench.run(f"echo x > a; echo other-{SECRET} > {where}")
    await bench.run("echo y > a", [where])
    assert b"mine" in stored(bench)
    assert SECRET.encode() not in stored(bench)
    assert await bench.checkpoints.diff(*bench.steps[0]) == [("a", b"mine\n", b"x\n")]
    assert await bench.back() == ""
    assert (bench.work / where).read_text() == f"{SECRET}\n", "this process still knows"
    assert SECRET.encode() not in stored(bench)
    assert await bench.checkpoints.health() == ""


async def test_a_later_process_reports_that_secret_files_cannot_be_restored(bench: Bench):
    bench.shell(f"echo .env > .gitignore; echo {SECRET} > .env; echo mine > a")
    await bench.run("rm .env a")
    bench.checkpoints = bench.open()
    assert await bench.checkpoints.health() == ""
    rehearsed = await bench.checkpoints.restore(bench.steps, overwrite=False, rehearse=True)
    assert ([effect.path for effect in rehearsed.effects], rehearsed.unsaved) == (["a"], (".env",))
    reported = await bench.back()
    assert reported == "Checkpoints do not store ignored files that may hold secrets: .env."
    assert bench.texts() == {".gitignore": ".env\n", "a": "mine\n"}


@pytest.mark.parametrize("how", ["git init -q; git add -f .env", "rm .gitignore"])
async def test_tracked_or_unignored_secret_files_are_stored(bench: Bench, how: str):
    bench.shell(f"echo .env > .gitignore; echo {SECRET} > .env")
    await bench.run(how)
    await bench.run("rm .env")
    bench.checkpoints = bench.open()
    bench.steps = bench.steps[1:]
    assert await bench.back() == ""
    assert (bench.work / ".env").read_text() == f"{SECRET}\n"
