"""Which project files the command line of a project's tool loads without naming them.

An approval covers the files that the line names, and the folder that `python3 -m pkg` loads. What
`make` or a script after `cd` loads is not known, so no approval can cover it.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from rookery.commands.program_tables import tool_table
from rookery.commands.words import Script, Word
from rookery.commands.wrappers import SHELLS, assignment, wrapped
from rookery.engine.ports.actions import program_name

MOST_FILES = 2_000
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
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
    from rookery.commands.grammar import read

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
