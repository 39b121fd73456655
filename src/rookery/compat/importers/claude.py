"""Sessions of Claude Code: `projects/<folder>/<session>.jsonl`, one record per line.

Records form a tree by `parentUuid`: a rewound conversation goes on from an earlier record. Only
the last branch is read. Results of calls made side by side hang on single calls, beside the
branch, and belong to it. Sidechains are the work of sub-agents; their results are in the main one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from rookery.compat.importers.foreign_sessions import (
    Entry,
    ForeignSession,
    Importer,
    Problems,
    Record,
    SummaryEntry,
    agent_entry,
    blocks_of,
    files_below,
    first_records,
    json_lines,
    measured,
    milliseconds,
    record,
    text,
    usage_of,
    user_entries,
)

_NOT_SAID = ("<command-name>", "<local-command-", "<command-message>", "<bash-", "Caveat: The mess")
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}


def _roots(home: Path, environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]


def _find(root: Path) -> Iterator[ForeignSession]:
    projects = root / "projects"
    for path in files_below(projects if projects.is_dir() else root, "*.jsonl", "*/*.jsonl"):
        if not path.name.startswith("agent-"):
            yield _listed(path)


def _listed(path: Path) -> ForeignSession:
    found = first_records(path)
    updated, size = measured(path)
    titles = [text(each.get(_TITLES[each["type"]])) for each in found if _names_title(each)]
    return ForeignSession(
        agent="claude",
        id=path.stem,
        path=path,
        folder=next((text(each["cwd"]) for each in found if each.get("cwd")), ""),
        title=titles[-1] if titles else next(filter(None, map(_prompt, found)), ""),
        updated=updated,
        size=size,
    )


def _names_title(each: Record) -> bool:
    return isinstance(each.get("type"), str) and each["type"] in _TITLES


def _prompt(each: Record) -> str:
    if each.get("type") != "user" or each.get("isMeta") or each.get("isSidechain"):
        return ""
    blocks = blocks_of(record(each.get("message")).get("content"))
    words = (text(block.get("text")).strip() for block in blocks if block.get("type") == "text")
    return next((said for said in words if said and not said.startswith(_NOT_SAID)), "")


def _read(session: ForeignSession, problems: Problems) -> Iterator[Entry]:
    kept = _last_branch(session.path)
    for place, each in enumerate(json_lines(session.path, problems)):
        if place in kept:
            yield from _entries(each)


def _entries(each: Record) -> Iterator[Entry]:
    message = record(each.get("message"))
    ts = milliseconds(each.get("timestamp"))
    match each.get("type"):
        case "user" if each.get("isCompactSummary"):
            blocks = blocks_of(message.get("content"))
            yield SummaryEntry(text="\n".join(text(block.get("text")) for block in blocks), ts=ts)
        case "user" if each.get("isMeta"):
            pass
        case "user":
            blocks = [block for block in blocks_of(message.get("content")) if _was_said(block)]
            yield from user_entries(blocks, ts)
        case "assistant":
            used = usage_of(message.get("usage"), each.get("costUSD"))
            yield agent_entry(message, ts=ts, usage=used, request=text(message.get("id")))
        case _:
            pass


def _was_said(block: Record) -> bool:
    """Whether it is not the record of a command that only Claude Code has."""
    return not text(block.get("text")).lstrip().startswith(_NOT_SAID)


class _Node(Struct):
    parent: str
    place: int
    message: str
    """The id of the answer that it is a part of."""
    is_result: bool


def _last_branch(path: Path) -> set[int]:
    """The places of the records on the last branch, with what belongs to it."""
    nodes: dict[str, _Node] = {}
    order: list[str] = []
    for place, each in enumerate(json_lines(path, Problems())):
        uuid = text(each.get("uuid"))
        if uuid and not each.get("isSidechain"):
            nodes[uuid] = _node(each, place)
            order.append(uuid)
    chain = _chain(nodes, order)
    answers = {nodes[uuid].message for uuid in chain} - {""}
    for uuid in order:
        node = nodes[uuid]
        if node.message in answers or (node.is_result and node.parent in chain):
            chain.add(uuid)
    return {nodes[uuid].place for uuid in chain}


def _node(each: Record, place: int) -> _Node:
    message = record(each.get("message"))
    of_agent = each.get("type") == "assistant"
    blocks = blocks_of(message.get("content")) if each.get("type") == "user" else []
    return _Node(
        parent=text(each.get("parentUuid")) or text(each.get("logicalParentUuid")),
        place=place,
        message=text(message.get("id")) if of_agent else "",
        is_result=any(block.get("type") == "tool_result" for block in blocks),
    )


def _chain(nodes: dict[str, _Node], order: list[str]) -> set[str]:
    """The last record and everything it builds on. If a record is missing, because its line is
    damaged, the one before it in the file takes its place."""
    chain: set[str] = set()
    at = len(order) - 1
    places = {uuid: place for place, uuid in enumerate(order)}
    while at >= 0 and order[at] not in chain:
        chain.add(order[at])
        parent = nodes[order[at]].parent
        if not parent:
            break
        at = places.get(parent, at - 1)
    return chain


IMPORTER = Importer(name="claude", title="Claude Code", roots=_roots, find=_find, read=_read)
