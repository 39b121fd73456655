"""Commands of `rookery sessions` about sessions, the list as a whole, and schedules."""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime

import click

from rookery import NAME
from rookery.core.queries import BlamedLine, IntentRow, TraceRow
from rookery.core.text.terminal_text import aligned, harmless, harmless_line
from rookery.manager import list_requests, requests, schedule_requests
from rookery.manager.cli.sessions_common import CommandSpec, ManagerClient, few, short, table
from rookery.manager.cli.sessions_list import inbox_lines
from rookery.manager.list_requests import CostRow, Costs
from rookery.manager.schedule_requests import ScheduleRow, ScheduleSecret
from rookery.manager.shown_rows import CheckpointRow, Device, Exported, Started
from rookery.storage.cli.session_listing import time_of

_IN_SESSION = "In the workspace of this session."


def _limit_option(limit: int, usual: int) -> click.Option:
    kind = click.IntRange(1, limit)
    return click.Option(["--most"], type=kind, default=usual, help="Maximum number.")


def _exported(answer: Exported, client: ManagerClient) -> list[str]:
    text = harmless(answer.text) if sys.stdout.isatty() else answer.text
    return [text.rstrip("\n")]


def _checkpoint(row: CheckpointRow) -> str:
    when = datetime.fromtimestamp(row.ts / 1000).strftime("%H:%M:%S")
    paths = f"  ({harmless_line(few(row.paths))})" if row.paths else ""
    return f"{row.seq:>6}  {when}  {harmless_line(row.title)}{paths}"


def _checkpoints(found: Iterable[CheckpointRow], client: ManagerClient) -> list[str]:
    return list(map(_checkpoint, found)) or ["No checkpoints yet."]


def _intent(row: IntentRow) -> list[str]:
    return [row.id, row.status, str(row.writes), row.name or row.problem]


def _record(row: TraceRow) -> list[str]:
    about = row.summary or ", ".join(row.paths)
    return [time_of(row.ts), row.kind, row.intent or "-", row.tool or "-", about]


def _blamed(line: BlamedLine) -> list[str]:
    return [line.intent or "-", line.tool or "-", str(line.line), line.text]


def _device(row: Device) -> list[str]:
    return [row.id, row.name, time_of(row.paired), time_of(row.seen)]


def _check_switch(request: requests.SwitchSession) -> str:
    wanted = (request.mode, request.model, request.intent, request.auto_approve)
    if any(each is not None for each in wanted):
        return ""
    return "Choose what to change: --mode, --model, --intent, --auto or --ask."


_DONE = {
    "archive": "Archived {}.",
    "unarchive": "Unarchived {}.",
    "mark_read": "Marked {} as read.",
    "stop": "Stopped {}.",
}


def _changed(request: list_requests.ChangeSessions) -> str:
    count = len(request.session_ids)
    return _DONE[request.action].format(f"{count} session{'s' * (count != 1)}")


def _costs(found: Costs, client: ManagerClient) -> Iterator[str]:
    budget = f" of ${found.daily_budget:.2f}" if found.daily_budget else ""
    yield f"Today, in all projects: {_dollars(found.today)}{budget}"
    parts = {
        "DAY": found.days,
        "MODEL": found.models,
        "SESSION": found.sessions,
        "PROJECT": found.projects,
    }
    for head, rows in parts.items():
        if rows:
            yield ""
            yield from aligned([[head, "COST", "TOKENS IN", "OUT"], *_cost_rows(rows)])


def _cost_rows(rows: Iterable[CostRow]) -> Iterator[list[str]]:
    for row in rows:
        name = f"{short(row.session_id)} {row.name}" if row.session_id else row.name
        yield [harmless_line(name), _dollars(row), str(row.tokens_in), str(row.tokens_out)]


def _dollars(row: CostRow) -> str:
    return "unknown" if row.cost is None and row.tokens_in else f"${row.cost or 0:.4f}"


_SCHEDULE_HEAD = ["ID", "NAME", "WHEN", "NEXT", "LAST", "BUDGET"]


def _weekday(ts: int | None) -> str:
    return datetime.fromtimestamp(ts / 1000).strftime("%a %Y-%m-%d %H:%M") if ts else "-"


def _schedule(row: ScheduleRow) -> list[str]:
    kind = "webhook" if row.webhook else row.cron or _weekday(row.at)
    upcoming = "paused" if row.paused else _weekday(row.next)
    last = _weekday(row.runs[0].ts) if row.runs else "-"
    budget = f"${row.used:.2f} of ${row.budget:.2f}" if row.budget else "-"
    return [row.id, harmless_line(row.name), kind, upcoming, last, budget]


def _schedules(rows: Iterable[ScheduleRow], client: ManagerClient) -> list[str]:
    known = list(rows)
    if not known:
        return [f'No schedules. Add one: {NAME} sessions schedules add "your task" --cron LINE']
    missed = [line for row in known for line in _missed(row)]
    return [*aligned([_SCHEDULE_HEAD, *map(_schedule, known)]), *missed]


def _missed(row: ScheduleRow) -> Iterator[str]:
    for each in row.missed:
        name = harmless_line(row.name)
        yield f"Did not start, {_weekday(each.ts)}, {name}: {harmless_line(each.reason)}"


def _one_schedule(row: ScheduleRow, client: ManagerClient) -> list[str]:
    return _schedules([row], client)


def _with_secret(found: ScheduleSecret, client: ManagerClient) -> Iterator[str]:
    yield from _one_schedule(found.schedule, client)
    if found.token:
        yield f"To start it, POST to {found.path} of the manager with this token, shown only now:"
        yield f"Authorization: Bearer {found.token}"
    yield from found.notes


def _started(found: Started, client: ManagerClient) -> list[str]:
    return [*map(short, found.session_ids), *map(harmless_line, (*found.notes, *found.failed))]


SESSION_SPECS = (
    CommandSpec(
        "inbox", requests.ListQuestions, lines=lambda rows, client: inbox_lines(rows, client.paint)
    ),
    CommandSpec("send", requests.SendWords, done="Sent to {id}."),
    CommandSpec("cancel", requests.CancelSession, done="Stopped {id}."),
    CommandSpec("resume", requests.ResumeSession, arguments=("text",), done="Resumed {id}."),
    CommandSpec("retry", requests.RetrySession, done="Retried {id}."),
    CommandSpec(
        "remove",
        requests.RemoveSession,
        done=f"{{id}} is no longer listed. To read it: {NAME} show {{id}}. "
        f"To delete it: {NAME} delete {{id}}",
    ),
    CommandSpec("stop-all", requests.StopAll, done="Stopped all sessions."),
    CommandSpec("rename", requests.RenameSession, arguments=("label",), done="Renamed {id}."),
    CommandSpec(
        "archive",
        requests.ArchiveSession,
        options={
            "archived": click.Option(
                ["--undo", "archived"], flag_value=False, default=True, help="Unarchive it."
            )
        },
        done=lambda request: f"{{id}} is {'archived' if request.archived else 'unarchived'}.",
    ),
    CommandSpec("mark-read", requests.MarkRead, done="Marked {id} as read."),
    CommandSpec(
        "switch",
        requests.SwitchSession,
        options={
            "mode": click.Option(["-M", "--mode"], help="Continue in this mode."),
            "model": click.Option(
                ["-m", "--model"], help="Continue with this model, as PROVIDER/MODEL or MODEL."
            ),
            "intent": "Continue for this intent.",
            "auto_approve": click.Option(
                ["--auto/--ask", "auto_approve"],
                default=None,
                help="Approve actions automatically, or ask first.",
            ),
        },
        refuse=_check_switch,
        done="Changed {id}.",
    ),
    CommandSpec("queue retry", requests.RetryMessage, done="Sent again."),
    CommandSpec("queue discard", requests.DiscardMessage, done="Discarded."),
    CommandSpec(
        "queue edit",
        requests.EditQueued,
        arguments=("text",),
        done=lambda request: "Changed." if request.text else "Discarded.",
    ),
    CommandSpec("export", requests.ExportSession, options={"format": ""}, lines=_exported),
    CommandSpec("checkpoints", requests.ListCheckpoints, lines=_checkpoints),
    CommandSpec(
        "models",
        requests.ListModels,
        lines=table(lambda each: [each.provider, each.model], "None."),
    ),
    CommandSpec(
        "modes", requests.ListModes, lines=table(lambda each: [each.slug, each.name], "None.")
    ),
    CommandSpec("branches", requests.ListBranches, lines=table(lambda each: [each], "None.")),
    CommandSpec(
        "paths",
        requests.FindPaths,
        arguments=("letters",),
        options={"most": _limit_option(1000, 20), "session_id": _IN_SESSION},
        lines=table(lambda each: [each.path + "/" * each.folder], "No files match."),
    ),
    CommandSpec(
        "intents", requests.ListIntents, lines=table(_intent, "This project has no intents.")
    ),
    CommandSpec(
        "trace",
        requests.ReadTrace,
        options={
            "intent": "Only records of this intent.",
            "path": "Only records of this file.",
            "most": _limit_option(10_000, 100),
            "session_id": _IN_SESSION,
        },
        lines=table(_record, "Nothing recorded yet."),
    ),
    CommandSpec(
        "blame",
        requests.BlameFile,
        options={"session_id": _IN_SESSION},
        lines=table(_blamed, "This file is empty."),
    ),
    CommandSpec("devices list", requests.ListDevices, lines=table(_device, "No paired devices.")),
    CommandSpec("devices revoke", requests.RevokeDevice, done="Revoked {id}."),
    CommandSpec(
        "search",
        list_requests.SearchSessions,
        options={"most": click.Option(["--most"], type=click.IntRange(1, 100), default=50)},
        lines=table(
            lambda each: [short(each.session_id), each.name, each.excerpt], "Nothing was found."
        ),
    ),
    CommandSpec("bulk", list_requests.ChangeSessions, done=_changed),
    CommandSpec(
        "pin",
        list_requests.PinSession,
        options={
            "pinned": click.Option(
                ["--undo", "pinned"], flag_value=False, default=True, help="Unpin it."
            )
        },
        done=lambda request: f"{{id}} is {'pinned' if request.pinned else 'no longer pinned'}.",
    ),
    CommandSpec(
        "tag",
        list_requests.TagSession,
        arguments=("tags",),
        done=lambda request: "Tagged {id}." if request.tags else "Removed the tags of {id}.",
    ),
    CommandSpec(
        "commands",
        list_requests.ListCommands,
        lines=table(lambda each: [f"/{each.name}", each.description], "None."),
    ),
    CommandSpec(
        "issues",
        list_requests.ListIssues,
        lines=table(lambda each: [f"#{each.number}", each.title], "No open issues."),
    ),
    CommandSpec(
        "costs",
        list_requests.ReadCosts,
        options={
            "days": click.Option(
                ["--days"], type=click.IntRange(1), default=30, help="How many days."
            )
        },
        lines=_costs,
    ),
)

SCHEDULE_SPECS = (
    CommandSpec("schedules list", schedule_requests.ListSchedules, lines=_schedules),
    CommandSpec(
        "schedules add",
        schedule_requests.AddSchedule,
        options={
            "name": "The name of its sessions.",
            "cron": 'A cron line, such as "0 9 * * 1-5", in local time.',
            "at": "A time, such as 2026-05-03T09:00.",
            "webhook": "Start it by an HTTP request with a token. The token is printed once.",
            "where": click.Option(
                ["--in-project", "where"],
                flag_value="local",
                default="worktree",
                help="Work in the project instead of a new worktree.",
            ),
            "model": click.Option(
                ["-m", "--model"], default="", help="The model, as PROVIDER/MODEL or MODEL."
            ),
            "mode": click.Option(
                ["-M", "--mode"], default="", help="The mode, such as code or ask."
            ),
            "auto_approve": click.Option(
                ["--auto/--ask", "auto_approve"],
                default=None,
                help="Approve actions automatically, or ask first.",
            ),
            "budget": click.Option(
                ["--budget"],
                type=click.FloatRange(0),
                default=0.0,
                help="Dollars per day for all its runs; 0 for no limit.",
            ),
        },
        lines=_with_secret,
    ),
    CommandSpec(
        "schedules change",
        schedule_requests.ChangeSchedule,
        options={
            "paused": click.Option(
                ["--pause/--resume", "paused"], default=None, help="Pause or resume it."
            ),
            "name": click.Option(["--name"], help="The name of its sessions."),
            "prompt": click.Option(["--prompt"], help="The task."),
            "cron": click.Option(["--cron"], help="The cron line."),
            "at": click.Option(["--at"], help="The time."),
            "budget": click.Option(
                ["--budget"], type=click.FloatRange(0), help="Dollars per day; 0 for no limit."
            ),
        },
        lines=_one_schedule,
    ),
    CommandSpec("schedules run", schedule_requests.RunSchedule, lines=_started),
    CommandSpec("schedules remove", schedule_requests.RemoveSchedule, done="Removed."),
    CommandSpec("schedules renew-webhook", schedule_requests.RenewWebhook, lines=_with_secret),
    CommandSpec(
        "schedules dismiss", schedule_requests.DismissMissed, arguments=("id",), done="Dismissed."
    ),
)
