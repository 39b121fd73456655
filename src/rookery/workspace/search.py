"""Listing and searching the workspace.

The files are found here; ripgrep, or `line_search.py` where it is not installed, only searches
them, so both find the same and both can be killed. They are given open files instead of names,
because a name may refer to another file by the time it is opened.
"""

import json
import os
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
from rookery.lazy_pattern import lazy_pattern
from rookery.platform.own_programs import find_own_program
from rookery.platform.paths import visible
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.workspace.source_files import FoundLines, Opener, OpenFile
    from rookery.workspace.tree import Tree, TreeEntry

_LONGEST_REGEX = 10_000
_LINE_BREAK = lazy_pattern(r"(?<!\\)(?:\\\\)*(?:\\[nr]|\n|\r)")
_OWN_SEARCH = Path(__file__).with_name("line_search.py")
_REST_OF_LINE = r"(?-u:[^\n]*)"
"""ripgrep reports every match in a line separately; this extends a match to the end of the line."""
_PARSED_AT_ONCE = 64 * KIB
_MESSAGE_FACTOR = 4
"""The longest message, as a multiple of the largest searched file. A message contains a line
twice, as text and as match, with some characters escaped."""


SearchCommand: TypeAlias = Callable[[str, int, Sequence[str]], list[str]]
"""Builds the search program's arguments from a regex, the most matches per file, and files."""


def find_ripgrep(root: Path = Path()) -> str:
    """`rg` beside the interpreter, or one in the PATH outside the workspace `root`; empty if
    there is none."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.is_file() else find_own_program("rg", root)


def with_ripgrep(program: str) -> SearchCommand:
    # one thread keeps the files in order; without mmap a binary file is recognised
    # wherever it stops being text
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
"""The limits of the overview in the first request of a task."""

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
        start = self._check_permit(path, permit)
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
        """A recursive listing of the workspace, cut if it is long; empty for a home folder."""
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
        start = self._check_permit(path, permit)
        if self._root / start == Path("/"):
            raise ToolError("The whole disk is not searched; name a folder on it.")
        if not (self._root / start).exists():
            raise ToolError(f"No such path: {path}. Use list_files to see what exists.")
        if not (self._root / start).is_dir() and not (self._root / start).is_file():
            raise ToolError(f"{path} is a device, pipe or socket, not a file.")
        await self._check_regex(regex)
        search = await anyio.to_thread.run_sync(
            lambda: _Search(self._tree(start, permit.withheld), self._limits, glob),
            abandon_on_cancel=True,
        )
        with anyio.move_on_after(self._limits.search_seconds) as time:
            while not search.found.full and (
                batch := await anyio.to_thread.run_sync(search.next_batch, abandon_on_cancel=True)
            ):
                await self._search_in(batch, regex, search)
                del batch  # closes its files before others are opened
        return search.report(out_of_time=time.cancelled_caught)

    def paths(self) -> Sequence[FoundPath]:
        """All listed files and folders of the workspace, except those of version control."""
        found = [entry for level in self._tree("").breadth_first() for entry in level]
        return [
            FoundPath(path=entry.path, folder=entry.is_folder)
            for entry in found
            if entry.name not in _VERSION_CONTROL
        ]

    def _check_permit(self, path: str, permit: Permit) -> str:
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

    async def _check_regex(self, regex: str) -> None:
        if len(regex) > _LONGEST_REGEX or "\0" in regex:
            raise BadArguments(f"The regex is longer than {_LONGEST_REGEX} or has a NUL in it.")
        if _LINE_BREAK.search(regex):
            raise BadArguments("Lines are searched one by one: leave \\n and \\r out of the regex.")
        command = self._command(regex, 1, [os.devnull])
        environment = _environment()
        process = await anyio.run_process(command, stdin=DEVNULL, check=False, env=environment)
        if process.returncode not in (0, 1):
            message = process.stderr.decode("utf-8", "replace").strip().removeprefix("rg: ")
            raise BadArguments(f"The regular expression is invalid. {message}")

    async def _search_in(self, files: "Sequence[OpenFile]", regex: str, search: "_Search") -> None:
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
            lines = _SearchedLines(longest=_MESSAGE_FACTOR * self._limits.edit_bytes)
            async for chunk in process.stdout:
                for line in lines.complete(chunk):
                    await _take_line(line, names, search.found)
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
        for level in tree.breadth_first():
            for entry in level:
                hidden = recursive and tree.hides(entry)
                closed = entry.is_folder and (hidden or tree.is_not_listed(entry))
                (passed_over if closed else shown).append(entry)
            if not recursive or len(shown) > most:
                break
        kept = sorted(_limit(shown, most, tree), key=_order_key)
        rows = [tree.display(_row(entry)) for entry in kept] or [f"(No files in {start or '.'}/)"]
        if len(shown) > most:
            rows.append(f"(Only {most} entries are shown; list a folder to see more of it.)")
        if passed_over:
            names = ", ".join(tree.display(_row(entry)) for entry in passed_over[:20])
            rows.append(f"(Not searched: {names})")
        return "\n".join([*rows, *_notes(tree)])


class _Search:
    """A search in progress: the files still to search, and the lines found."""

    def __init__(self, tree: "Tree", limits: Limits, glob: str | None) -> None:
        from rookery.workspace.source_files import FoundLines
        from rookery.workspace.tree import file_filter

        self.found = FoundLines(limits)
        self._tree = tree
        self._limits = limits
        self._large = 0
        self._waiting = tree.files(file_filter(glob, tree.start))

    def names(self, files: "Sequence[OpenFile]") -> dict[str, str]:
        """The path of each file by the name it was passed as."""
        return {file.passed_path: self._tree.display(file.path) for file in files}

    def next_batch(self) -> "Sequence[OpenFile]":
        from rookery.workspace.source_files import Opener, batch_size

        opener = Opener(self._tree.root)
        try:
            return list(islice(self._small_files(opener), batch_size()))
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
        notes = list(_notes(self._tree))
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


def _environment() -> Mapping[str, str]:
    from rookery.platform.guarded_process import command_environment

    return command_environment(os.environ, confined=True)


async def _take_line(line: bytes | None, names: Mapping[str, str], found: "FoundLines") -> None:
    if line is None:
        found.oversized += 1
    elif len(line) <= _PARSED_AT_ONCE:
        found.take(_rename_file(json.loads(line), names))
    else:
        message = await anyio.to_thread.run_sync(json.loads, line, abandon_on_cancel=True)
        found.take(_rename_file(message, names))


def _rename_file(message: object, names: Mapping[str, str]) -> object:
    """Replace the name the file was passed as by its path."""
    match message:
        case {"data": {"path": {"text": str(handed)} as path}} if handed in names:
            path["text"] = names[handed]
    return message


def _limit(entries: "Sequence[TreeEntry]", most: int, tree: "Tree") -> "list[TreeEntry]":
    """At most so many entries; top-level folders are the last to be dropped."""
    depth = tree.start.count("/") + 1 if tree.start else 0

    def is_first(entry: "TreeEntry") -> bool:
        return entry.is_folder and entry.path.count("/") == depth

    return sorted(entries, key=lambda entry: not is_first(entry))[:most]


def _order_key(entry: "TreeEntry") -> list[object]:
    """Sort key: parents before children."""
    from rookery.workspace.tree import natural_key

    return [natural_key(name) for name in entry.path.split("/")]


def _row(entry: "TreeEntry") -> str:
    name = visible(entry.path)
    if entry.link:
        return f"{name} -> {visible(entry.link)}"
    return f"{name}/" if entry.is_folder else name


def _notes(tree: "Tree") -> Iterator[str]:
    if tree.incomplete:
        yield "(Incomplete: there are too many files.)"
    if tree.unreadable:
        yield f"(Folders that could not be read: {tree.unreadable}.)"
    yield from tree.hiding.notes()
