"""The schedules of a project, in `schedules.json` beside its session list.

Only the manager that holds the lock of the session list writes it. A file that cannot be read is
never overwritten: then nothing is scheduled, and every request about schedules says why.
"""

import hashlib
import hmac
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rookery.core.limits import MIB
from rookery.core.queries import Asking
from rookery.errors import CommandRejected, StorageError
from rookery.first_use import prepared
from rookery.manager.schedule_requests import MissedRun, ScheduleRun
from rookery.manager.schedules.cron import parse_cron
from rookery.manager.shown_rows import Started
from rookery.platform.disk import private_folder, put, reason

SCHEDULES_FILE = "schedules.json"
MOST_SCHEDULES = 100
_LARGEST_FILE = 8 * MIB


class Schedule(Struct, frozen=True, kw_only=True):
    """Exactly one of `cron`, `at` and `token_digest` is set."""

    id: str
    name: str
    prompt: str
    cron: str = ""
    at: int | None = None
    token_digest: str = ""
    paused: bool = False
    where: Literal["local", "worktree"] = "worktree"
    model: str = ""
    mode: str = ""
    auto_approve: bool = True
    budget: float = 0.0
    checked: int = 0
    """Until when its times have been dealt with."""
    starting: int = 0
    """When a run began to start of which it is not known yet whether it did."""
    runs: tuple[ScheduleRun, ...] = ()
    """Newest first, like `missed`."""
    missed: tuple[MissedRun, ...] = ()
    missed_count: int = 0
    request_ids: tuple[str, ...] = ()
    """Of recent webhook requests, so that a repeated one starts nothing."""

    def next_after(self, ts: int) -> int | None:
        return next(self.after(ts), None)

    def after(self, ts: int) -> Iterator[int]:
        """Its times after this one, in order."""
        if self.at is not None and self.at > ts:
            yield self.at
        elif self.at is None and self.cron:
            yield from parse_cron(self.cron).after(ts)


class CallWebhook(Asking[Started], frozen=True, kw_only=True):
    """What a webhook sent. Only the web server makes this request, after it checked the token.
    A `request_id` that was sent before starts nothing."""

    schedule_id: str
    text: str = ""
    request_id: str = ""


class ScheduleFile:
    def __init__(self, folder: Path) -> None:
        """`folder` is that of the project's manager."""
        self._file = folder / SCHEDULES_FILE

    def all(self) -> tuple[Schedule, ...]:
        """Raises `StorageError`."""
        return tuple(read_schedules(self._file))

    def find(self, schedule_id: str) -> Schedule:
        for each in self.all():
            if each.id == schedule_id:
                return each
        raise CommandRejected(f"No such schedule: {schedule_id[:40]}.")

    def put(self, *changed: Schedule) -> None:
        """Add or replace schedules. Raises `StorageError`."""
        known = {each.id: each for each in (*self.all(), *changed)}
        if len(known) > MOST_SCHEDULES:
            raise CommandRejected(f"There can be {MOST_SCHEDULES} schedules. Remove one.")
        self._write(known.values())

    def remove(self, schedule_id: str) -> None:
        self._write(each for each in self.all() if each.id != schedule_id)

    def _write(self, schedules: Iterable[Schedule]) -> None:
        private_folder(self._file.parent)
        content = msgspec.json.format(msgspec.json.encode(list(schedules)), indent=1)
        if len(content) > _LARGEST_FILE:  # it could not be read again
            raise CommandRejected("The prompts of the schedules are too long. Shorten one.")
        try:
            put(self._file, [content])
        except OSError as error:
            raise StorageError(f"{self._file} cannot be written ({reason(error)}).") from error


def read_schedules(file: Path) -> list[Schedule]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            found = msgspec.json.decode(stream.read(_LARGEST_FILE), type=prepared(list[Schedule]))
        for each in found:
            each.next_after(0)  # its cron line can be read
        return found
    except FileNotFoundError:
        return []
    except (OSError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise StorageError(
            f"{file} cannot be read ({error}), so nothing is scheduled. Repair or move it."
        ) from error


def has_schedules(folder: Path) -> bool:
    """Whether the manager with this folder has something to start at a time."""
    try:
        return any(
            not each.paused and not each.token_digest
            for each in read_schedules(folder / SCHEDULES_FILE)
        )
    except StorageError:
        return False  # the page of the project says so


def find_webhook(schedules: Iterable[Schedule], token: str) -> str:
    """The id of the schedule with this webhook token, or an empty text."""
    given = digest_of(token)
    # compare all, so that the time taken reveals nothing
    found = [each.id for each in schedules if hmac.compare_digest(each.token_digest, given)]
    return found[0] if found else ""


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def now_in_milliseconds() -> int:
    return time.time_ns() // 1_000_000
