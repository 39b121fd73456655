"""Reads unified diffs: those of git, patches of mails and pull requests, and plain `diff -u`.

Lines of a hunk are counted, so that content that looks like a header stays content. Text that is
no diff, such as the message of a patch, is skipped.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.platform.paths import visible

Kind: TypeAlias = Literal["changed", "added", "removed", "renamed"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_BOTH_NAMES = re.compile(rb'diff --git ("(?:[^"\\]|\\.)+"|\S+|.+) ("(?:[^"\\]|\\.)+"|\S+|.+)')
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}
_PREFIXES = (b"a/", b"b/", b"i/", b"w/", b"c/", b"o/")
_NO_FILE = b"/dev/null"
_SUBMODULE = b"160000"


class DiffHunk(Struct, frozen=True):
    """A changed place. `lines` begin with a blank, `+` or `-`."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: Sequence[bytes]


class DiffFile(Struct, frozen=True, kw_only=True):
    """The changes of one file. `path` is its new path; bytes that are not UTF-8 are surrogates."""

    path: str
    old_path: str
    kind: Kind = "changed"
    binary: bool = False
    submodule: bool = False
    combined: bool = False
    """Whether it is compared with several parents, which has no line numbers to point to."""
    hunks: Sequence[DiffHunk] = ()

    @property
    def name(self) -> str:
        """The path as it is shown, also to the model."""
        return visible(self.path)


def read_diff(data: bytes) -> list[DiffFile]:
    return list(_DiffReader(data.split(b"\n")).files())


class _Section:
    """What is known of a file so far."""

    def __init__(self, old: bytes = b"", new: bytes = b"") -> None:
        self.old, self.new = old, new
        self.kind: Kind = "changed"
        self.binary = self.submodule = self.combined = self.named = False
        self.hunks: list[DiffHunk] = []

    def file(self) -> DiffFile | None:
        path = self.old if self.kind == "removed" else self.new
        if not path:
            return None
        return DiffFile(
            path=os.fsdecode(path),
            old_path=os.fsdecode(self.old or path),
            kind=self.kind,
            binary=self.binary,
            submodule=self.submodule,
            combined=self.combined,
            hunks=self.hunks,
        )

    def read_header(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        match word:
            case b"new" if rest.startswith(b"file mode "):
                self.kind = "added"
            case b"deleted" if rest.startswith(b"file mode "):
                self.kind = "removed"
            case b"rename" if rest.startswith(b"from "):
                self.kind, self.old = "renamed", _unquoted(rest[5:])
            case b"rename" if rest.startswith(b"to "):
                self.new = _unquoted(rest[3:])
            case b"Binary" | b"GIT" if rest.endswith((b"differ", b"binary patch")):
                self.binary = True
            case b"index" if rest.endswith(_SUBMODULE):
                self.submodule = True
        self.submodule = self.submodule or line.endswith(b"mode " + _SUBMODULE)
        self.combined = self.combined or word == b"@@@"

    def name(self, old: bytes, new: bytes) -> None:
        """Take the names of `---` and `+++`, which are exact."""
        self.named = True
        if old == _NO_FILE:
            self.kind, self.new = "added", _without_prefix(new)
        elif new == _NO_FILE:
            self.kind, self.old = "removed", _without_prefix(old)
        else:
            self.old, self.new = _without_prefix(old), _without_prefix(new)


class _DiffReader:
    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> Iterator[DiffFile]:
        section = _Section()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith((b"diff --git ", b"diff --cc ", b"diff --combined ")):
                if file := section.file():
                    yield file
                section = _section(line.removesuffix(b"\r"))
            elif line.startswith(b"--- ") and self._next().startswith(b"+++ "):
                if section.named:
                    if file := section.file():
                        yield file
                    section = _Section()
                section.name(_file_name(line), _file_name(self._next()))
                self._at += 1
            elif section.named and (found := _HUNK.match(line)):
                section.hunks.append(self._hunk(found))
            else:
                section.read_header(line.removesuffix(b"\r"))
        if file := section.file():
            yield file

    def _next(self) -> bytes:
        return self._lines[self._at] if self._at < len(self._lines) else b""

    def _hunk(self, found: re.Match[bytes]) -> DiffHunk:
        old_start, new_start = int(found[1]), int(found[3])
        old_count, new_count = (int(found[2] or 1), int(found[4] or 1))
        old, new = old_count, new_count
        lines: list[bytes] = []
        while (old > 0 or new > 0) and self._at < len(self._lines):
            line = self._lines[self._at] or b" "
            sign = line[:1]
            if sign not in b" +-\\\r":
                break
            old -= sign in b" -\r"
            new -= sign in b" +\r"
            self._at += 1
            if sign != b"\\":
                lines.append(line)
        return DiffHunk(old_start, old_count, new_start, new_count, lines)


def _section(line: bytes) -> _Section:
    """A section with the names in its first line, which are exact only if they are equal."""
    if not line.startswith(b"diff --git "):
        name = _unquoted(line.split(b" ", 2)[2])
        section = _Section(name, name)
        section.combined = True
        return section
    rest = line[len(b"diff --git ") :]
    half = (len(rest) - 1) // 2
    old, new = rest[:half], rest[half + 1 :]
    if old[2:] != new[2:] and (found := _BOTH_NAMES.match(line)):
        old, new = found[1], found[2]
    return _Section(_without_prefix(_unquoted(old)), _without_prefix(_unquoted(new)))


def _file_name(line: bytes) -> bytes:
    """The name in a `---` or `+++` line, without the time that `diff -u` writes after a tab."""
    name = line[4:].removesuffix(b"\r")
    return _unquoted(name if name.startswith(b'"') else name.partition(b"\t")[0])


def _unquoted(name: bytes) -> bytes:
    name = name.rstrip(b"\t ") if name.endswith((b'"\t', b'" ')) else name
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name
    return _ESCAPED.sub(_escaped, name[1:-1])


def _escaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    if len(text) == 3:
        return bytes([int(text, 8) & 0xFF])
    return _ESCAPES.get(text, text)


def _without_prefix(name: bytes) -> bytes:
    return name[2:] if name.startswith(_PREFIXES) else name
