"""What is known about programs, loaded from `tables/*.toml` when the first command is judged.

To add a program that only reads, add a row to `tables/readers.toml` and lines for it to
`tests/vectors/commands.yaml`. An unknown field or an invalid file is an error.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, toml
from msgspec.structs import replace

from rookery.engine.ports.actions import Deed
from rookery.first_use import prepared

_FOLDER = Path(__file__).with_name("tables")


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`also` are further names for the same row."""

    also: tuple[str, ...] = ()


class Reader(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that only reads: its options, and the kinds of its operands.

    Kinds of values: NUM; COUNT, a number up to a million; LIST of numbers; TEXT; GLOB; PATH that is
    read; REV, a git revision or a path; FORMAT of git; DATE format; KEY of git's settings; SED
    script and AWK program that only print; SET, a variable and its value; NAME of a package; JQ
    filter that terminates; FILE, a path that does not start with a plus sign; ARCHIVE, a path
    without a host; COLUMNS and LETTERS of ps; GO variable.

    `operands` are their kinds in order; a star marks the kind of all that follow. `here`: reads the
    current folder if no path is given. `deep`: the options with which it reads folders recursively.
    `follows`: follows symbolic links. `argument_files`: reads further arguments from @FILE.
    `whole_flags`: options are whole words with one dash. `all_operands`: has no options. `signs`
    are words that are neither options nor operands. `unless`: patterns of project files that would
    make it run something. `unshadowed`: only if a shell would find the same program, and not
    another one in the workspace. `instead`: the program to run in its place, with the operands
    only. `lead`: an option to add in front. `groups`: option groups of the file that it shares.
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
    """`writes` are options that name output files or folders, `runs` options that name a
    program. `operands` says which operands are written: first, second, last or all."""

    writes: str = ""
    runs: str = ""
    operands: str = ""


class Changer(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that does the same with each of its operands."""

    deed: Deed
    valued: str = ""
    skipped: int = 0
    deep: bool = False


class Wrapper(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`valued` options take the next word. `skipped` is the number of operands before the
    command."""

    valued: str = ""
    plain: str = ""
    skipped: int = 0
    appends: bool = False
    joins: bool = False


class _Readers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    programs: dict[str, Reader]
    no_help: str


class GitTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`silent` maps commands that change things to the options with which they print no
    contents."""

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
    """`runners` run what files in the current folder say, `interpreters` run the file they are
    given."""

    runners: str
    interpreters: str
    versions: _Versions
    programs: dict[str, Reader]


class Effects(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What programs do besides reading. The comments in the file describe each field."""

    network: str
    reaches_anywhere: str
    copiers: tuple[str, ...]
    loose_wrappers: str
    options: dict[str, str]
    changers: dict[str, Changer]
    dangerous: dict[str, str]
    outputs: dict[str, OutputOptions]
    wrappers: dict[str, Wrapper]


Row = TypeVar("Row", bound=_Row)


@cache
def readers() -> Mapping[str, Reader]:
    """The programs that only read, by the first words of a command."""
    known, git = toml.decode(table_file("readers"), type=prepared(_Readers)), git_table()
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
    return toml.decode(table_file("git"), type=prepared(GitTable))


@cache
def tool_table() -> ToolTable:
    return toml.decode(table_file("tools"), type=prepared(ToolTable))


@cache
def effects() -> Effects:
    read = toml.decode(table_file("effects"), type=prepared(Effects))
    return replace(
        read,
        changers=_named(read.changers),
        outputs=_named(read.outputs),
        wrappers=_named(read.wrappers),
    )


@cache
def network_programs() -> frozenset[str]:
    return frozenset(effects().network.split())


@cache
def programs_that_reach_anywhere() -> frozenset[str]:
    return frozenset(effects().reaches_anywhere.split())


def table_file(name: str) -> bytes:
    return (_FOLDER / f"{name}.toml").read_bytes()


def _named(rows: Mapping[str, Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for name, row in rows.items():
        found |= dict.fromkeys((name, *row.also), row)
    return found


def _whole(row: Reader, groups: Mapping[str, str]) -> Reader:
    return replace(row, flags=" ".join((*(groups[name] for name in row.groups), row.flags)))
