"""Sessions that are written whole: forks, and sessions imported from other agents.

Each is built in a folder of its own and renamed when it is complete, so that a crash leaves all
of it or nothing.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from rookery.core.facts import Event, Fact, Noted, Rewound, TaskOpened, next_event
from rookery.errors import SettingsError, StorageError
from rookery.faults import kp
from rookery.platform.disk import private_folder, put, reason, sync_folder
from rookery.storage.journal import TaskLock
from rookery.storage.journal_lines import JOURNAL, LONGEST, Blobs, line_from
from rookery.storage.sessions import OUTPUT_FOLDER, TaskStore

_UNFINISHED = ".forking-"


def fork(store: TaskStore, source: str, task_id: str, *, at: int | None, now: int) -> int:
    """Copy session `source`, as it was after event `at` or is now, to session `task_id`. Returns
    the event at which it was really cut: the last one up to there at which no call was running.
    The source is only read, so a process may be working on it."""
    events = list(store.read(source))
    cut = settled_up_to(events, len(events) if at is None else at)
    home = store.folder(task_id)
    try:
        _build(home, _forked_events(events[:cut], source, now), outputs_of=store.folder(source))
    except OSError as error:
        raise StorageError(
            f"Session {source} could not be forked ({reason(error)}); it was not changed. "
            f"Make {home.parent} writable or free some space, then fork it again."
        ) from error
    return cut


def add_session(store: TaskStore, task_id: str, events: Iterator[Event]) -> None:
    """Store a session that is complete already. The events are read one by one."""
    home = store.folder(task_id)
    try:
        _build(home, events)
    except OSError as error:
        raise StorageError(
            f"Session {task_id} could not be stored ({reason(error)}); nothing of it was kept. "
            f"Make {home.parent} writable or free some space, then try again."
        ) from error


def settled_up_to(events: Sequence[Event], at: int) -> int:
    """Event `at`, or the last one before it at which no call was running and all file changes
    were recorded."""
    if not 1 <= at <= len(events):
        raise SettingsError(f"No such event: {at}. The events are 1 to {len(events)}.")
    from rookery.core.folds.task_record import fold
    from rookery.core.undo_plan import unsettled

    while at > 1 and (fold(events[:at]).running or unsettled(events[:at])):
        at -= 1
    return at


def _forked_events(events: Sequence[Event], source: str, now: int) -> Iterator[Event]:
    """The events of the fork. It has no parent, and does not repeat calls that the source has
    made since."""
    from rookery.core.folds.task_record import fold

    last: Event | None = None
    for event in events:
        last = replace(event, fact=_of_its_own(event.fact))
        yield last
    notice = Noted(text=f"This session was forked from {source} at event {len(events)}.")
    more: list[Fact] = [Rewound(to=len(events)), notice] if fold(events).pending else [notice]
    for fact in more:
        last = next_event(last, fact, now)
        yield last


def _of_its_own(fact: Fact) -> Fact:
    return replace(fact, parent=None, depth=0) if isinstance(fact, TaskOpened) else fact


def _build(home: Path, events: Iterator[Event], *, outputs_of: Path | None = None) -> None:
    private_folder(home.parent)
    _clear_abandoned(home.parent)
    building = private_folder(home.with_name(f"{_UNFINISHED}{home.name}-{os.urandom(4).hex()}"))
    lock = TaskLock(building)
    try:
        blobs = Blobs(building / "blobs")
        put(building / JOURNAL, (_line(event, blobs) for event in events))
        if outputs_of:
            _copy_outputs(outputs_of / OUTPUT_FOLDER, building / OUTPUT_FOLDER)
        kp("fork.built")
        building.rename(home)
        kp("fork.renamed")
        sync_folder(home.parent)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    finally:
        lock.release()


def _line(event: Event, blobs: Blobs) -> bytes:
    line = line_from(event, blobs)
    if len(line) > LONGEST:
        raise StorageError(f"Event {event.seq} is too large for a journal: {len(line):,} bytes.")
    return line


def _copy_outputs(source: Path, copy: Path) -> None:
    """Copy the output of commands too. A running command continues to write only to the source."""
    if not source.is_dir():
        return
    private_folder(copy)
    for file in sorted(source.iterdir()):
        with suppress(FileNotFoundError), file.open("rb") as pieces:
            put(copy / file.name, iter(lambda: pieces.read(1 << 20), b""))


def _clear_abandoned(tasks: Path) -> None:
    """Remove forks that a killed process left unfinished. One in progress is locked."""
    for folder in tasks.glob(f"{_UNFINISHED}*"):
        try:
            lock = TaskLock(folder)
        except StorageError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
