"""A session resumes after a kill and is stopped at that very moment."""

import os

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.facts import Asked, TaskReopened
from rookery.manager.sessions.conversation import Timings
from support.killed_manager import Ground, ground_in
from support.manager_project import PATIENCE, SPEAKS_LONG, Project, kill

pytestmark = pytest.mark.anyio

MILLISECONDS = (0, 1, 3, 6) if os.environ.get("ROOKERY_TORTURE") else (0, 3)
"""Delays after a process has received a task."""
UNHURRIED = Timings(cancel=PATIENCE, end=PATIENCE, last_words=PATIENCE)
"""Long enough for every session to report that it has stopped."""


@pytest.fixture
def ground(tmp_path_factory: pytest.TempPathFactory):
    with ground_in(tmp_path_factory.mktemp("stop") / "ground") as ground:
        yield ground


async def test_a_session_shown_as_stopped_is_not_working(ground: Ground):
    project = ground.project
    async with project.supervised(timings=UNHURRIED) as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(SPEAKS_LONG))
        shown = await watched.until(session_id, lambda shown: len(shown.view.messages) > 2)
        kill(shown.record.pid)
        await watched.at(session_id, "error")
        resume = supervisor.retry
        for milliseconds in MILLISECONDS:
            before = len(project.log(session_id))
            await resume(session_id)
            await _reopened(project, session_id, before)
            await anyio.sleep(milliseconds / 1_000)
            await supervisor.cancel(session_id)
            await watched.at(session_id, "stopped")
            await _rests(project, session_id)
            rests = await watched.until(session_id, lambda shown: bool(shown.record.pending_ask))
            kill(rests.record.pid)
            await watched.until(session_id, lambda shown: not shown.record.process_open)
            resume = supervisor.retry if watched.state(session_id) == "error" else supervisor.resume


async def _reopened(project: Project, session_id: str, before: int) -> None:
    def is_reopened() -> bool:
        new = project.log(session_id)[before:]
        return any(isinstance(event.fact, TaskReopened) for event in new)

    with anyio.fail_after(PATIENCE):
        while not is_reopened():  # noqa: ASYNC110 (files send no events)
            await anyio.sleep(0.0005)


async def _rests(project: Project, session_id: str) -> None:
    """Wait until the task's last event asks whether to resume."""
    with anyio.fail_after(PATIENCE):
        while True:
            last = project.log(session_id)[-1].fact
            if isinstance(last, Asked) and last.ask is AskKind.RESUME_TASK:
                return
            await anyio.sleep(0.01)
