"""Sessions of opencode: the database `opencode.db`, with a row per session, message and part.

Before version 1.2 they were `storage/session/<project>/<id>.json`, and a file per message and part.
Ids increase, so files in the order of their names are in the order of the conversation. Sessions
with a parent are the work of sub-agents; their results are in the parent.

A database is only read: one that is in use through a read-only connection, any other without locks.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from rookery.compat.importers.foreign_sessions import (
    LONGEST_LINE,
    AgentEntry,
    Entry,
    ForeignSession,
    Importer,
    Problems,
    Record,
    ResultEntry,
    SummaryEntry,
    UserEntry,
    decode,
    dollars,
    files_below,
    inline_image,
    json_file,
    measured,
    milliseconds,
    number,
    record,
    records,
    text,
    with_images,
)
from rookery.core.blocks import Image, Text, ToolCall
from rookery.core.facts import Usage

_TABLES = (b"session", b"message", b"part")
_SESSIONS = """SELECT id, directory, title, time_updated FROM session
    WHERE parent_id IS NULL ORDER BY id"""
_REVERT = "SELECT revert FROM session WHERE id = ?"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
_Identified: TypeAlias = tuple[str, Record]
"""A message or a part, with its id."""
_Message: TypeAlias = tuple[Record, list[Record]]
"""A message and its parts."""


def _roots(home: Path, environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "opencode"]


def _find(root: Path) -> Iterator[ForeignSession]:
    for path in files_below(root, "session/*/*.json", "storage/session/*/*.json"):
        about = json_file(path, Problems())
        if about and not about.get("parentID"):
            yield _listed(path.parents[2], path, about)
    for path in files_below(root, "opencode*.db"):
        yield from _listed_rows(path)


def _listed(storage: Path, path: Path, about: Record) -> ForeignSession:
    messages = files_below(storage / "message" / path.stem, "*.json")
    project = storage / "project" / f"{path.parent.name}.json"
    worktree = text(json_file(project, Problems()).get("worktree")) if project.is_file() else ""
    return ForeignSession(
        agent="opencode",
        id=path.stem,
        path=path,
        folder=text(about.get("directory")) or worktree,
        title=text(about.get("title")),
        updated=milliseconds(record(about.get("time")).get("updated")),
        size=sum(measured(each)[1] for each in messages),
    )


def _listed_rows(path: Path) -> Iterator[ForeignSession]:
    """The sessions of a database; none if it cannot be read."""
    with suppress(sqlite3.Error), _opened(path) as database:
        for session_id, folder, title, updated in database.execute(_SESSIONS):
            yield ForeignSession(
                agent="opencode",
                id=_words(session_id),
                path=path,
                folder=_words(folder),
                title=_words(title),
                updated=milliseconds(updated),
            )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Raises `sqlite3.Error` if it is not such a database."""
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if measured(log)[1] else "immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as database:
        database.text_factory = bytes  # it may not be UTF-8
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
        database.execute("PRAGMA trusted_schema = OFF")
        kinds = dict(database.execute("SELECT name, type FROM sqlite_master"))
        if any(kinds.get(table) != b"table" for table in _TABLES):
            raise sqlite3.DatabaseError("not a database of opencode")  # a view could run for ever
        yield database


def _words(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _decoded(value: object, place: str, problems: Problems) -> Record:
    """The object in a column; empty if it has none."""
    try:
        found = decode(value) if isinstance(value, bytes) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        problems.add(place, "not a JSON object")
    return record(found)


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    stored = _from_rows if session.path.suffix == ".db" else _from_files
    for message, parts in stored(session, problems):
        yield from _entries(message, parts)


def _from_files(session: ForeignSession, problems: Problems) -> Iterator[_Message]:
    storage = session.path.parents[2]

    def objects(folder: Path) -> Iterator[_Identified]:
        for file in files_below(folder, "*.json"):
            if found := json_file(file, problems):
                yield file.stem, found

    messages = (
        (message_id, message, objects(storage / "part" / message_id))
        for message_id, message in objects(storage / "message" / session.id)
    )
    yield from _kept(record(json_file(session.path, problems).get("revert")), messages)


def _from_rows(session: ForeignSession, problems: Problems) -> Iterator[_Message]:
    """The messages up to damage, if there is any."""

    def objects(query: str, value: str) -> Iterator[_Identified]:
        for row_id, data in database.execute(query, (value,)):
            if found := _decoded(data, _words(row_id), problems):
                yield _words(row_id), found

    try:
        with _opened(session.path) as database:
            row = database.execute(_REVERT, (session.id,)).fetchone()
            if row is None:
                problems.add(session.path.name, "the id of the session is not readable")
                return
            messages = (
                (message_id, message, objects(_PARTS, message_id))
                for message_id, message in objects(_MESSAGES, session.id)
            )
            reverted = _decoded(row[0], "revert", problems) if row[0] else {}
            yield from _kept(reverted, messages)
    except sqlite3.Error as error:
        problems.add(session.path.name, str(error))


def _kept(
    reverted: Record, messages: Iterable[tuple[str, Record, Iterable[_Identified]]]
) -> Iterator[_Message]:
    """The messages with their parts, up to what the user took back."""
    last, first_part = text(reverted.get("messageID")), text(reverted.get("partID"))
    for message_id, message, parts in messages:
        if message_id != last:
            yield message, [part for _, part in parts]
            continue
        if first_part:
            yield message, [part for part_id, part in parts if part_id < first_part]
        return


def _entries(message: Record, parts: list[Record]) -> Iterator[Entry]:
    ts = milliseconds(record(message.get("time")).get("created"))
    if message.get("role") == "user":
        yield from _prompt(parts, ts)
    elif message.get("summary") is True:
        yield SummaryEntry(text="\n".join(_texts(parts)), ts=ts)
    else:
        yield from _answer(message, parts, ts)


def _texts(parts: list[Record]) -> list[str]:
    """What was said. Synthetic parts are notes of opencode to the model."""
    said = (part for part in parts if part.get("type") == "text" and not part.get("synthetic"))
    return [text(part.get("text")) for part in said if not part.get("ignored")]


def _prompt(parts: list[Record], ts: int) -> Iterator[Entry]:
    words, images = with_images(_texts(parts), _images(parts))
    yield UserEntry(text=words, images=images, ts=ts)


def _images(parts: list[Record]) -> list[Image | None]:
    files = (part for part in parts if text(part.get("mime")).startswith("image/"))
    return [inline_image(part.get("url")) for part in files]


def _answer(message: Record, parts: list[Record], ts: int) -> Iterator[Entry]:
    """Parts in their order. Results follow the last of the calls that were made side by side."""
    model = text(message.get("modelID"))
    yield AgentEntry(model=model, usage=_usage(message), ts=ts)
    results: list[ResultEntry] = []
    for part in parts:
        if part.get("type") == "tool":
            yield AgentEntry(blocks=(_call(part),), model=model, ts=ts)
            results += _results(part, ts)
            continue
        yield from results
        results = []
        if said := _texts([part]):
            yield AgentEntry(blocks=(Text(text=said[0]),), model=model, ts=ts)
    yield from results


def _call(part: Record) -> ToolCall:
    return ToolCall(
        id=text(part.get("callID")) or text(part.get("id")),
        name=text(part.get("tool")) or "unnamed",
        arguments=record(record(part.get("state")).get("input")),
    )


def _results(part: Record, ts: int) -> list[ResultEntry]:
    """The result of a call; none if it was still running."""
    state = record(part.get("state"))
    if state.get("status") not in ("completed", "error"):
        return []
    failed = state["status"] == "error"
    said = text(state.get("error")) if failed else text(state.get("output"))
    words, images = with_images([said], _images(records(state.get("attachments"))))
    call = _call(part)
    result = ResultEntry(call_id=call.id, text=words, images=images, failed=failed, ts=ts)
    return [result]


def _usage(message: Record) -> Usage:
    tokens = record(message.get("tokens"))
    cache = record(tokens.get("cache"))
    reads, writes = number(cache.get("read")), number(cache.get("write"))
    return Usage(
        tokens_in=number(tokens.get("input")) + reads + writes,
        tokens_out=number(tokens.get("output")) + number(tokens.get("reasoning")),
        cache_reads=reads,
        cache_writes=writes,
        cost=dollars(message.get("cost")),
    )


IMPORTER = Importer(name="opencode", title="opencode", roots=_roots, find=_find, read=_read)
