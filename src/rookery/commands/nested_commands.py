"""Finds commands nested in the commands of a line, and the folder each of them runs in.

The arguments of wrappers and shells are parsed to a fixed depth and a fixed amount of text;
anything beyond is reported as `too_deep`. `cd` applies to what follows in the same shell, and a
subshell starts in its parent's folder. If a `cd` may fail, both folders are considered.

`loaded_by` finds the project files that the command line of a project's tool loads without naming
them. An approval covers the files that the line names, and the folder that `python3 -m pkg` loads.
What `make` or a script after `cd` loads is not known, so no approval can cover it.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile, islice

from msgspec import Struct

from rookery.commands.grammar import read
from rookery.commands.grammar_nodes import expand_escapes, unparsed_line
from rookery.commands.outputs import with_scripts
from rookery.commands.program_tables import tool_table
from rookery.commands.words import (
    ParsedLine,
    Script,
    SimpleCommand,
    Word,
    expand_braces,
    join_words,
)
from rookery.commands.wrappers import SHELLS, Wrapped, assignment, wrapped
from rookery.core.limits import KIB
from rookery.engine.ports.actions import program_name
from rookery.first_use import lazy_pattern

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


_BEFORE_CD = ("builtin", "command", "eval", "time", "-p", "--")


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
        words = tuple(dropwhile(lambda word: word.text in _BEFORE_CD, command.words))
        if words and program_name(words[0].text) in {"cd", "pushd", "popd", "chdir"}:
            after = self._folders_after(folders, words)
            self._seen |= dict.fromkeys(after)
            self._at[command.scope] = after
        return folders

    def _folders_after(self, folders: tuple[str, ...], words: tuple[Word, ...]) -> tuple[str, ...]:
        operands = [word for word in words[1:] if word.text in {"-", "~-"} or word.text[:1] != "-"]
        if words[0].text == "popd" or [word.text for word in operands[:1]] == ["-"]:
            return tuple(self._seen)
        if not operands:
            return (self._home,)
        after = folders_after_cd(folders, operands[0])
        return after if len(operands) == 1 else tuple(dict.fromkeys((*after, *folders)))


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


MOST_FILES = 2_000
_PYTHON = lazy_pattern(r"(?:python|pypy)[0-9.]*")
_PYTHON_OPTIONS = "-u -B -I -E -s -S -P -O -OO -b -bb -q -v"
_SHELL_OPTIONS = "-e -u -x -eu -ex -ux -eux --norc --noprofile --posix"
_SHELL_WORDS = "cd pushd popd source . eval alias for case select function in"


class Loaded(Struct, frozen=True):
    """`paths` are files and folders of the workspace. `unknown` is the program that may load
    more."""

    paths: tuple[str, ...] = ()
    unknown: str = ""


def loaded_by(words: Sequence[str], root: str) -> Loaded:
    """Return what the command loads when it runs in the workspace."""
    name = program_name(words[0])
    runs_more = name in tool_table().runners.split() or name in _SHELL_WORDS.split()
    if runs_more or "$" in words[0] or assignment(Word(words[0])):
        return Loaded(unknown=name)
    if name in SHELLS:
        return _by_shell(words, root)
    if _PYTHON.fullmatch(name):
        return _by_python(words, root)
    if name in tool_table().interpreters.split():
        return _by_file(words, words[1:], root)
    if (inner := wrapped(tuple(map(Word, words)))) is None:
        return Loaded(paths=tuple(_program_in_workspace(words[0], root)))
    guessed = inner.elsewhere or len(inner.commands) > 1
    if guessed or inner.folder or any(assignment(Word(word)) for word in words):
        return Loaded(unknown=name)
    commands = [[word.text for word in command] for command in inner.commands]
    scripts = [_by_text(script.text, root) for script in inner.scripts]
    return _merge([*(loaded_by(each, root) for each in commands if each), *scripts])


def files_in(path: str, root: str) -> list[str] | None:
    """The file, or all files below the folder, relative to the workspace; None if too many."""
    whole = os.path.join(root, path)
    if not os.path.isdir(whole):
        return [path]
    found = [os.path.relpath(each, root) for each in islice(_below(whole), MOST_FILES + 1)]
    return found if len(found) <= MOST_FILES else None


def _below(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        yield from (os.path.join(where, name) for name in (*names, *links))


def _by_shell(words: Sequence[str], root: str) -> Loaded:
    for place, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[eux]*c", word):
            texts = words[place + 1 : place + 2]
            return _by_text(texts[0], root) if texts else Loaded(unknown=words[0])
        if word not in _SHELL_OPTIONS.split():
            return _by_file(words, words[place:], root)
    return Loaded(unknown=words[0])


def _by_python(words: Sequence[str], root: str) -> Loaded:
    rest = list(words[1:])
    while rest and rest[0] in _PYTHON_OPTIONS.split():
        rest.pop(0)
    if rest and rest[0].startswith("-m"):
        module = rest[0][2:] or "".join(rest[1:2])
        return _by_module(words, module.partition(".")[0], root)
    return _by_file(words, rest, root)


def _by_module(words: Sequence[str], module: str, root: str) -> Loaded:
    """A module of the workspace. Unknown for an installed one, as it imports from the workspace
    first."""
    there = [name for name in (module, f"{module}.py") if os.path.exists(os.path.join(root, name))]
    usable = bool(module) and "/" not in module and there
    return _loaded_paths(words, there, root) if usable else Loaded(unknown=words[0])


def _by_file(words: Sequence[str], rest: Sequence[str], root: str) -> Loaded:
    """The first remaining word must be the program, or the folder that contains it."""
    there = bool(rest) and os.path.exists(os.path.join(root, rest[0]))
    if not there or rest[0].startswith("-"):
        return Loaded(unknown=words[0])
    inside = os.path.relpath(os.path.join(root, rest[0]), root)
    return Loaded() if inside.startswith("..") else _loaded_paths(words, [inside], root)


def _loaded_paths(words: Sequence[str], paths: Sequence[str], root: str) -> Loaded:
    if any(path == "." or files_in(path, root) is None for path in paths):
        return Loaded(unknown=words[0])
    return Loaded(paths=tuple(paths))


def _by_text(text: str, root: str) -> Loaded:
    """What a script in the line loads, if all of it is known before it runs."""
    line = read(Script(text), home="")
    commands = [command.words for command in line.commands if command.words]
    unsure = line.doubts or line.runs or line.documents or line.redefines
    if unsure or not all(map(_is_known, commands)):
        return Loaded(unknown=text)
    return _merge(loaded_by([word.text for word in words], root) for words in commands)


def _is_known(words: Sequence[Word]) -> bool:
    return words[0].known and all(word.known or word.pattern for word in words)


def _merge(found: Iterable[Loaded]) -> Loaded:
    each = list(found)
    unknown = next((one.unknown for one in each if one.unknown), "")
    return Loaded(tuple(path for one in each for path in one.paths), unknown)


def _program_in_workspace(word: str, root: str) -> Iterator[str]:
    """The program itself, if its name is found in a folder of the workspace."""
    found = shutil.which(word) if "/" not in word else None
    if found and os.path.realpath(found).startswith(f"{root.rstrip('/')}/"):
        yield os.path.relpath(os.path.realpath(found), root)
