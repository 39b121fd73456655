"""Restoring files and rewinding conversations of real session processes."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Change,
    CheckpointSaved,
    FilesChanged,
    FilesRestored,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.replies import NO_FILE_PUT_BACK
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.undo_handler import MAX_TITLE, UndoHandler, moments
from rookery.manager.requests import ListCheckpoints, RehearseRestore, RestoreSession
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.shown_rows import CheckpointRow
from support.manager_project import SPEAKS_LONG, Project, Watched
from support.sample_logs import log

pytestmark = pytest.mark.anyio

WRITES_TWICE = """\
- say: I will write it.
  calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- say: And run something.
  calls:
  - {tool: execute_command, arguments: {command: "echo two > made.txt; echo new > other.txt"}}
- say: Written.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
- say: More.
  calls:
  - {tool: attempt_completion, arguments: {result: "Done again."}}
"""


def router_of(project: Project, watched: Watched) -> Router:
    workspaces = Workspaces(project.path, project.places)
    snapshots = project.dependencies.snapshots
    return Router([UndoHandler(watched.supervisor, workspaces, snapshots)])


async def written(project: Project, watched: Watched) -> str:
    options = project.start_options(WRITES_TWICE, "Write it", auto_approve=True)
    session_id = await watched.supervisor.start(options)
    await watched.at(session_id, "completed")
    return session_id


def named(rows: tuple[CheckpointRow, ...], words: str) -> CheckpointRow:
    return next(row for row in rows if words in row.title)


REFUSED: dict[str, Callable[[str], Any]] = {
    "nothing of it": lambda id: RestoreSession(session_id=id, to=1, files=False),
    "no such event": lambda id: RestoreSession(session_id=id, to=10_000),
    "event 0": lambda id: RestoreSession(session_id=id, to=0, conversation=True),
    "a rehearsal of none": lambda id: RehearseRestore(session_id=id, to=-1),
    "no session": lambda id: RestoreSession(session_id="none", to=1),
    "no session to list": lambda id: ListCheckpoints(session_id="none"),
}


async def test_files_can_be_restored_after_a_preview(project: Project):
    async with project.supervised() as watched:
        session_id = await written(project, watched)
        watched.supervisor.mark_read(session_id)
        handler, made = router_of(project, watched), project.path / "made.txt"
        rows = await handler.do(ListCheckpoints(session_id=session_id))
        assert [(row.title, row.paths) for row in rows] == [
            ("Start: Write it", ()),
            ("Before: Create made.txt", ("made.txt",)),
            ("Before: Run echo two > made.txt; echo new > other.txt", ("made.txt", "other.txt")),
        ]
        assert [row.seq for row in rows] == sorted(row.seq for row in rows)
        assert [row.ts for row in rows] == sorted(row.ts for row in rows)
        before = project.log(session_id)
        for name, request in REFUSED.items():
            with pytest.raises(CommandRejected):
                await handler.do(request(session_id))
            assert project.log(session_id) == before, name
        to = named(rows, "Run echo").seq
        restore = RestoreSession(session_id=session_id, to=to)
        rehearsed = await handler.do(RehearseRestore(session_id=session_id, to=to))
        assert (rehearsed.written, rehearsed.removed) == (("made.txt",), ("other.txt",))
        assert made.read_text() == "two\n", "a rehearsal changes nothing"
        (note,) = (await handler.do(restore)).notes
        assert note.startswith("Restored 2 files")
        assert made.read_text() == "one\n"
        assert not (project.path / "other.txt").exists()
        done = await handler.do(restore)
        assert done.notes == (NO_FILE_PUT_BACK,), "there is nothing left to do"
        undone = named(await handler.do(ListCheckpoints(session_id=session_id)), "Restored 2 files")
        await handler.do(RestoreSession(session_id=session_id, to=undone.seq))
        assert made.read_text() == "two\n"
        made.write_text("mine\n")
        rehearsed = await handler.do(RehearseRestore(session_id=session_id, to=to))
        assert (rehearsed.kept, rehearsed.removed) == (("made.txt",), ("other.txt",))
        (note,) = (await handler.do(restore)).notes
        assert "someone else changed them: made.txt" in note
        assert made.read_text() == "mine\n"
        await handler.do(replace(restore, overwrite=True))
        assert made.read_text() == "one\n"
        assert not any(isinstance(event.fact, Rewound) for event in project.log(session_id))
        assert_seen(watched, session_id, "completed")


def assert_seen(watched: Watched, session_id: str, state: str) -> None:
    """The user who rewinds has seen the result, so nothing is unread."""
    assert watched.state(session_id) == state
    assert (watched.supervisor.counts().attention, watched.supervisor.inbox()) == (0, ())


async def test_the_conversation_can_be_rewound_with_or_without_the_files(project: Project):
    async with project.supervised() as watched:
        session_id = await written(project, watched)
        watched.supervisor.mark_read(session_id)
        await watched.supervisor.stop_all()
        await project.quiet()
        handler = router_of(project, watched)
        to = named(await handler.do(ListCheckpoints(session_id=session_id)), "Run echo").seq
        assert not project.processes(), "listing needs no process"
        alone = RestoreSession(session_id=session_id, to=to, files=False, conversation=True)
        (note,) = (await handler.do(alone)).notes
        assert "The conversation was rewound" in note
        assert (project.path / "made.txt").read_text() == "two\n"
        shown = await watched.at(session_id, "paused")
        assert_seen(watched, session_id, "paused")
        assert not [row for row in shown.view.messages if row.say == "completion_result"]
        both = RestoreSession(session_id=session_id, to=1, conversation=True)
        files, words = (await handler.do(both)).notes
        assert (files[:8], words[:16]) == ("Restored", "The conversation")
        assert not (project.path / "made.txt").exists()
        assert_seen(watched, session_id, "paused")
        facts = [event.fact for event in project.log(session_id)]
        kinds = [type(fact) for fact in facts if isinstance(fact, FilesRestored | Rewound)]
        assert kinds == [Rewound, FilesRestored, Rewound]


async def test_a_working_session_cannot_be_rewound(project: Project):
    async with project.supervised() as watched:
        session_id = await watched.supervisor.start(project.start_options(SPEAKS_LONG))
        await watched.at(session_id, "streaming")
        handler = router_of(project, watched)
        with pytest.raises(CommandRejected, match="is working"):
            await handler.do(RestoreSession(session_id=session_id, to=1, conversation=True))
        with pytest.raises(CommandRejected, match="is working"):
            await handler.do(RehearseRestore(session_id=session_id, to=1))
        assert watched.state(session_id) == "streaming"
        assert not any(isinstance(event.fact, Rewound) for event in project.log(session_id))


async def test_checkpoints_are_listed_although_the_folder_is_gone(project: Project):
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    async with project.supervised() as watched:
        given = {"workspace": elsewhere, "auto_approve": True, "options": ("--trust",)}
        session_id = await watched.supervisor.start(project.start_options(WRITES_TWICE, **given))
        await watched.at(session_id, "completed")
        await watched.supervisor.stop_all()
        elsewhere.rename(project.folder / "moved")
        rows = await router_of(project, watched).do(ListCheckpoints(session_id=session_id))
        assert named(rows, "Create made.txt").paths == ("made.txt",)
        assert named(rows, "Run echo").paths == ()


OPENED = TaskOpened(text="do it", workspace="/w")


def call(call_id: str, title: str, *paths: str) -> list[Any]:
    changes = tuple(Change(path=path) for path in paths)
    return [
        CheckpointSaved(id=f"{call_id}-before", call_id=call_id),
        ToolStarted(call_id=call_id, tool="t", title=title, changes=changes),
        ToolFinished(call_id=call_id, text=""),
    ]


def changed(call_id: str, since: int, *, really: bool = True) -> FilesChanged:
    after = f"{call_id}-after" if really else f"{call_id}-before"
    return FilesChanged(call_id=call_id, before=f"{call_id}-before", after=after, since=since)


def test_each_change_belongs_to_the_checkpoint_before_it():
    events = log(
        OPENED,
        *call("a", "Run a"),
        changed("a", 2),
        UserSpoke(message_id="m", text="go on"),
        *call("b", "Run b"),
        changed("b", 7),
        *call("c", "Run c"),
        changed("c", 11, really=False),
        *call("d", "Edit d", "d.txt"),
        changed("d", 15),
    )
    reported = {each.row.title: (each.row.paths, each.steps) for each in moments(events)}
    assert reported == {
        "Start: do it": ((), ()),
        "Before: Run a": ((), (("a-before", "a-after"),)),
        "Before your message: go on": ((), ()),
        "Before: Run b": ((), (("b-before", "b-after"),)),
        "Before: Run c": ((), ()),
        "Before: Edit d": (("d.txt",), ()),
    }


def test_checkpoint_titles_are_short_single_lines_without_hidden_text():
    events = log(
        TaskOpened(text="a\n\tb \u202e" + "x" * 1000),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="c\u200b"),
    )
    first, second = (each.row.title for each in moments(events))
    assert first.startswith("Start: a b <U+202E>x")
    assert len(first) == MAX_TITLE
    assert second == "Before your message: c<U+200B>"
