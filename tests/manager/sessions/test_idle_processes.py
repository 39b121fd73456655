"""Idle processes, and sessions that are still being prepared."""

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, TaskReopened
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_states import SessionState, failure_of_exit
from support.manager_project import WRITES, Project

pytestmark = pytest.mark.anyio


async def test_reopening_an_idle_session_keeps_its_state(project: Project):
    ids = {}
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        for state in ("completed", "stopped", "error"):
            options = project.start_options(
                WRITES.replace("made", state), auto_approve=state == "completed"
            )
            ids[state] = await supervisor.start(options)
        for state, session_id in ids.items():
            await watched.at(
                session_id, "completed" if state == "completed" else "waiting_approval"
            )
        await supervisor.stop_all()
        kept = supervisor.find(ids["error"])
        failure = failure_of_exit(None, None)
        kept.record = replace(kept.record, state=SessionState.ERROR, failure=failure)
        kept.save(now=True)
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        for number, (state, session_id) in enumerate(ids.items(), 1):
            assert watched.state(session_id) == state
            with pytest.raises(CommandRejected, match="not running"):
                await supervisor.host_of(session_id)
            host = await supervisor.host_of(session_id, reopen=True)
            assert (await host.query(AskAbout())).workspace == str(project.path)
            assert len(project.processes()) == number
            rests = "paused" if state == "error" else state
            shown = supervisor.session(session_id)
            assert shown
            assert (shown.record.state, bool(shown.record.pending_ask)) == (rests, True)
            assert await supervisor.host_of(session_id) is host
            facts = [event.fact for event in project.log(session_id)]
            assert [fact for fact in facts if isinstance(fact, TaskReopened)]
            resumed = [f for f in facts if isinstance(f, Answered) and f.ask.startswith("resume")]
            assert resumed == []
            await supervisor.resume(session_id, "go on")
            await watched.until(
                session_id, lambda shown: shown.record.state in ("completed", "waiting_approval")
            )


async def test_a_reopened_session_does_not_resume_if_its_manager_dies(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(
            project.start_options(WRITES, auto_approve=True)
        )
        await watched.at(session_id, "completed")
    for instant in ("manager.marked", "manager.let_go", "manager.opened"):
        acts = {"completed": ["reopen"]}
        with project.hosted(acts=acts, ROOKERY_KILLPOINT=instant) as hosted:
            assert hosted.died()
        if instant == "manager.marked":
            await project.quiet()
        async with project.supervised() as watched:
            await watched.at(session_id, "completed")
            await watched.supervisor.host_of(session_id, reopen=True)
            assert watched.state(session_id) == "completed"
        facts = [event.fact for event in project.log(session_id)]
        assert not [f for f in facts if isinstance(f, Answered) and f.ask.startswith("resume")]


async def test_each_resume_delivers_its_own_message(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(WRITES, auto_approve=True))
        await watched.result(session_id, "Done.")
        for words, result in (("more", "Done again."), ("still", "Done a third time.")):
            await supervisor.stop_all()
            await supervisor.send(session_id, words)
            await watched.result(session_id, result)
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [text for text in said if text] == ["more", "still"]


async def test_a_stored_task_becomes_an_idle_session(project: Project):
    options = project.start_options(WRITES, "Do it", auto_approve=True)
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(options)
        await watched.at(session_id, "completed")
        await watched.supervisor.remove(session_id)
        await watched.supervisor.adopt_task(session_id, options)
        assert watched.state(session_id) in ("completed", "paused")
        with pytest.raises(CommandRejected, match="already"):
            await watched.supervisor.adopt_task(session_id, options)
        with pytest.raises(CommandRejected, match="No stored session"):
            await watched.supervisor.adopt_task("3f0a2c44-5b1d-4c53-9f0e-0c8f2b7a9d10", options)
        assert project.processes() == {}
        await watched.supervisor.send(session_id, "go on")
        await watched.result(session_id, "Done again.")
