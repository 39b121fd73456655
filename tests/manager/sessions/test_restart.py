"""A manager is killed and another one takes up its sessions: what it shows is the truth."""

import os
import signal

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, TaskOpened, UserSpoke
from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_folders import SessionFolders, SessionOptions
from rookery.manager.sessions.session_process import lives
from support.manager_project import HANDS_ON, SPEAKS_LONG, WRITES, Project, kill

pytestmark = pytest.mark.anyio

ASKS = """\
- say: Which?
  calls:
  - {tool: ask_followup_question, arguments: {question: Which, follow_up: [{text: a}, {text: b}]}}
- say: Good.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
INSTANTS = {
    "manager.saved:1": "waiting_approval",
    "manager.spawned:1": "waiting_approval",
    "manager.marked:1": "error",
    "manager.let_go:1": "waiting_approval",
    "manager.opened:1": "waiting_approval",
    "manager.announced:1": "waiting_approval",
    "disk.before_rename:1": None,
    "disk.before_rename:2": None,
    "disk.before_rename:3": "waiting_approval",
    "disk.before_rename:4": "error",
}
"""Where a session comes to that was being started when its manager was killed there: one that
had not got as far as to be on the list is none. One whose process was known, and gone, is an
error."""
SOME = ["manager.saved:1", "manager.spawned:1", "manager.marked:1", "manager.opened:1"]
RESUMING = ["manager.marked", "manager.opened"]
DOING = [(["approve"], "manager.answered"), (["send", "also this"], "manager.delivered")]
if TORTURE:
    SOME = list(INSTANTS)
    RESUMING += ["manager.let_go", "manager.announced", "manager.spawned"]
    DOING += [(["send", "also this"], "manager.saved:4")]


@pytest.mark.parametrize("instant", SOME)
async def test_a_manager_that_is_killed_while_it_starts_a_session_leaves_no_orphan(
    project: Project, instant: str
):
    with project.hosted(project.wish(WRITES), ROOKERY_KILLPOINT=instant) as hosted:
        assert hosted.died()
    if INSTANTS[instant] == "error":
        await project.quiet()
    async with project.supervised() as watched:
        shown = watched.supervisor.all()
        expected = INSTANTS[instant]
        assert len(list(project.places.state.glob("sessions/*/launch.json"))) == len(shown)
        assert [each.record.prompt for each in shown] == (["Do it"] if expected else [])
        for each in shown:
            session_id = each.record.session_id
            if expected == "error":
                assert each.session.failure
                assert each.session.failure.kind == "creation_interrupted"
                await watched.supervisor.retry(session_id)
            await watched.at(session_id, "waiting_approval")
            opened = [e for e in project.log(session_id) if isinstance(e.fact, TaskOpened)]
            assert (len(opened), len(project.processes())) == (1, 1)
            await watched.supervisor.approve(session_id, await watched.asked(session_id))
            await watched.at(session_id, "completed")


@pytest.mark.parametrize(("act", "instant"), DOING, ids=str)
async def test_what_the_user_did_just_before_the_kill_is_done_once(
    project: Project, act: list[str], instant: str
):
    wish = project.wish(WRITES)
    acts = {"waiting_approval": act}
    with project.hosted(wish, acts=acts, ROOKERY_KILLPOINT=instant) as hosted:
        assert hosted.died()
    async with project.supervised() as watched:
        (shown,) = watched.supervisor.all()
        session_id = shown.record.session_id
        if act[0] == "send":
            asked = await watched.at(session_id, "waiting_approval")
            assert asked.session.pending_ask
            await watched.supervisor.approve(session_id, asked.session.pending_ask.ts)
        shown = await watched.at(session_id, "completed")
        log = [event.fact for event in project.log(session_id)]
        heard = [fact.text for fact in log if isinstance(fact, UserSpoke)]
        assert heard == act[1:]
        answers = [fact for fact in log if isinstance(fact, Answered)]
        assert (len(answers), (project.path / "made.txt").read_text()) == (1, "one\n")


@pytest.mark.parametrize("instant", RESUMING)
async def test_what_a_session_was_resumed_with_is_said_once(project: Project, instant: str):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES, auto_approve=True))
        await watched.at(session_id, "completed")
    acts = {"completed": ["send", "go on"]}
    with project.hosted(acts=acts, ROOKERY_KILLPOINT=instant) as hosted:
        assert hosted.died()
    if instant == "manager.marked":
        await project.quiet()
    async with project.supervised() as watched:
        if instant == "manager.marked":
            assert watched.state(session_id) == "paused"
            await watched.supervisor.resume(session_id)
        await watched.result(session_id, "Done again.")
        log = [event.fact for event in project.log(session_id)]
        assert [f.text for f in log if isinstance(f, Answered) and f.text] == ["go on"]
        assert [f.text for f in log if isinstance(f, UserSpoke)] == []


async def test_sessions_go_on_without_their_manager_and_are_adopted(project: Project):
    """One that waits for leave, one that works, one that is done, one that was stopped."""
    scripts = [WRITES, SPEAKS_LONG, WRITES.replace("made", "other"), WRITES.replace("made", "no")]
    wishes = [project.wish(script, auto_approve=n == 2) for n, script in enumerate(scripts)]
    with project.hosted(*wishes) as hosted:
        asks, works, done, _ = (hosted.hear("started") for _ in scripts)
        for _ in range(2):
            hosted.hear("waiting_approval")
        before = project.processes()
        hosted.kill()
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        await watched.at(asks, "waiting_approval")
        await watched.at(works, "streaming")
        await watched.result(done, "Done.")
        assert len(supervisor.inbox()) == 3
        await supervisor.send(works, "are you there?")
        shown = await watched.until(works, lambda shown: bool(shown.mail))
        await watched.until(works, lambda shown: shown.mail[0].state == "sent")
        assert [e.fact.text for e in project.log(works) if isinstance(e.fact, UserSpoke)] == [
            "are you there?"
        ]
        await supervisor.approve(asks, await watched.asked(asks))
        await watched.at(asks, "completed")
        assert project.processes() == before
        assert shown.record.pid in before


async def killed_with_its_manager(project: Project, state: str, wish: SessionOptions) -> str:
    """As a reboot leaves a session: nobody has seen its process end."""
    with project.hosted(wish) as hosted:
        session_id = hosted.hear(state)
        for pid in project.processes():
            if pid != hosted.process.pid:
                hosted.process.send_signal(signal.SIGSTOP)
                kill(pid)
        hosted.kill()
    await project.quiet()
    return session_id


async def test_what_died_at_work_is_paused_and_can_be_resumed(project: Project):
    session_id = await killed_with_its_manager(project, "streaming", project.wish(SPEAKS_LONG))
    async with project.supervised() as watched:
        shown = watched.supervisor.session(session_id)
        assert shown
        assert (shown.session.state, shown.record.pid) == ("paused", None)
        await watched.supervisor.resume(session_id)
        await watched.at(session_id, "streaming")


async def test_a_question_survives_a_reboot_and_its_answer_starts_the_process(project: Project):
    session_id = await killed_with_its_manager(project, "waiting_approval", project.wish(WRITES))
    async with project.opened() as looking:
        assert len(looking.inbox()) == 1
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        assert watched.state(session_id) == "waiting_approval"
        (question,) = supervisor.inbox()
        assert (question.row.ask, bool(question.row.digest)) == ("tool", True)
        assert not project.processes()
        with pytest.raises(CommandRejected, match="changed since you saw it"):
            await supervisor.approve(session_id, question.row.ts, terms=Terms(digest="other"))
        assert watched.state(session_id) == "waiting_approval"
        terms = Terms(digest=question.row.digest)
        await supervisor.approve(session_id, question.row.ts, terms=terms)
        assert supervisor.find(session_id).holds_answer
        await watched.at(session_id, "completed")
        assert not supervisor.find(session_id).holds_answer
        assert (project.path / "made.txt").read_text() == "one\n"
    answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
    assert [fact.ask for fact in answers] == ["resume_task", "tool"]


async def test_an_answer_given_after_a_reboot_does_not_count_for_another_question(
    project: Project,
):
    session_id = await killed_with_its_manager(project, "waiting_approval", project.wish(WRITES))
    (project.path / "made.txt").write_text("there by now\n")
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        (question,) = supervisor.inbox()
        terms = Terms(digest=question.row.digest)
        await supervisor.approve(session_id, question.row.ts, terms=terms)
        await watched.at(session_id, "completed")
    assert (project.path / "made.txt").read_text() == "there by now\n"


async def test_a_rejection_and_an_answer_in_words_survive_a_reboot_too(project: Project):
    session_id = await killed_with_its_manager(project, "waiting_approval", project.wish(WRITES))
    async with project.supervised() as watched:
        (question,) = watched.supervisor.inbox()
        await watched.supervisor.reject(session_id, question.row.ts, "not this")
        await watched.at(session_id, "completed")
    answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
    assert [(fact.ask, fact.reply, fact.text) for fact in answers[1:]] == [
        ("tool", "no", "not this")
    ]
    assert not (project.path / "made.txt").exists()

    session_id = await killed_with_its_manager(project, "waiting_input", project.wish(ASKS))
    async with project.supervised() as watched:
        assert watched.state(session_id) == "waiting_input"
        question = next(each for each in watched.supervisor.inbox() if each.row.ask == "followup")
        await watched.supervisor.send(session_id, "Euro", ask_ts=question.row.ts)
        await watched.at(session_id, "completed")
    answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
    assert [(fact.ask, fact.text) for fact in answers[1:]] == [("followup", "Euro")]


async def test_a_question_of_a_sub_task_survives_a_reboot_too(project: Project):
    acts = {"waiting_approval": ["approve"]}
    with project.hosted(project.wish(HANDS_ON), acts=acts) as hosted:
        session_id = hosted.hear("waiting_approval")
        hosted.hear("waiting_approval")
        for pid in project.processes():
            if pid != hosted.process.pid:
                hosted.process.send_signal(signal.SIGSTOP)
                kill(pid)
        hosted.kill()
    await project.quiet()
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        assert watched.state(session_id) == "waiting_approval"
        (question,) = supervisor.inbox()
        assert question.task_id != session_id
        assert question.row.title
        terms = Terms(digest=question.row.digest)
        await supervisor.approve(session_id, question.row.ts, terms=terms)
        await watched.result(session_id, "Done.")
        assert (project.path / "made.txt").read_text() == "one\n"


@pytest.mark.parametrize("script", [WRITES, HANDS_ON], ids=["its own", "of a sub-task"])
async def test_a_question_outlives_a_process_that_the_system_tells_to_end(
    project: Project, script: str
):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(script))
        asked = await watched.asked(session_id)
        if script == HANDS_ON:
            await supervisor.approve(session_id, asked)
            await watched.until(
                session_id, lambda _: any(q.task_id != session_id for q in supervisor.inbox())
            )
        shown = supervisor.session(session_id)
        assert shown
        assert shown.record.pid
        os.kill(shown.record.pid, signal.SIGTERM)
        await watched.until(session_id, lambda shown: not shown.session.process_open)
        assert watched.state(session_id) == "waiting_approval"
        (question,) = supervisor.inbox()
        terms = Terms(digest=question.row.digest)
        await supervisor.approve(session_id, question.row.ts, terms=terms)
        await watched.result(session_id, "Done.")
        assert (project.path / "made.txt").read_text() == "one\n"


async def test_a_process_of_the_system_before_a_reboot_is_not_mistaken_for_another(
    project: Project,
):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        await watched.at(session_id, "waiting_approval")
        mark = SessionFolders(project.places).of(session_id).mark()
        assert mark
        assert lives(mark)
        assert not lives(replace(mark, boot="of another system"))
        assert lives(replace(mark, boot=""))  # as it was written before


async def test_what_happens_while_nobody_listens_is_seen_later(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        asked = await watched.asked(session_id)
        kill((await watched.at(session_id, "waiting_approval")).record.pid)
        await watched.at(session_id, "error")
    async with project.supervised() as watched:
        assert watched.state(session_id) == "error"
        await watched.supervisor.retry(session_id)
        assert await watched.asked(session_id) > asked


async def test_leaving_ends_nothing_and_a_stop_that_was_not_heard_is_said_again(project: Project):
    with project.hosted(project.wish(WRITES)) as hosted:
        session_id = hosted.hear("waiting_approval")
        hosted.process.send_signal(signal.SIGINT)
        hosted.process.wait(30)
    assert len(project.processes()) == 1
    project.file.write_text(
        project.file.read_text()
        .replace('"status": "running"', '"status": "stopped"')
        .replace('"state": "waiting_approval"', '"state": "stopped"')
    )
    async with project.supervised() as watched:
        shown = await watched.until(session_id, lambda shown: shown.session.pending_ask is not None)
        assert shown.session.pending_ask
        assert (shown.session.state, shown.session.pending_ask.ask) == ("stopped", "resume_task")


async def test_a_damaged_list_is_put_together_from_what_the_sessions_tell(project: Project):
    content = '{"version": 1, "sessions": ['
    with project.hosted(project.wish(WRITES)) as hosted:
        session_id = hosted.hear("waiting_approval")
        hosted.kill()
    project.file.write_text(content)
    async with project.supervised() as watched:
        assert watched.state(session_id) == "waiting_approval"
        assert "was damaged" in watched.supervisor.notices[0]
        (aside,) = project.file.parent.glob("*.corrupt-*")
        assert aside.read_text() == content


async def test_a_second_manager_only_looks(project: Project):
    with project.hosted(project.wish(WRITES)) as hosted:
        session_id = hosted.hear("waiting_approval")
        saved = project.file.read_text()
        async with project.supervised() as watched:
            supervisor = watched.supervisor
            assert supervisor.read_only
            assert supervisor.notices == (supervisor.read_only,)
            assert [each.record.session_id for each in supervisor.all()] == [session_id]
            for act in (supervisor.start(project.wish(WRITES)), supervisor.cancel(session_id)):
                with pytest.raises(CommandRejected, match="Another manager"):
                    await act
        assert len(project.processes()) == 1
        assert len(project.file.read_text()) >= len(saved) - 100
        hosted.kill()
    async with project.supervised():
        pass


async def test_an_unwanted_process_is_ended_at_the_next_start(project: Project):
    """Its session had failed, and its manager was killed before it could end the process."""
    with project.hosted(project.wish(WRITES)) as hosted:
        hosted.hear("waiting_approval")
        hosted.kill()
    project.file.write_text(
        project.file.read_text()
        .replace('"processOpen": true', '"processOpen": false')
        .replace('"status": "running"', '"status": "error"')
    )
    async with project.supervised() as watched:
        (shown,) = watched.supervisor.all()
        assert shown.session.state == "error"
        await watched.until(shown.record.session_id, lambda _: not project.processes())


async def test_an_adopted_process_that_is_killed_is_an_error(project: Project):
    with project.hosted(project.wish(WRITES)) as hosted:
        session_id = hosted.hear("waiting_approval")
        hosted.kill()
    async with project.supervised() as watched:
        kill((await watched.at(session_id, "waiting_approval")).record.pid)
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert shown.session.failure.kind == "crash"


async def test_a_list_of_somebody_elses_starts_nothing(project: Project):
    """It lies in the project; what may be run, and with what rights, does not."""
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES, auto_approve=True))
        await watched.at(session_id, "completed")
    (project.places.state / "sessions" / session_id / "launch.json").unlink()
    async with project.supervised() as watched:
        await watched.supervisor.send(session_id, "go on")
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert "This session has no start options" in shown.session.failure.text
        assert project.processes() == {}
