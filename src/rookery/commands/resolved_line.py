"""A plain line as it is run: with absolute programs, and files in the place of patterns."""

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from rookery.commands.lookups import SHIMS, Looks, expanded, made_to_run, within
from rookery.commands.program_tables import Reader, readers
from rookery.commands.programs import CommandEffect, reader_row
from rookery.commands.words import ParsedLine, Redirection, SimpleCommand, Word
from rookery.commands.xargs_lines import Fed, as_run, fed
from rookery.core.command_lines import Pipeline, Plain, PlainCommand
from rookery.engine.ports.workspace import Files
from rookery.errors import ToolError

MOST_FILES = 400
"""Files that patterns of one line may stand for."""
NOWHERE = "/dev/null"
_SYSTEM = ("/usr", "/bin")
_ODD = frozenset(" \t\n\r\v\f\"'\\")


class FindProgram(Protocol):
    def __call__(
        self, name: str, *, unshadowed: bool = False, or_missing: bool = False
    ) -> str | None: ...


def any_patterns(plain: Plain) -> bool:
    return any(command.patterns for pipeline in plain for command in pipeline.commands)


def line_of(plain: Plain) -> ParsedLine:
    """The commands of a plain line. A folder that it goes to is entered before them; what xargs
    runs stands in its place, with where its files come from."""
    commands: list[SimpleCommand] = []
    scopes: dict[str, tuple[int, ...]] = {"": ()}
    for pipeline in plain:
        for place, command in enumerate(pipeline.commands):
            if command.folder not in scopes:
                scopes[command.folder] = (2 * len(scopes) + 1,)
                entering = (Word("cd"), Word(command.folder))
                commands.append(SimpleCommand(entering, (), scopes[command.folder]))
            said = _words(command, fed(pipeline, place))
            commands.append(SimpleCommand(said, _source(command), scopes[command.folder]))
    return ParsedLine(tuple(commands), plain=plain)


def _source(command: PlainCommand) -> tuple[Redirection, ...]:
    if command.source in {"", NOWHERE}:
        return ()
    return (Redirection(Word(command.source), writes=False),)


def _words(command: PlainCommand, given: Fed | None) -> tuple[Word, ...]:
    if given:
        return (*map(Word, given.inner), *given.starts)
    patterns = dict(command.patterns)
    return tuple(
        Word(text, known=False, pattern=patterns[place]) if place in patterns else Word(text)
        for place, text in enumerate(command.words)
    )


_SIMPLE = re.compile(r"[\w.*?-]+")
_WILD = re.compile(r"[*?\[{\\]")


class Spelling:
    """For one line that begins in the folder `start`. `doubts` are reasons why it is not run."""

    def __init__(self, files: Files, root: Path, start: str, find: FindProgram) -> None:
        self._files = files
        self._root = str(root)
        self._start = start
        self._find = find
        self._looks = Looks()
        self._left = MOST_FILES
        self.doubts: list[str] = []

    def spelled(self, plain: Plain) -> Plain | None:
        pipelines = []
        with_files = self.with_files(plain)
        for pipeline in map(as_run, with_files or ()):
            commands = [
                self._with_program(pipeline, place) for place in range(len(pipeline.commands))
            ]
            pipelines.append(Pipeline(tuple(filter(None, commands)), pipeline.when))
            if len(pipelines[-1].commands) < len(commands):
                return None
        return tuple(pipelines) if with_files is not None and not self.doubts else None

    def with_files(self, plain: Plain) -> Plain | None:
        """With the files that patterns stand for; None if that are too many."""
        self._left = MOST_FILES
        pipelines = []
        for pipeline in plain:
            commands = [self._with_files(command) for command in pipeline.commands]
            if None in commands:
                return None
            pipelines.append(Pipeline(tuple(filter(None, commands)), pipeline.when))
        return tuple(pipelines)

    def _with_files(self, command: PlainCommand) -> PlainCommand | None:
        patterns = dict(command.patterns)
        said: list[str] = []
        for place, text in enumerate(command.words):
            found = self._matching(patterns[place], command.folder) if place in patterns else [text]
            if found is None:
                return None
            said += found or [text]
        return replace(command, words=tuple(said), patterns=())

    def _matching(self, pattern: str, folder: str) -> list[str] | None:
        """The names as a shell would put them in; none if nothing matches."""
        top = os.path.normpath(os.path.join(self._start, folder))
        found = expanded(os.path.join(top, pattern), self._looks)
        self._left -= len(found or ())
        if found is None or self._left < 0:
            self.doubts.append(f"{pattern} matches too many files to check")
            return None
        looked_in = os.path.dirname(os.path.join(top, _WILD.split(pattern)[0]))
        if any(map(self._is_kept_back, (looked_in, *found))):
            self.doubts.append(f"{pattern} lists names in a folder that needs approval to read")
        names = sorted(found if os.path.isabs(pattern) else map(_below(top), found))
        if any(name.startswith("-") for name in names) or not all(map(_is_text, names)):
            self.doubts.append(f"{pattern} matches a name that looks like an option")
            return None
        return names

    def _with_program(self, pipeline: Pipeline, place: int) -> PlainCommand | None:
        command = pipeline.commands[place]
        if command.folder and not self._may_enter(command.folder):
            return None
        given = fed(pipeline, place)
        said = _run_instead(command.words)
        program = self._program(command.words, said[0])
        if program is None or self._stands_for_another(program, command):
            return None
        if given is None:
            rest = self._run_by_find(said)
            return replace(command, words=(program, *rest)) if rest is not None else None
        inner = self._program(given.inner, given.inner[0])
        if inner is None or (not given.nulls and not all(self._is_plain(given, command.folder))):
            return None
        return replace(command, words=(program, *given.own[1:], inner, *given.inner[1:]))

    def _program(self, said: tuple[str, ...], name: str) -> str | None:
        """A known reader that is not there is run all the same: that only says that it is not."""
        known = bool(reader_row(said)[0])
        return self._find(name, unshadowed=_is_unshadowed(said), or_missing=known)

    def _run_by_find(self, said: tuple[str, ...]) -> list[str] | None:
        """The words behind the program, with the programs that `find` runs by their paths."""
        words = list(said[1:])
        if said[0] != "find":
            return words
        for place in [at for at, word in enumerate(words[:-1]) if word == "-exec"]:
            program = self._program(tuple(words[place + 1 :]), words[place + 1])
            if program is None:
                return None
            words[place + 1] = program
        return words

    def _stands_for_another(self, program: str, command: PlainCommand) -> bool:
        """Whether it may be a shim, which the project tells what to run."""
        if not _is_unshadowed(command.words) or within(program, *_SYSTEM):
            return False
        folder = os.path.join(self._start, command.folder)
        why = list(made_to_run(CommandEffect(unless=SHIMS), [folder], self._root))
        self.doubts += why
        return bool(why)

    def _may_enter(self, folder: str) -> bool:
        path = os.path.join(self._start, folder)
        if self._is_kept_back(path) or not os.path.isdir(path):
            self.doubts.append(f"it changes to {folder}, which is not a folder in the workspace")
        return not self.doubts

    def _is_kept_back(self, path: str) -> bool:
        try:
            place = self._files.place(path)
        except (ToolError, OSError):
            return True
        return bool(place.outside or place.ignored or place.credential)

    def _is_plain(self, given: Fed, folder: str) -> Iterator[bool]:
        """Whether xargs takes each name below the folders for one word."""
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
                        if not self._looks.take() or (matches(entry.name) and _ODD & set(below)):
                            return below
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except OSError:
                continue  # what cannot be listed is not found either
        return ""


def _below(top: str) -> Callable[[str], str]:
    return lambda path: path.removeprefix(f"{top.rstrip('/')}/")


def _is_text(name: str) -> bool:
    return "\0" not in name


def _is_unshadowed(words: tuple[str, ...]) -> bool:
    row, _ = reader_row(words)
    return bool(row) and readers()[row].unshadowed


def _run_instead(words: tuple[str, ...]) -> tuple[str, ...]:
    """What is run for it: another program that does the same, or it with one more option."""
    row, _ = reader_row(words)
    reader = readers()[row] if row else Reader()
    if reader.instead:
        return (reader.instead, *(word for word in words[1:] if word[:1] != "-" or word == "-"))
    return (words[0], reader.lead, *words[1:]) if reader.lead else words
