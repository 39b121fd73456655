"""Requests about schedules, and the webhooks that start them."""

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from rookery.core.limits import KIB
from rookery.core.settings import Settings
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Handlers
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.schedule_requests import (
    AddSchedule,
    ChangeSchedule,
    DismissMissed,
    ListSchedules,
    RemoveSchedule,
    RenewWebhook,
    RunSchedule,
    ScheduleRow,
    ScheduleSecret,
)
from rookery.manager.schedules.cron import parse_cron
from rookery.manager.schedules.schedule_file import CallWebhook, Schedule, digest_of
from rookery.manager.schedules.scheduler import MOST_KEPT, Scheduler, used
from rookery.manager.sessions.session_record import label_of, same_fields
from rookery.manager.shown_rows import Done, Started
from rookery.protocol.server import new_token

DONE = Done()
LONGEST_PROMPT = 256 * KIB
LONGEST_REQUEST_ID = 200
NO_PRICE = "Models without a known price do not count towards a budget."
ONLY_OPEN = "It runs only while `rookery manager` runs. Missed runs are listed."


class ScheduleHandler:
    def __init__(
        self, access: WorktreeAccess, scheduler: Scheduler, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._settings = settings
        self._scheduler = scheduler
        self._file = scheduler.file

    @property
    def handlers(self) -> Handlers:
        return {
            ListSchedules: self._list,
            AddSchedule: self._add,
            ChangeSchedule: self._change,
            RunSchedule: lambda each: self._scheduler.start(each.id, "user"),
            RemoveSchedule: self._remove,
            RenewWebhook: self._renew,
            DismissMissed: self._dismiss,
            CallWebhook: self._call,
        }

    async def _list(self, _: ListSchedules) -> tuple[ScheduleRow, ...]:
        schedules = self._file.all()
        spent = await self._scheduler.spent() if any(each.runs for each in schedules) else {}
        return tuple(self._row(each, spent) for each in schedules)

    async def _add(self, request: AddSchedule) -> ScheduleSecret:
        self._access.require_trust("nothing was scheduled")
        if sum((bool(request.cron), bool(request.at), request.webhook)) != 1:
            raise CommandRejected("Give exactly one of: a cron line, a time, a webhook.")
        token = new_token() if request.webhook else ""
        auto_approve = request.auto_approve
        if auto_approve is None:
            auto_approve = self._settings().manager.auto_approve
        own = {
            "id": secrets.token_hex(4),
            "name": label_of(request.name or request.prompt),
            "cron": request.cron.strip(),
            "at": _time(request.at) if request.at else None,
            "token_digest": digest_of(token) if token else "",
            "auto_approve": auto_approve,
            "checked": self._scheduler.now(),
        }
        schedule = Schedule(**{**same_fields(request, Schedule), **own})
        self._save(schedule, timed=True)
        notes = (ONLY_OPEN, *([NO_PRICE] if request.budget else []))
        return ScheduleSecret(
            schedule=self._row(schedule), token=token, path=self._path(token), notes=notes
        )

    async def _change(self, request: ChangeSchedule) -> ScheduleRow:
        schedule = self._file.find(request.id)
        given: dict[str, object] = {
            name: value
            for name in ("paused", "prompt", "cron", "budget")
            if (value := getattr(request, name)) is not None
        }
        if request.name is not None:
            given["name"] = label_of(request.name or schedule.prompt)
        if request.at is not None:
            given["at"] = _time(request.at)
        has_other_kind = (request.cron is not None and not schedule.cron) or (
            request.at is not None and schedule.at is None
        )
        if has_other_kind or request.cron == "":
            raise CommandRejected(
                "A schedule keeps its kind: time, cron or webhook. Add a new schedule instead."
            )
        moved = {"paused", "cron", "at"} & given.keys()
        if moved:
            given["checked"] = self._scheduler.now()
        changed = replace(schedule, **given)
        self._save(changed, timed=bool(moved) and not changed.paused)
        return self._row(changed)

    async def _remove(self, request: RemoveSchedule) -> Done:
        self._file.find(request.id)
        self._file.remove(request.id)
        self._scheduler.changed()
        return DONE

    async def _renew(self, request: RenewWebhook) -> ScheduleSecret:
        schedule, token = self._file.find(request.id), new_token()
        if not schedule.token_digest:
            raise CommandRejected(f"{schedule.name} has no webhook.")
        renewed = replace(schedule, token_digest=digest_of(token))
        self._file.put(renewed)
        return ScheduleSecret(schedule=self._row(renewed), token=token, path=self._path(token))

    async def _dismiss(self, request: DismissMissed) -> Done:
        chosen = [self._file.find(request.id)] if request.id else self._file.all()
        self._file.put(*(replace(each, missed=(), missed_count=0) for each in chosen))
        self._scheduler.changed()
        return DONE

    async def _call(self, request: CallWebhook) -> Started:
        schedule = self._file.find(request.schedule_id)
        if schedule.paused:
            raise CommandRejected("The schedule is paused. Nothing was started.")
        request_id = request.request_id
        if len(request_id) > LONGEST_REQUEST_ID:
            raise CommandRejected(f"A request id has at most {LONGEST_REQUEST_ID} characters.")
        if request_id and request_id in schedule.request_ids:
            note = "This request was already received. Nothing was started."
            return Started(session_ids=(), notes=(note,))
        return await self._scheduler.start(schedule.id, "webhook", request.text, request_id)

    def _save(self, schedule: Schedule, *, timed: bool) -> None:
        _check_fields(schedule)
        if timed and not schedule.token_digest and not schedule.next_after(schedule.checked):
            raise CommandRejected("This time is in the past or never comes. Nothing was changed.")
        self._file.put(schedule)
        self._scheduler.changed()

    def _path(self, token: str) -> str:
        project_id = self._access.supervisor.store.file.parent.name
        return f"/p/{project_id}/api/webhook" if token else ""

    def _row(self, each: Schedule, spent: Mapping[str, float] = {}) -> ScheduleRow:
        own = {
            "webhook": bool(each.token_digest),
            "next": None if each.paused else each.next_after(self._scheduler.now()),
            "used": used(each, spent),
            "runs": each.runs[:MOST_KEPT],
        }
        return ScheduleRow(**{**same_fields(each, ScheduleRow), **own})


def _check_fields(schedule: Schedule) -> None:
    if not schedule.prompt.strip():
        raise CommandRejected("Give a task.")
    if len(schedule.prompt) > LONGEST_PROMPT:
        raise CommandRejected(f"The prompt has over {LONGEST_PROMPT:,} characters. Shorten it.")
    if schedule.cron:
        try:
            parse_cron(schedule.cron)
        except ValueError as error:
            raise CommandRejected(str(error)) from error


def _time(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise CommandRejected(
            f"{text[:40]!r} is not a time. Write it as 2026-05-03T09:00."
        ) from error
