"""Sessions as real processes, under a supervisor in this one."""

import json
import os
import signal

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from rookery.core.commands import SwitchApproval
from rookery.core.facts import Answered, TaskOpened
from rookery.core.modes import Level
from rookery.core.queries import AskRest
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.protocol.codec import followup
from support.manager_project import IMPATIENT, SPEAKS_LONG, WRITES, Project, kill
from support.text_process import PLAINLY

pytestmark = pytest.mark.anyio


async def test_the_prompt_is_not_on_the_command_line_of_the_session(project: Project):
    project.environ |= PLAINLY
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.start_options(WRITES, "a secret wish"))
        shown = await watched.at(session_id, "waiting_approval")
        pid = shown.record.pid
        assert pid
        assert "a secret wish" not in project.processes()[pid]
        assert os.getpgid(pid) == os.getsid(pid) == pid
        assert project.input_of(pid) == "/dev/null"
        assert "NO_COLOR=1" in project.environ_of(pid)


async def test_the_session_list_is_not_taken_for_a_change_by_a_command(project: Project):
    """The list is written while commands run; an undo must not revert it as their change."""
    runs = (
        "- calls:\n  - {tool: execute_command, arguments: {command: sleep 0.6, cwd: null,"
        " timeout: null}}\n- calls:\n  - {tool: attempt_completion, arguments: {result: Done.}}\n"
    )
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.start_options(runs, auto_approve=True))
        await watched.until(
            session_id,
            lambda shown: any("sleep 0.6" in (row.text or "") for row in shown.view.messages),
        )
        watched.supervisor.rename(session_id, "Another name")
        await watched.at(session_id, "completed")
    assert list(project.path.iterdir()) == []
    assert not any("put back" in str(each.fact) for each in project.log(session_id))
    assert "Another name" in project.file.read_text()


async def test_sessions_beyond_the_running_limit_start_in_order(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        scripts = [SPEAKS_LONG, WRITES, WRITES.replace("made", "other")]
        ids = [await supervisor.start(project.start_options(script)) for script in scripts]
        await watched.at(ids[0], "streaming")
        queued = [shown for each in ids if (shown := supervisor.session(each))]
        assert [shown.queued for shown in queued] == [False, True, True]
        assert [shown.record.state for shown in queued[1:]] == ["creating", "creating"]
        assert len(project.processes()) == 1
        await supervisor.cancel(ids[1])
        assert watched.state(ids[1]) == "stopped"
        await supervisor.cancel(ids[0])
        await watched.at(ids[2], "waiting_approval")
        assert watched.state(ids[1]) == "stopped"
        assert project.log(ids[1]) == []


async def test_sessions_waiting_for_the_user_do_not_count_as_running(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        scripts = [WRITES.replace("made", f"made{n}") for n in range(2)]
        ids = [await supervisor.start(project.start_options(script)) for script in scripts]
        first, second = [await watched.asked(each) for each in ids]
        await supervisor.approve(ids[0], first)
        await supervisor.approve(ids[1], second)
        for session_id in ids:
            await watched.at(session_id, "completed")


async def test_idle_processes_make_room_and_restart_on_a_message(project: Project):
    async with project.supervised(limit=1) as watched:
        supervisor = watched.supervisor
        all_options = [project.start_options(WRITES, auto_approve=True) for _ in range(2)]
        ids = [await supervisor.start(each) for each in all_options]
        for session_id in ids:
            await watched.at(session_id, "completed")
        await watched.until(ids[0], lambda shown: not shown.record.process_open)
        assert watched.state(ids[0]) == "completed"
        await supervisor.send(ids[0], "go on")
        await watched.result(ids[0], "Done again.")
        opened = [e for e in project.log(ids[0]) if isinstance(e.fact, TaskOpened)]
        assert len(opened) == 1


async def test_a_message_sent_while_the_process_is_ending_is_delivered(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(WRITES, auto_approve=True))
        await watched.at(session_id, "completed")
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.stop_all)
            await anyio.lowlevel.checkpoint()
            await supervisor.send(session_id, "go on")
        await watched.result(session_id, "Done again.")
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [text for text in said if text] == ["go on"]


async def test_an_unresponsive_session_is_marked_and_ended_only_by_a_cancel(project: Project):
    async with project.supervised(timings=IMPATIENT) as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(WRITES))
        pid = (await watched.at(session_id, "waiting_approval")).record.pid
        kill(pid, signal.SIGSTOP)
        await watched.until(session_id, lambda shown: shown.unresponsive)
        kill(pid, signal.SIGCONT)
        shown = await watched.until(session_id, lambda shown: not shown.unresponsive)
        assert (shown.record.state, shown.record.pid) == ("waiting_approval", pid)
        kill(pid, signal.SIGSTOP)
        await supervisor.cancel(session_id)
        shown = await watched.until(session_id, lambda shown: not shown.record.process_open)
        assert shown.record.state == "stopped"
        assert project.processes() == {}
        await supervisor.resume(session_id, "do not write")
        await watched.at(session_id, "completed")
        assert not (project.path / "made.txt").exists()


async def test_a_killed_process_is_an_error_and_can_be_resumed(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        for state in ("waiting_approval", "completed"):
            options = project.start_options(WRITES, auto_approve=state == "completed")
            session_id = await supervisor.start(options)
            kill((await watched.at(session_id, state)).record.pid)
            shown = await watched.at(session_id, "error")
            assert shown.record.failure
            assert shown.record.failure.text.startswith("The agent was ended by signal 9.")
            assert shown.flags.show_retry_button
            await supervisor.resume(session_id, "go on")
            await watched.at(session_id, "completed")


async def test_a_failed_start_gives_the_reason_and_a_retry_can_succeed(project: Project):
    script = project.folder / "later.yaml"
    options = replace(project.start_options(WRITES, auto_approve=True), model=str(script))
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(options)
        shown = await watched.at(session_id, "error")
        assert any("later.yaml" in line for line in shown.record.logs)
        script.write_text(WRITES)
        await supervisor.retry(session_id)
        await watched.at(session_id, "completed")
        opened = [e.fact for e in project.log(session_id) if isinstance(e.fact, TaskOpened)]
        assert [fact.text for fact in opened] == ["Do it"]


async def test_a_process_that_does_not_announce_itself_in_time_is_ended(project: Project):
    hasty = replace(IMPATIENT, creation=0.5)
    async with project.supervised(timings=hasty) as watched:
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        shown = await watched.until(session_id, lambda shown: shown.record.pid is not None)
        kill(shown.record.pid, signal.SIGSTOP)
        shown = await watched.at(session_id, "error")
        assert shown.record.failure
        assert shown.record.failure.kind == "creation_timeout"
        await watched.until(session_id, lambda _: not project.processes())


async def test_a_session_can_be_removed_while_it_starts(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        await watched.supervisor.remove(session_id)
        assert (watched.supervisor.all(), project.processes()) == ([], {})
        other = await watched.supervisor.start(project.start_options(WRITES))
        await watched.until(other, lambda shown: shown.record.pid is not None)
        await watched.supervisor.remove(other)
        assert (watched.supervisor.all(), project.processes()) == ([], {})
    assert json.loads(project.file.read_text())["sessions"] == {}


async def test_a_model_failure_is_shown_and_can_be_retried_at_once(project: Project):
    async with project.supervised() as watched:
        for kind, ends in (("bad_key", False), ("no_model", True), ("no_credit", True)):
            script = f"- fail: {{kind: {kind}, message: It does not want to.}}\n"
            session_id = await watched.supervisor.start(project.start_options(script))
            shown = await watched.until(
                session_id,
                lambda shown, ends=ends: (
                    shown.record.state == "error" and shown.record.process_open is not ends
                ),
            )
            assert shown.record.failure
            assert shown.record.failure.text == "It does not want to.", kind
            if ends:
                await watched.supervisor.retry(session_id)  # while its process may still be ending
                assert watched.state(session_id) == "streaming"
                await watched.at(session_id, "error")
                await watched.until(session_id, lambda _: not project.processes())
            await watched.supervisor.remove(session_id)


PLANS = """\
- say: Which?
  calls:
  - {tool: ask_followup_question, arguments: {question: Which, follow_up: [{text: a}, {text: b}]}}
- calls: [{tool: present_plan, arguments: {plan: "- [ ] One"}}]
- calls: [{tool: present_plan, arguments: {plan: "- [ ] Two"}}]
- calls: [{tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}]
- say: Done.
"""


async def test_a_plan_is_a_question_and_an_offered_answer_carries_it_out(project: Project):
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        session_id = await supervisor.start(project.start_options(PLANS))
        await watched.at(session_id, "waiting_input")
        host = await supervisor.find(session_id).host(reopen=False)
        await host.send(SwitchApproval(task_id=session_id, level=Level.PLAN))
        for said, plan in (("a", "One"), ("Shorter, please.", "Two")):
            asked = await watched.asked(session_id)
            await supervisor.send(session_id, said, ask_ts=asked)
            await watched.until(session_id, lambda shown, plan=plan: plan in _question(shown))
            assert watched.state(session_id) == "waiting_input"
        assert not await host.query(AskRest())
        carry_out = "Carry it out, and edit files without asking"
        await supervisor.send(session_id, carry_out, ask_ts=await watched.asked(session_id))
        await watched.at(session_id, "completed")
    assert (project.path / "made.txt").read_text() == "one\n"
    answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
    said = [(each.text, each.level) for each in answers]
    assert said[1:] == [("Shorter, please.", None), ("- [ ] Two", Level.EDITS)]


def _question(shown: SessionSummary) -> str:
    asked = shown.record.pending_ask
    return followup(asked.text)[0] if asked else ""
