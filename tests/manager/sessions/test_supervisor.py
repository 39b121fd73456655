"""Sessions as real processes, under a supervisor in this one."""

import json
import os
import signal
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, TaskOpened, UserSpoke
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_record import active_first
from support.manager_project import HANDS_ON, IMPATIENT, SPEAKS_LONG, WRITES, Project, kill
from support.text_process import PLAINLY

pytestmark = pytest.mark.anyio


async def test_a_session_is_started_asks_is_allowed_and_completes(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES, "Write\n it, now"))
        shown = await watched.at(session_id, "waiting_approval")
        (question,) = supervisor.inbox()
        assert (question.session_id, question.row.ask) == (session_id, "tool")
        assert shown.flags.show_approval_buttons
        assert (shown.record.label, shown.record.unread) == ("Write it, now", True)
        await supervisor.approve(session_id, question.row.ts)
        shown = await watched.at(session_id, "completed")
        assert (project.path / "made.txt").read_text() == "one\n"
        assert shown.session.completion_text == "Done."
        assert [row.say for row in shown.view.messages if row.say == "completion_result"]
        supervisor.mark_read(session_id)
        assert supervisor.inbox() == ()


async def test_the_prompt_is_in_no_list_of_processes_and_the_session_leads_its_group(
    project: Project,
):
    project.environ |= PLAINLY
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES, "a secret wish"))
        shown = await watched.at(session_id, "waiting_approval")
        pid = shown.record.pid
        assert pid
        assert "a secret wish" not in project.processes()[pid]
        assert os.getpgid(pid) == os.getsid(pid) == pid
        assert project.input_of(pid) == "/dev/null"
        assert "NO_COLOR=1" in project.environ_of(pid)


async def test_the_list_is_not_among_what_commands_of_a_session_change(project: Project):
    """It is written while they run, and in the project it would be put back as their doing."""
    runs = (
        "- calls:\n  - {tool: execute_command, arguments: {command: sleep 0.6, cwd: null,"
        " timeout: null}}\n- calls:\n  - {tool: attempt_completion, arguments: {result: Done.}}\n"
    )
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(runs, auto_approve=True))
        await watched.until(
            session_id,
            lambda shown: any("sleep 0.6" in (row.text or "") for row in shown.view.messages),
        )
        watched.supervisor.rename(session_id, "Another name")
        await watched.at(session_id, "completed")
    assert list(project.path.iterdir()) == []
    assert not any("put back" in str(each.fact) for each in project.log(session_id))
    assert "Another name" in project.file.read_text()


async def test_what_is_refused_is_not_done_and_the_reason_is_heard(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        asked = await watched.asked(session_id)
        await watched.supervisor.reject(session_id, asked, "not there")
        await watched.at(session_id, "completed")
        assert not (project.path / "made.txt").exists()
        answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [(answer.reply, answer.text) for answer in answers] == [("no", "not there")]


async def test_an_answer_to_another_question_is_none(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES))
        asked = await watched.asked(session_id)
        with pytest.raises(CommandRejected):
            await supervisor.approve(session_id, asked - 1)
        assert watched.state(session_id) == "waiting_approval"
        await supervisor.approve(session_id, asked)
        with pytest.raises(CommandRejected):
            await supervisor.approve(session_id, asked)
        await watched.at(session_id, "completed")


async def test_words_go_where_they_belong(project: Project):
    """As an answer to a question, as feedback to what is asked, as a message for later, as what a
    completed session goes on with."""
    script = """\
- calls:
  - {tool: ask_followup_question, arguments: {question: Which, follow_up: [{text: a}, {text: b}]}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done again."}}
"""
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(script))
        shown = await watched.at(session_id, "waiting_input")
        assert shown.session.pending_ask
        await supervisor.send(session_id, "the first", ask_ts=shown.session.pending_ask.ts)
        await watched.at(session_id, "completed")
        await supervisor.send(session_id, "and now this")
        await watched.until(
            session_id, lambda shown: shown.session.completion_text == "Done again."
        )
        await watched.at(session_id, "completed")
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert said == ["the first", "and now this"]
        with pytest.raises(CommandRejected):
            await supervisor.send(session_id, "")


async def test_a_message_to_one_that_works_is_heard_once(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(SPEAKS_LONG))
        await supervisor.send(session_id, "before it began")
        await watched.at(session_id, "streaming")
        await supervisor.send(session_id, "while it works")
        await watched.until(
            session_id, lambda shown: [mail.state for mail in shown.mail] == ["sent", "sent"]
        )
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, UserSpoke)]
        assert said == ["before it began", "while it works"]


async def test_three_sessions_run_at_once_and_none_hears_of_another(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        ids = [await supervisor.start(project.wish(WRITES, f"number {n}")) for n in range(3)]
        for session_id in ids:
            await watched.at(session_id, "waiting_approval")
        inbox = supervisor.inbox()
        assert {question.session_id for question in inbox} == set(ids)
        assert [question.row.ts for question in inbox] == sorted(q.row.ts for q in inbox)
        assert supervisor.counts().attention == 3
        await supervisor.cancel(ids[0])
        await supervisor.approve(ids[1], next(q.row.ts for q in inbox if q.session_id == ids[1]))
        await watched.at(ids[1], "completed")
        assert [watched.state(each) for each in ids] == ["stopped", "completed", "waiting_approval"]
        listed = [each.session_id for each in active_first(supervisor.records())]
        assert listed == [ids[2], ids[1], ids[0]]


async def test_no_more_run_than_may_and_the_first_to_come_is_the_first_served(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        scripts = [SPEAKS_LONG, WRITES, WRITES.replace("made", "other")]
        ids = [await supervisor.start(project.wish(script)) for script in scripts]
        await watched.at(ids[0], "streaming")
        queued = [shown for each in ids if (shown := supervisor.session(each))]
        assert [shown.queued for shown in queued] == [False, True, True]
        assert [shown.session.state for shown in queued[1:]] == ["creating", "creating"]
        assert len(project.processes()) == 1
        await supervisor.cancel(ids[1])
        assert watched.state(ids[1]) == "stopped"
        await supervisor.cancel(ids[0])
        await watched.at(ids[2], "waiting_approval")
        assert watched.state(ids[1]) == "stopped"
        assert project.log(ids[1]) == []


async def test_sessions_that_wait_for_a_person_take_no_turn_of_those_that_work(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        scripts = [WRITES.replace("made", f"made{n}") for n in range(2)]
        ids = [await supervisor.start(project.wish(script)) for script in scripts]
        first, second = [await watched.asked(each) for each in ids]
        await supervisor.approve(ids[0], first)
        await supervisor.approve(ids[1], second)
        for session_id in ids:
            await watched.at(session_id, "completed")


async def test_processes_that_rest_make_room_and_come_back_when_spoken_to(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        wishes = [project.wish(WRITES, auto_approve=True) for _ in range(2)]
        ids = [await supervisor.start(wish) for wish in wishes]
        for session_id in ids:
            await watched.at(session_id, "completed")
        await watched.until(ids[0], lambda shown: not shown.session.process_open)
        assert watched.state(ids[0]) == "completed"
        await supervisor.send(ids[0], "go on")
        await watched.result(ids[0], "Done again.")
        opened = [e for e in project.log(ids[0]) if isinstance(e.fact, TaskOpened)]
        assert len(opened) == 1


async def test_words_to_one_whose_process_is_just_being_ended_are_heard(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES, auto_approve=True))
        await watched.at(session_id, "completed")
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.stop_all)
            await anyio.lowlevel.checkpoint()
            await supervisor.send(session_id, "go on")
        await watched.result(session_id, "Done again.")
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [text for text in said if text] == ["go on"]


async def test_one_that_is_cancelled_rests_and_goes_on_when_resumed(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES))
        await watched.at(session_id, "waiting_approval")
        await supervisor.cancel(session_id)
        shown = await watched.until(session_id, lambda shown: bool(shown.session.pending_ask))
        assert shown.session.state == "stopped"
        await supervisor.resume(session_id)
        asked = await watched.until(
            session_id, lambda shown: shown.session.state == "waiting_approval"
        )
        assert asked.record.pid == shown.record.pid
        assert asked.session.pending_ask
        await supervisor.approve(session_id, asked.session.pending_ask.ts)
        await watched.at(session_id, "completed")


async def test_one_that_does_not_heed_is_ended(project: Project):
    async with project.supervised(timings=IMPATIENT) as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES))
        shown = await watched.at(session_id, "waiting_approval")
        kill(shown.record.pid, signal.SIGSTOP)
        await supervisor.cancel(session_id)
        shown = await watched.until(session_id, lambda shown: not shown.session.process_open)
        assert shown.session.state == "stopped"
        assert project.processes() == {}
        await supervisor.resume(session_id, "do not write")
        await watched.at(session_id, "completed")
        assert not (project.path / "made.txt").exists()


async def test_one_that_does_not_answer_is_shown_so_and_not_killed(project: Project):
    async with project.supervised(timings=IMPATIENT) as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        pid = (await watched.at(session_id, "waiting_approval")).record.pid
        kill(pid, signal.SIGSTOP)
        await watched.until(session_id, lambda shown: shown.unresponsive)
        kill(pid, signal.SIGCONT)
        shown = await watched.until(session_id, lambda shown: not shown.unresponsive)
        assert (shown.session.state, shown.record.pid) == ("waiting_approval", pid)


@pytest.mark.parametrize("state", ["waiting_approval", "completed"])
async def test_a_killed_process_is_an_error_and_the_session_can_be_resumed(
    project: Project, state: str
):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES, auto_approve=state == "completed"))
        kill((await watched.at(session_id, state)).record.pid)
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert shown.session.failure.text.startswith("The agent was ended by signal 9.")
        assert shown.flags.show_retry_button
        await supervisor.resume(session_id, "go on")
        await watched.at(session_id, "completed")


async def test_one_that_cannot_start_says_why_and_starts_when_it_can(project: Project):
    script = project.folder / "later.yaml"
    wish = replace(project.wish(WRITES, auto_approve=True), model=str(script))
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(wish)
        shown = await watched.at(session_id, "error")
        assert any("later.yaml" in line for line in shown.record.logs)
        script.write_text(WRITES)
        await supervisor.retry(session_id)
        await watched.at(session_id, "completed")
        opened = [e.fact for e in project.log(session_id) if isinstance(e.fact, TaskOpened)]
        assert [fact.text for fact in opened] == ["Do it"]


async def test_one_that_does_not_announce_itself_in_time_is_ended(project: Project):
    hasty = replace(IMPATIENT, creation=0.5)
    async with project.supervised(timings=hasty) as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        shown = await watched.until(session_id, lambda shown: shown.record.pid is not None)
        kill(shown.record.pid, signal.SIGSTOP)
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert shown.session.failure.kind == "creation_timeout"
        await watched.until(session_id, lambda _: not project.processes())


async def test_a_session_is_removed_while_it_is_being_started(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES))
        await watched.supervisor.remove(session_id)
        assert (watched.supervisor.all(), project.processes()) == ([], {})
        other = await watched.supervisor.start(project.wish(WRITES))
        await watched.until(other, lambda shown: shown.record.pid is not None)
        await watched.supervisor.remove(other)
        assert (watched.supervisor.all(), project.processes()) == ([], {})
    assert json.loads(project.file.read_text())["sessions"] == {}


async def test_a_session_whose_folder_is_gone_runs_nowhere_else(project: Project, tmp_path: Path):
    gone = tmp_path / "gone"
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(WRITES, workspace=gone))
        shown = await watched.at(session_id, "error")
        assert shown.session.failure
        assert "is missing" in shown.session.failure.text
        assert project.processes() == {}


@pytest.mark.parametrize(
    ("kind", "ends_process"), [("bad_key", False), ("no_model", True), ("no_credit", True)]
)
async def test_a_failure_of_the_model_is_shown(project: Project, kind: str, ends_process: bool):
    script = f"- fail: {{kind: {kind}, message: It does not want to.}}\n"
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.wish(script))
        shown = await watched.until(
            session_id,
            lambda shown: (
                shown.session.state == "error" and shown.session.process_open is not ends_process
            ),
        )
        assert shown.session.failure
        assert shown.session.failure.text == "It does not want to."
        if ends_process:
            await watched.until(session_id, lambda _: not project.processes())


async def test_a_session_is_renamed_put_away_and_removed(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(WRITES))
        await watched.at(session_id, "waiting_approval")
        supervisor.rename(session_id, "Another  name")
        supervisor.archive(session_id)
        shown = supervisor.session(session_id)
        assert shown
        assert (shown.record.name, shown.record.archived) == ("Another name", True)
        assert (active_first(supervisor.records()), supervisor.counts().archived) == ((), 1)
        supervisor.rename(session_id, "")
        assert (now := supervisor.session(session_id))
        assert now.record.name == "Do it"
        await supervisor.remove(session_id)
        assert (supervisor.session(session_id), project.processes()) == (None, {})
        with pytest.raises(CommandRejected):
            await supervisor.cancel(session_id)
        assert project.log(session_id)
    assert session_id not in project.file.read_text()


async def test_a_question_of_a_task_that_works_for_another_is_the_sessions(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.wish(HANDS_ON))
        asked = []
        for _ in range(2):
            await watched.until(session_id, lambda _: bool(supervisor.inbox()))
            (question,) = supervisor.inbox()
            asked.append(question.task_id)
            await supervisor.approve(session_id, question.row.ts)
        await watched.result(session_id, "Done.")
        assert (project.path / "made.txt").exists()
        assert (asked[0], len(set(asked))) == (session_id, 2)
