"""Requests about schedules: sessions that start at a time, on a cron line, or by a webhook."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from rookery.core.queries import Asking
from rookery.manager.shown_rows import Done, Started

Dollars: TypeAlias = Annotated[float, Meta(ge=0)]
Cause: TypeAlias = Literal["time", "webhook", "user"]


class ScheduleRun(Struct, frozen=True, kw_only=True):
    """A start of the schedule. `ts` is in milliseconds."""

    ts: int
    cause: Cause = "time"
    session_id: str = ""


class MissedRun(Struct, frozen=True, kw_only=True):
    """A run that did not start, and why."""

    ts: int
    reason: str


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """Exactly one of `cron`, `at` and `webhook` is set. Times are in milliseconds."""

    id: str
    name: str
    prompt: str
    cron: str = ""
    at: int | None = None
    webhook: bool = False
    next: int | None = None
    """When it runs next, if that is known."""
    paused: bool = False
    where: Literal["local", "worktree"] = "worktree"
    model: str = ""
    mode: str = ""
    auto_approve: bool = True
    budget: float = 0.0
    """Dollars per day for all its runs; 0 means none."""
    used: float = 0.0
    """Dollars of today."""
    runs: tuple[ScheduleRun, ...] = ()
    """Newest first."""
    missed: tuple[MissedRun, ...] = ()
    """Newest first; those that you have not dismissed."""
    missed_count: int = 0


class ScheduleSecret(Struct, frozen=True, kw_only=True):
    """A schedule, and the token of its webhook, which is shown only now. `path` is where to post
    it, below the address of the manager's page."""

    schedule: ScheduleRow
    token: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()


class ListSchedules(Asking[tuple[ScheduleRow, ...]], frozen=True, kw_only=True):
    """List the schedules of the project."""


class AddSchedule(Asking[ScheduleSecret], frozen=True, kw_only=True):
    """Start a session on a `cron` line, `at` a time, or by a `webhook`. A time is written as
    2026-05-03T09:00; without an offset it is local. `budget` is in dollars per day."""

    prompt: str
    name: str = ""
    cron: str = ""
    at: str = ""
    webhook: bool = False
    where: Literal["local", "worktree"] = "worktree"
    model: str = ""
    mode: str = ""
    auto_approve: bool | None = None
    """Null means what the settings say."""
    budget: Dollars = 0.0


class ChangeSchedule(Asking[ScheduleRow], frozen=True, kw_only=True):
    """Change a schedule. Everything else stays the same."""

    id: str
    paused: bool | None = None
    name: str | None = None
    prompt: str | None = None
    cron: str | None = None
    at: str | None = None
    budget: Dollars | None = None


class RunSchedule(Asking[Started], frozen=True, kw_only=True):
    """Start a session of a schedule now."""

    id: str


class RemoveSchedule(Asking[Done], frozen=True, kw_only=True):
    """Remove a schedule. Its sessions stay."""

    id: str


class RenewWebhook(Asking[ScheduleSecret], frozen=True, kw_only=True):
    """Make a new token for the webhook of a schedule. The old one stops working."""

    id: str


class DismissMissed(Asking[Done], frozen=True, kw_only=True):
    """Dismiss the runs that a schedule has missed; without an ID, those of all schedules."""

    id: str = ""
