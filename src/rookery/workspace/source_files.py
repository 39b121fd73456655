"""The files to search or index, and the lines that a search has found.

A search process is given open files, because a name may refer to another file by the time it is
opened.
"""

import base64
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from rookery.core.indexed_code import Found, Mark, Source, SourceListing
from rookery.core.limits import Limits
from rookery.core.text.characters import as_utf8
from rookery.engine.ports.workspace import FileText
from rookery.platform.descriptors import open_folder, present
from rookery.platform.paths import visible
from rookery.workspace.files import WorkspaceFiles, decoded

if TYPE_CHECKING:
    from rookery.workspace.tree import Tree

_CUT = " [cut]"


class SearchedLines:
    """Splits chunks of output into lines, discarding lines that are too long."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def complete(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that end in this chunk; None for one that is too long."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield b"".join(self._pieces) if self._size <= self._longest else None
            self._pieces, self._size = [], 0
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._longest:
            self._pieces.append(piece)
        else:
            self._pieces.clear()


class FoundLines(Struct):
    """Collects ripgrep's JSON messages, in the order of the searched files."""

    limits: Limits
    matches: int = 0
    oversized: int = 0
    """Matching lines that are too long to show."""
    full: bool = False
    _size: int = 0
    _files: dict[str, dict[int, tuple[str, bool]]] = field(default_factory=dict)

    def take(self, message: object) -> None:
        match message:
            case {"type": "match" | "context" as kind, "data": dict(data)}:
                self._add(_path(data["path"]), data, is_match=kind == "match")
            case {"type": "end", "data": {"binary_offset": int(), "path": path}}:
                self._discard(_path(path))

    def _add(self, path: str, data: dict[str, Any], *, is_match: bool) -> None:
        enough = self.matches >= self.limits.search_matches or self._size > self.limits.read_bytes
        self.full = self.full or (is_match and enough)
        if self.full:
            return
        text = _shorten(_text(data["lines"]).rstrip("\r\n"), self.limits.search_line_length)
        self.matches += is_match
        self._size += len(text)
        self._files.setdefault(path, {})[data["line_number"]] = text, is_match

    def _discard(self, path: str) -> None:
        """Discard the lines of a file that turned out to be binary."""
        rows = self._files.pop(path, {})
        self.matches -= sum(is_match for _, is_match in rows.values())
        self._size -= sum(len(text) for text, _ in rows.values())

    def report(self) -> str:
        if self.full:
            header = (
                f"Showing the first {self.matches} of {self.matches}+ matches. "
                "Narrow the search to see others."
            )
        else:
            header = f"Found {self.matches} {'match' if self.matches == 1 else 'matches'}."
        parts = [f"# {visible(path)}\n{_groups(rows)}" for path, rows in self._files.items()]
        return "\n\n".join([header, *parts])


def _groups(rows: dict[int, tuple[str, bool]]) -> str:
    shown: list[str] = []
    last = 0
    for number, (text, is_match) in rows.items():
        beside = (rows.get(number - 1), rows.get(number + 1))
        if not is_match and not any(row and row[1] for row in beside):
            continue
        if last and number > last + 1:
            shown.append("----")
        shown.append(f"{number:>3} | {text}")
        last = number
    return "\n".join(shown)


def _path(spelled: dict[str, str]) -> str:
    return str(PurePosixPath(_text(spelled)))


def _text(spelled: dict[str, str]) -> str:
    """ripgrep encodes what is not UTF-8 in base64."""
    if "text" in spelled:
        return spelled["text"]
    return base64.b64decode(spelled["bytes"]).decode("utf-8", "replace")


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + _CUT


_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_AT_ONCE = 800
_SHARE = 3
"""Searched files may use one in three of the process's file descriptors."""


LISTING_SECONDS = 600.0
"""The whole workspace is listed beside other work, which does not wait for the end."""


class WorkspaceSources:
    def __init__(self, files: WorkspaceFiles, limits: Limits) -> None:
        self._boundaries = files.boundaries
        self._limits = limits

    def list(self, most: int, largest: int) -> SourceListing:
        tree = self._tree("", LISTING_SECONDS)
        files = [found for found in self._found(tree) if found.mark[0] <= largest]
        notes = (f"(Only {most} of {len(files)} files are indexed.)",) if len(files) > most else ()
        complete = not tree.incomplete and not tree.unreadable
        return SourceListing(files=files[:most], complete=complete, notes=notes)

    def exists(self, path: str) -> bool:
        return (self._boundaries.root / path).exists()

    def in_folder(self, folder: str) -> Sequence[str] | None:
        if not (self._boundaries.root / folder).is_dir():
            return None
        entries = self._tree(folder).entries(folder)
        return [entry.path for entry in entries if not entry.is_folder and not entry.link]

    def read(self, path: str, largest: int) -> Source | None:
        opener = Opener(self._boundaries.root)
        try:
            opened = opener.open(path)
            if opened is None or opened.size > largest:
                return None
            mark = _mark(os.fstat(opened.descriptor))
            with open(opened.descriptor, "rb", closefd=False) as file:
                data = file.read(largest + 1)
        except OSError:
            return None
        finally:
            opener.close()
        digest = hashlib.sha256(data).digest()
        match decoded(path, data, len(data)):
            case FileText(text=text):
                return Source(text=as_utf8(text), mark=mark, digest=digest)
            case _:
                return Source(text="", mark=mark, digest=digest)

    def _tree(self, start: str, seconds: float = 0.0) -> "Tree":
        from rookery.workspace.tree import Tree

        root, limits = self._boundaries.root, self._limits
        hiding = self._boundaries.hiding(str(root))
        seconds = seconds or limits.search_seconds
        return Tree(root, start, limits.search_files, seconds, hiding)

    def _found(self, tree: "Tree") -> Iterator[Found]:
        top = f"{tree.root}/"
        for path in tree.files(lambda path: True):
            try:
                there = os.stat(top + path, follow_symlinks=False)
            except OSError:
                continue  # deleted since
            yield Found(path, _mark(there))


def _mark(there: os.stat_result) -> Mark:
    return there.st_size, there.st_mtime_ns, there.st_ctime_ns, there.st_ino


class OpenFile:
    """An open file, closed when garbage-collected, because a cancelled search never receives it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    @property
    def passed_path(self) -> str:
        """The path by which a process that inherits the descriptor can open it."""
        return f"/dev/fd/{self.descriptor}"

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class Opener:
    """Opens files below a folder, keeping the last folder open for files that follow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: str | None = None
        self._at: int | None = None

    def open(self, path: str) -> "OpenFile | None":
        """Open the file; None if it is not a regular file, does not exist or cannot be read."""
        try:
            folder, _, name = path.rpartition("/")
            if folder != self._folder:
                self.close()
                self._folder, self._at = folder, open_folder(self._root, _names(folder))
            descriptor = _open(name, present(self._at))
        except OSError:
            return None
        return None if descriptor is None else OpenFile(path, descriptor)

    def close(self) -> None:
        if self._at is not None:
            os.close(self._at)
        self._folder = self._at = None


def batch_size() -> int:
    """How many files to pass to one process."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = allowed == resource.RLIM_INFINITY
    return _MOST_AT_ONCE if unlimited else min(_MOST_AT_ONCE, allowed // _SHARE)


def _names(path: str) -> list[str]:
    return path.split("/") if path else []


def _open(name: str, at: int) -> int | None:
    there = os.stat(name, dir_fd=at, follow_symlinks=False)
    if not stat.S_ISREG(there.st_mode):
        return None
    descriptor = os.open(name, _FILE, dir_fd=at)
    if os.path.samestat(there, os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    return None
