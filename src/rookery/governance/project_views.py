"""Why things were changed: the intents of a project, its ledger, and who wrote which line.

All of it is only read. Where nothing governs there is nothing to tell, and nothing is made.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

import anyio.to_thread

from rookery import NAME
from rookery.core.instructions import revealed
from rookery.core.limits import MIB
from rookery.core.queries import BlamedLine, IntentRow, TraceQuery, TraceRow
from rookery.errors import CommandRejected
from rookery.governance.intents.intent import Intent, IntentFile, expired, in_order
from rookery.governance.intents.intent_checks import summary
from rookery.governance.layout import Layout, find_layout, find_ledger
from rookery.governance.ledger.ledger_reader import HOUSEKEEPING, Query
from rookery.governance.ledger.line_history import OwnedLine, Why
from rookery.governance.ledger.record_text import result, subject
from rookery.governance.ledger.traced import TracedRecord

LARGEST_BLAMED = MIB
MOST_RECORDS = 1_000

T = TypeVar("T")


class ProjectViews:
    """`known_heads` is the folder of the user's in which the indexes of ledgers are kept."""

    def __init__(self, known_heads: Path) -> None:
        self._known_heads = known_heads

    async def intents(self, project: Path) -> tuple[IntentRow, ...]:
        return await _read_beside(partial(self._intents, project))

    async def trace(self, workspace: Path, query: TraceQuery) -> tuple[TraceRow, ...]:
        return await _read_beside(partial(self._trace, workspace, query))

    async def blame(self, workspace: Path, path: str) -> tuple[BlamedLine, ...]:
        return await _read_beside(partial(_blamed, workspace, path))

    def _intents(self, project: Path) -> tuple[IntentRow, ...]:
        from rookery.governance.intents.intent_file import IntentReader

        layout = find_layout(project, project).layout
        if layout is None:
            return ()
        file = IntentReader(layout).read().file
        if not file.usable:
            name = layout.shown(layout.intent_file)
            raise CommandRejected(f"{name}: {summary(file)} For details: {NAME} intents validate")
        writes, now = self._writes(layout), datetime.now(UTC)
        return tuple(_intent_row(each, file, writes, now) for each in in_order(file.intents))

    def _writes(self, layout: Layout) -> Mapping[str, int]:
        from rookery.governance.ledger.ledger_index import LedgerIndex, writes_in
        from rookery.governance.ledger.ledger_reader import oldest

        if not (layout.ledger.exists() or layout.sealed_ledger.exists()):
            return {}
        try:
            return LedgerIndex(layout.folder, self._index_of(layout)).writes()
        except OSError:  # a folder that may only be read has no index
            return writes_in(oldest(layout.folder))

    def _trace(self, workspace: Path, wanted: TraceQuery) -> tuple[TraceRow, ...]:
        from rookery.governance.ledger.ledger_reader import recent_records

        layout = find_ledger(workspace.resolve())
        if layout is None:
            return ()
        query = Query(
            intent=wanted.intent,
            file=wanted.path,
            task=wanted.session_id,
            without=HOUSEKEEPING,
        )
        most = min(max(1, wanted.most), MOST_RECORDS)
        found = recent_records(layout.folder, lambda: self._index_of(layout), query, most)
        return tuple(map(_trace_row, found))

    def _index_of(self, layout: Layout) -> Path:
        from rookery.governance.ledger.state_files import heads_of_workspace

        return heads_of_workspace(layout.state, layout.root, self._known_heads).index


def _blamed(workspace: Path, path: str) -> tuple[BlamedLine, ...]:
    from rookery.governance.ledger.git_history import history_of
    from rookery.governance.ledger.line_history import line_history, whys_behind

    workspace = workspace.resolve()
    layout = find_ledger(workspace)
    if layout is None:
        return ()
    file = _file_in(workspace, path)
    text = _text_of(file, workspace)
    name = file.relative_to(layout.root).as_posix()
    lines = line_history(layout.folder, name, text, history_of(layout.root))
    whys = whys_behind(layout, lines)
    return tuple(_blamed_line(line, whys) for line in lines)


async def _read_beside(read: Callable[[], T]) -> T:
    """In a thread, as a ledger may be long. Raises `CommandRejected` if it cannot be read."""
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
        name=_shown(intent.name),
        status=str(intent.status),
        scope=intent.owned_scope,
        criteria=tuple(_shown(each.text) for each in intent.acceptance_criteria),
        problem=_problem(intent, file, now),
        writes=writes.get(intent.id, 0),
    )


def _problem(intent: Intent, file: IntentFile, now: datetime) -> str:
    wrong = [each.message for each in file.errors if each.intent_id == intent.id]
    if wrong:
        return _shown("; ".join(wrong))
    return "The intent has expired." if expired(intent, now) else ""


def _trace_row(record: TracedRecord) -> TraceRow:
    words = (subject(record), result(record))
    return TraceRow(
        id=record.id,
        ts=_milliseconds(record.time),
        kind=record.kind,
        intent=record.intent_id,
        tool=record.tool_name,
        paths=tuple(map(_shown, record.paths)),
        approved_by=record.approved_by,
        session_id=record.task_id,
        summary=_shown("  ".join(filter(None, words))),
    )


def _blamed_line(line: OwnedLine, whys: Mapping[str, Why]) -> BlamedLine:
    """A line that was edited since its call wrote it is nobody's, as far as is known."""
    record = line.record if line.origin == "recorded" else None
    if record is None:
        return BlamedLine(line=line.number, text=_shown(line.text))
    why = whys.get(record.id, Why())
    return BlamedLine(
        line=line.number,
        text=_shown(line.text),
        record_id=record.id,
        intent=record.intent_id,
        criterion="; ".join(_shown(each.text) for each in why.criteria),
        tool=record.tool_name,
        approved_by=why.approver,
        when=_milliseconds(record.time),
    )


def _file_in(workspace: Path, path: str) -> Path:
    """Where a path of the workspace leads, which is in it."""
    said = PurePosixPath(path)
    if not said.parts or said.is_absolute() or ".." in said.parts or "\0" in path:
        raise CommandRejected(f"{_shown(path)!r} is not a path inside the workspace.")
    file = Path(os.path.realpath(workspace / said))
    if not file.is_relative_to(workspace):
        raise CommandRejected(f"{_shown(path)} leads out of the workspace, so it was not read.")
    return file


def _text_of(file: Path, workspace: Path) -> str:
    from rookery.platform.disk import Unreadable, small_file

    name = _shown(file.relative_to(workspace).as_posix())
    try:
        data = small_file(file, workspace, largest=LARGEST_BLAMED)
    except FileNotFoundError as error:
        raise CommandRejected(f"No such file: {name}.") from error
    except Unreadable as error:
        raise CommandRejected(f"{name} cannot be read: {error}.") from error
    if b"\0" in data:
        raise CommandRejected(f"{name} is not a text file.")
    return data.decode("utf-8", "replace")


def _milliseconds(time: str) -> int:
    """0 for what others wrote that is no time."""
    try:
        return int(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0


def _shown(text: str) -> str:
    return revealed(text)[0]
