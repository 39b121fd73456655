"""The commands inside the commands of a line, and the folder each of them would run in.

Wrappers and shells run what they are given; it is read to a fixed depth and a fixed amount of
text, and what is beyond that is told as `too_deep`. `cd` holds for what comes after it in the
same shell, and a subshell starts where its parent is. If a `cd` may fail, what follows may run
in either folder; both are considered.
"""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from rookery.commands.grammar import read
from rookery.commands.grammar_nodes import unread_line, without_escapes
from rookery.commands.outputs import with_scripts
from rookery.commands.words import (
    ParsedLine,
    Script,
    SimpleCommand,
    Word,
    joined,
    spelled_out,
)
from rookery.commands.wrappers import SHELLS, Wrapped, wrapped
from rookery.core.command_lines import program_name
from rookery.core.limits import KIB

Scope = tuple[int, ...]
MOST = 8
UNKNOWN = ""
"""A folder that only shows when the line runs."""
_LONGEST = 1024
DEEPEST = 6
LINES_KEPT = 8
MOST_COMMANDS = 500
MOST_BEFORE = 8
MOST_TEXT = 64 * KIB
PRICE_OF_A_TEXT = 64
"""Of all texts that are handed from command to command, so many characters are read; each of
them takes some time however short it is."""
ELSEWHERE = -1
"""The scope of what runs on another machine: its paths are not ours."""


class WholeLine(Struct, frozen=True):
    """What follows from the text alone: the line, and the commands in it at any depth."""

    line: ParsedLine
    commands: tuple[SimpleCommand, ...]
    dangers: tuple[str, ...]
    too_deep: bool
    redefines: bool


@lru_cache(maxsize=LINES_KEPT)
def whole_line(text: str, home: str) -> WholeLine:
    """A line is judged when it is proposed and again before it runs; it is read once."""
    line = read(Script(text), home=home)
    nested = _NestedCommands(home)
    commands = tuple(nested.all_of(line))
    return WholeLine(line, commands, tuple(nested.dangers), nested.too_deep, nested.redefines)


class _NestedCommands:
    """Looks through wrappers, to a fixed depth and a fixed amount of text."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._scopes = 0
        self._unread = MOST_TEXT
        self.too_deep = False
        self.redefines = False
        self.dangers: list[str] = []

    def all_of(self, line: ParsedLine) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        waiting = list(self._opened(line, (), 0))[::-1]
        while waiting:
            said, depth = waiting.pop()
            command = SimpleCommand(spelled_out(said.words), said.redirections, said.scope)
            found.append(command)
            inner = with_scripts(wrapped(command.words), command.words)
            if inner is None:
                continue
            if depth >= DEEPEST or len(found) > MOST_COMMANDS:
                self.too_deep = self.too_deep or bool(inner.commands or inner.scripts)
                continue
            waiting += list(self._inside(command, inner, depth + 1))[::-1]
        return found

    def _inside(
        self, command: SimpleCommand, inner: Wrapped, depth: int
    ) -> Iterator[tuple[SimpleCommand, int]]:
        scope = (ELSEWHERE,) if inner.elsewhere else self._own_scope(command.scope)
        if inner.folder:
            yield SimpleCommand((Word("cd"), inner.folder), (), scope), depth
        for said in inner.commands:
            yield SimpleCommand(said, (), scope), depth
        for script in _readings(inner.scripts):
            yield from self._opened(self._read(script), scope, depth)

    def _opened(
        self, line: ParsedLine, scope: Scope, depth: int
    ) -> Iterator[tuple[SimpleCommand, int]]:
        """The commands of a line, and of the texts in it that a shell reads as well."""
        self.dangers += line.dangers
        self.redefines = self.redefines or line.redefines
        for one in line.commands:
            yield SimpleCommand(one.words, one.redirections, (*scope, *one.scope)), depth
        scripts = [*map(Script, line.runs), *_readings(_handed_to_shells(line))][::-1]
        while scripts:
            if depth >= DEEPEST:
                self.too_deep = True
                return
            if self._unread < 0:
                scripts = [Script("\n".join(one.text for one in reversed(scripts)))]
            inner = self._read(scripts.pop())
            yield from self._opened(inner, self._own_scope(scope), depth + 1)

    def _own_scope(self, scope: Scope) -> Scope:
        self._scopes -= 1
        return (*scope, self._scopes * 2)

    def _read(self, script: Script) -> ParsedLine:
        self._unread -= len(script.text) + PRICE_OF_A_TEXT
        if self._unread < 0:
            return unread_line(script.text, "it has too much text to be checked", self._home)
        return read(script, home=self._home)


def _readings(scripts: Iterable[Script]) -> Iterator[Script]:
    """Each of them, and what it is if nothing is put in where something may be."""
    for script in scripts:
        yield script
        if not script.known and script.without.strip():
            yield Script(script.without)


def _handed_to_shells(line: ParsedLine) -> Iterator[Script]:
    """What is written into the line for a shell in it to read."""
    names = {program_name(word.text) for one in line.commands for word in one.words[:MOST_BEFORE]}
    if not names & {*SHELLS, "source", "."}:
        return
    for one in line.commands:
        if one.words and one.words[0].text in {"echo", "printf"}:
            scripts = [*(word.script for word in one.words[1:]), joined(one.words[1:])]
            yield from scripts
            yield from (_printed(script) for script in scripts if "\\" in script.text)
    yield from line.documents


def _printed(script: Script) -> Script:
    return Script(without_escapes(script.text), script.known, without_escapes(script.without))


class Folders:
    def __init__(self, start: str, home: str) -> None:
        self._at: dict[Scope, tuple[str, ...]] = {(): (start,)}
        self._seen = {start: None}
        self._home = home

    def of(self, command: SimpleCommand) -> tuple[str, ...]:
        """The folders it may run in; then it is gone by, if it is a `cd`."""
        scope = command.scope
        while scope not in self._at:
            scope = scope[:-1]
        folders = self._at[scope]
        self._at.setdefault(command.scope, folders)
        if command.words and program_name(command.words[0].text) in {
            "cd",
            "pushd",
            "popd",
            "chdir",
        }:
            after = self._after(folders, command.words)
            self._seen |= dict.fromkeys(after)
            self._at[command.scope] = after
        return folders

    def _after(self, folders: tuple[str, ...], words: tuple[Word, ...]) -> tuple[str, ...]:
        operands = [word for word in words[1:] if word.text in {"-", "~-"} or word.text[:1] != "-"]
        if words[0].text == "popd" or [word.text for word in operands[:1]] == ["-"]:
            return tuple(self._seen)
        if not operands:
            return (self._home,)
        return entered(folders, operands[0])


def entered(folders: tuple[str, ...], word: Word) -> tuple[str, ...]:
    """Where one is after entering a folder, as far as that can be known."""
    if not word.known:
        return tuple(dict.fromkeys((*folders, UNKNOWN)))
    if len(folders) > MOST or any(len(folder) > _LONGEST for folder in folders):
        return (*folders[:MOST], UNKNOWN)
    found = [way for folder in folders for way in _ways(folder, word.text)]
    if all(folder and os.path.isdir(folder) for folder in found):
        return tuple(dict.fromkeys(found))
    return tuple(dict.fromkeys((*found, *folders)))


def _ways(folder: str, said: str) -> tuple[str, ...]:
    """A shell takes `..` for what stands before it in the path, the system for where a link
    has led to."""
    if not folder and not os.path.isabs(said):
        return (UNKNOWN,)
    joined = os.path.join(folder, said)
    return (joined, os.path.normpath(joined)) if ".." in said.split("/") else (joined,)
