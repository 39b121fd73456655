"""Read-only views of a project's intents, its ledger and the origin of lines.

Without governance the views are empty, and nothing is created.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar

import anyio.to_thread

from rookery import NAME
from rookery.core.instructions import revealed
from rookery.core.limits import MIB
from rookery.core.queries import BlamedLine, IntentRow, TraceQuery, TraceRow
from rookery.errors import CommandRejected
from rookery.governance.git_history import history_of
from rookery.governance.intents.intent import Intent, IntentFile, expired, sort_intents
from rookery.governance.intents.intent_checks import summary
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import Layout, find_layout, find_ledger
from rookery.governance.ledger.ledger_reader import HOUSEKEEPING, Query, newest, oldest
from rookery.governance.ledger.line_history import (
    ChangeReason,
    OwnedLine,
    change_reasons,
    line_history,
)
from rookery.governance.ledger.record_text import result, subject
from rookery.governance.ledger.statistics import REFUSED
from rookery.governance.ledger.traced import TracedRecord
from rookery.platform.disk import Unreadable, small_file

MAX_BLAMED = MIB
MAX_RECORDS = 1_000

T = TypeVar("T")


class ProjectViews:
    async def intents(self, project: Path) -> tuple[IntentRow, ...]:
        return await _read_in_thread(partial(_intents, project))

    async def trace(self, workspace: Path, query: TraceQuery) -> tuple[TraceRow, ...]:
        return await _read_in_thread(partial(_trace, workspace, query))

    async def blame(self, workspace: Path, path: str) -> tuple[BlamedLine, ...]:
        return await _read_in_thread(partial(_blame, workspace, path))


def _intents(project: Path) -> tuple[IntentRow, ...]:
    layout = find_layout(project, project).layout
    if layout is None:
        return ()
    file = IntentReader(layout).read().file
    if not file.usable:
        name = layout.shown(layout.intent_file)
        raise CommandRejected(f"{name}: {summary(file)} For details: {NAME} intents validate")
    writes, now = _writes(layout), datetime.now(UTC)
    return tuple(_intent_row(each, file, writes, now) for each in sort_intents(file.intents))


def _writes(layout: Layout) -> Mapping[str, int]:
    """Number of records that changed files, by intent."""
    records = oldest(layout.folder)
    return Counter(each.intent_id for each in records if each.files and each.outcome not in REFUSED)


def _trace(workspace: Path, wanted: TraceQuery) -> tuple[TraceRow, ...]:
    layout = find_ledger(workspace.resolve())
    if layout is None:
        return ()
    query = Query(
        intent=wanted.intent,
        file=wanted.path,
        task=wanted.session_id,
        without=HOUSEKEEPING,
    )
    most = min(max(1, wanted.most), MAX_RECORDS)
    return tuple(map(_trace_row, islice(newest(layout.folder, query), most)))


def _blame(workspace: Path, path: str) -> tuple[BlamedLine, ...]:
    workspace = workspace.resolve()
    layout = find_ledger(workspace)
    if layout is None:
        return ()
    file = _file_in(workspace, path)
    text = _text_of(file, workspace)
    name = file.relative_to(layout.root).as_posix()
    lines = line_history(layout.folder, name, text, history_of(layout.root))
    reasons = change_reasons(layout, lines)
    return tuple(_blame_row(line, reasons) for line in lines)


async def _read_in_thread(read: Callable[[], T]) -> T:
    """Read in a thread, as a ledger may be long. Raises `CommandRejected` if it cannot be read."""
    try:
        return await anyio.to_thread.run_sync(read)
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandRejected(f"The governance files cannot be read ({why}).") from error


def _intent_row(
    intent: Intent, file: IntentFile, writes: Mapping[str, int], now: datetime
) -> IntentRow:
    return IntentRow(
        id=intent.id,
        name=_visible(intent.name),
        status=str(intent.status),
        scope=intent.owned_scope,
        criteria=tuple(_visible(each.text) for each in intent.acceptance_criteria),
        problem=_problem(intent, file, now),
        writes=writes.get(intent.id, 0),
    )


def _problem(intent: Intent, file: IntentFile, now: datetime) -> str:
    wrong = [each.message for each in file.errors if each.intent_id == intent.id]
    if wrong:
        return _visible("; ".join(wrong))
    return "The intent has expired." if expired(intent, now) else ""


def _trace_row(record: TracedRecord) -> TraceRow:
    words = (subject(record), result(record))
    return TraceRow(
        id=record.id,
        ts=_milliseconds(record.time),
        kind=record.kind,
        intent=record.intent_id,
        tool=record.tool_name,
        paths=tuple(map(_visible, record.paths)),
        approved_by=record.approved_by,
        session_id=record.task_id,
        summary=_visible("  ".join(filter(None, words))),
    )


def _blame_row(line: OwnedLine, reasons: Mapping[str, ChangeReason]) -> BlamedLine:
    """A row for a line. One that was edited since its call wrote it has no known origin."""
    record = line.record if line.origin == "recorded" else None
    if record is None:
        return BlamedLine(line=line.number, text=_visible(line.text))
    reason = reasons.get(record.id, ChangeReason())
    return BlamedLine(
        line=line.number,
        text=_visible(line.text),
        record_id=record.id,
        intent=record.intent_id,
        criterion="; ".join(_visible(each.text) for each in reason.criteria),
        tool=record.tool_name,
        approved_by=reason.approver,
        when=_milliseconds(record.time),
    )


def _file_in(workspace: Path, path: str) -> Path:
    """Resolve a path inside the workspace. Raises `CommandRejected` if it leads outside."""
    relative = PurePosixPath(path)
    if not relative.parts or relative.is_absolute() or ".." in relative.parts or "\0" in path:
        raise CommandRejected(f"{_visible(path)!r} is not a path inside the workspace.")
    file = Path(os.path.realpath(workspace / relative))
    if not file.is_relative_to(workspace):
        raise CommandRejected(f"{_visible(path)} leads out of the workspace, so it was not read.")
    return file


def _text_of(file: Path, workspace: Path) -> str:
    name = _visible(file.relative_to(workspace).as_posix())
    try:
        data = small_file(file, workspace, largest=MAX_BLAMED)
    except FileNotFoundError as error:
        raise CommandRejected(f"No such file: {name}.") from error
    except Unreadable as error:
        raise CommandRejected(f"{name} cannot be read: {error}.") from error
    if b"\0" in data:
        raise CommandRejected(f"{name} is not a text file.")
    return data.decode("utf-8", "replace")


def _milliseconds(time: str) -> int:
    """0 if the text is not a time."""
    try:
        return int(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def _visible(text: str) -> str:
    return revealed(text)[0]
