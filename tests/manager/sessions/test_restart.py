"""After a manager is killed, the next one adopts its sessions and shows their true state."""

import os
import signal

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, TaskOpened, UserSpoke
from rookery.errors import CommandRejected
from rookery.manager.sessions.message_queue import Terms
from rookery.manager.sessions.session_folders import SessionFolders, SessionOptions
from rookery.manager.sessions.session_process import is_alive
from support.manager_project import HANDS_ON, SPEAKS_LONG, WRITES, Hosted, Project, kill

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
async def test_a_manager_killed_while_starting_a_session_leaves_no_orphan(
    project: Project, instant: str
):
    with project.hosted(project.start_options(WRITES), ROOKERY_KILLPOINT=instant) as hosted:
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
                assert each.record.failure
                assert each.record.failure.kind == "creation_interrupted"
                await watched.supervisor.retry(session_id)
            await watched.at(session_id, "waiting_approval")
            opened = [e for e in project.log(session_id) if isinstance(e.fact, TaskOpened)]
            assert (len(opened), len(project.processes())) == (1, 1)
            await watched.supervisor.approve(session_id, await watched.asked(session_id))
            await watched.at(session_id, "completed")


@pytest.mark.parametrize(("act", "instant"), DOING, ids=str)
async def test_a_user_action_just_before_a_kill_is_applied_once(
    project: Project, act: list[str], instant: str
):
    options = project.start_options(WRITES)
    acts = {"waiting_approval": act}
    with project.hosted(options, acts=acts, ROOKERY_KILLPOINT=instant) as hosted:
        assert hosted.died()
    async with project.supervised() as watched:
        (shown,) = watched.supervisor.all()
        session_id = shown.record.session_id
        if act[0] == "send":
            asked = await watched.at(session_id, "waiting_approval")
            assert asked.record.pending_ask
            await watched.supervisor.approve(session_id, asked.record.pending_ask.ts)
        shown = await watched.at(session_id, "completed")
        log = [event.fact for event in project.log(session_id)]
        received = [fact.text for fact in log if isinstance(fact, UserSpoke)]
        assert received == act[1:]
        answers = [fact for fact in log if isinstance(fact, Answered)]
        assert (len(answers), (project.path / "made.txt").read_text()) == (1, "one\n")


@pytest.mark.parametrize("instant", RESUMING)
async def test_the_message_that_resumes_a_session_is_delivered_once(project: Project, instant: str):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(
            project.start_options(WRITES, auto_approve=True)
        )
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


async def test_sessions_run_on_without_their_manager_and_are_adopted(project: Project):
    """One waits for approval, one works, one is completed, one was stopped."""
    scripts = [WRITES, SPEAKS_LONG, WRITES.replace("made", "other"), WRITES.replace("made", "no")]
    wishes = [
        project.start_options(script, auto_approve=n == 2) for n, script in enumerate(scripts)
    ]
    with project.hosted(*wishes) as hosted:
        asks, works, done, _ = (hosted.wait_for_line("started") for _ in scripts)
        for _ in range(2):
            hosted.wait_for_line("waiting_approval")
        before = project.processes()
        hosted.kill()
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        await watched.at(asks, "waiting_approval")
        await watched.at(works, "streaming")
        await watched.result(done, "Done.")
        assert len(supervisor.inbox()) == 3
        await supervisor.send(works, "are you there?")
        shown = await watched.until(works, lambda shown: not shown.undelivered)
        assert [e.fact.text for e in project.log(works) if isinstance(e.fact, UserSpoke)] == [
            "are you there?"
        ]
        await supervisor.approve(asks, await watched.asked(asks))
        await watched.at(asks, "completed")
        assert project.processes() == before
        assert shown.record.pid in before
        kill(shown.record.pid)
        shown = await watched.at(works, "error")
        assert shown.record.failure
        assert shown.record.failure.kind == "crash", "an adopted session is followed like its own"


async def killed_with_its_manager(project: Project, *left: tuple[str, SessionOptions]) -> list[str]:
    """Like a reboot: the manager did not see the processes end."""
    states, wishes = zip(*left, strict=True)
    with project.hosted(*wishes) as hosted:
        ids = hosted.come_to(*states)
        _kill_all(project, hosted)
    await project.quiet()
    return ids


def _kill_all(project: Project, hosted: Hosted) -> None:
    hosted.process.send_signal(signal.SIGSTOP)
    for pid in project.processes():
        if pid != hosted.process.pid:
            kill(pid)
    hosted.kill()


async def test_questions_survive_a_reboot_and_an_answer_starts_the_process(project: Project):
    """Interrupted work is paused, a question stays open, and its answer applies to it alone."""
    scripts = {name: WRITES.replace("made", name) for name in ("made", "no", "there")}
    works, asks, refuses, changed, words = await killed_with_its_manager(
        project,
        ("streaming", project.start_options(SPEAKS_LONG)),
        *(("waiting_approval", project.start_options(script)) for script in scripts.values()),
        ("waiting_input", project.start_options(ASKS)),
    )
    (project.path / "there.txt").write_text("there by now\n")
    async with project.opened() as looking:
        assert len(looking.inbox()) == 4
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        shown = supervisor.session(works)
        assert shown
        assert (shown.record.state, shown.record.pid) == ("paused", None)
        questions = {each.session_id: each.row for each in supervisor.inbox()}
        assert {each: questions[each].ask for each in (asks, refuses, changed, words)} == {
            **dict.fromkeys((asks, refuses, changed), "tool"),
            words: "followup",
        }
        assert watched.state(words) == "waiting_input"
        question = questions[asks]
        assert not project.processes()
        with pytest.raises(CommandRejected, match="changed since you saw it"):
            await supervisor.approve(asks, question.ts, terms=Terms(digest="other"))
        assert watched.state(asks) == "waiting_approval"
        await supervisor.approve(asks, question.ts, terms=Terms(digest=question.digest))
        assert supervisor.find(asks).holds_answer
        await watched.at(asks, "completed")
        assert not supervisor.find(asks).holds_answer
        await supervisor.reject(refuses, questions[refuses].ts, "not this")
        digest = questions[changed].digest
        await supervisor.approve(changed, questions[changed].ts, terms=Terms(digest=digest))
        await supervisor.send(words, "Euro", ask_ts=questions[words].ts)
        for session_id in (refuses, changed, words):
            await watched.at(session_id, "completed")
        await supervisor.resume(works)
        await watched.at(works, "streaming")
    files = {path.name: path.read_text() for path in project.path.iterdir()}
    assert files == {"made.txt": "one\n", "there.txt": "there by now\n"}
    assert answers(project, asks) == [("resume_task", "yes", ""), ("tool", "yes", "")]
    assert answers(project, refuses)[1:] == [("tool", "no", "not this")]
    assert answers(project, words)[1:] == [("followup", "message", "Euro")]


def answers(project: Project, session_id: str) -> list[tuple[str, str, str]]:
    facts = [e.fact for e in project.log(session_id)]
    return [(f.ask, f.reply, f.text) for f in facts if isinstance(f, Answered)]


async def test_a_question_of_a_subtask_survives_a_reboot(project: Project):
    acts = {"waiting_approval": ["approve"]}
    with project.hosted(project.start_options(HANDS_ON), acts=acts) as hosted:
        session_id = hosted.wait_for_line("waiting_approval")
        hosted.wait_for_line("waiting_approval")
        _kill_all(project, hosted)
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


async def test_a_question_of_a_subtask_survives_sigterm_of_its_process(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(HANDS_ON))
        await supervisor.approve(session_id, await watched.asked(session_id))
        await watched.until(
            session_id, lambda _: any(q.task_id != session_id for q in supervisor.inbox())
        )
        shown = supervisor.session(session_id)
        assert shown
        assert shown.record.pid
        os.kill(shown.record.pid, signal.SIGTERM)
        await watched.until(session_id, lambda shown: not shown.record.process_open)
        assert watched.state(session_id) == "waiting_approval"
        (question,) = supervisor.inbox()
        terms = Terms(digest=question.row.digest)
        await supervisor.approve(session_id, question.row.ts, terms=terms)
        await watched.result(session_id, "Done.")
        assert (project.path / "made.txt").read_text() == "one\n"


async def test_a_killed_process_stays_an_error_after_a_manager_restart(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        asked = await watched.asked(session_id)
        mark = SessionFolders(project.places).of(session_id).mark()
        assert mark
        assert is_alive(mark)
        assert not is_alive(replace(mark, boot="of another system")), "it is a new process now"
        assert is_alive(replace(mark, boot=""))  # as an older version wrote it
        kill((await watched.at(session_id, "waiting_approval")).record.pid)
        await watched.at(session_id, "error")
    async with project.supervised() as watched:
        assert watched.state(session_id) == "error"
        await watched.supervisor.retry(session_id)
        assert await watched.asked(session_id) > asked


async def test_sessions_survive_manager_exit_and_a_missed_stop_is_repeated(project: Project):
    with project.hosted(project.start_options(WRITES)) as hosted:
        session_id = hosted.wait_for_line("waiting_approval")
        hosted.process.send_signal(signal.SIGINT)
        hosted.process.wait(60)
    assert len(project.processes()) == 1
    project.file.write_text(
        project.file.read_text()
        .replace('"status": "running"', '"status": "stopped"')
        .replace('"state": "waiting_approval"', '"state": "stopped"')
    )
    async with project.supervised() as watched:
        shown = await watched.until(session_id, lambda shown: shown.record.pending_ask is not None)
        assert shown.record.pending_ask
        assert (shown.record.state, shown.record.pending_ask.ask) == ("stopped", "resume_task")


async def test_a_damaged_list_is_rebuilt_from_the_sessions(project: Project):
    content = '{"version": 1, "sessions": ['
    with project.hosted(project.start_options(WRITES)) as hosted:
        session_id = hosted.wait_for_line("waiting_approval")
        hosted.kill()
    project.file.write_text(content)
    async with project.supervised() as watched:
        assert watched.state(session_id) == "waiting_approval", "as the session's journal says"
        assert "was damaged" in watched.supervisor.notices[0]
        (aside,) = project.file.parent.glob("*.corrupt-*")
        assert aside.read_text() == content


async def test_the_process_of_a_failed_session_is_ended_at_the_next_start(project: Project):
    """Its session had failed, and its manager was killed before it could end the process."""
    with project.hosted(project.start_options(WRITES)) as hosted:
        hosted.wait_for_line("waiting_approval")
        hosted.kill()
    project.file.write_text(
        project.file.read_text()
        .replace('"processOpen": true', '"processOpen": false')
        .replace('"status": "running"', '"status": "error"')
    )
    async with project.supervised() as watched:
        (shown,) = watched.supervisor.all()
        assert shown.record.state == "error"
        await watched.until(shown.record.session_id, lambda _: not project.processes())


async def test_a_session_list_without_start_options_starts_nothing(project: Project):
    """The list is in the project; start options and rights are stored outside it."""
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(
            project.start_options(WRITES, auto_approve=True)
        )
        await watched.at(session_id, "completed")
    (project.places.state / "sessions" / session_id / "launch.json").unlink()
    async with project.supervised() as watched:
        await watched.supervisor.send(session_id, "go on")
        shown = await watched.at(session_id, "error")
        assert shown.record.failure
        assert "This session has no start options" in shown.record.failure.text
        assert project.processes() == {}
