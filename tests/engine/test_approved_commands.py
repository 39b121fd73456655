"""Approved changes stay, and versions reverted after a command are kept."""

import subprocess
from pathlib import Path

import anyio
import pytest

from rookery.core.commands import Answer, OpenTask
from rookery.core.facts import Asked, Noted, OutputStreamed, Reminded
from support.stage import TASK, Stage, finish, run

pytestmark = pytest.mark.anyio

WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def with_history(folder: Path, *options: str) -> None:
    """A repository with one commit, `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *options)
    tree = git(folder, "hash-object", "-w", "-t", "tree", "/dev/null").strip()
    commit = git(folder, "commit-tree", tree, "-m", "first").strip()
    git(folder, "update-ref", "refs/heads/main", commit)
    git(folder, "symbolic-ref", "HEAD", "refs/heads/main")


def history(repository: Path) -> str:
    return git(repository.parent, f"--git-dir={repository}", "log", "--format=%s").strip()


def notes(stage: Stage) -> str:
    return "\n".join(fact.text for fact in stage.facts if isinstance(fact, Noted))


def kept(tmp_path: Path, name: str) -> Path:
    """The path of a version that was kept aside."""
    (found,) = (tmp_path / "shadow" / "set-aside").glob(f"command-*/{name}")
    return found


def played(tmp_path: Path, command: str, *, automatic: bool) -> Stage:
    return Stage(tmp_path, [run(command)], [finish()], automatic=automatic, checkpoints=True)


# ── after an approval ───────────────────────────────────────────────────────────────────


async def test_a_repository_that_an_approved_command_moved_keeps_its_history(tmp_path: Path):
    stage = played(tmp_path, "mv .git gitold", automatic=False)
    with_history(stage.root)
    await stage.play("yes", "yes")
    assert history(stage.root / "gitold") == "first"


async def test_protected_files_of_an_approved_command_stay_and_are_named(tmp_path: Path):
    command = "mkdir -p .github/workflows; touch .github/workflows/ci.yml conftest.py; rm AGENTS.md"
    stage = played(tmp_path, command, automatic=False)
    (stage.root / "AGENTS.md").write_text("ours\n")
    await stage.play("yes", "yes")
    assert (stage.root / ".github/workflows/ci.yml").exists()
    assert (stage.root / "conftest.py").exists()
    assert not (stage.root / "AGENTS.md").exists()
    assert "you approved" in notes(stage)
    assert "AGENTS.md, conftest.py" in notes(stage)


async def test_an_approved_command_whose_process_died_is_not_half_undone(tmp_path: Path):
    stage = played(tmp_path, "touch conftest.py; echo done; sleep 60", automatic=False)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            async for event in engine.follow(TASK):
                if isinstance(asked := event.fact, Asked):
                    yes = Answer(
                        task_id=TASK, ask_id=asked.ask_id, reply="yes", digest=asked.digest
                    )
                    await engine.send(yes)
                if isinstance(event.fact, OutputStreamed):
                    break
            process.cancel_scope.cancel()
    second = Stage(tmp_path, [finish()], checkpoints=True)
    await second.play("message stop here", "yes", reopen=True)
    assert (stage.root / "conftest.py").exists()


# ── without a question ──────────────────────────────────────────────────────────────────


async def test_reverted_versions_are_kept_aside_and_reported(tmp_path: Path):
    stage = played(tmp_path, "mkdir .vscode; echo x > .vscode/a; echo y > .envrc", automatic=True)
    (stage.root / ".envrc").write_text("ours\n")
    await stage.play("yes")
    assert not (stage.root / ".vscode").exists()
    assert (stage.root / ".envrc").read_text() == "ours\n"
    assert kept(tmp_path, ".vscode/a").read_text() == "x\n"
    assert kept(tmp_path, ".envrc").read_text() == "y\n"
    where = str(kept(tmp_path, ".envrc").parent)
    assert where in notes(stage)
    assert any(where in fact.text for fact in stage.facts if isinstance(fact, Reminded))


async def test_a_planted_repository_is_moved_aside_as_a_whole(tmp_path: Path):
    stage = played(tmp_path, "mv .git gitold", automatic=True)
    with_history(stage.root)
    git(stage.root, "pack-refs", "--all")
    await stage.play("yes")
    assert not (stage.root / "gitold").exists()
    assert history(kept(tmp_path, "gitold")) == "first"


@pytest.mark.parametrize("where", ["lib/moved.git", "moved.git"])
async def test_a_bare_repository_that_is_moved_stays_where_it_is(tmp_path: Path, where: str):
    stage = played(tmp_path, f"mkdir -p lib; mv bare.git {where}", automatic=True)
    with_history(stage.root / "bare.git", "--bare")
    await stage.play("yes")
    assert history(stage.root / where) == "first"


async def test_a_moved_repository_with_a_new_hook_is_moved_aside(tmp_path: Path):
    stage = played(tmp_path, "mv bare.git b; echo evil > b/hooks/pre-receive", automatic=True)
    with_history(stage.root / "bare.git", "--bare")
    await stage.play("yes")
    assert not (stage.root / "b").exists()
    assert history(kept(tmp_path, "b")) == "first"


async def test_a_folder_that_is_moved_keeps_its_protected_files(tmp_path: Path):
    stage = played(tmp_path, "mv pkg pkg2", automatic=True)
    (stage.root / "pkg").mkdir()
    for name in ("conftest.py", "setup.py", ".envrc", "a.py"):
        (stage.root / "pkg" / name).write_text(f"{name}\n")
    await stage.play("yes")
    assert {p.name for p in (stage.root / "pkg2").iterdir()} >= {"conftest.py", "setup.py", "a.py"}
    assert [p.read_text() for p in stage.root.rglob(".envrc")] == [".envrc\n"] * 2
