"""Sessions forked and written out."""

import json
from pathlib import Path

import pytest

from rookery.core.blocks import Text
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Noted,
    RequestStarted,
    TaskOpened,
    TextStreamed,
    UserSpoke,
)
from rookery.core.folds.view import View, see
from rookery.errors import CommandRejected, StorageError
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.dependencies import Form
from rookery.manager.handlers import session_handler as forking_family
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.session_handler import ForkHandler, Placed, event_of_row
from rookery.manager.requests import ExportSession, ForkSession
from rookery.manager.sessions.message_queue import message_id_of
from rookery.manager.sessions.session_folders import SessionFolders, SessionOptions, Workspaces
from rookery.manager.sessions.session_record import LABEL_LENGTH, ParallelMode, SessionRecord
from support.manager_project import SPEAKS_LONG, WRITES, Project, Watched
from support.sample_logs import log

pytestmark = pytest.mark.anyio


def router_of(project: Project, watched: Watched) -> Router:
    workspaces = Workspaces(project.path, project.places)
    dependencies = ProjectDependencies(project.path, project.places, project.environ)
    return Router([ForkHandler(watched.supervisor, workspaces, dependencies, no_worktree)])


async def no_worktree(source: SessionRecord, options: SessionOptions) -> Placed:
    raise CommandRejected("There is no room for a worktree.")


async def done(project: Project, watched: Watched, **more: object) -> str:
    options = project.start_options(WRITES, "Write it, please", auto_approve=True, **more)
    session_id = await watched.supervisor.start(options)
    await watched.at(session_id, "completed")
    return session_id


def said(events: list[Event]) -> list[str]:
    return [
        block.text
        for event in events
        if isinstance(event.fact, AssistantSpoke)
        for block in event.fact.blocks
        if isinstance(block, Text)
    ]


async def test_a_fork_copies_the_conversation_up_to_a_row_or_all_of_it(project: Project):
    async with project.supervised() as watched:
        supervisor, handler = watched.supervisor, router_of(project, watched)
        source = await done(project, watched)
        before = project.log(source)
        (fork_id,) = (await handler.do(ForkSession(session_id=source))).session_ids
        shown = supervisor.session(fork_id)
        assert shown
        assert shown.record.name == "Write it, please (fork)"
        assert not shown.flags.is_active, "it is idle until the user continues it"
        await supervisor.send(fork_id, "and now this")
        await watched.result(fork_id, "Done again.")
        assert said(project.log(fork_id)) == ["I will write it.", "Written.", "More."]
        shown = supervisor.session(source)
        assert shown
        row = next(row for row in shown.view.messages if row.text == "I will write it.")
        (early,) = (await handler.do(ForkSession(session_id=source, ts=row.ts))).session_ids
        events = project.log(early)
        assert said(events) == ["I will write it."]
        assert isinstance(events[-1].fact, Noted)
        await supervisor.resume(early)
        await watched.at(early, "completed")
        assert said(project.log(early))[1:] == ["Written."], "the calls are not run again"
        assert project.log(source) == before
    async with project.supervised() as watched:
        for each in (fork_id, early):
            shown = watched.supervisor.session(each)
            assert shown
            assert shown.record.name == "Write it, please (fork)"


async def test_a_working_session_can_be_forked_and_message_ids_stay_unique(project: Project):
    async with project.supervised() as watched:
        source = await watched.supervisor.start(project.start_options(SPEAKS_LONG, "x" * 60))
        await watched.until(source, lambda shown: shown.view.seq > 1)
        for words in ("one", "two"):
            await watched.supervisor.send(source, words)
        await watched.until(source, lambda shown: len(shown.view.queue) == 2)
        forked = await router_of(project, watched).do(ForkSession(session_id=source))
        (fork_id,) = forked.session_ids
        assert watched.state(source) == "streaming"
        facts = [event.fact for event in project.log(fork_id)]
        reported = {fact.message_id for fact in facts if isinstance(fact, UserSpoke)}
        assert len(reported) == 2
        fork = watched.supervisor.find(fork_id)
        assert message_id_of(fork.record.taken) not in reported
        assert fork.record.taken > max(int(each.rpartition("-")[2]) for each in reported)
        assert len(fork.record.name) <= LABEL_LENGTH
        assert fork.record.name.endswith(" (fork)")


async def test_a_fork_shares_the_worktree_and_start_options_of_its_source(project: Project):
    worktree = project.folder / "worktree"
    worktree.mkdir()
    parallel = ParallelMode(branch="agent/x", worktree_path=str(worktree))
    async with project.supervised() as watched:
        source = await done(
            project,
            watched,
            workspace=worktree,
            options=("--trust",),
            parallel_mode=parallel,
            worktree_id="w1",
            group_id="g1",
        )
        (fork_id,) = (
            await router_of(project, watched).do(ForkSession(session_id=source))
        ).session_ids
        folders = SessionFolders(project.places)
        assert folders.of(fork_id).launch() == folders.of(source).launch()
        shown = watched.supervisor.session(fork_id)
        assert shown
        assert (shown.record.parallel_mode, shown.record.worktree_id) == (parallel, "w1")
        assert shown.record.group_id == "", "a fork is not a version of the same prompt"


async def test_a_session_is_exported_and_a_failed_fork_leaves_no_files(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    async with project.supervised() as watched:
        source = await done(project, watched)
        handler = router_of(project, watched)
        forms: dict[Form, str] = {"markdown": "md", "json": "json", "html": "html"}
        for form, ending in forms.items():
            exported = await handler.do(ExportSession(session_id=source, format=form))
            assert exported.name == f"write-it-please-{source[:8]}.{ending}"
            assert "I will write it." in exported.text, form
            if form == "json":
                (session,) = json.loads(exported.text)["sessions"]
                assert session["id"] == source
                assert len(session["facts"]) == len(project.log(source))
        monkeypatch.setattr(forking_family, "MAX_DOCUMENT", 100)
        with pytest.raises(CommandRejected, match=f"rookery export {source}"):
            await handler.do(ExportSession(session_id=source))
        before = set(project.places.tasks.iterdir())
        refused = (
            ForkSession(session_id="none"),
            ForkSession(session_id=source, ts=1),
            ExportSession(session_id="none"),
        )
        for request in refused:
            with pytest.raises(CommandRejected):
                await handler.do(request)
        where, away = project.file.parent, project.folder / "away"
        where.rename(away)
        where.write_text("in the way of the list")
        with pytest.raises(StorageError):
            await handler.do(ForkSession(session_id=source))
        assert set(project.places.tasks.iterdir()) == before
        where.unlink()
        away.rename(where)


def test_export_file_names_are_sanitized(tmp_path: Path):
    from rookery.manager.sessions.session_record import SessionRecord

    for label in ("../../etc/passwd", "a\0b", "\u202ecod.exe", "", "CON", "x" * 300):
        record = SessionRecord(session_id="38e51b0a-1111", label=label)
        name = forking_family._file_name(record, "html")
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert name.endswith("38e51b0a.html")
        (tmp_path / name).touch()


TOLD = log(
    TaskOpened(text="do it"),
    RequestStarted(request_id="r", model="m"),
    TextStreamed(request_id="r", text="I "),
    TextStreamed(request_id="r", text="will."),
    AssistantSpoke(request_id="r", blocks=(Text(text="I will."),)),
    UserSpoke(message_id="m", text="and"),
    RequestStarted(request_id="s", model="m"),
)
STORED = [event for event in TOLD if event.fact.lasting]


def seen(events: list[Event]) -> View:
    view = View()
    for event in events:
        view = see(view, event)
    return view


@pytest.mark.parametrize("events", [TOLD, STORED], ids=["as streamed", "as stored"])
def test_a_row_ends_with_the_event_that_completes_it(events: list[Event]):
    rows = {row.text: row.ts for row in seen(events).messages if row.say != "api_req_started"}
    assert [event_of_row(STORED, rows[text]) for text in ("do it", "I will.", "and")] == [1, 3, 5]


def test_a_time_before_the_log_has_no_event_and_one_after_it_the_last():
    assert event_of_row(STORED, STORED[0].ts - 1) is None
    assert event_of_row([], 5) is None
    assert event_of_row(STORED, STORED[-1].ts + 10_000) == STORED[-1].seq


async def test_nothing_is_copied_if_there_is_no_worktree_for_it(project: Project):
    async with project.supervised() as watched:
        source = await done(project, watched)
        with pytest.raises(CommandRejected, match="no room"):
            await router_of(project, watched).do(ForkSession(session_id=source, where="worktree"))
        assert [each.id for each in project.tasks.list()] == [source]
        assert [each.record.session_id for each in watched.supervisor.all()] == [source]
