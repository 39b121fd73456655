"""What a call did to files, as the ledger tells it: hashes and lines, never content."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.ledger.line_ranges import line_change
from rookery.governance.ledger.records import FileDeed, FileHash, TracedFile

LARGEST = 8 * 1024 * 1024
"""Bytes of a file up to which its lines are told."""


class FilesTold(Struct, frozen=True, kw_only=True):
    files: tuple[TracedFile, ...] = ()


def content(path: Path) -> bytes | None:
    """What is in a file; None if there is no such file. Links are not followed."""
    try:
        if path.is_symlink():
            return str(path.readlink()).encode("utf-8", "surrogateescape")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def hash_of(data: bytes | None) -> FileHash | None:
    return None if data is None else FileHash(sha256=sha256(data).hexdigest(), size=len(data))


def files_told(
    before: Mapping[str, bytes | None],
    after: Mapping[str, bytes | None],
    *,
    written: Mapping[str, bytes | None] | None = None,
    attribution: str = "",
) -> FilesTold:
    """Of each path that is another now. `written` is what the call itself wrote, where somebody
    changed that afterwards: a formatter, say."""
    told: list[TracedFile] = []
    gone = {hash_of(data): path for path, data in before.items() if after[path] is None and data}
    for path, new in after.items():
        old = before[path]
        if old == new:
            continue
        origin = gone.get(hash_of(new), "") if old is None and new is not None else ""
        told.append(_told(path, old, new, (written or {}).get(path), origin, attribution))
    return FilesTold(files=tuple(told))


def _told(
    path: str,
    old: bytes | None,
    new: bytes | None,
    written: bytes | None,
    origin: str,
    attribution: str,
) -> TracedFile:
    deed: FileDeed = "modify"
    if old is None:
        deed = "rename" if origin else "create"
    elif new is None:
        deed = "delete"
    bare = TracedFile(
        path=path,
        op=deed,
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
    """None for what is no text, or too much of it."""
    if data is None:
        return ""
    if len(data) > LARGEST or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
