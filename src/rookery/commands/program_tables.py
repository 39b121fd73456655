"""What is known of programs, from `tables/*.toml`: read once, when the first command is judged.

To add a program that only reads, add a row to `tables/readers.toml` and lines for it to
`tests/vectors/commands.yaml`. An unknown field or a faulty file is an error, never a row less.

An approval of a project's tool covers the files that its program line names. `python3 -m pkg`
loads a folder of the project, which is covered too. What `make` or a script after `cd` loads is
not known here, so no approval can cover it.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, toml
from msgspec.structs import replace

from rookery.commands.words import Script, Word
from rookery.commands.wrappers import SHELLS, assignment, wrapped
from rookery.core.command_lines import program_name

_FOLDER = Path(__file__).with_name("tables")


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`also` are further names of the same row."""

    also: tuple[str, ...] = ()


class Reader(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a program is described that only reads: which options, and what its operands are.

    The kinds of values: NUM, COUNT that is no large number, LIST of numbers, TEXT, GLOB, PATH
    that is read, REV that git knows or a path, FORMAT of git, DATE format, KEY of git's settings,
    SED script and AWK program that only print, SET for a variable and its value, NAME of a
    package, JQ filter that comes to an end, FILE that is read and begins with no plus sign,
    ARCHIVE that is read here and not on another machine, COLUMNS and LETTERS of ps, GO variable.

    `operands` are their kinds in order, the last with a star for all that follow. `here`: it
    reads the current folder if it is given no path. `deep`: the options with which it reads all
    that is below a folder. `follows`: it follows links on the way.
    `argument_files`: it takes further words from a file that is named after an @.
    `whole_flags`: its options are words with one dash. `all_operands`: a dash means nothing to it.
    `signs` are words that are neither. `unless`: files of the project, as patterns, that would make
    it run something. `unshadowed`: it must be the program that a shell would find, so not if the
    workspace has another of the name. `instead`: the program that does the same with the operands
    alone, and is run in its place. `lead`: an option that is put before all others. `groups` are
    options that it shares with other rows of its file.
    """

    flags: str = ""
    operands: str = "PATH*"
    here: bool = False
    deep: str = ""
    follows: bool = False
    argument_files: bool = False
    whole_flags: bool = False
    all_operands: bool = False
    signs: str = ""
    unless: str = ""
    unshadowed: bool = False
    instead: str = ""
    lead: str = ""
    groups: tuple[str, ...] = ()


class OutputOptions(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`writes` are options with files or folders that are written, `runs` those with a program.
    `operands` tells which of the others are written: first, second, last, or all."""

    writes: str = ""
    runs: str = ""
    operands: str = ""


class Wrapper(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`valued` options take the next word. `skipped` operands come before the command."""

    valued: str = ""
    plain: str = ""
    skipped: int = 0
    appends: bool = False
    joins: bool = False


class _Readers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    programs: dict[str, Reader]
    no_help: str


class GitTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`silent`: commands that change things, with the options with which they print nothing."""

    local: str
    network: str
    silent: dict[str, str]
    groups: dict[str, str]
    programs: dict[str, Reader]


class _Versions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tools: str
    no_help: str
    chosen_by: str
    unless: dict[str, str]
    settings: dict[str, str]
    words: dict[str, str]

    def rows(self) -> Iterator[tuple[str, Reader]]:
        for name, unless in {**dict.fromkeys(self.tools.split(), ""), **self.unless}.items():
            files = unless or self.settings.get(name, "")
            row = Reader(operands="", unless=files, unshadowed=True)
            helps = name not in self.no_help.split() and unless in {"", self.chosen_by}
            words = ("--version", *self.words.get(name, "").split(), *(["--help"] * helps))
            yield from ((f"{name} {word}", row) for word in words)


class ToolTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`runners` run what files in the current folder say, `interpreters` the file they name."""

    runners: str
    interpreters: str
    versions: _Versions
    programs: dict[str, Reader]


class Effects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What programs do besides reading; the file says what each part is."""

    network: str
    reaches_anywhere: str
    copiers: tuple[str, ...]
    loose_wrappers: str
    options: dict[str, str]
    dangerous: dict[str, str]
    outputs: dict[str, OutputOptions]
    wrappers: dict[str, Wrapper]


Row = TypeVar("Row", bound=_Row)


@cache
def readers() -> Mapping[str, Reader]:
    """The programs that only read, by the words that a command begins with."""
    known, git = toml.decode(_file("readers"), type=_Readers), git_table()
    rows = {
        **_named(known.programs),
        **dict(tool_table().versions.rows()),
        **_named(tool_table().programs),
        **_named({name: _whole(row, git.groups) for name, row in git.programs.items()}),
    }
    plain = [name for name in rows if " " not in name and name not in known.no_help.split()]
    helped = Reader(operands="", unshadowed=True)
    return {**rows, **{f"{name} --help": helped for name in plain}}


@cache
def git_table() -> GitTable:
    return toml.decode(_file("git"), type=GitTable)


@cache
def tool_table() -> ToolTable:
    return toml.decode(_file("tools"), type=ToolTable)


@cache
def effects() -> Effects:
    read = toml.decode(_file("effects"), type=Effects)
    return replace(read, outputs=_named(read.outputs), wrappers=_named(read.wrappers))


@cache
def network_programs() -> frozenset[str]:
    return frozenset(effects().network.split())


@cache
def programs_that_reach_anywhere() -> frozenset[str]:
    return frozenset(effects().reaches_anywhere.split())


def _file(name: str) -> bytes:
    return (_FOLDER / f"{name}.toml").read_bytes()


def _named(rows: Mapping[str, Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for name, row in rows.items():
        found |= dict.fromkeys((name, *row.also), row)
    return found


def _whole(row: Reader, groups: Mapping[str, str]) -> Reader:
    return replace(row, flags=" ".join((*(groups[name] for name in row.groups), row.flags)))


MOST_FILES = 2_000
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_PYTHON_OPTIONS = "-u -B -I -E -s -S -P -O -OO -b -bb -q -v"
_SHELL_OPTIONS = "-e -u -x -eu -ex -ux -eux --norc --noprofile --posix"
_SHELL_WORDS = "cd pushd popd source . eval alias for case select function in"


class Loaded(Struct, frozen=True):
    """`paths` are files and folders of the workspace. `unknown` is the program that loads more,
    if one does."""

    paths: tuple[str, ...] = ()
    unknown: str = ""


def loaded_by(words: Sequence[str], root: str) -> Loaded:
    """What a command of these words loads when it runs in the workspace."""
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
        return Loaded(paths=tuple(_found_on_path(words[0], root)))
    guessed = inner.elsewhere or len(inner.commands) > 1
    if guessed or inner.folder or any(assignment(Word(word)) for word in words):
        return Loaded(unknown=name)
    commands = [[word.text for word in command] for command in inner.commands]
    scripts = [_by_text(script.text, root) for script in inner.scripts]
    return _together([*(loaded_by(each, root) for each in commands if each), *scripts])


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
    """A module of the workspace. One that is installed imports from the workspace first."""
    there = [name for name in (module, f"{module}.py") if os.path.exists(os.path.join(root, name))]
    usable = bool(module) and "/" not in module and there
    return _covered(words, there, root) if usable else Loaded(unknown=words[0])


def _by_file(words: Sequence[str], rest: Sequence[str], root: str) -> Loaded:
    """The first of the words that are left must be the program, or the folder it is in."""
    there = bool(rest) and os.path.exists(os.path.join(root, rest[0]))
    if not there or rest[0].startswith("-"):
        return Loaded(unknown=words[0])
    inside = os.path.relpath(os.path.join(root, rest[0]), root)
    return Loaded() if inside.startswith("..") else _covered(words, [inside], root)


def _covered(words: Sequence[str], paths: Sequence[str], root: str) -> Loaded:
    if any(path == "." or files_in(path, root) is None for path in paths):
        return Loaded(unknown=words[0])
    return Loaded(paths=tuple(paths))


def _by_text(text: str, root: str) -> Loaded:
    """What a script on the line runs, if all of it is known before it runs."""
    from rookery.commands.grammar import read

    line = read(Script(text), home="")
    said = [command.words for command in line.commands if command.words]
    unsure = line.doubts or line.runs or line.documents or line.redefines
    if unsure or not all(map(_is_known, said)):
        return Loaded(unknown=text)
    return _together(loaded_by([word.text for word in words], root) for words in said)


def _is_known(words: Sequence[Word]) -> bool:
    return words[0].known and all(word.known or word.pattern for word in words)


def _together(found: Iterable[Loaded]) -> Loaded:
    each = list(found)
    unknown = next((one.unknown for one in each if one.unknown), "")
    return Loaded(tuple(path for one in each for path in one.paths), unknown)


def _found_on_path(word: str, root: str) -> Iterator[str]:
    """The program itself, if it is found by its name in the workspace."""
    found = shutil.which(word) if "/" not in word else None
    if found and os.path.realpath(found).startswith(f"{root.rstrip('/')}/"):
        yield os.path.relpath(os.path.realpath(found), root)
