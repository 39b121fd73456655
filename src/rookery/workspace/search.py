"""Listing and searching the workspace.

Which files there are is found out here, in one way; ripgrep, or a process of ours where there
is none, only looks into them. So both find the same, and both can be killed. They are handed
open files, not names: what a name means may have changed until they come to it.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from rookery.core.limits import KIB, MIB, Limits
from rookery.core.queries import FoundPath
from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.platform.own_programs import find_own_program
from rookery.platform.paths import visible
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.workspace.source_files import FoundLines, Opener, OpenFile
    from rookery.workspace.tree import Tree, TreeEntry

_LONGEST_REGEX = 10_000
_LINE_BREAK = re.compile(r"(?<!\\)(?:\\\\)*(?:\\[nr]|\n|\r)")
_OWN_SEARCH = Path(__file__).with_name("line_search.py")
_REST_OF_LINE = r"(?-u:[^\n]*)"
"""ripgrep tells every match in a line apart; this makes them one, whatever bytes come after it."""
_QUICKLY_READ = 64 * KIB
_MESSAGE_PER_FILE = 4
"""How many times as long as the largest file that is searched a message may be. It has a line
twice, as it is and as a match, and spells some characters out."""


SearchCommand: TypeAlias = Callable[[str, int, Sequence[str]], list[str]]
"""From an expression, the most matches per file, and files, to the program that looks there."""


def find_ripgrep(root: Path = Path()) -> str:
    """`rg` beside the interpreter, or else one in the PATH that has nothing to do with the
    workspace `root`; empty if there is none."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.is_file() else find_own_program("rg", root)


def with_ripgrep(program: str) -> SearchCommand:
    # one thread, so that files are searched in the order given; no mmap, so that a binary
    # file is recognised wherever it stops being text
    options = (
        "--json --no-config --no-ignore --no-messages --no-mmap --crlf --threads=1 --context=1"
    )

    def command(regex: str, most: int, files: Sequence[str]) -> list[str]:
        whole_line = f"(?:{regex}){_REST_OF_LINE}"
        return [program, *options.split(), f"--max-count={most}", "-e", whole_line, "--", *files]

    return command


def without_ripgrep(regex: str, most: int, files: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", str(_OWN_SEARCH), str(most), regex, *files]


OVERVIEW_ENTRIES = 200
OVERVIEW_BYTES = 4096
"""What the first request of a task tells of the workspace."""

_VERSION_CONTROL = {".git", ".hg", ".svn", ".jj"}


class WorkspaceFinder:
    def __init__(
        self,
        root: Path,
        files: WorkspaceFiles,
        limits: Limits,
        *,
        command: SearchCommand | None = None,
    ) -> None:
        ripgrep = find_ripgrep(root)
        self._root = root.resolve(strict=True)
        self._files = files
        self._limits = limits
        self._command = command or (with_ripgrep(ripgrep) if ripgrep else without_ripgrep)

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str:
        start = self._permitted(path, permit)
        if self._root / start in (Path("/"), Path.home()):
            return f"{self._root / start}/\nThis folder is not listed; name one inside it."
        if not (self._root / start).is_dir():
            raise ToolError(f"{path} is not a folder. read_file reads a file.")
        most = self._limits.list_entries
        return await anyio.to_thread.run_sync(
            partial(self._listing, withheld=permit.withheld),
            start,
            recursive,
            most,
            abandon_on_cancel=True,
        )

    async def overview(self) -> str:
        """What `list` shows of the workspace and all below, as far as it is short; nothing of a
        home folder."""
        if self._root in (Path("/"), Path.home()):
            return ""
        listed = await anyio.to_thread.run_sync(
            self._listing, "", True, OVERVIEW_ENTRIES, abandon_on_cancel=True
        )
        if len(listed.encode()) <= OVERVIEW_BYTES:
            return listed
        kept = listed.encode()[:OVERVIEW_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
        return f"{kept}\n(The rest is left out; list a folder to see more of it.)"

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str:
        start = self._permitted(path, permit)
        if self._root / start == Path("/"):
            raise ToolError("The whole disk is not searched; name a folder on it.")
        if not (self._root / start).exists():
            raise ToolError(f"No such path: {path}. Use list_files to see what exists.")
        if not (self._root / start).is_dir() and not (self._root / start).is_file():
            raise ToolError(f"{path} is a device, pipe or socket, not a file.")
        await self._refuse_faulty(regex)
        search = await anyio.to_thread.run_sync(
            lambda: _Search(self._tree(start, permit.withheld), self._limits, glob),
            abandon_on_cancel=True,
        )
        with anyio.move_on_after(self._limits.search_seconds) as time:
            while not search.found.full and (batch := await search.next_batch()):
                await self._look_into(batch, regex, search)
                del batch  # and thereby close its files, before others are opened
        return search.report(out_of_time=time.cancelled_caught)

    def paths(self) -> Sequence[FoundPath]:
        """All files and folders of the workspace that are listed, folders first; not where
        version control keeps its own."""
        found = [entry for level in self._tree("").level_by_level() for entry in level]
        return [
            FoundPath(path=entry.path, folder=entry.is_folder)
            for entry in found
            if entry.name not in _VERSION_CONTROL
        ]

    def _permitted(self, path: str, permit: Permit) -> str:
        located = self._files.locate(path)
        if located not in permit.reads:
            raise Denied(f"Reading {located} was not permitted.")
        return "" if located == "." else located

    def _tree(self, start: str, withheld: Callable[[str], bool] | None = None) -> "Tree":
        from rookery.workspace.tree import Tree

        most, seconds = self._limits.search_files, self._limits.search_seconds
        if start.startswith("/"):
            hiding = self._files.boundaries.hiding("/", withheld)
            return Tree(Path("/"), start[1:], most, seconds, hiding, top=start[1:])
        hiding = self._files.boundaries.hiding(str(self._root), withheld)
        return Tree(self._root, start, most, seconds, hiding)

    async def _refuse_faulty(self, regex: str) -> None:
        if len(regex) > _LONGEST_REGEX or "\0" in regex:
            raise BadArguments(f"The regex is longer than {_LONGEST_REGEX} or has a NUL in it.")
        if _LINE_BREAK.search(regex):
            raise BadArguments("Lines are searched one by one: leave \\n and \\r out of the regex.")
        command = self._command(regex, 1, [os.devnull])
        environment = _environment()
        process = await anyio.run_process(command, stdin=DEVNULL, check=False, env=environment)
        if process.returncode not in (0, 1):
            said = process.stderr.decode("utf-8", "replace").strip().removeprefix("rg: ")
            raise BadArguments(f"The regular expression is invalid. {said}")

    async def _look_into(self, files: "Sequence[OpenFile]", regex: str, search: "_Search") -> None:
        names = search.names(files)
        command = self._command(regex, self._limits.search_matches + 1, list(names))
        async with await anyio.open_process(
            command,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=self._root,
            env=_environment(),
            pass_fds=[file.descriptor for file in files],
        ) as process:
            assert process.stdout is not None
            lines = _SearchedLines(longest=_MESSAGE_PER_FILE * self._limits.edit_bytes)
            async for chunk in process.stdout:
                for line in lines.complete(chunk):
                    await _take(line, names, search.found)
                if search.found.full:
                    process.kill()
                    return

    def _listing(
        self,
        start: str,
        recursive: bool,
        most: int,
        *,
        withheld: Callable[[str], bool] | None = None,
    ) -> str:
        tree = self._tree(start, withheld)
        shown: list[TreeEntry] = []
        passed_over: list[TreeEntry] = []
        for level in tree.level_by_level():
            for entry in level:
                hidden = recursive and tree.hides(entry)
                closed = entry.is_folder and (hidden or tree.closed_to_listing(entry))
                (passed_over if closed else shown).append(entry)
            if not recursive or len(shown) > most:
                break
        kept = sorted(_within(shown, most, tree), key=_in_order)
        rows = [tree.called(_row(entry)) for entry in kept] or [f"(No files in {start or '.'}/)"]
        if len(shown) > most:
            rows.append(f"(Only {most} entries are shown; list a folder to see more of it.)")
        if passed_over:
            names = ", ".join(tree.called(_row(entry)) for entry in passed_over[:20])
            rows.append(f"(Not searched: {names})")
        return "\n".join([*rows, *_reservations(tree)])


class _Search:
    """One search under way: which files are still to be looked into, and what was found."""

    def __init__(self, tree: "Tree", limits: Limits, glob: str | None) -> None:
        from rookery.workspace.source_files import FoundLines
        from rookery.workspace.tree import file_filter

        self.found = FoundLines(limits)
        self._tree = tree
        self._limits = limits
        self._large = 0
        self._waiting = tree.files(file_filter(glob, tree.start))

    def names(self, files: "Sequence[OpenFile]") -> dict[str, str]:
        """What files that were handed over are called here."""
        return {file.handed_as: self._tree.called(file.path) for file in files}

    async def next_batch(self) -> "Sequence[OpenFile]":
        return await anyio.to_thread.run_sync(self._next_batch, abandon_on_cancel=True)

    def _next_batch(self) -> "Sequence[OpenFile]":
        from rookery.workspace.source_files import Opener, files_at_once

        opener = Opener(self._tree.root)
        try:
            return list(islice(self._small_files(opener), files_at_once()))
        finally:
            opener.close()

    def _small_files(self, opener: "Opener") -> "Iterator[OpenFile]":
        for path in self._waiting:
            file = opener.open(path)
            if file and file.size <= self._limits.edit_bytes:
                yield file
            elif file:
                self._large += 1

    def report(self, *, out_of_time: bool) -> str:
        notes = list(_reservations(self._tree))
        if self.found.oversized:
            notes.append(f"(Lines that match but are too long to show: {self.found.oversized}.)")
        if self._large:
            most = self._limits.edit_bytes // MIB
            notes.append(f"(Files above {most} MiB were not searched: {self._large}.)")
        if out_of_time:
            seconds = self._limits.search_seconds
            notes.append(f"(The search was stopped after {seconds:g} seconds and is incomplete.)")
        return "\n".join([self.found.report(), *notes])


class _SearchedLines:
    """Whole lines out of chunks of output. Of one that is too long nothing is kept."""

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


def _environment() -> Mapping[str, str]:
    from rookery.platform.command_environment import command_environment

    return command_environment(os.environ, confined=True)


async def _take(line: bytes | None, names: Mapping[str, str], found: "FoundLines") -> None:
    if line is None:
        found.oversized += 1
    elif len(line) <= _QUICKLY_READ:
        found.take(_named(json.loads(line), names))
    else:
        message = await anyio.to_thread.run_sync(json.loads, line, abandon_on_cancel=True)
        found.take(_named(message, names))


def _named(message: object, names: Mapping[str, str]) -> object:
    """The message with the file's own name in the place of the one it was handed over by."""
    match message:
        case {"data": {"path": {"text": str(handed)} as path}} if handed in names:
            path["text"] = names[handed]
    return message


def _within(entries: "Sequence[TreeEntry]", most: int, tree: "Tree") -> "list[TreeEntry]":
    """At most so many entries; folders of the first level are the last to be left out."""
    depth = tree.start.count("/") + 1 if tree.start else 0

    def is_first(entry: "TreeEntry") -> bool:
        return entry.is_folder and entry.path.count("/") == depth

    return sorted(entries, key=lambda entry: not is_first(entry))[:most]


def _in_order(entry: "TreeEntry") -> list[object]:
    """Parents before children."""
    from rookery.workspace.tree import natural

    return [natural(name) for name in entry.path.split("/")]


def _row(entry: "TreeEntry") -> str:
    name = visible(entry.path)
    if entry.link:
        return f"{name} -> {visible(entry.link)}"
    return f"{name}/" if entry.is_folder else name


def _reservations(tree: "Tree") -> Iterator[str]:
    if tree.incomplete:
        yield "(Incomplete: there are too many files.)"
    if tree.unreadable:
        yield f"(Folders that could not be read: {tree.unreadable}.)"
    yield from tree.hiding.notes()
