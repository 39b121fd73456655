"""Listing and searching the workspace.

The files are found here; ripgrep, or `line_search.py` where it is not installed, only searches
them, so both find the same and both can be killed. They are given open files instead of names,
because a name may refer to another file by the time it is opened.

Opening files here is slow where there are very many. After the first files, ripgrep is given the
names of the others, only to tell which of them may match; those are then opened and searched.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from rookery.core.limits import KIB, MIB, Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import BadArguments, Denied, ToolError
from rookery.lazy_pattern import lazy_pattern
from rookery.platform.own_programs import find_own_program
from rookery.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from rookery.core.queries import FoundPath
    from rookery.workspace.source_files import FoundLines, Opener, OpenFile
    from rookery.workspace.tree import Tree, TreeEntry

_LONGEST_REGEX = 10_000
_LINE_BREAK = lazy_pattern(r"(?<!\\)(?:\\\\)*(?:\\[nr]|\n|\r)")
_OWN_SEARCH = Path(__file__).with_name("line_search.py")
_REST_OF_LINE = r"(?-u:[^\n]*)"
"""ripgrep reports every match in a line separately; this extends a match to the end of the line."""
_PARSED_AT_ONCE = 64 * KIB
_NAMES_AT_ONCE = 512 * KIB
_NAME_OVERHEAD = 16
"""Bytes of a command line that a name needs besides its own."""
_MESSAGE_FACTOR = 4
"""The longest message, as a multiple of the largest searched file. A message contains a line
twice, as text and as match, with some characters escaped."""


T = TypeVar("T")
R = TypeVar("R")
SearchCommand: TypeAlias = Callable[[str, int, Sequence[str]], list[str]]
"""Builds the search program's arguments from a regex, the most matches per file, and files."""


def find_ripgrep(root: Path = Path()) -> str:
    """`rg` beside the interpreter, or one in the PATH outside the workspace `root`; empty if
    there is none."""
    beside = Path(sys.executable).with_name("rg")
    return str(beside) if beside.is_file() else find_own_program("rg", root)


class Ripgrep:
    # without mmap a binary file is recognised wherever it stops being text
    _always = "--no-config --no-ignore --no-messages --no-mmap --crlf"

    def __init__(self, program: str) -> None:
        self._program = program

    def __call__(self, regex: str, most: int, files: Sequence[str]) -> list[str]:
        # one thread keeps the files in order
        shown = f"--json --threads=1 --context=1 --max-count={most}"
        return self._command(shown, regex, files)

    def naming(self, regex: str, files: Sequence[str]) -> list[str]:
        """The arguments that print the names of the files that may match, NUL after each."""
        # as text, because a binary file may match before it is recognised
        return self._command("--files-with-matches --null --text", regex, files)

    def _command(self, options: str, regex: str, files: Sequence[str]) -> list[str]:
        whole_line = f"(?:{regex}){_REST_OF_LINE}"
        words = f"{options} {self._always}".split()
        return [self._program, *words, "-e", whole_line, "--", *files]


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
        self._command = command or (Ripgrep(ripgrep) if ripgrep else without_ripgrep)

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
            await self._search_all(regex, search)
        return search.report(out_of_time=time.cancelled_caught)

    def paths(self) -> "Sequence[FoundPath]":
        """All listed files and folders of the workspace, except those of version control."""
        from rookery.core.queries import FoundPath

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

    async def _search_all(self, regex: str, search: "_Search") -> None:
        from rookery.workspace.source_files import batch_size

        most = batch_size()
        few = None if isinstance(self._command, Ripgrep) else most
        await self._search_files(await _in_thread(search.next_names, most), regex, search)
        names = await _in_thread(search.next_names, few)
        while names and not search.found.full:
            ahead: list[Sequence[str]] = []

            async def look_ahead(ahead: list[Sequence[str]] = ahead) -> None:
                ahead.append(await _in_thread(search.next_names, few))

            async with anyio.create_task_group() as group:
                group.start_soon(look_ahead)
                likely = names if few else await self._may_match(names, regex, search.root)
            await self._search_files(likely, regex, search)
            (names,) = ahead

    async def _search_files(self, names: Sequence[str], regex: str, search: "_Search") -> None:
        from rookery.workspace.source_files import batch_size

        most = batch_size()
        for at in range(0, len(names), most):
            files = await _in_thread(search.open, names[at : at + most])
            await self._search_in(files, regex, search)
            del files  # closes them before others are opened
            if search.found.full:
                return

    async def _may_match(self, names: Sequence[str], regex: str, root: Path) -> Sequence[str]:
        """The files that have a match, by their names and only at this moment."""
        assert isinstance(self._command, Ripgrep)
        told = await anyio.run_process(
            # a file may be called "-"
            self._command.naming(regex, [f"./{name}" for name in names]),
            stdin=DEVNULL,
            stderr=DEVNULL,
            check=False,
            cwd=root,
            env=_environment(),
        )
        found = {os.fsdecode(name)[2:] for name in told.stdout.split(b"\0")}
        return [name for name in names if name in found]

    async def _search_in(self, files: "Sequence[OpenFile]", regex: str, search: "_Search") -> None:
        from rookery.workspace.source_files import SearchedLines

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
            lines = SearchedLines(longest=_MESSAGE_FACTOR * self._limits.edit_bytes)
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
        from rookery.workspace.tree import limited, order_key, row

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
        kept = sorted(limited(shown, most, tree), key=order_key)
        rows = [tree.display(row(entry)) for entry in kept] or [f"(No files in {start or '.'}/)"]
        if len(shown) > most:
            rows.append(f"(Only {most} entries are shown; list a folder to see more of it.)")
        if passed_over:
            names = ", ".join(tree.display(row(entry)) for entry in passed_over[:20])
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
        self.root = tree.root

    def names(self, files: "Sequence[OpenFile]") -> dict[str, str]:
        """The path of each file by the name it was passed as."""
        return {file.passed_path: self._tree.display(file.path) for file in files}

    def next_names(self, most: int | None) -> Sequence[str]:
        """The names of the next files: at most so many, or those of small files that fit into a
        command line."""
        if most is not None:
            return list(islice(self._waiting, most))
        names, size = list[str](), 0
        while size < _NAMES_AT_ONCE and (name := next(self._waiting, None)):
            if self._is_small(name):
                names.append(name)
                size += len(name if name.isascii() else os.fsencode(name)) + _NAME_OVERHEAD
        return names

    def open(self, names: Sequence[str]) -> "Sequence[OpenFile]":
        from rookery.workspace.source_files import Opener

        opener = Opener(self.root)
        try:
            return list(self._small_files(opener, names))
        finally:
            opener.close()

    def _is_small(self, name: str) -> bool:
        with suppress(OSError):  # opening it will fail
            small = os.lstat(f"{self.root}/{name}").st_size <= self._limits.edit_bytes
            self._large += not small
            return small
        return False

    def _small_files(self, opener: "Opener", names: Sequence[str]) -> "Iterator[OpenFile]":
        for name in names:
            file = opener.open(name)
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


async def _in_thread(look: Callable[[T], R], at: T) -> R:
    return await anyio.to_thread.run_sync(look, at, abandon_on_cancel=True)


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


def _notes(tree: "Tree") -> Iterator[str]:
    if tree.incomplete:
        yield "(Incomplete: there are too many files.)"
    if tree.unreadable:
        yield f"(Folders that could not be read: {tree.unreadable}.)"
    yield from tree.hiding.notes()
