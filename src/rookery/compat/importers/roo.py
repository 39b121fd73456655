"""Tasks of Roo Code, Cline and Kilo: a folder with `api_conversation_history.json` for each.

The messages are Anthropic's. Costs are in `ui_messages.json`, title and workspace in
`history_item.json` or, for Cline, in one file for all tasks. The extensions add details of the
environment to the user's messages; these are left out.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from rookery.compat.importers.foreign_sessions import (
    AgentEntry,
    Entry,
    ForeignSession,
    Importer,
    Problems,
    Record,
    ResultEntry,
    SummaryEntry,
    UserEntry,
    agent_entry,
    beginning,
    blocks_of,
    decode,
    dollars,
    files_below,
    json_array,
    json_file,
    measured,
    milliseconds,
    number,
    text,
    user_entries,
)
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import Usage

MESSAGES = "api_conversation_history.json"
_ROWS = "ui_messages.json"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = {
    "roo": "rooveterinaryinc.roo-cline",
    "cline": "saoudrizwan.claude-dev",
    "kilo": "kilocode.kilo-code",
}
_OWN_FOLDERS = {
    "roo": (".vscode-mock/global-storage",),
    "cline": (".cline/data",),
    "kilo": (".kilocode/cli/global",),
}
_WRAPPING = re.compile(r"\s*<(task|feedback|answer|user_message)>\s*(.*?)\s*</\1>\s*", re.DOTALL)
_FOLDER = re.compile(r"Current (?:Workspace|Working) Directory \(([^)]+)\)")
_FIRST_TEXT = re.compile(r'"text"\s*:\s*("(?:[^"\\]|\\.)*")')
_SPOKEN = {"attempt_completion": "result", "ask_followup_question": "question"}
"""Calls that say something to the user, with the argument that has the text."""


def _roots(agent: str, home: Path, environ: Mapping[str, str]) -> list[Path]:
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    users = [
        *(config / editor / "User" for editor in _EDITORS),
        *(home / "Library/Application Support" / editor / "User" for editor in _EDITORS),
        home / ".vscode-server/data/User",
    ]
    stores = [user / "globalStorage" / _EXTENSIONS[agent] for user in users]
    return [each / "tasks" for each in (*stores, *(home / own for own in _OWN_FOLDERS[agent]))]


def _find(agent: str, root: Path) -> Iterator[ForeignSession]:
    found = files_below(root, MESSAGES, f"*/{MESSAGES}", f"tasks/*/{MESSAGES}")
    shared = {store: _history(store) for store in {path.parents[2] for path in found}}
    for path in found:
        folder = path.parent
        yield _listed(agent, folder, shared[path.parents[2]].get(folder.name, {}))


def _history(store: Path) -> dict[str, Record]:
    """What Cline knows of all its tasks, by id."""
    path = store / "state" / "taskHistory.json"
    items = json_array(path, Problems()) if path.is_file() else []
    return {text(each.get("id")): each for each in items}


def _listed(agent: str, folder: Path, item: Record) -> ForeignSession:
    if (own := folder / "history_item.json").is_file():
        item = json_file(own, Problems())
    updated, size = measured(folder / MESSAGES)
    where = text(item.get("workspace")) or text(item.get("cwdOnTaskInitialization"))
    return ForeignSession(
        agent=agent,
        id=folder.name,
        path=folder,
        folder=where or _folder_in(folder / MESSAGES),
        title=text(item.get("task")) or _first_row(folder / _ROWS),
        updated=milliseconds(item.get("ts")) or updated,
        size=size,
    )


def _folder_in(path: Path) -> str:
    found = _FOLDER.search(beginning(path))
    return found[1] if found else ""


def _first_row(path: Path) -> str:
    """The text of the first row, which is the task."""
    found = _FIRST_TEXT.search(beginning(path))
    try:
        return text(decode(found[1].encode())) if found else ""
    except ValueError:
        return ""


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    messages = json_array(session.path / MESSAGES, problems)
    spent = _costs(session.path / _ROWS, problems)
    answers = sum(message.get("role") == "assistant" for message in messages)
    spoken: set[str] = set()
    for message in messages:
        ts = milliseconds(message.get("ts"))
        if message.get("isSummary"):
            words = [text(block.get("text")) for block in blocks_of(message.get("content"))]
            yield SummaryEntry(text="\n".join(filter(None, words)), ts=ts)
        elif message.get("role") == "assistant":
            answers -= 1
            used = spent[:1] if answers else spent
            del spent[: len(used)]
            yield from _answer(message, ts, used, spoken)
        elif message.get("role") == "user":
            yield from _prompt(message, ts, spoken)


def _answer(message: Record, ts: int, used: list[Usage], spoken: set[str]) -> Iterator[Entry]:
    """An answer, with the calls that only speak as text. Further usage follows alone."""
    entry = agent_entry(message, ts=ts, usage=used[0] if used else Usage())
    spoken.update(
        block.id for block in entry.blocks if isinstance(block, ToolCall) and block.name in _SPOKEN
    )
    yield replace(entry, blocks=tuple(map(_as_text, entry.blocks)))
    for more in used[1:]:
        yield AgentEntry(usage=more, ts=ts)


def _as_text(block: Text | ToolCall) -> Text | ToolCall:
    if isinstance(block, ToolCall) and block.name in _SPOKEN:
        return Text(text=text(block.arguments.get(_SPOKEN[block.name])))
    return block


def _prompt(message: Record, ts: int, spoken: set[str]) -> Iterator[Entry]:
    blocks = [_unwrapped(block) for block in blocks_of(message.get("content"))]
    said = [block for block in blocks if not _is_details(block)]
    for entry in user_entries(said, ts):
        if isinstance(entry, ResultEntry) and entry.call_id in spoken:
            yield UserEntry(text=_bare(entry.text), images=entry.images, ts=ts)
        else:
            yield entry


def _is_details(block: Record) -> bool:
    return text(block.get("text")).lstrip().startswith("<environment_details>")


def _unwrapped(block: Record) -> Record:
    words = block.get("text")
    return {**block, "text": _bare(words)} if isinstance(words, str) else block


def _bare(words: str) -> str:
    found = _WRAPPING.fullmatch(words)
    return found[2] if found else words


def _costs(path: Path, problems: Problems) -> list[Usage]:
    """The usage of each request, oldest first."""
    rows = json_array(path, problems) if path.is_file() else []
    return [_usage(row) for row in rows if row.get("say") == "api_req_started"]


def _usage(row: Record) -> Usage:
    try:
        info = decode(text(row.get("text")).encode())
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        return Usage()
    reads, writes = number(info.get("cacheReads")), number(info.get("cacheWrites"))
    return Usage(
        tokens_in=number(info.get("tokensIn")),
        tokens_out=number(info.get("tokensOut")),
        cache_reads=reads,
        cache_writes=writes,
        cost=dollars(info.get("cost")),
    )


def _importer(name: str, title: str) -> Importer:
    return Importer(
        name=name, title=title, roots=partial(_roots, name), find=partial(_find, name), read=_read
    )


ROO = _importer("roo", "Roo Code")
CLINE = _importer("cline", "Cline")
KILO = _importer("kilo", "Kilo")
