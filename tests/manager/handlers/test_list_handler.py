"""Requests about the list as a whole: search, tags, many sessions at once, cost."""

import os
import time
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Usage
from rookery.core.stored_tasks import ModelUsage, TaskSummary
from rookery.errors import CommandRejected
from rookery.manager.handlers.list_handler import ListHandler, checked_tags, costs_of, open_issues
from rookery.manager.handlers.router import Router
from rookery.manager.handlers.session_handler import SessionHandler
from rookery.manager.list_requests import (
    ChangeSessions,
    CostRow,
    ListCommands,
    PinSession,
    ReadCosts,
    SearchSessions,
    TagSession,
)
from rookery.manager.requests import ListQuestions, ListSessions
from support.manager_project import HANDS_ON, SPEAKS_LONG, WRITES, Project, Watched

PAID = """\
- say: I will think.
  usage: {tokens_in: 1000, tokens_out: 20, cost: 0.25}
  calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- usage: {tokens_in: 2000, tokens_out: 30, cost: 0.5}
  calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""
anyio_test = pytest.mark.anyio
PROGRAMS = Path(__file__).parents[2] / "support" / "programs"
TODAY = date(2026, 3, 10)


def router_of(project: Project, watched: Watched) -> Router:
    handlers = [
        SessionHandler(watched.supervisor),
        ListHandler(watched.supervisor, project.dependencies),
    ]
    return Router(handlers, watched.supervisor.ensure_supervised)


@anyio_test
async def test_many_sessions_are_marked_archived_and_stopped_at_once(project: Project):
    async with project.supervised() as watched:
        router, start = router_of(project, watched), watched.supervisor.start
        done = [
            await start(project.start_options(WRITES.replace("made", name), auto_approve=True))
            for name in ("one", "two", "three")
        ]
        for each in done:
            await watched.at(each, "completed")
        assert len(await router.do(ListQuestions())) == 3
        ids = (done[0], "00000000-0000-0000-0000-000000000000")
        with pytest.raises(CommandRejected, match="No such session"):
            await router.do(ChangeSessions(action="archive", session_ids=ids))
        assert len((await router.do(ListSessions())).sessions) == 3, "nothing was archived"
        await router.do(ChangeSessions(action="mark_read", session_ids=(*done, done[0])))
        assert await router.do(ListQuestions()) == ()
        await router.do(ChangeSessions(action="archive", session_ids=tuple(done[:2])))
        assert [row.session_id for row in (await router.do(ListSessions())).sessions] == done[2:]
        busy = await start(project.start_options(SPEAKS_LONG))
        await watched.at(busy, "streaming")
        await router.do(ChangeSessions(action="stop", session_ids=(busy, done[2])))
        await watched.at(busy, "stopped")
        await watched.at(done[2], "completed")
        await router.do(PinSession(session_id=done[2]))
        await router.do(TagSession(session_id=done[2], tags=("#urgent", "parser")))
    async with project.supervised() as watched:
        (first, *_) = (await router_of(project, watched).do(ListSessions())).sessions
        assert (first.session_id, first.pinned, first.tags) == (done[2], True, ("urgent", "parser"))


@anyio_test
async def test_conversations_are_searched_with_their_sub_tasks(project: Project):
    async with project.supervised() as watched:
        router = router_of(project, watched)
        options = project.start_options(HANDS_ON, "Mend the roof", auto_approve=True)
        session = await watched.supervisor.start(options)
        await watched.at(session, "completed")
        (found,) = await router.do(SearchSessions(words="part one is done"))
        assert (found.session_id, found.name) == (session, "Mend the roof")
        assert "one is done" in found.excerpt
        assert await router.do(SearchSessions(words="moonrise")) == ()
        assert "init" in {each.name for each in await router.do(ListCommands())}


@anyio_test
async def test_costs_are_the_figures_of_the_journal(project: Project):
    async with project.supervised() as watched:
        options = project.start_options(PAID, auto_approve=True)
        session = await watched.supervisor.start(options)
        await watched.at(session, "completed")
        costs = await router_of(project, watched).do(ReadCosts())
        shown = watched.supervisor.find(session).record
        (row,) = costs.sessions
        (stored,) = project.tasks.list()
        assert (row.session_id, row.tokens_in, row.tokens_out, row.cost) == (
            session,
            3000,
            50,
            0.75,
        )
        assert (shown.tokens, shown.cost) == (3050, 0.75)
        assert (stored.tokens_in, stored.tokens_out, stored.cost) == (3000, 50, 0.75)
        assert brief(costs.models) == {options.model: 0.75}
        assert [each.name for each in costs.projects] == [str(project.path)]


@pytest.mark.parametrize(
    ("printed", "rows"),
    [
        ('[{"number": 12, "title": "The roof leaks", "body": "Mend it."}]', "12 The roof leaks"),
        ("[]", ""),
        ('{"number": 12}', "gh printed no list of issues"),
        (None, "gh could not list the issues"),
    ],
)
def test_issues_come_from_the_users_own_gh(
    printed: str | None, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "issues.json"
    if printed is not None:
        file.write_text(printed)
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    monkeypatch.setenv("GH_ISSUES", str(file))
    try:
        said = " ".join(f"{row.number} {row.title}" for row in open_issues(tmp_path))
    except CommandRejected as error:
        said = str(error)
    assert said.startswith(rows)
    assert bool(said) == bool(rows)


def used(day: int, model: str, cost: float | None, tokens: int = 10) -> ModelUsage:
    ts = int(time.mktime(datetime(2026, 3, day, 23, 45).timetuple())) * 1000
    return ModelUsage(ts=ts, model=model, usage=Usage(tokens_in=tokens, cost=cost))


def brief(rows: tuple[CostRow, ...]) -> dict[str, Any]:
    return {row.name: row.cost for row in rows}


def test_costs_are_summed_per_day_model_session_and_project():
    tasks = [
        TaskSummary(id="a", spending=(used(8, "x", 9.0), used(9, "x", 1.0), used(10, "y", 2.0))),
        TaskSummary(
            id="b", parent="a", spending=(used(10, "x", 4.0),), workspace="/p/.roo/worktrees/w"
        ),
        TaskSummary(id="c", spending=(used(10, "z", None),)),
        TaskSummary(id="d", spending=(used(10, "x", 8.0),), workspace="/q/.roo/worktrees/w"),
    ]
    names = {"a": "Roof", "c": "Door"}
    costs = costs_of(tasks, names, project="/p", since=date(2026, 3, 9), today=TODAY, budget=20.0)
    assert brief(costs.days) == {"2026-03-09": 1.0, "2026-03-10": 6.0}
    assert brief(costs.models) == {"x": 5.0, "y": 2.0, "z": None}
    assert brief(costs.sessions) == {"Roof": 7.0, "Door": None}
    assert brief(costs.projects) == {"/q": 8.0, "/p": 7.0}
    assert (costs.today.cost, costs.daily_budget) == (14.0, 20.0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("urgent", " #urgent", ""), ("urgent",)),
        ((), ()),
        (("two words",), None),
        (("x" * 25,), None),
        (("a\nb",), None),
        (tuple("abcdefghi"), None),
    ],
)
def test_a_tag_is_one_short_word(given: tuple[str, ...], kept: tuple[str, ...] | None):
    if kept is None:
        with pytest.raises(CommandRejected, match="Nothing was changed"):
            checked_tags(given)
    else:
        assert checked_tags(given) == kept
