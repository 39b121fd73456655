"""Requests about the list as a whole: search, order, many sessions at once, commands, cost. And
about the fleet that the manager was given with `--database`.

Search and cost come from the index of all journals, as `rookery search` does; nothing is computed
a second time. Sub-tasks belong to the session that started them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from rookery import NAME
from rookery.core.facts import Usage
from rookery.core.fleet_rows import FleetListing
from rookery.core.folds.run_tallies import added
from rookery.core.stored_tasks import ModelUsage, TaskSummary
from rookery.errors import CommandRejected
from rookery.first_use import prepared
from rookery.manager.dependencies import Dependencies, FleetView, StoredTasks
from rookery.manager.handlers.router import Handlers
from rookery.manager.list_requests import (
    AnswerFleetSession,
    CancelFleetSession,
    ChangeSessions,
    CostRow,
    Costs,
    FoundSession,
    IssueRow,
    ListCommands,
    ListFleet,
    ListIssues,
    PinSession,
    ReadCosts,
    SearchSessions,
    TagSession,
)
from rookery.manager.sessions.session_record import SessionRecord, is_active
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import Done
from rookery.platform.own_programs import run_program
from rookery.platform.paths import visible
from rookery.platform.user_folders import find_own_program

DONE = Done()
LONGEST_TAG = 24
MOST_TAGS = 8
MOST_DAYS = 3660
GH_SECONDS = 20.0
MOST_SESSIONS = 1_000
NO_FLEET = "This manager shows no fleet. Start it with --database."
_CHANGES = {
    "archive": {"archived": True},
    "unarchive": {"archived": False},
    "mark_read": {"unread": False},
}
Spent: TypeAlias = tuple[TaskSummary, ModelUsage]
Name: TypeAlias = Callable[[TaskSummary, ModelUsage], str]
_WORKTREES = f"{Path('/.roo/worktrees')}/"


class ListHandler:
    def __init__(self, supervisor: Supervisor, dependencies: Dependencies) -> None:
        self._supervisor = supervisor
        self._dependencies = dependencies

    @property
    def handlers(self) -> Handlers:
        return {
            SearchSessions: self._search,
            ChangeSessions: self._change,
            PinSession: self._pin,
            TagSession: self._tag,
            ListCommands: lambda _: self._dependencies.commands(),
            ListIssues: self._issues,
            ReadCosts: self._costs,
        }

    async def _change(self, request: ChangeSessions) -> Done:
        ids = tuple(dict.fromkeys(request.session_ids))
        for session_id in ids:
            await self._supervisor.ensure_supervised(session_id)
        records = [self._supervisor.find(session_id).record for session_id in ids]
        if request.action == "stop":
            for record in filter(is_active, records):
                with suppress(CommandRejected):  # it ended meanwhile
                    await self._supervisor.cancel(record.session_id)
        else:
            change = _CHANGES[request.action]
            self._supervisor.rewrite(*(replace(record, **change) for record in records))
        return DONE

    async def _pin(self, request: PinSession) -> Done:
        record = self._supervisor.find(request.session_id).record
        self._supervisor.rewrite(replace(record, pinned=request.pinned))
        return DONE

    async def _tag(self, request: TagSession) -> Done:
        record = self._supervisor.find(request.session_id).record
        self._supervisor.rewrite(replace(record, tags=checked_tags(request.tags)))
        return DONE

    async def _search(self, request: SearchSessions) -> tuple[FoundSession, ...]:
        records = {record.session_id: record for record in self._supervisor.records()}
        found = await anyio.to_thread.run_sync(self._find, request.words, records)
        return tuple(found[: max(1, request.most)])

    def _find(self, words: str, records: Mapping[str, SessionRecord]) -> list[FoundSession]:
        tasks = self._dependencies.tasks
        by_id = {task.id: task for task in tasks.list()}
        found: dict[str, FoundSession] = {}
        project = str(self._supervisor.project)
        for workspace in sorted({project, *(record.workspace for record in records.values())}):
            for hit in tasks.search(words, workspace):
                record = records.get(root_of(hit.task, by_id))
                if record and record.session_id not in found:
                    found[record.session_id] = FoundSession(
                        session_id=record.session_id,
                        name=record.name,
                        excerpt=hit.snippet,
                        archived=record.archived,
                        updated=hit.task.updated,
                    )
        return sorted(found.values(), key=lambda each: -each.updated)

    async def _issues(self, _: ListIssues) -> tuple[IssueRow, ...]:
        project = self._supervisor.project
        if not self._dependencies.trust.trusts(project):
            raise CommandRejected(
                f"{project} is not trusted, so its issues are not listed. Look through it, "
                f"then run: {NAME} trust"
            )
        return await anyio.to_thread.run_sync(open_issues, project)

    async def _costs(self, request: ReadCosts) -> Costs:
        days = min(max(1, request.days), MOST_DAYS)
        today = datetime.now().date()
        names = {record.session_id: record.name for record in self._supervisor.records()}
        budget = self._dependencies.settings().manager.daily_budget
        tasks = await anyio.to_thread.run_sync(self._dependencies.tasks.list)
        return costs_of(
            tasks,
            names,
            project=str(self._supervisor.project),
            since=today - timedelta(days=days - 1),
            today=today,
            budget=budget,
        )


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags without repetitions. Raises `CommandRejected` if one is invalid."""
    checked = tuple(dict.fromkeys(tag.strip().lstrip("#") for tag in tags if tag.strip(" #")))
    if len(checked) > MOST_TAGS:
        raise CommandRejected(f"A session can have at most {MOST_TAGS} tags. Nothing was changed.")
    for tag in checked:
        if len(tag) > LONGEST_TAG or not tag.isprintable() or any(map(str.isspace, tag)):
            raise CommandRejected(
                f"A tag is one word of at most {LONGEST_TAG} characters. Nothing was changed."
            )
    return checked


def open_issues(project: Path) -> tuple[IssueRow, ...]:
    """The open issues, from the user's own `gh`. Raises `CommandRejected`."""
    if not (program := find_own_program("gh", project)):
        raise CommandRejected("Issues need gh, which is not installed (https://cli.github.com).")
    argv = (program, "issue", "list", "--limit", "50", "--json", "number,title,body,url")
    try:
        done = run_program(argv, cwd=project, environment=os.environ, seconds=GH_SECONDS)
    except OSError as error:
        raise CommandRejected(f"gh failed: {error.strerror or error}.") from error
    if done.status:
        lines = done.errors.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise CommandRejected(f"gh could not list the issues: {visible(lines[-1])}")
    try:
        return msgspec.json.decode(done.out, type=prepared(tuple[IssueRow, ...]))
    except msgspec.MsgspecError as error:
        raise CommandRejected("gh printed no list of issues. Update gh, then try again.") from error


def root_of(task: TaskSummary, tasks: Mapping[str, TaskSummary]) -> str:
    """The id of the session that a task belongs to."""
    seen = {task.id}
    while task.parent and task.parent in tasks and task.parent not in seen:
        task = tasks[task.parent]
        seen.add(task.id)
    return task.id


def project_of(workspace: str) -> str:
    """The project of a folder, which may be one of its worktrees."""
    return workspace.partition(_WORKTREES)[0]


def costs_of(
    tasks: Sequence[TaskSummary],
    names: Mapping[str, str],
    *,
    project: str,
    since: date,
    today: date,
    budget: float = 0.0,
) -> Costs:
    """`names` are the sessions of the project."""
    by_id = {task.id: task for task in tasks}
    first = since.isoformat()
    spent = [(task, each) for task in tasks for each in task.spending if day_of(each) >= first]
    roots = {task.id: root_of(task, by_id) for task, _ in spent}
    own = [(task, each) for task, each in spent if roots[task.id] in names]

    def total(pairs: Iterable[Spent], name: Name) -> list[CostRow]:
        return list(_totals((name(task, each), each.usage) for task, each in pairs))

    sessions = total(own, lambda task, _: roots[task.id])
    days = sorted(total(own, lambda _, each: day_of(each)), key=lambda row: row.name)
    everywhere = {row.name: row for row in total(spent, lambda _, each: day_of(each))}
    return Costs(
        since=since.isoformat(),
        today=everywhere.get(today.isoformat(), CostRow(name=today.isoformat())),
        daily_budget=budget,
        days=tuple(days),
        models=_by_cost(total(own, lambda _, each: each.model)),
        sessions=_by_cost(
            replace(row, session_id=row.name, name=names[row.name]) for row in sessions
        ),
        projects=_by_cost(
            total(
                spent,
                lambda task, _: project if roots[task.id] in names else project_of(task.workspace),
            )
        ),
    )


async def spent_today(tasks: StoredTasks) -> Mapping[str, float]:
    """Dollars of today by session, as the cost page shows them."""
    stored = await anyio.to_thread.run_sync(tasks.list)
    names = dict.fromkeys((task.id for task in stored), "")
    today = datetime.now().date()
    costs = costs_of(stored, names, project="", since=today, today=today)
    return {row.session_id: row.cost or 0.0 for row in costs.sessions}


def day_of(spending: ModelUsage) -> str:
    return datetime.fromtimestamp(spending.ts / 1000).date().isoformat()


def _totals(named: Iterable[tuple[str, Usage]]) -> Iterator[CostRow]:
    sums: dict[str, Usage] = {}
    for name, usage in named:
        sums[name] = added(sums.get(name, Usage()), usage)
    for name, usage in sums.items():
        yield CostRow(
            name=name, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, cost=usage.cost
        )


def _by_cost(rows: Iterable[CostRow]) -> tuple[CostRow, ...]:
    """The most expensive first; where no price is known, the most tokens."""

    def rank(row: CostRow) -> tuple[float, int, str]:
        return -(row.cost or 0.0), -row.tokens_in - row.tokens_out, row.name

    return tuple(sorted(rows, key=rank))


class FleetHandler:
    def __init__(self, fleet: FleetView | None) -> None:
        self._fleet = fleet

    @property
    def handlers(self) -> Handlers:
        return {
            ListFleet: self._list,
            AnswerFleetSession: self._answer,
            CancelFleetSession: self._cancel,
        }

    async def _list(self, request: ListFleet) -> FleetListing:
        if not 1 <= request.most <= MOST_SESSIONS:
            raise CommandRejected(f"most must be a number from 1 to {MOST_SESSIONS}.")
        return await self._open.listing(request.most)

    async def _answer(self, request: AnswerFleetSession) -> Done:
        await self._open.answer(request.id, request.reply, request.text, request.digest)
        return Done()

    async def _cancel(self, request: CancelFleetSession) -> Done:
        await self._open.cancel(request.id)
        return Done()

    @property
    def _open(self) -> FleetView:
        if not self._fleet:
            raise CommandRejected(NO_FLEET)
        return self._fleet
