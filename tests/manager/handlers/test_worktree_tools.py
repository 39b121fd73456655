"""Updating a worktree, its script's output, and opening it in an editor."""

import os
from pathlib import Path

import anyio
import pytest

from rookery.errors import CommandRejected
from rookery.manager import requests as asked
from support.manager_project import PATIENCE, Project
from support.worktree_folders import git, put
from support.worktree_requests import DONE, with_repository, worktree_manager, write

pytestmark = pytest.mark.anyio

PROGRAMS = Path(__file__).parents[2] / "support" / "programs"


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def test_a_worktree_gets_the_commits_of_its_parent_unless_its_agent_works(project: Project):
    async with worktree_manager(project) as at:
        shown = await at.completed(DONE)
        (row,) = await at.worktrees()
        put(project.path, {"a.txt": b"newer\n"})
        git(project.path, "commit", "-q", "-am", "newer")
        done = await at.do(asked.UpdateWorktree(worktree_id=row.id))
        assert done.notes == (f"{row.branch} now has all of main.",)
        assert (at.place(shown) / "a.txt").read_bytes() == b"newer\n"
        (waiting,) = (await at.start(worktree_id=row.id, auto_approve=False)).session_ids
        await at.watched.at(waiting, "waiting_approval")
        with pytest.raises(CommandRejected, match="Stop it, then update"):
            await at.do(asked.UpdateWorktree(worktree_id=row.id))


async def test_the_output_of_the_run_script_is_shown_with_its_port(project: Project):
    write(project, "run-script", "echo listening on $WORKTREE_PORT; exec sleep 100\n")
    async with worktree_manager(project) as at:
        await at.completed(DONE)
        (row,) = await at.worktrees()
        read = asked.ReadScriptLog(worktree_id=row.id)
        before = await at.do(read)
        assert (before.running, before.text) == (False, "")
        await at.do(asked.RunScript(worktree_id=row.id))
        with anyio.fail_after(PATIENCE):
            while not (shown := await at.do(read)).text:
                await anyio.lowlevel.checkpoint()
        assert (shown.running, shown.text) == (True, f"listening on {row.first_port}\n")
        await at.do(asked.StopScript(worktree_id=row.id))


async def test_only_configured_editors_and_those_outside_the_project_are_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    folder = project.path / "bin"
    put(folder, {"zed": b"#!/bin/sh\nexit 0\n"})
    (folder / "zed").chmod(0o755)
    opened = project.folder / "opened"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{PROGRAMS}{os.pathsep}/usr/bin:/bin")
    project.environ.update({"VISUAL": "vim", "OPENED": str(opened)})
    async with worktree_manager(project) as at:
        shown = await at.completed(DONE)
        session_id = shown.record.session_id
        assert [each.id for each in await at.do(asked.ListEditors())] == ["subl"]
        os.mkfifo(opened)
        done = await at.do(asked.OpenEditor(session_id=session_id, path="a.txt"))
        assert done.notes == ("Opened a.txt in Sublime Text.",)
        said = await anyio.to_thread.run_sync(opened.read_text)
        assert said == f"{at.place(shown) / 'a.txt'}\n"
        for path, words in (("../../../etc", "is outside"), ("none.txt", "does not exist")):
            with pytest.raises(CommandRejected, match=words):
                await at.do(asked.OpenEditor(session_id=session_id, path=path))
        with pytest.raises(CommandRejected, match="No such editor"):
            await at.do(asked.OpenEditor(session_id=session_id, editor="zed"))
