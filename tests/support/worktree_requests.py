"""A project with a repository, and a router for requests about its worktrees."""

import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec.structs import replace

from rookery.core.queries import Asking
from rookery.manager.handlers.router import Router, request_to_json
from rookery.manager.handlers.worktree_scripts import AgreedScripts
from rookery.manager.manager import worktree_handlers
from rookery.manager.requests import ListWorktrees, StartSessions
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.shown_rows import Started, WorktreeRow
from rookery.manager.worktrees.project_scripts import project_script
from rookery.platform.worktree_git import Fetching
from support.manager_project import PATIENCE, WRITES, Project, Watched
from support.repositories import copy_of
from support.text_process import start_text
from support.worktree_folders import PROJECT_FILES, git, put

T = TypeVar("T")
HOSTING = Path(__file__).with_name("worktree_process.py")

DONE = """\
- say: Nothing to do.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done again."}}
"""


def with_repository(project: Project) -> Project:
    copy_of(_make_repository, project.path)
    return project


def _make_repository(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    put(folder, PROJECT_FILES)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


def write(project: Project, name: str, text: str, *, agreed: bool = True) -> None:
    """Write a script of the project."""
    put(project.path, {f".rookery/{name}": text.encode()})
    if agreed:
        script = project_script(project.path, name)
        assert script
        AgreedScripts(project.path, project.places).agree_to(script.digest)


class WorktreeManager:
    def __init__(self, project: Project, watched: Watched, handler: Router) -> None:
        self.project = project
        self.watched = watched
        self.supervisor = watched.supervisor
        self.handler = handler

    async def do(self, request: Asking[T]) -> T:
        return await self.handler.do(request)

    def wanted(self, script: str = WRITES, prompt: str = "Write it now") -> StartSessions:
        options = self.project.start_options(script)
        return StartSessions(prompt=prompt, where="worktree", model=f"scripted/{options.model}")

    async def start(self, script: str = WRITES, **more: object) -> Started:
        return await self.do(replace(self.wanted(script), **more))  # type: ignore[arg-type]

    async def completed(self, script: str = WRITES, **more: object) -> SessionSummary:
        """Start a session, and wait until it is completed."""
        (session_id,) = (await self.start(script, **more)).session_ids
        return await self.watched.at(session_id, "completed")

    async def worktrees(self) -> tuple[WorktreeRow, ...]:
        return await self.do(ListWorktrees())

    async def shows(self, fits: Callable[[list[SessionSummary]], bool]) -> list[SessionSummary]:
        """Wait until the list of sessions matches, and return it."""
        async for _ in self.supervisor.changes():
            if fits(found := self.supervisor.all()):
                return found
        raise AssertionError("changes never end")

    def place(self, shown: SessionSummary) -> Path:
        assert shown.record.parallel_mode
        return Path(shown.record.parallel_mode.worktree_path)


@asynccontextmanager
async def worktree_manager(project: Project, *, limit: int = 5) -> AsyncIterator[WorktreeManager]:
    async with project.supervised(limit=limit) as watched:
        families = worktree_handlers(
            watched.supervisor,
            project.places,
            project.environ,
            project.dependencies,
            fetching=Fetching(("file",)),
        )
        yield WorktreeManager(project, watched, Router(families))


def killed(project: Project, request: Asking[Any], point: str) -> None:
    """Send a request to a manager that is killed at a kill point, and wait for what it leaves."""
    with start_text(
        [str(project.path)],
        {**project.environ, "ROOKERY_KILLPOINT": point},
        project.folder,
        program=HOSTING,
        given=request_to_json(request).decode(),
    ) as process:
        said = process.communicate(timeout=PATIENCE)
        assert process.wait() == -signal.SIGKILL, said
    deadline = time.monotonic() + PATIENCE
    while left := project.orphans():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


async def until(holds: Callable[[], bool]) -> None:
    """Poll a condition that no session reports."""
    with anyio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110 (files send no events)
            await anyio.sleep(0.01)
