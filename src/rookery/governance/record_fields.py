"""Fields of a ledger record: changed files, commit, approval and outcome of a call.

Of files the ledger keeps hashes and line numbers, never content. The commit is read from the
repository's files instead of running git, because that happens before every change.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import Answered, Ending, FileBefore
from rookery.core.refusals import KINDS
from rookery.engine.ports.actions import Action, Outcome
from rookery.governance.ledger.records import FileHash, FileOperation, TracedFile, line_change
from rookery.governance.scope.call_verdict import CallVerdict
from rookery.governance.scope.touched_paths import ReachKind, mcp_tool
from rookery.platform.git_folders import first_line

MAX_TEXT = 8 * 1024 * 1024
"""Maximum bytes of a file whose lines are recorded."""
_COMMIT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_PACKED_REFS = 4 * 1024 * 1024
_OUTCOMES: Mapping[Ending, Literal["success", "failure", "denied", "interrupted"]] = {
    Ending.DONE: "success",
    Ending.DENIED: "denied",
    Ending.UNKNOWN: "interrupted",
}


def content(path: Path) -> bytes | None:
    """Content of a regular file or target of a link, else None. Never blocks on a pipe."""
    try:
        if path.is_symlink():
            return str(path.readlink()).encode("utf-8", "surrogateescape")
        return path.read_bytes() if path.is_file() else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def hash_of(data: bytes | None) -> FileHash | None:
    return None if data is None else FileHash(sha256=sha256(data).hexdigest(), size=len(data))


def traced_files(
    before: Mapping[str, bytes | None],
    after: Mapping[str, bytes | None],
    *,
    written: Mapping[str, bytes | None] | None = None,
    attribution: str = "",
) -> tuple[TracedFile, ...]:
    """The files that differ. `written` is what the call itself wrote, if something else, such as
    a formatter, changed that afterwards."""
    traced: list[TracedFile] = []
    gone = {hash_of(data): path for path, data in before.items() if after[path] is None and data}
    for path, new in after.items():
        old = before[path]
        if old == new:
            continue
        origin = gone.get(hash_of(new), "") if old is None and new is not None else ""
        traced.append(_traced_file(path, old, new, (written or {}).get(path), origin, attribution))
    return tuple(traced)


def git_base(root: Path) -> dict[str, str] | None:
    """The commit that is checked out; None if there is none or it cannot be read."""
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.exists():
            revision = _revision(git)
            return {"type": "git", "revision": revision} if _COMMIT_ID.fullmatch(revision) else None
    return None


def approval_of(said: Answered | None, codes: Sequence[str] = ()) -> dict[str, Any]:
    """Who allowed a call, and for which reasons they were asked."""
    if said is None:
        return {"answer": "allowed", "by": "rule"}
    answer = said.choice or ("once" if said.reply == "yes" else "no")
    fields: dict[str, Any] = {
        "approval_id": said.ask_id,
        "answer": "always" if said.always else answer,
        "by": "human" if said.by == "user" else "policy",
        "reasons": list(codes),
    }
    return {**fields, "text": said.text} if said.text else fields


def input_digest(call: ToolCall) -> str:
    text = json.dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def file_before(file: tuple[str, bytes | None]) -> FileBefore:
    path, data = file
    return FileBefore(path=path, sha256=digest_of(data), size=len(data or b""))


def kind_of(action: Action) -> str:
    if action.changes:
        return "mutation"
    return "command" if action.command else "external"


def command_fields(action: Action, verdict: CallVerdict) -> dict[str, Any] | None:
    if not action.command:
        return None
    analysis = verdict.reach.kind if verdict.reach else ReachKind.UNBOUNDED
    return {"text": action.command, "cwd": action.cwd or ".", "analysis": str(analysis)}


def server_fields(action: Action) -> dict[str, str] | None:
    if not action.external:
        return None
    _, server, tool = mcp_tool(action).split("--", 2)
    return {"server": server, "tool": tool}


def worst_objection(verdict: CallVerdict) -> dict[str, str] | None:
    codes = [each.refusal.code for each in verdict.objections]
    worst = min(codes, key=lambda code: KINDS[code].rank) if codes else ""
    return {"code": worst, "type": KINDS[worst].error_type} if worst else None


def outcome_of(outcome: Outcome | None) -> Any:
    return "cancelled" if outcome is None else _OUTCOMES.get(outcome.ending, "failure")


def _traced_file(
    path: str,
    old: bytes | None,
    new: bytes | None,
    written: bytes | None,
    origin: str,
    attribution: str,
) -> TracedFile:
    op: FileOperation = "modify"
    if old is None:
        op = "rename" if origin else "create"
    elif new is None:
        op = "delete"
    bare = TracedFile(
        path=path,
        op=op,
        before=hash_of(old),
        after=hash_of(new),
        origin=origin,
        attribution=attribution,
    )
    before, after = _text(old), _text(new)
    if before is None or after is None:
        return replace(bare, binary=True)
    change = line_change(before, after)
    own = _text(written) if written is not None and written != new else None
    return replace(
        bare,
        ranges=change.written,
        deleted_ranges=change.removed,
        original_ranges=line_change(before, own).written if own is not None else (),
        lines_added=change.added,
        lines_deleted=change.deleted,
        word_marks=change.words,
    )


def _text(data: bytes | None) -> str | None:
    """Text of a file; None if it is binary or too large."""
    if data is None:
        return ""
    if len(data) > MAX_TEXT or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


def _revision(git: Path) -> str:
    if git.is_file():  # a worktree: the file says where its folder is
        git = git.parent / _line(git).removeprefix("gitdir:").strip()
    head = _line(git / "HEAD")
    if not head.startswith("ref:"):
        return head
    name, shared = head.removeprefix("ref:").strip(), git / _line(git / "commondir")
    return _line(git / name) or _line(shared / name) or _packed_ref(shared / "packed-refs", name)


def _line(file: Path) -> str:
    return first_line(str(file)).strip()


def _packed_ref(path: Path, name: str) -> str:
    if not path.is_file() or path.stat().st_size > _MAX_PACKED_REFS:
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
