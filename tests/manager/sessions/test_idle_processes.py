"""Processes that are only to be at hand, and sessions that are still being prepared."""

import anyio
import anyio.lowlevel
import pytest

from rookery.core.commands import SwitchMode
from rookery.core.facts import Answered, TaskReopened
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_failures import failure_of_exit
from rookery.manager.sessions.session_record import ParallelMode
from support.manager_project import WRITES, Project
from support.text_process import PLAINLY

pytestmark = pytest.mark.anyio


async def test_the_process_of_a_session_can_be_asked_and_told(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES))
        await watched.at(session_id, "waiting_approval")
        host = await supervisor.host_of(session_id)
        assert (await host.query(AskAbout())).workspace == str(project.path)
        await host.send(SwitchMode(task_id=session_id, mode="ask"))
        await watched.until(session_id, lambda shown: shown.view.mode == "ask")
        with pytest.raises(CommandRejected, match="No such session"):
            await supervisor.host_of("00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("state", ["completed", "stopped", "error"])
async def test_a_session_that_rests_is_reopened_and_rests(project: Project, state: str):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES, auto_approve=state == "completed"))
        if state == "completed":
            await watched.at(session_id, "completed")
        else:
            await watched.at(session_id, "waiting_approval")
            await supervisor.stop_all()
        if state == "error":
            kept = supervisor.find(session_id)
            kept.session = type(kept.session)(
                session_id=session_id,
                state="error",
                generation=1,
                failure=failure_of_exit(None, None),
            )
            kept.keep(now=True)
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        assert watched.state(session_id) == state
        with pytest.raises(CommandRejected, match="not running"):
            await supervisor.host_of(session_id)
        host = await supervisor.host_of(session_id, reopen=True)
        assert (await host.query(AskAbout())).workspace == str(project.path)
        assert len(project.processes()) == 1
        rests = "paused" if state == "error" else state
        shown = supervisor.session(session_id)
        assert shown
        assert (shown.session.state, bool(shown.session.pending_ask)) == (rests, True)
        assert await supervisor.host_of(session_id) is host
        facts = [event.fact for event in project.log(session_id)]
        assert [fact for fact in facts if isinstance(fact, TaskReopened)]
        resumed = [f for f in facts if isinstance(f, Answered) and f.ask.startswith("resume")]
        assert resumed == []
        await supervisor.resume(session_id, "go on")
        await watched.until(
            session_id, lambda shown: shown.session.state in ("completed", "waiting_approval")
        )


async def test_one_that_was_at_hand_when_its_manager_died_does_not_go_on(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES, auto_approve=True))
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


async def test_one_that_went_on_twice_is_told_what_it_goes_on_with_each_time(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES, auto_approve=True))
        await watched.result(session_id, "Done.")
        for words, result in (("more", "Done again."), ("still", "Done a third time.")):
            await supervisor.stop_all()
            await supervisor.send(session_id, words)
            await watched.result(session_id, result)
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [text for text in said if text] == ["more", "still"]


async def test_one_that_is_reserved_is_shown_and_begins_when_it_is_prepared(project: Project):
    project.environ |= PLAINLY
    async with project.supervised() as watched:
        supervisor, preparations = watched.supervisor, watched.supervisor.preparations
        wish = project.wish(WRITES, auto_approve=True, env={"MOON": "full"}, group_id="g")
        session_id = await preparations.reserve(wish, "syncing")
        shown = supervisor.session(session_id)
        assert shown
        assert (shown.session.state, shown.step) == ("creating", "syncing")
        preparations.preparing(session_id, "setup")
        preparations.note(session_id, ["it rains"])
        shown = supervisor.session(session_id)
        assert shown
        assert (shown.step, shown.record.logs, shown.record.group_id) == (
            "setup",
            ("it rains",),
            "g",
        )
        assert project.processes() == {}
        with pytest.raises(CommandRejected, match="not started"):
            await supervisor.host_of(session_id, reopen=True)
        place = project.path / "apart"
        place.mkdir()
        parallel = ParallelMode(branch="b", worktree_path=str(place))
        preparations.launch(
            session_id, workspace=place, parallel_mode=parallel, worktree_id="w", env={"SUN": "1"}
        )
        shown = await watched.until(session_id, lambda shown: shown.record.pid is not None)
        assert "SUN=1" in project.environ_of(shown.record.pid or 0)
        shown = await watched.at(session_id, "completed")
        assert (place / "made.txt").exists()
        assert (shown.step, shown.record.worktree_id) == ("", "w")
        assert shown.record.workspace == str(place)


@pytest.mark.parametrize("act", ["cancel", "remove"])
async def test_whoever_prepares_a_session_is_told_when_nobody_wants_it(project: Project, act: str):
    async with project.supervised() as watched:
        supervisor, preparations = watched.supervisor, watched.supervisor.preparations
        session_id = await preparations.reserve(project.wish(WRITES))
        async with anyio.create_task_group() as group:
            group.start_soon(preparations.unwanted, session_id)
            await anyio.lowlevel.checkpoint()
            await getattr(supervisor, act)(session_id)
        with pytest.raises(CommandRejected):
            preparations.preparing(session_id, "setup")
        with pytest.raises(CommandRejected):
            preparations.launch(session_id, workspace=project.path)
        assert project.processes() == {}
        if act == "cancel":
            assert watched.state(session_id) == "stopped"


async def test_one_that_cannot_be_prepared_says_why_and_runs_nowhere(project: Project):
    async with project.supervised() as watched:
        supervisor, preparations = watched.supervisor, watched.supervisor.preparations
        session_id = await preparations.reserve(project.wish(WRITES))
        preparations.fail(session_id, "No such branch: moonrise.")
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert shown.session.failure.text == "No such branch: moonrise."
        await supervisor.retry(session_id)
        await watched.at(session_id, "error")
        assert project.log(session_id) == []
        assert not (project.path / "made.txt").exists()


async def test_one_that_was_being_prepared_when_its_manager_died_is_an_error(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.preparations.reserve(project.wish(WRITES))
        watched.supervisor.store.save()
        saved = project.file.read_text()
    project.file.write_text(saved)
    async with project.supervised() as watched:
        shown = watched.supervisor.session(session_id)
        assert shown
        assert shown.session.failure
        assert shown.session.failure.kind == "creation_interrupted"
        assert project.processes() == {}


async def test_nothing_is_started_where_something_stands_in_the_way(project: Project):
    async with project.supervised() as watched:
        watched.supervisor.ready_to_run = lambda record: f"{record.label} has no worktree."
        session_id = await watched.supervisor.start(project.wish(WRITES))
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert shown.session.failure.text == "Do it has no worktree."
        watched.supervisor.ready_to_run = lambda record: None
        await watched.supervisor.retry(session_id)
        await watched.at(session_id, "waiting_approval")


async def test_a_stored_task_becomes_a_session_that_rests(project: Project):
    wish = project.wish(WRITES, "Do it", auto_approve=True)
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(wish)
        await watched.at(session_id, "completed")
        await watched.supervisor.remove(session_id)
        await watched.supervisor.take_in(session_id, wish)
        assert watched.state(session_id) in ("completed", "paused")
        with pytest.raises(CommandRejected, match="already"):
            await watched.supervisor.take_in(session_id, wish)
        with pytest.raises(CommandRejected, match="No stored session"):
            await watched.supervisor.take_in("3f0a2c44-5b1d-4c53-9f0e-0c8f2b7a9d10", wish)
        assert project.processes() == {}
        await watched.supervisor.send(session_id, "go on")
        await watched.result(session_id, "Done again.")


@pytest.mark.parametrize(
    ("code", "signal", "said"),
    [
        (1, None, "ended with code 1."),
        (None, 9, "ended by signal 9."),
        (None, None, "unknown status"),
    ],
)
def test_how_a_process_ended_is_said_as_far_as_it_is_known(
    code: int | None, signal: int | None, said: str
):
    text = failure_of_exit(code, signal).text
    assert said in text
    assert "None" not in text
