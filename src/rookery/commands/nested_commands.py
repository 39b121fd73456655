"""Finds commands nested in the commands of a line, and the folder each of them runs in.

The arguments of wrappers and shells are parsed to a fixed depth and a fixed amount of text;
anything beyond is reported as `too_deep`. `cd` applies to what follows in the same shell, and a
subshell starts in its parent's folder. If a `cd` may fail, both folders are considered.
"""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from rookery.commands.grammar import read
from rookery.commands.grammar_nodes import expand_escapes, unparsed_line
from rookery.commands.outputs import with_scripts
from rookery.commands.words import (
    ParsedLine,
    Script,
    SimpleCommand,
    Word,
    expand_braces,
    join_words,
)
from rookery.commands.wrappers import SHELLS, Wrapped, wrapped
from rookery.core.limits import KIB
from rookery.engine.ports.actions import program_name

Scope = tuple[int, ...]
MOST = 8
UNKNOWN = ""
"""A folder that is known only when the line runs."""
_LONGEST = 1024
DEEPEST = 6
LINES_KEPT = 8
MOST_COMMANDS = 500
MOST_BEFORE = 8
MOST_TEXT = 64 * KIB
TEXT_COST = 64
"""Counted for each nested text against `MOST_TEXT`, since even a short one takes time to parse."""
ELSEWHERE = -1
"""The scope of commands that run on another machine, whose paths are not ours."""


class WholeLine(Struct, frozen=True):
    """The parsed line, and the commands in it at any depth."""

    line: ParsedLine
    commands: tuple[SimpleCommand, ...]
    dangers: tuple[str, ...]
    too_deep: bool
    redefines: bool


@lru_cache(maxsize=LINES_KEPT)
def whole_line(text: str, home: str) -> WholeLine:
    """Parse a line. Cached, because a line is judged when it is proposed and again before it
    runs."""
    line = read(Script(text), home=home)
    nested = _NestedCommands(home)
    commands = tuple(nested.all_of(line))
    return WholeLine(line, commands, tuple(nested.dangers), nested.too_deep, nested.redefines)


class _NestedCommands:
    """Expands wrappers, to a fixed depth and a fixed amount of text."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._scopes = 0
        self._unread = MOST_TEXT
        self.too_deep = False
        self.redefines = False
        self.dangers: list[str] = []

    def all_of(self, line: ParsedLine) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        waiting = list(self._commands_of(line, (), 0))[::-1]
        while waiting:
            written, depth = waiting.pop()
            words = expand_braces(written.words)
            command = SimpleCommand(words, written.redirections, written.scope)
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
        for words in inner.commands:
            yield SimpleCommand(words, (), scope), depth
        for script in _script_variants(inner.scripts):
            yield from self._commands_of(self._read(script), scope, depth)

    def _commands_of(
        self, line: ParsedLine, scope: Scope, depth: int
    ) -> Iterator[tuple[SimpleCommand, int]]:
        """The commands of a line, and of the texts in it that a shell would run."""
        self.dangers += line.dangers
        self.redefines = self.redefines or line.redefines
        for one in line.commands:
            yield SimpleCommand(one.words, one.redirections, (*scope, *one.scope)), depth
        scripts = [*map(Script, line.runs), *_script_variants(_scripts_for_shells(line))][::-1]
        while scripts:
            if depth >= DEEPEST:
                self.too_deep = True
                return
            if self._unread < 0:
                scripts = [Script("\n".join(one.text for one in reversed(scripts)))]
            inner = self._read(scripts.pop())
            yield from self._commands_of(inner, self._own_scope(scope), depth + 1)

    def _own_scope(self, scope: Scope) -> Scope:
        self._scopes -= 1
        return (*scope, self._scopes * 2)

    def _read(self, script: Script) -> ParsedLine:
        self._unread -= len(script.text) + TEXT_COST
        if self._unread < 0:
            return unparsed_line(script.text, "it has too much text to be checked", self._home)
        return read(script, home=self._home)


def _script_variants(scripts: Iterable[Script]) -> Iterator[Script]:
    """Each script, and the script with its unknown parts left out."""
    for script in scripts:
        yield script
        if not script.known and script.without.strip():
            yield Script(script.without)


def _scripts_for_shells(line: ParsedLine) -> Iterator[Script]:
    """Texts in the line that are passed to a shell in it."""
    names = {program_name(word.text) for one in line.commands for word in one.words[:MOST_BEFORE]}
    if not names & {*SHELLS, "source", "."}:
        return
    for one in line.commands:
        if one.words and one.words[0].text in {"echo", "printf"}:
            scripts = [*(word.script for word in one.words[1:]), join_words(one.words[1:])]
            yield from scripts
            yield from (_printed(script) for script in scripts if "\\" in script.text)
    yield from line.documents


def _printed(script: Script) -> Script:
    return Script(expand_escapes(script.text), script.known, expand_escapes(script.without))


class Folders:
    def __init__(self, start: str, home: str) -> None:
        self._at: dict[Scope, tuple[str, ...]] = {(): (start,)}
        self._seen = {start: None}
        self._home = home

    def of(self, command: SimpleCommand) -> tuple[str, ...]:
        """The folders the command may run in. If it is a `cd`, it is applied to what follows."""
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
            after = self._folders_after(folders, command.words)
            self._seen |= dict.fromkeys(after)
            self._at[command.scope] = after
        return folders

    def _folders_after(self, folders: tuple[str, ...], words: tuple[Word, ...]) -> tuple[str, ...]:
        operands = [word for word in words[1:] if word.text in {"-", "~-"} or word.text[:1] != "-"]
        if words[0].text == "popd" or [word.text for word in operands[:1]] == ["-"]:
            return tuple(self._seen)
        if not operands:
            return (self._home,)
        return folders_after_cd(folders, operands[0])


def folders_after_cd(folders: tuple[str, ...], word: Word) -> tuple[str, ...]:
    """The folders that `cd WORD` may lead to."""
    if not word.known:
        return tuple(dict.fromkeys((*folders, UNKNOWN)))
    if len(folders) > MOST or any(len(folder) > _LONGEST for folder in folders):
        return (*folders[:MOST], UNKNOWN)
    found = [way for folder in folders for way in _cd_targets(folder, word.text)]
    if all(folder and os.path.isdir(folder) for folder in found):
        return tuple(dict.fromkeys(found))
    return tuple(dict.fromkeys((*found, *folders)))


def _cd_targets(folder: str, path: str) -> tuple[str, ...]:
    """A shell resolves `..` by the path's text, the kernel after following links."""
    if not folder and not os.path.isabs(path):
        return (UNKNOWN,)
    target = os.path.join(folder, path)
    return (target, os.path.normpath(target)) if ".." in path.split("/") else (target,)
