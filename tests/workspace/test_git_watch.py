"""Commands cannot plant programs where git would run them (PROT, K9, K17)."""

import subprocess
from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.shell.judgement import Deed, Judgement, Target
from rookery.engine.ports import Action, Outcome, Permit
from rookery.workspace.git_watch import GitWatch

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c", name="execute_command", arguments={})


async def perform(permit: Permit) -> Outcome:
    return Outcome(text="")


class Watched:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.git = self.root / ".git"
        self.told: list[str] = []
        self.aside = folder / "aside"
        self.watch = GitWatch(self.root, self.aside, self.told.append, attended=True)

    async def run(self, command: str, judged: Judgement | None = None) -> None:
        action = Action(title="Run", perform=perform, command=command, judgement=judged)
        await self.watch.before(CALL, action)
        subprocess.run(["bash", "-c", command], cwd=self.root, check=True)
        await self.watch.after(CALL, action, Outcome(text=""))


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


async def test_a_hook_that_a_command_planted_is_moved_aside_and_told(watched: Watched):
    await watched.run("echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    assert not (watched.git / "hooks" / "pre-commit").exists()
    assert [file.read_text() for file in watched.aside.iterdir()] == ["evil\n"]
    assert ".git/hooks/pre-commit" in watched.told[0]


async def test_configuration_that_a_command_changed_or_removed_is_as_it_was(watched: Watched):
    before = (watched.git / "config").read_bytes()
    await watched.run("git config core.fsmonitor ./evil")
    assert (watched.git / "config").read_bytes() == before
    await watched.run("rm .git/config")
    assert (watched.git / "config").read_bytes() == before


async def test_a_link_in_the_place_of_configuration_is_removed(watched: Watched):
    before = (watched.git / "config").read_bytes()
    await watched.run("cp .git/config evil; ln -sf ../evil .git/config")
    assert not (watched.git / "config").is_symlink()
    assert (watched.git / "config").read_bytes() == before


async def test_commits_are_nothing_to_be_told_of(watched: Watched):
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git branch y"
    await watched.run(commit)
    assert watched.told == []


async def test_what_the_user_allowed_by_name_stays(watched: Watched):
    named = Judgement(targets=(Target(Deed.WRITE, ".git/hooks/pre-commit"),))
    await watched.run("echo fine > .git/hooks/pre-commit", named)
    assert (watched.git / "hooks" / "pre-commit").read_text() == "fine\n"


async def test_in_a_folder_without_git_nothing_is_done(tmp_path: Path):
    told: list[str] = []
    watch = GitWatch(tmp_path, tmp_path / "aside", told.append, attended=False)
    action = Action(title="Run", perform=perform, command="true")
    await watch.before(CALL, action)
    await watch.after(CALL, action, Outcome(text=""))
    assert (told, (tmp_path / "aside").exists()) == ([], False)


async def test_what_a_person_let_git_do_stays(watched: Watched):
    await watched.run("git config user.name me", Judgement(needs_keys=True))
    assert "name = me" in (watched.git / "config").read_text()
    assert watched.told == []
