"""A second session that begins as another one began, and goes its own way from there.

It is built beside the others and renamed into place once it is whole, so that a crash leaves
either no fork or all of it, and the next fork clears away what was left.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rookery.core.facts import Event, Fact, Noted, Rewound, TaskOpened, next_event
from rookery.core.folds.file_steps import unsettled
from rookery.core.folds.task_state import fold
from rookery.errors import SettingsError, StorageError
from rookery.faults import kp
from rookery.platform.disk import private_folder, put, reason, sync_folder
from rookery.storage.artifacts import FOLDER
from rookery.storage.blobs import Blobs
from rookery.storage.journal_lines import line_from
from rookery.storage.recovery import JOURNAL
from rookery.storage.session_lock import TaskLock
from rookery.storage.sessions import TaskStore

_UNFINISHED = ".forking-"


def fork(store: TaskStore, source: str, task_id: str, *, at: int | None, now: int) -> int:
    """Keep what session `source` was right after event `at`, or is now, as session `task_id`.
    Gives the event it was really cut at: the last one up to there at which no call was under
    way. The source is only read, so somebody may be working on it.
    """
    events = list(store.read(source))
    cut = settled_up_to(events, len(events) if at is None else at)
    home = store.folder(task_id)
    private_folder(home.parent)
    _clear_abandoned(home.parent)
    try:
        _build(store.folder(source), home, _retold(events[:cut], source, now))
    except OSError as error:
        raise StorageError(
            f"Session {source} could not be forked ({reason(error)}); it is as it was. Make "
            f"{home.parent} writable or free some space, then fork it again."
        ) from error
    return cut


def settled_up_to(events: Sequence[Event], at: int) -> int:
    """Event `at`, or the last one before it at which no call was under way and what was done to
    files is on record."""
    if not 1 <= at <= len(events):
        raise SettingsError(f"There is no event {at}; there are 1 to {len(events)}.")
    while at > 1 and (fold(events[:at]).running or unsettled(events[:at])):
        at -= 1
    return at


def _retold(events: Sequence[Event], source: str, now: int) -> Iterator[Event]:
    """The events of the fork. It works for nobody, whoever the source worked for, and does not
    do again by itself what the model had asked for and the source has done since."""
    last: Event | None = None
    for event in events:
        last = replace(event, fact=_of_its_own(event.fact))
        yield last
    told = Noted(text=f"This session was forked from {source} at event {len(events)}.")
    more: list[Fact] = [Rewound(to=len(events)), told] if fold(events).pending else [told]
    for fact in more:
        last = next_event(last, fact, now)
        yield last


def _of_its_own(fact: Fact) -> Fact:
    return replace(fact, parent=None, depth=0) if isinstance(fact, TaskOpened) else fact


def _build(source: Path, home: Path, events: Iterator[Event]) -> None:
    building = private_folder(home.with_name(f"{_UNFINISHED}{home.name}-{os.urandom(4).hex()}"))
    lock = TaskLock(building)
    try:
        blobs = Blobs(building / "blobs")
        put(building / JOURNAL, (line_from(event, blobs) for event in events))
        _copy_outputs(source / FOLDER, building / FOLDER)
        kp("fork.built")
        building.rename(home)
        kp("fork.renamed")
        sync_folder(home.parent)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    finally:
        lock.release()


def _copy_outputs(source: Path, copy: Path) -> None:
    """What commands wrote can be looked up in the fork too. A command that is still running goes
    on writing in the source alone."""
    if not source.is_dir():
        return
    private_folder(copy)
    for file in sorted(source.iterdir()):
        with suppress(FileNotFoundError), file.open("rb") as pieces:
            put(copy / file.name, iter(lambda: pieces.read(1 << 20), b""))


def _clear_abandoned(tasks: Path) -> None:
    """Remove what a killed process was building. What is still being built is locked."""
    for folder in tasks.glob(f"{_UNFINISHED}*"):
        try:
            lock = TaskLock(folder)
        except StorageError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
