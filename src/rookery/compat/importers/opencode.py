"""Sessions of opencode: `storage/session/<project>/<id>.json`, and a file per message and part.

Ids increase, so files in the order of their names are in the order of the conversation. Sessions
with a parent are the work of sub-agents; their results are in the parent.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

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


def _roots(home: Path, environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ.get("XDG_DATA_HOME") or home / ".local/share") / "opencode/storage"]


def _find(root: Path) -> Iterator[ForeignSession]:
    for path in files_below(root, "session/*/*.json"):
        about = json_file(path, Problems())
        if about and not about.get("parentID"):
            yield _listed(root, path, about)


def _listed(root: Path, path: Path, about: Record) -> ForeignSession:
    messages = files_below(root / "message" / path.stem, "*.json")
    project = root / "project" / f"{path.parent.name}.json"
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


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    storage = session.path.parents[2]
    for file in files_below(storage / "message" / session.id, "*.json"):
        if not (message := json_file(file, problems)):
            continue
        files = files_below(storage / "part" / file.stem, "*.json")
        parts = [part for each in files if (part := json_file(each, problems))]
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
    yield UserEntry(text=words, images=tuple(images), ts=ts)


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
    result = ResultEntry(call_id=call.id, text=words, images=tuple(images), failed=failed, ts=ts)
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
