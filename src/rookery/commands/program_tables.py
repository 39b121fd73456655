"""What is known of programs, from `tables/*.toml`: read once, when the first command is judged.

To add a program that only reads, add a row to `tables/readers.toml` and lines for it to
`tests/vectors/commands.yaml`. An unknown field or a faulty file is an error, never a row less.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, toml
from msgspec.structs import replace

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
