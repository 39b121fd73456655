"""Resolves a plain line to what is run: absolute programs, and file names instead of patterns."""

import os
import re
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

from msgspec.structs import replace

from rookery.commands.lookups import (
    SHIMS,
    LookupBudget,
    ProgramPath,
    expand_glob,
    why_runs_project,
)
from rookery.commands.program_tables import Reader, readers
from rookery.commands.programs import CommandEffect, reader_row
from rookery.commands.words import ParsedLine, Redirection, SimpleCommand, Word
from rookery.commands.xargs_lines import XargsInput, parse_xargs, with_null_names
from rookery.engine.ports.actions import Pipeline, Plain, PlainCommand
from rookery.engine.ports.workspace import Files
from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.platform.paths import within_any

MOST_FILES = 400
"""How many files the patterns of one line may match."""
NOWHERE = "/dev/null"
_SYSTEM = ("/usr", "/bin")
_ODD = frozenset(" \t\n\r\v\f\"'\\")


def any_patterns(plain: Plain) -> bool:
    return any(command.patterns for pipeline in plain for command in pipeline.commands)


def line_of(plain: Plain) -> ParsedLine:
    """Convert a plain line to commands. A `cd` is added before commands that run in another
    folder; for xargs, the command it runs is listed, with the folders its files come from."""
    commands: list[SimpleCommand] = []
    scopes: dict[str, tuple[int, ...]] = {"": ()}
    for pipeline in plain:
        for place, command in enumerate(pipeline.commands):
            if command.folder not in scopes:
                scopes[command.folder] = (2 * len(scopes) + 1,)
                entering = (Word("cd"), Word(command.folder))
                commands.append(SimpleCommand(entering, (), scopes[command.folder]))
            words = _words(command, parse_xargs(pipeline, place))
            commands.append(SimpleCommand(words, _source(command), scopes[command.folder]))
    return ParsedLine(tuple(commands), plain=plain)


def _source(command: PlainCommand) -> tuple[Redirection, ...]:
    if command.source in {"", NOWHERE}:
        return ()
    return (Redirection(Word(command.source), writes=False),)


def _words(command: PlainCommand, given: XargsInput | None) -> tuple[Word, ...]:
    if given:
        return (*map(Word, given.inner), *given.starts)
    patterns = dict(command.patterns)
    return tuple(
        Word(text, known=False, pattern=patterns[place]) if place in patterns else Word(text)
        for place, text in enumerate(command.words)
    )


_SIMPLE = lazy_pattern(r"[\w.*?-]+")
_WILD = lazy_pattern(r"[*?\[{\\]")


class LineResolver:
    """Resolves one line that starts in the folder `start`. `doubts` are reasons not to run it."""

    def __init__(self, files: Files, root: Path, start: str, programs: ProgramPath) -> None:
        self._files = files
        self._root = str(root)
        self._start = start
        self._programs = programs
        self._budget = LookupBudget()
        self._left = MOST_FILES
        self.doubts: list[str] = []

    def resolve(self, plain: Plain) -> Plain | None:
        pipelines = []
        expand_patterns = self.expand_patterns(plain)
        for pipeline in map(with_null_names, expand_patterns or ()):
            commands = [
                self._with_program(pipeline, place) for place in range(len(pipeline.commands))
            ]
            pipelines.append(Pipeline(tuple(filter(None, commands)), pipeline.when))
            if len(pipelines[-1].commands) < len(commands):
                return None
        return tuple(pipelines) if expand_patterns is not None and not self.doubts else None

    def expand_patterns(self, plain: Plain) -> Plain | None:
        """Replace patterns by the files they match; None if there are too many."""
        self._left = MOST_FILES
        pipelines = []
        for pipeline in plain:
            commands = [self._expand_command(command) for command in pipeline.commands]
            if None in commands:
                return None
            pipelines.append(Pipeline(tuple(filter(None, commands)), pipeline.when))
        return tuple(pipelines)

    def _expand_command(self, command: PlainCommand) -> PlainCommand | None:
        patterns = dict(command.patterns)
        words: list[str] = []
        for place, text in enumerate(command.words):
            found = self._matches(patterns[place], command.folder) if place in patterns else [text]
            if found is None:
                return None
            words += found or [text]
        return replace(command, words=tuple(words), patterns=())

    def _matches(self, pattern: str, folder: str) -> list[str] | None:
        """The matching names as a shell would insert them; empty if nothing matches."""
        top = os.path.normpath(os.path.join(self._start, folder))
        found = expand_glob(os.path.join(top, pattern), self._budget)
        self._left -= len(found or ())
        if found is None or self._left < 0:
            self.doubts.append(f"{pattern} matches too many files to check")
            return None
        looked_in = os.path.dirname(os.path.join(top, _WILD.split(pattern)[0]))
        if any(map(self._is_hidden, (looked_in, *found))):
            self.doubts.append(f"{pattern} lists names in a folder that needs approval to read")
        cut = "" if os.path.isabs(pattern) else f"{top.rstrip('/')}/"
        names = sorted(path.removeprefix(cut) for path in found)
        if any(name.startswith("-") or "\0" in name for name in names):
            self.doubts.append(f"{pattern} matches a name that looks like an option")
            return None
        return names

    def _with_program(self, pipeline: Pipeline, place: int) -> PlainCommand | None:
        command = pipeline.commands[place]
        if command.folder and not self._may_enter(command.folder):
            return None
        given = parse_xargs(pipeline, place)
        words = _replaced_words(command.words)
        program = self._program(command.words, words[0])
        if program is None or self._is_shim(program, command):
            return None
        if given is None:
            rest = self._resolve_find(words)
            return replace(command, words=(program, *rest)) if rest is not None else None
        inner = self._program(given.inner, given.inner[0])
        if inner is None or (not given.nulls and not all(self._is_unsplit(given, command.folder))):
            return None
        return replace(command, words=(program, *given.own[1:], inner, *given.inner[1:]))

    def _program(self, words: tuple[str, ...], name: str) -> str | None:
        """The program's path. For a known reader that is not installed, a path that does not
        exist, so that running it reports just that."""
        known = bool(reader_row(words)[0])
        return self._programs.find(name, unshadowed=_is_unshadowed(words), or_missing=known)

    def _resolve_find(self, argv: tuple[str, ...]) -> list[str] | None:
        """The words after the program, with the programs of `find -exec` as absolute paths."""
        words = list(argv[1:])
        if argv[0] != "find":
            return words
        for place in [at for at, word in enumerate(words[:-1]) if word == "-exec"]:
            program = self._program(tuple(words[place + 1 :]), words[place + 1])
            if program is None:
                return None
            words[place + 1] = program
        return words

    def _is_shim(self, program: str, command: PlainCommand) -> bool:
        """Whether the program may be a shim, so that files of the project choose what it runs."""
        if not _is_unshadowed(command.words) or within_any(program, _SYSTEM):
            return False
        folder = os.path.join(self._start, command.folder)
        why = list(why_runs_project(CommandEffect(unless=SHIMS), [folder], self._root))
        self.doubts += why
        return bool(why)

    def _may_enter(self, folder: str) -> bool:
        path = os.path.join(self._start, folder)
        if self._is_hidden(path) or not os.path.isdir(path):
            self.doubts.append(f"it changes to {folder}, which is not a folder in the workspace")
        return not self.doubts

    def _is_hidden(self, path: str) -> bool:
        try:
            place = self._files.place(path)
        except (ToolError, OSError):
            return True
        return bool(place.outside or place.ignored or place.credential)

    def _is_unsplit(self, given: XargsInput, folder: str) -> Iterator[bool]:
        """Whether xargs would pass each name below the folders as one argument."""
        for start in given.starts:
            odd = self._odd_name(os.path.join(self._start, folder, start.text), start.below)
            if odd:
                self.doubts.append(f"xargs would split a name into several arguments: {odd[:60]}")
            yield not odd

    def _odd_name(self, top: str, only: str) -> str:
        if _ODD & set(os.path.basename(top)):
            return top
        matches = re.compile(translate(only if _SIMPLE.fullmatch(only) else "*")).match
        waiting = [top]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        below = entry.path[len(top) :]
                        if not self._budget.take() or (matches(entry.name) and _ODD & set(below)):
                            return below
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except OSError:
                continue  # find cannot list it either
        return ""


def _is_unshadowed(words: tuple[str, ...]) -> bool:
    row, _ = reader_row(words)
    return bool(row) and readers()[row].unshadowed


def _replaced_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words to run: another program that does the same, or the same with one more option."""
    row, _ = reader_row(words)
    reader = readers()[row] if row else Reader()
    if reader.instead:
        return (reader.instead, *(word for word in words[1:] if word[:1] != "-" or word == "-"))
    return (words[0], reader.lead, *words[1:]) if reader.lead else words
