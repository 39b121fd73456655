"""Requests about single sessions, carried out by real processes."""

import json

import pytest
from msgspec.structs import replace

from rookery.core.facts import Answered, ApprovalSwitched, ModeSwitched, UserSpoke
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.session_handler import SessionHandler, split_model
from rookery.manager.requests import (
    ApproveAction,
    ArchiveSession,
    CancelSession,
    EditQueued,
    ListQuestions,
    ListSessions,
    MarkRead,
    RejectAction,
    RemoveSession,
    RenameSession,
    ResumeSession,
    SendWords,
    StopAll,
    SwitchSession,
)
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.shown_rows import Done
from support.manager_project import SPEAKS_LONG, WRITES, Project, Watched

pytestmark = pytest.mark.anyio

ASKS = """\
- calls:
  - tool: ask_followup_question
    arguments: {question: "Which *one*?", follow_up: [{text: a}, {text: b}]}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done again."}}
"""


def router_of(watched: Watched) -> Router:
    return Router([SessionHandler(watched.supervisor)])


async def test_sessions_can_be_listed_searched_renamed_archived_and_removed(project: Project):
    async with project.supervised() as watched:
        handler, supervisor = router_of(watched), watched.supervisor
        first = await supervisor.start(
            project.start_options(WRITES, "Mend the roof", auto_approve=True)
        )
        await watched.at(first, "completed")
        other = WRITES.replace("made", "other")
        second = await supervisor.start(project.start_options(other, "Paint\nthe door"))
        await watched.at(second, "waiting_approval")
        listing = await handler.do(ListSessions())
        assert [row.session_id for row in listing.sessions] == [second, first]
        assert (listing.overview.counts.attention, listing.overview.running_limit) == (2, 5)
        row = listing.sessions[0]
        assert (row.name, row.prompt) == ("Paint the door", "Paint\nthe door")
        assert (row.state, row.flags.show_approval_buttons) == ("waiting_approval", True)
        assert (row.workspace, row.mode) == (str(project.path), "code")
        (found,) = (await handler.do(ListSessions(words="ROOF"))).sessions
        assert found.session_id == first
        await handler.do(RenameSession(session_id=first, label="Top"))
        await handler.do(ArchiveSession(session_id=first))
        assert [r.session_id for r in (await handler.do(ListSessions())).sessions] == [second]
        listed = (await handler.do(ListSessions(archived=True))).sessions
        assert [(r.name, r.archived) for r in listed] == [("Paint the door", False), ("Top", True)]
        for label, name in (("Another  name", "Another name"), ("", "Paint the door")):
            await handler.do(RenameSession(session_id=second, label=label))
            assert (await handler.do(ListSessions())).sessions[0].name == name
        pid = supervisor.find(second).record.pid
        assert await handler.do(RemoveSession(session_id=second)) == Done()
        assert supervisor.session(second) is None
        assert pid not in project.processes()
        assert project.log(second), "the conversation stays"
        with pytest.raises(CommandRejected):
            await handler.do(CancelSession(session_id=second))
    assert second not in project.file.read_text()


async def test_the_badge_counts_the_inbox(project: Project):
    """Questions first, then failures, then results; no archived sessions."""
    no_folder = project.folder / "gone"
    no_folder.mkdir()
    async with project.supervised() as watched:
        supervisor = watched.supervisor
        done = await supervisor.start(project.start_options(WRITES, auto_approve=True))
        await watched.at(done, "completed")
        options = project.start_options(WRITES, workspace=no_folder)
        no_folder.rmdir()
        failed = await supervisor.start(options)
        await watched.at(failed, "error")
        asks = await supervisor.start(project.start_options(WRITES.replace("made", "other")))
        away = await supervisor.start(project.start_options(WRITES.replace("made", "away")))
        for each in (asks, away):
            await watched.at(each, "waiting_approval")
        supervisor.archive(away)
        rows = await router_of(watched).do(ListQuestions())
        reported = [(row.session_id, row.ask, row.state) for row in rows]
        assert reported == [
            (asks, "tool", "waiting_approval"),
            (failed, "", "error"),
            (done, "completion_result", "completed"),
        ]
        assert f"The folder {no_folder} is missing." in rows[1].text
        assert (rows[2].text, rows[2].html) == ("Done.", ("<p>Done.</p>\n",))
        await _all_agree(watched, [asks, failed, done])
        async with project.opened() as looking:
            assert looking.read_only
            await _all_agree(Watched(looking), [asks, failed, done])
    async with project.supervised() as watched:
        # stopping the session also withdraws its question
        await _all_agree(watched, [failed, done])
        rows = await router_of(watched).do(ListQuestions())
        assert [row.text for row in rows][1] == "Done."
        watched.supervisor.mark_read(done)
        await _all_agree(watched, [failed])


async def _all_agree(watched: Watched, waiting: list[str]) -> None:
    handler = router_of(watched)
    assert [each.session_id for each in await handler.do(ListQuestions())] == waiting
    listing = await handler.do(ListSessions(archived=True))
    assert listing.overview.counts.attention == len(waiting)
    needs = {row.session_id for row in listing.sessions if row.flags.needs_attention}
    assert needs == set(waiting)


async def test_an_approval_needs_the_digest_that_was_shown(project: Project):
    async with project.supervised() as watched:
        handler = router_of(watched)
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        await watched.at(session_id, "waiting_approval")
        (question,) = await handler.do(ListQuestions())
        assert (question.name, question.ask, question.task_id) == ("Do it", "tool", session_id)
        assert "made.txt" in question.diff or "made.txt" in question.text
        assert question.rule
        yes = ApproveAction(
            session_id=session_id, ask_ts=question.ts, digest=question.digest, always=True
        )
        for wrong in (replace(yes, digest=""), replace(yes, digest="0" * 64)):
            with pytest.raises(CommandRejected, match="changed since you saw it"):
                await handler.do(wrong)
        with pytest.raises(CommandRejected, match="cannot be combined with yes"):
            await handler.do(replace(yes, choice="halt"))
        with pytest.raises(CommandRejected):
            await handler.do(replace(yes, ask_ts=question.ts - 1))
        assert watched.state(session_id) == "waiting_approval"
        assert not (project.path / "made.txt").exists()
        await handler.do(yes)
        await watched.at(session_id, "completed")
        assert (project.path / "made.txt").exists()
        answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
        assert [answer.always for answer in answers] == [True]
        with pytest.raises(CommandRejected):
            await handler.do(yes)


async def test_questions_take_a_text_answer_and_rejections_a_reason(project: Project):
    async with project.supervised() as watched:
        handler = router_of(watched)
        asks = await watched.supervisor.start(project.start_options(ASKS))
        await watched.at(asks, "waiting_input")
        (question,) = await handler.do(ListQuestions())
        assert question.html == ("<p>Which <em>one</em>?</p>\n",)
        await handler.do(SendWords(session_id=asks, text="the first", ask_ts=question.ts))
        await watched.at(asks, "completed")
        (question,) = await handler.do(ListQuestions())
        assert question.ask == "completion_result"
        with pytest.raises(CommandRejected):
            await handler.do(SendWords(session_id=asks, text=""))
        await handler.do(SendWords(session_id=asks, text="and now this"))
        await watched.result(asks, "Done again.")
        assert answers_in(project, asks) == [("message", "the first"), ("message", "and now this")]
        await handler.do(MarkRead(session_id=asks))
        assert await handler.do(ListQuestions()) == ()
        writes = await watched.supervisor.start(project.start_options(WRITES))
        await watched.at(writes, "waiting_approval")
        (question,) = await handler.do(ListQuestions())
        await handler.do(RejectAction(session_id=writes, ask_ts=question.ts, text="not there"))
        await watched.at(writes, "completed")
        assert answers_in(project, writes) == [("no", "not there")]
        assert not (project.path / "made.txt").exists()


def answers_in(project: Project, session_id: str) -> list[tuple[str, str]]:
    answers = [e.fact for e in project.log(session_id) if isinstance(e.fact, Answered)]
    return [(answer.reply, answer.text) for answer in answers]


async def test_sessions_can_be_cancelled_resumed_and_all_stopped(project: Project):
    async with project.supervised() as watched:
        handler = router_of(watched)
        speaks = await watched.supervisor.start(project.start_options(SPEAKS_LONG))
        asks = await watched.supervisor.start(project.start_options(WRITES))
        await watched.at(speaks, "streaming")
        pid = (await watched.at(asks, "waiting_approval")).record.pid
        for session_id in (speaks, asks):
            await handler.do(CancelSession(session_id=session_id))
            await watched.until(
                session_id,
                lambda shown: (
                    shown.record.state == "stopped" and shown.record.pending_ask is not None
                ),
            )
        await handler.do(ResumeSession(session_id=speaks, text="go on"))
        await watched.at(speaks, "streaming")
        await handler.do(ResumeSession(session_id=asks))
        shown = await watched.at(asks, "waiting_approval")
        assert shown.record.pending_ask
        assert shown.record.pid == pid
        await watched.supervisor.approve(asks, shown.record.pending_ask.ts)
        await watched.at(asks, "completed")
        await handler.do(StopAll())
        assert project.processes() == {}
        assert watched.state(speaks) == "stopped"


async def test_queued_messages_can_be_edited_and_removed(project: Project):
    """Whether they wait for the session to start or for the next request."""
    async with project.supervised() as watched:
        handler, supervisor = router_of(watched), watched.supervisor
        session_id = await supervisor.start(project.start_options(SPEAKS_LONG))
        for words in ("one", "two"):
            await handler.do(SendWords(session_id=session_id, text=words))
        (row,) = (await handler.do(ListSessions())).sessions
        assert [(each.text, each.state) for each in row.undelivered] == [
            ("one", "queued"),
            ("two", "queued"),
        ]
        for each, words in zip(row.undelivered, ("1", None), strict=True):
            await handler.do(
                EditQueued(session_id=session_id, message_id=f"manager-{each.number}", text=words)
            )
        await watched.until(session_id, _speaks)
        for words in ("three", "four"):
            await handler.do(SendWords(session_id=session_id, text=words))
        shown = await watched.until(session_id, lambda shown: _waiting(shown)[-1:] == ["four"])
        three, four = shown.view.queue[-2:]
        await handler.do(EditQueued(session_id=session_id, message_id=three.message_id, text="3"))
        await handler.do(EditQueued(session_id=session_id, message_id=four.message_id))
        await watched.until(session_id, lambda shown: _waiting(shown)[-1:] == ["3"])
        with pytest.raises(CommandRejected):
            await handler.do(EditQueued(session_id=session_id, message_id="manager-99", text="x"))
        said = [e.fact.text for e in project.log(session_id) if isinstance(e.fact, UserSpoke)]
        assert said == ["1", "three", "four"]


def _waiting(shown: SessionSummary) -> list[str]:
    return [said.text for said in shown.view.queue]


def _speaks(shown: SessionSummary) -> bool:
    rows = shown.view.messages
    return bool(rows) and "word" in (rows[-1].text or "")


async def test_a_working_session_can_switch_mode_and_approval(project: Project):
    async with project.supervised() as watched:
        handler = router_of(watched)
        session_id = await watched.supervisor.start(project.start_options(WRITES))
        await watched.at(session_id, "waiting_approval")
        await handler.do(SwitchSession(session_id=session_id, mode="architect", auto_approve=True))
        await watched.until(session_id, lambda shown: shown.view.mode == "architect")
        (row,) = (await handler.do(ListSessions())).sessions
        assert (row.mode, row.auto_approve) == ("architect", True)
        launch = watched.supervisor.folder(session_id).launch()
        assert launch
        assert (launch.mode, launch.auto_approve) == ("architect", True)
        with pytest.raises(CommandRejected, match="No such mode"):
            await handler.do(SwitchSession(session_id=session_id, mode="moonrise"))
        launch = watched.supervisor.folder(session_id).launch()
        assert launch
        assert launch.mode == "architect"


async def test_an_idle_session_can_be_switched_without_resuming(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(
            project.start_options(WRITES, auto_approve=True)
        )
        await watched.at(session_id, "completed")
    async with project.supervised() as watched:
        handler = router_of(watched)
        await handler.do(SwitchSession(session_id=session_id, auto_approve=False))
        assert project.processes() == {}
        launch = watched.supervisor.folder(session_id).launch()
        assert launch
        assert "--require-approval" in launch.flags()
        await handler.do(SwitchSession(session_id=session_id, mode="ask"))
        assert watched.state(session_id) == "completed"
        facts = [event.fact for event in project.log(session_id)]
        assert [fact.mode for fact in facts if isinstance(fact, ModeSwitched)] == ["ask"]
        assert not [fact for fact in facts if isinstance(fact, ApprovalSwitched)]
        await handler.do(SendWords(session_id=session_id, text="go on"))
        await watched.result(session_id, "Done again.")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (None, (None, None)),
        ("gpt-x", (None, "gpt-x")),
        ("openrouter/anthropic/claude-x", ("openrouter", "anthropic/claude-x")),
    ],
)
def test_a_model_may_be_named_with_or_without_its_provider(
    said: str | None, named: tuple[str | None, str | None]
):
    assert split_model(said) == named


async def test_a_session_whose_prompt_a_hook_refused_waits_for_another(project: Project):
    config = project.places.config
    config.mkdir(parents=True, exist_ok=True)
    refuses = {"command": "! grep -q forbidden || { echo no >&2; exit 2; }"}
    hooks = {"hooks": {"UserPromptSubmit": [{"hooks": [refuses]}]}}
    (config / "hooks.json").write_text(json.dumps(hooks), encoding="utf-8")
    async with project.supervised() as watched:
        handler, supervisor = router_of(watched), watched.supervisor
        session = await supervisor.start(
            project.start_options(WRITES, "forbidden", auto_approve=True)
        )
        await watched.at(session, "paused")
        await handler.do(SendWords(session_id=session, text="Write it"))
        await watched.at(session, "completed")
