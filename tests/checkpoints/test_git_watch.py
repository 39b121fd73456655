"""Commands cannot plant programs where git would run them."""

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from rookery.checkpoints.git_repair import GitRepair
from rookery.checkpoints.git_views import GitScanner, GitView
from rookery.checkpoints.git_watch import GitWatch
from rookery.commands.git_use import with_git_use
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Deed, Judgement, Outcome, Permit, Target

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c", name="execute_command", arguments={})
COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"


async def perform(permit: Permit) -> Outcome:
    return Outcome(text="")


def git_watch(root: Path, aside: Path, reported: list[str]) -> GitWatch:
    return GitWatch(
        root=root,
        aside=aside,
        report=reported.append,
        attended=lambda: False,
        running=lambda: False,
        started=lambda call_id: True,
        approved=lambda call_id: False,
        unconfined=lambda: False,
        scanner=GitScanner(root, aside),
        repair=GitRepair(root, aside / "copies", aside),
        exposed=lambda action: False,
    )


class Watched:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.git = self.root / ".git"
        self.reported: list[str] = []
        self.aside = folder / "aside"
        self.background = False
        self.begun = True
        self.watch = replace(
            git_watch(self.root, self.aside, self.reported),
            attended=lambda: True,
            running=lambda: self.background,
            started=lambda call_id: self.begun,
        )

    async def run(self, command: str, judged: Judgement | None = None) -> None:
        action = Action(title="Run", perform=perform, command=command, judgement=judged)
        await self.watch.before(CALL, action)
        await anyio.run_process(["bash", "-c", command], cwd=self.root)
        await self.watch.after(CALL, action, Outcome(text=""))


def is_there(path: Path) -> bool:
    return os.path.lexists(path)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_planted_hook_is_moved_aside_and_reported(watched: Watched):
    await watched.run("echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    assert not (watched.git / "hooks" / "pre-commit").exists()
    assert [file.read_text() for file in watched.aside.iterdir()] == ["evil\n"]
    assert ".git/hooks/pre-commit" in watched.reported[0]


async def test_configuration_changed_or_removed_by_a_command_is_restored(watched: Watched):
    before = (watched.git / "config").read_bytes()
    await watched.run("git config core.fsmonitor ./evil")
    assert (watched.git / "config").read_bytes() == before
    await watched.run("rm .git/config")
    assert (watched.git / "config").read_bytes() == before


async def test_a_large_hook_is_moved_aside_and_restored_whole(
    watched: Watched,
):
    hook = watched.git / "hooks" / "pre-commit"
    hook.write_bytes(b"mine" * 2**20)
    await watched.run("head -c 3000000 /dev/zero > .git/hooks/pre-commit")
    assert hook.read_bytes() == b"mine" * 2**20
    (kept,) = watched.aside.iterdir()
    assert kept.read_bytes() == bytes(3_000_000)


async def test_a_link_in_place_of_the_configuration_is_removed(watched: Watched):
    before = (watched.git / "config").read_bytes()
    await watched.run("cp .git/config evil; ln -sf ../evil .git/config")
    assert not (watched.git / "config").is_symlink()
    assert (watched.git / "config").read_bytes() == before


async def test_commits_are_not_reported(watched: Watched):
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git branch y"
    await watched.run(commit)
    assert watched.reported == []


async def test_an_approved_hook_stays(watched: Watched):
    named = Judgement(targets=(Target(Deed.WRITE, ".git/hooks/pre-commit"),))
    await watched.run("echo fine > .git/hooks/pre-commit", named)
    assert (watched.git / "hooks" / "pre-commit").read_text() == "fine\n"


async def test_a_folder_without_git_is_ignored(tmp_path: Path):
    reported: list[str] = []
    watch = git_watch(tmp_path, tmp_path / "aside", reported)
    action = Action(title="Run", perform=perform, command="true")
    await watch.before(CALL, action)
    await watch.after(CALL, action, Outcome(text=""))
    assert (reported, (tmp_path / "aside").exists()) == ([], False)


async def test_an_approved_git_command_keeps_its_configuration(watched: Watched):
    await watched.run("git config user.name me", Judgement(needs_keys=True))
    assert "name = me" in (watched.git / "config").read_text()
    assert watched.reported == []


# ── links, pipes and folders in the way ─────────────────────────────────────────────────

LINKS = (
    *("mkdir -p .git/worktrees; ln -s {outside} .git/worktrees/w", "ln -s {parent} .git/worktrees"),
    "mkdir -p .git/modules; ln -s {outside} .git/modules/m",
    "mkdir -p .git/modules/deep; ln -s {outside} .git/modules/deep/m",
    *("ln -s {parent} .git/modules", "rm -rf .git/hooks; ln -s {outside} .git/hooks"),
    *("rm -rf .git/info; ln -s {outside} .git/info", "mv .git elsewhere; ln -s {outside} .git"),
)


@pytest.mark.parametrize("plant", LINKS)
async def test_restoring_does_not_follow_links_outside(watched: Watched, plant: str):
    outside = watched.root.parent / "above" / "outside"
    (outside / "hooks").mkdir(parents=True)
    for name in ("config", "HEAD", "attributes", "pre-commit", "hooks/x", "commondir", "gitdir"):
        (outside / name).write_text(name)
    command = plant.format(outside=outside, parent=outside.parent)
    await watched.run(command)
    await watched.run(f"echo changed > {outside}/config; rm {outside}/HEAD")
    left = {str(f.relative_to(outside)) for f in outside.rglob("*") if f.is_file()}
    assert left == {"config", "attributes", "pre-commit", "hooks/x", "commondir", "gitdir"}
    assert (outside / "config").read_text() == "changed\n"
    assert not (watched.root / command.split()[-1]).is_symlink()
    assert len(watched.reported) == 1
    if "elsewhere" not in plant:
        assert (watched.git / "hooks" / "pre-commit.sample").exists()


async def test_an_existing_link_outside_is_not_followed(watched: Watched):
    outside = watched.root.parent / "outside"
    outside.mkdir()
    (watched.git / "worktrees").mkdir()
    (watched.git / "worktrees" / "w").symlink_to(outside)
    await watched.run(f"echo x > {outside}/config")
    assert ((outside / "config").read_text(), watched.reported) == ("x\n", [])


PIPES = ("commondir", "config", "info/attributes", "hooks/x", "worktrees/w/gitdir", "worktrees/p")


async def test_pipes_are_removed_without_blocking(watched: Watched):
    pipes = " ".join(f".git/{name}" for name in PIPES)
    await watched.run(f"mkdir -p .git/worktrees/w; rm -f {pipes}; mkfifo {pipes}")
    assert [name for name in PIPES if (watched.git / name).is_fifo()] == []
    assert (watched.git / "config").is_file()
    os.mkfifo(watched.git / "hooks" / "there-before")
    await watched.run("true")
    assert len(watched.reported) == 1


async def test_a_folder_in_place_of_a_file_is_replaced(watched: Watched):
    before = (watched.git / "config").read_bytes()
    await watched.run("rm .git/config; mkdir .git/config; echo x > .git/config/y")
    assert (watched.git / "config").read_bytes() == before


async def test_a_removed_hook_is_restored_as_executable(watched: Watched):
    hook = watched.git / "hooks" / "pre-commit"
    hook.write_text("mine")
    hook.chmod(0o755)
    await watched.run("rm -r .git/hooks")
    assert (hook.read_text(), hook.stat().st_mode & 0o777) == ("mine", 0o755)
    await watched.run("chmod -x .git/hooks/pre-commit")
    assert hook.stat().st_mode & 0o777 == 0o755


async def test_a_removed_worktree_stays_removed(watched: Watched):
    (watched.git / "worktrees" / "w").mkdir(parents=True)
    (watched.git / "worktrees" / "w" / "gitdir").write_text("x")
    await watched.run("rm -r .git/worktrees")
    assert (watched.reported, (watched.git / "worktrees").exists()) == ([], False)


@pytest.mark.parametrize("plant", ["echo 'gitdir: e' > .git", "ln -s e .git", "mkfifo .git"])
async def test_a_planted_git_pointer_or_pipe_is_removed(watched: Watched, plant: str):
    watched.git.rename(watched.root / "e")
    await watched.run(plant)
    assert ".git" not in [entry.name for entry in watched.root.iterdir()]
    assert ".git" in watched.reported[0]


# ── commands that run on ────────────────────────────────────────────────────────────────


def plant(watched: Watched) -> Path:
    hook = watched.git / "hooks" / "pre-commit"
    hook.write_text("evil")
    return hook


async def test_a_hook_planted_by_a_background_command_is_found_at_its_end(watched: Watched):
    watched.background = True
    await watched.run("true")
    hook = plant(watched)
    watched.background = False
    await watched.watch.settle()
    assert (hook.exists(), len(watched.reported)) == (False, 1)


async def test_a_hook_planted_by_a_background_command_is_found_by_the_next_command(
    watched: Watched,
):
    watched.background = True
    await watched.run("true")
    hook = plant(watched)
    await watched.run(f"test ! -e {hook}")
    plant(watched)
    watched.background = False
    await watched.run(f"test ! -e {hook}")
    assert len(watched.reported) == 2


async def test_a_hook_planted_by_an_unfinished_command_is_found(watched: Watched):
    action = Action(title="Run", perform=perform, command="sleep 60")
    await watched.watch.before(CALL, action)
    hook = plant(watched)
    await watched.run("true")
    assert not hook.exists()


async def test_user_changes_between_commands_stay(watched: Watched):
    await watched.run("true")
    hook = plant(watched)
    await watched.run("true")
    assert (hook.read_text(), watched.reported) == ("evil", [])


async def test_approved_changes_stay_while_another_command_runs(watched: Watched):
    watched.background = True
    await watched.run("true")
    await watched.run("git config user.name me", Judgement(needs_keys=True))
    await watched.watch.settle()
    assert "name = me" in (watched.git / "config").read_text()


# ── repositories that a command makes ───────────────────────────────────────────────────

PLANTED = {
    "hook": "mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit",
    "hook in a real one": "git init -q sub; echo evil > sub/.git/hooks/pre-commit",
    "program in the settings": "git init -q sub; git -C sub config core.fsmonitor ./evil",
    "on one line": "git init -q sub; echo '[core] fsmonitor = ./evil' >> sub/.git/config",
    "continued": r"git init -q sub; printf '\tname = x\\\ny\n' >> sub/.git/config",
    "other settings": "git init -q sub; git -C sub config include.path ../../evil",
    "settings of a worktree": "git init -q sub; echo '[core]' > sub/.git/config.worktree",
    "filters": "git init -q sub; mkdir -p sub/.git/info; echo x > sub/.git/info/attributes",
    "remote program": "git init -q sub; git -C sub remote add o 'ext::sh -c evil'",
    "link to settings": "git init -q sub; mv sub/.git/config c; ln -s ../../c sub/.git/config",
    "link": "git init -q e; mv e/.git e/g; mkdir sub; ln -s ../e/g sub/.git",
    "file": "git init -q e; mv e/.git e/g; mkdir sub; echo 'gitdir: ../e/g' > sub/.git",
    "file to a worktree": (
        "git init -q --bare e; mkdir -p sub e/worktrees/w; "
        "echo 'gitdir: ../e/worktrees/w' > sub/.git; "
        "echo ../.. > e/worktrees/w/commondir; echo $PWD/sub/.git > e/worktrees/w/gitdir"
    ),
    "pipe": "mkdir sub; mkfifo sub/.git",
    "in an ignored folder": "echo sub >> .gitignore; mkdir -p sub/.git/hooks",
}


@pytest.mark.parametrize("command", PLANTED.values(), ids=[f"{n}" for n in PLANTED])
async def test_a_new_repository_that_could_run_programs_is_moved_aside(
    watched: Watched, command: str
):
    await watched.run(command)
    assert not is_there(watched.root / "sub" / ".git")
    (kept,) = watched.aside.iterdir()
    assert str(kept) in watched.reported[0]
    assert (watched.git / "config").exists()


HARMLESS = {
    "init": "git init -q sub",
    "init with a name": "git init -q sub; git -C sub config user.name me",
    "clone": f"{COMMIT}; git clone -q . sub",
    "worktree": f"{COMMIT}; git worktree add -q sub",
    "worktree of a new one": f"git init -q new; cd new; {COMMIT}; git worktree add -q ../sub",
}


@pytest.mark.parametrize("command", HARMLESS.values(), ids=[f"{n}" for n in HARMLESS])
async def test_a_new_repository_without_programs_stays_and_is_reported(
    watched: Watched, command: str
):
    await watched.run(command)
    await anyio.run_process(["git", "status"], cwd=watched.root / "sub")
    assert not watched.aside.exists()
    assert is_there(watched.root / "sub" / ".git")
    assert any("sub/.git" in reported for reported in watched.reported)
    before = len(watched.reported)
    await watched.run("true")
    assert len(watched.reported) == before


async def test_a_hook_planted_later_in_an_accepted_repository_is_removed(watched: Watched):
    await watched.run("git init -q sub")
    await watched.run("echo evil > sub/.git/hooks/pre-commit; git -C sub config core.pager evil")
    assert not (watched.root / "sub/.git/hooks/pre-commit").exists()
    assert "pager" not in (watched.root / "sub/.git/config").read_text()


async def test_a_repository_from_an_approved_command_stays(watched: Watched):
    made = "git init -q sub; git -C sub config core.hooksPath ../hooks"
    await watched.run(made, Judgement(needs_keys=True))
    assert "hooksPath" in (watched.root / "sub/.git/config").read_text()
    assert watched.reported == []


async def test_a_repository_of_the_user_is_not_treated_as_new(watched: Watched):
    await anyio.run_process(["git", "init", "-q", str(watched.root / "lib")])
    await watched.run("rm -rf lib/.git/hooks; true")
    await watched.run("rm -rf lib")
    assert watched.reported[1:] == []


HOOKED = "git init -q {0}; echo checks > {0}/.git/hooks/pre-commit"
MOVED = {
    "renamed": (HOOKED.format("lib"), "mv lib sub"),
    "renamed, and leads to a folder beside it": (
        HOOKED.format("lib") + "; git -C lib config core.hooksPath ../hooks",
        "mv lib sub",
    ),
    "renamed with one inside": (
        HOOKED.format("lib/in") + "; " + HOOKED.format("lib"),
        "mv lib sub",
    ),
    "moved to another folder": (HOOKED.format("a/b/lib"), "mv a/b/lib sub"),
}


@pytest.mark.parametrize(("made", "command"), MOVED.values(), ids=MOVED.keys())
async def test_a_moved_repository_with_hooks_stays(watched: Watched, made: str, command: str):
    await anyio.run_process(["bash", "-c", made], cwd=watched.root)
    await watched.run(command)
    assert (watched.root / "sub/.git/hooks/pre-commit").read_text() == "checks\n"
    assert not watched.aside.exists()
    assert not (watched.root / "lib").exists()
    assert "sub/.git now" in watched.reported[0]


NOT_MOVED = {
    "a hook that is new": (HOOKED.format("lib"), "mv lib sub; echo evil > sub/.git/hooks/x"),
    "a copy": (HOOKED.format("lib"), "cp -r lib sub"),
    "one that leads to another folder now": (
        HOOKED.format("lib") + "; git -C lib config core.hooksPath ../../hooks",
        "mkdir -p a/b; mv lib a/b/lib; mkdir sub; mv a/b/lib/.git sub/.git; mv sub a/b/sub",
    ),
}


@pytest.mark.parametrize(("made", "command"), NOT_MOVED.values(), ids=NOT_MOVED.keys())
async def test_a_repository_moved_and_changed_is_moved_aside(
    watched: Watched, made: str, command: str
):
    await anyio.run_process(["bash", "-c", made], cwd=watched.root)
    await watched.run(command)
    assert [*watched.root.rglob("sub/.git")] == []
    assert watched.aside.exists()


async def test_the_first_repository_of_the_workspace_stays(tmp_path: Path):
    reported: list[str] = []
    watch = git_watch(tmp_path, tmp_path / "aside", reported)
    action = Action(title="Run", perform=perform, command="git init")
    await watch.before(CALL, action)
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    await watch.after(CALL, action, Outcome(text=""))
    assert (tmp_path / ".git" / "config").exists()
    assert not (tmp_path / "aside").exists()


# ── calls that never began ──────────────────────────────────────────────────────────────


async def test_user_changes_after_a_denied_call_stay(watched: Watched):
    action = Action(title="Run", perform=perform, command="sleep 60")
    watched.begun = False
    await watched.watch.before(CALL, action)
    hook = plant(watched)
    await watched.watch.settle()
    await watched.watch.before(CALL, action)
    assert (hook.read_text(), watched.reported) == ("evil", [])


async def test_user_changes_after_the_last_command_stay(watched: Watched):
    await watched.run("true")
    hook = plant(watched)
    await watched.watch.settle()
    assert (hook.read_text(), watched.reported) == ("evil", [])


# ── what git has begun and not ended ────────────────────────────────────────────────────

LEFT_BEHIND = ("index.lock", "config.lock", "sequencer", "rebase-merge", "MERGE_HEAD")


async def test_unfinished_git_operations_are_reported_once_and_stay(watched: Watched):
    await watched.run(f"cd .git; mkdir sequencer rebase-merge; touch {' '.join(LEFT_BEHIND)}")
    (reported,) = watched.reported
    for name in LEFT_BEHIND:
        assert is_there(watched.git / name)
        assert f".git/{name}" in reported
    await watched.run("true")
    assert len(watched.reported) == 1


async def test_a_lock_is_reported_only_after_its_command_has_ended(
    watched: Watched,
):
    watched.background = True
    await watched.run("touch .git/index.lock")
    assert watched.reported == []
    watched.background = False
    await watched.watch.settle()
    assert ".git/index.lock" in watched.reported[0]


async def test_an_approved_unfinished_git_operation_is_not_reported(watched: Watched):
    await watched.run("mkdir .git/rebase-merge", Judgement(needs_keys=True))
    (watched.git / "index.lock").touch()
    await watched.run("true")
    assert watched.reported == []


# ── large trees ─────────────────────────────────────────────────────────────────────────


async def test_a_command_needs_approval_if_there_are_too_many_folders(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rookery.checkpoints.stat_index.MOST_FOLDERS", 1)
    (watched.root / "a").mkdir()
    action = Action(title="Run", perform=perform, command="make")
    ruling = await watched.watch.before(CALL, action)
    assert ruling.decision is Decision.ASK
    assert "too many folders" in ruling.reasons[0]


class CountingScanner(GitScanner):
    scans = 0

    def scan(self, known: Collection[str]) -> GitView:
        self.scans += 1
        return super().scan(known)


async def test_repositories_are_searched_once_after_a_command(watched: Watched):
    scanner = CountingScanner(watched.root, watched.aside)
    watched.watch = replace(watched.watch, scanner=scanner)
    target = Target(path="new.txt", deed=Deed.WRITE)
    await watched.run("echo > new.txt", Judgement(targets=(target,)))
    assert scanner.scans == 2  # before it and after it


# ── what a person approved, and linked worktrees ────────────────────────────────────────


APPROVED = [
    ("cp", ("cp", "-r", "x", "sub"), False, True),
    ("an installer where nothing confines", ("pre-commit", "install"), True, True),
    ("an installer in a sandbox", ("pre-commit", "install"), False, False),
]


@pytest.mark.parametrize(
    ("said", "unconfined", "stays"), [row[1:] for row in APPROVED], ids=[row[0] for row in APPROVED]
)
async def test_hooks_stay_if_the_approved_command_may_write_them(
    tmp_path: Path, said: tuple[str, ...], unconfined: bool, stays: bool
):
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    watch = replace(
        git_watch(tmp_path, tmp_path / "aside", []),
        approved=lambda call_id: True,
        unconfined=lambda: unconfined,
    )
    judged = with_git_use(Judgement(commands=(said,)))
    action = Action(title="Run", perform=perform, command="it", judgement=judged)
    await watch.before(CALL, action)
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.write_text("checks")
    await watch.after(CALL, action, Outcome(text=""))
    assert hook.exists() is stays


async def test_the_git_folder_of_a_linked_worktree_is_watched(watched: Watched):
    await anyio.run_process(["bash", "-c", COMMIT], cwd=watched.root)
    await anyio.run_process(["git", "worktree", "add", "-q", "../linked"], cwd=watched.root)
    linked = watched.root.parent / "linked"
    own = watched.git / "worktrees" / "linked"
    before = (own / "commondir").read_text(), (own / "gitdir").read_text()
    watched.watch = git_watch(linked, watched.aside, watched.reported)
    watched.root = linked
    await watched.run(f"echo evil | tee {own}/config.worktree {own}/commondir {own}/gitdir")
    assert ((own / "commondir").read_text(), (own / "gitdir").read_text()) == before
    assert not (own / "config.worktree").exists()
    await anyio.run_process(["git", "status"], cwd=linked)
