"""The commands of `rookery sessions schedules`."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import click

from rookery import NAME
from rookery.core.text.terminal_text import aligned, harmless_line
from rookery.manager import schedule_requests as asked
from rookery.manager.cli.sessions_common import ManagerClient, short
from rookery.manager.cli.sessions_table import CommandSpec
from rookery.manager.schedule_requests import ScheduleRow, ScheduleSecret
from rookery.manager.shown_rows import Started

_HEAD = ["ID", "NAME", "WHEN", "NEXT", "LAST", "BUDGET"]


def _when(ts: int | None) -> str:
    return datetime.fromtimestamp(ts / 1000).strftime("%a %Y-%m-%d %H:%M") if ts else "-"


def _cells(row: ScheduleRow) -> list[str]:
    kind = "webhook" if row.webhook else row.cron or _when(row.at)
    upcoming = "paused" if row.paused else _when(row.next)
    last = _when(row.runs[0].ts) if row.runs else "-"
    budget = f"${row.used:.2f} of ${row.budget:.2f}" if row.budget else "-"
    return [row.id, harmless_line(row.name), kind, upcoming, last, budget]


def _listed(rows: Iterable[ScheduleRow], client: ManagerClient) -> list[str]:
    known = list(rows)
    if not known:
        return [f'No schedules. Add one: {NAME} sessions schedules add "your task" --cron LINE']
    missed = [line for row in known for line in _missed(row)]
    return [*aligned([_HEAD, *map(_cells, known)]), *missed]


def _missed(row: ScheduleRow) -> Iterator[str]:
    for each in row.missed:
        name = harmless_line(row.name)
        yield f"Did not start, {_when(each.ts)}, {name}: {harmless_line(each.reason)}"


def _one(row: ScheduleRow, client: ManagerClient) -> list[str]:
    return _listed([row], client)


def _secret(found: ScheduleSecret, client: ManagerClient) -> Iterator[str]:
    yield from _one(found.schedule, client)
    if found.token:
        yield f"To start it, POST to {found.path} of the manager with this token, shown only now:"
        yield f"Authorization: Bearer {found.token}"
    yield from found.notes


def _started(found: Started, client: ManagerClient) -> list[str]:
    return [*map(short, found.session_ids), *map(harmless_line, (*found.notes, *found.failed))]


SCHEDULE_SPECS = (
    CommandSpec("schedules list", asked.ListSchedules, lines=_listed),
    CommandSpec(
        "schedules add",
        asked.AddSchedule,
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
                help="Dollars per day for all its runs.",
            ),
        },
        lines=_secret,
    ),
    CommandSpec(
        "schedules change",
        asked.ChangeSchedule,
        options={
            "paused": click.Option(
                ["--pause/--resume", "paused"], default=None, help="Pause or resume it."
            ),
            "name": click.Option(["--name"], help="The name of its sessions."),
            "prompt": click.Option(["--prompt"], help="The task."),
            "cron": click.Option(["--cron"], help="The cron line."),
            "at": click.Option(["--at"], help="The time."),
            "budget": click.Option(["--budget"], type=click.FloatRange(0), help="Dollars per day."),
        },
        lines=_one,
    ),
    CommandSpec("schedules run", asked.RunSchedule, lines=_started),
    CommandSpec("schedules remove", asked.RemoveSchedule, done="Removed."),
    CommandSpec("schedules renew-webhook", asked.RenewWebhook, lines=_secret),
    CommandSpec("schedules dismiss", asked.DismissMissed, arguments=("id",), done="Dismissed."),
)
