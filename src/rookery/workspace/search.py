"""Searches the files of a workspace for text.

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
from itertools import islice
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from rookery.core.limits import KIB, MIB, Limits
from rookery.errors import BadArguments, ToolError
from rookery.first_use import lazy_pattern
from rookery.platform.paths import LONGEST, FileRules, file_pattern
from rookery.platform.user_folders import find_own_program
from rookery.workspace.tree import Tree

if TYPE_CHECKING:
    from rookery.workspace.source_files import FoundLines, Opener, OpenFile

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


_BRACES = lazy_pattern(r"\{([^{}]*)\}")
_MOST = 64


class TextSearch:
    def __init__(self, root: Path, limits: Limits, command: SearchCommand | None) -> None:
        ripgrep = "" if command else find_ripgrep(root)
        self._root = root
        self._limits = limits
        self._command = command or (Ripgrep(ripgrep) if ripgrep else without_ripgrep)

    async def run(
        self, path: str, start: str, regex: str, glob: str | None, tree: Callable[[], Tree]
    ) -> str:
        """Search the files of a tree. `path` is what the model calls its `start`."""
        if self._root / start == Path("/"):
            raise ToolError("The whole disk is not searched; name a folder on it.")
        if not (self._root / start).exists():
            raise ToolError(f"No such path: {path}. Use list_files to see what exists.")
        if not (self._root / start).is_dir() and not (self._root / start).is_file():
            raise ToolError(f"{path} is a device, pipe or socket, not a file.")
        await self._check_regex(regex)
        search = await anyio.to_thread.run_sync(
            lambda: _Search(tree(), self._limits, glob),
            abandon_on_cancel=True,
        )
        with anyio.move_on_after(self._limits.search_seconds) as time:
            await self._search_all(regex, search)
        return search.report(out_of_time=time.cancelled_caught)

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


class _Search:
    """A search in progress: the files still to search, and the lines found."""

    def __init__(self, tree: Tree, limits: Limits, glob: str | None) -> None:
        from rookery.workspace.source_files import FoundLines

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
        """The names of the next files: at most `most`, or as many small files as fit into a
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
        notes = list(self._tree.notes())
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


def file_filter(glob: str | None, start: str) -> Callable[[str], bool]:
    """A predicate for paths. A pattern with a slash is relative to the workspace or to `start`."""
    if not glob or not glob.strip():
        return lambda path: True
    if len(glob) > LONGEST:
        raise BadArguments(f"The file pattern is longer than {LONGEST} characters.")
    unwanted, pattern = glob.startswith("!"), glob.strip().removeprefix("!")
    try:
        patterns = [file_pattern(choice) for choice in _alternatives(pattern)]
    except ValueError as error:
        raise BadArguments(f"The file pattern {glob!r} cannot be used: {error}.") from error
    rules = FileRules(tuple(filter(None, patterns)))

    def wanted(path: str) -> bool:
        inner = path.removeprefix(f"{start}/")
        return (rules.cover(path) or rules.cover(inner)) is not unwanted

    return wanted


def _alternatives(pattern: str) -> list[str]:
    """Expand the braces of a pattern."""
    finished, waiting = list[str](), [pattern]
    while waiting and len(finished) + len(waiting) <= _MOST:
        current = waiting.pop()
        if braces := _BRACES.search(current):
            before, after = current[: braces.start()], current[braces.end() :]
            waiting += [before + choice + after for choice in braces[1].split(",")]
        else:
            finished.append(current)
    if waiting:
        raise BadArguments(f"The file pattern {pattern!r} has too many alternatives.")
    return finished
