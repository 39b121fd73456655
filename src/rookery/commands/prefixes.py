"""Rules for all commands that begin with the same words, such as `cargo test …`.

`prefix_of` decides both what a rule would say and what it covers: a rule covers a command if the
command's own prefix is the rule. So a rule never reaches another sub-command. Only programs listed
in `tables/prefixes.toml` have a prefix, and only without options or paths that lead elsewhere.
"""

import os.path
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, toml
from msgspec.structs import replace

from rookery.commands.program_tables import table_file, tool_table
from rookery.commands.programs import known_reader, reading
from rookery.commands.words import words
from rookery.commands.wrappers import SHELLS
from rookery.engine.ports.actions import Judgement, PlainCommand
from rookery.first_use import lazy_pattern, prepared

_SCRIPT = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_:-]*")
_LETTERS = lazy_pattern(r"-[A-Za-z0-9]+")
_SAME_IN_A_SHELL = lazy_pattern(r"[A-Za-z0-9_./:,@%+= -]*")
_SEPARATORS = lazy_pattern(r"[=:,@\s]")


class PrefixRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program of the table; the fields are described there."""

    also: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    never: str = ""
    whole_flags: bool = False
    target: bool = False
    runs: tuple[str, ...] = ()
    behind: str = ""


@cache
def prefix_table() -> dict[str, PrefixRow]:
    rows = toml.decode(table_file("prefixes"), type=prepared(dict[str, PrefixRow]))
    own = {main: row.never for main, row in rows.items()}
    return {
        name: replace(row, never=" ".join([row.never, *(own[each] for each in row.tools)]))
        for main, row in rows.items()
        for name in (main, *row.also)
    }


def prefix_in(judged: Judgement, root: Path) -> str:
    """The prefix of the one command of a line that needs a rule; empty if there is none, or more
    than one, or if something else in the line matters."""
    if judged.written is None or judged.spelled is None or judged.dangers or judged.needs_keys:
        return ""
    found = {
        prefix_of(command, root)
        for pipeline in judged.written
        for place, command in enumerate(pipeline.commands)
        if not is_filter(place, command)
    }
    return " ".join(found.pop()) if len(found) == 1 and leads_nowhere(judged) else ""


def leads_nowhere(judged: Judgement) -> bool:
    """Whether the line names nothing outside the workspace, as far as is known."""
    return not any(target.outside for target in judged.targets)


def is_filter(place: int, command: PlainCommand) -> bool:
    """Whether the command behind a pipe only reads what it is given: `| tail -20`."""
    if place == 0 or command.source or command.patterns or not known_reader(command.words):
        return False
    read = reading(words(command.words))
    return read.reads_only and not read.operands


def prefix_of(command: PlainCommand, root: Path) -> tuple[str, ...]:
    """The words that a rule for commands like this one consists of; none if there can be none."""
    if command.source or command.patterns or _leads_out(command.folder, root):
        return ()
    return _prefix(command.words, root)


def _prefix(argv: Sequence[str], root: Path) -> tuple[str, ...]:
    row = prefix_table().get(argv[0])
    if row is None:
        return ()
    match argv:
        case [name, word, program, *_] if word == row.behind and program in row.runs:
            inner = _prefix(argv[2:], root)
            return (name, word, *inner) if inner else ()
    prefix = _first_words(row, argv)
    rest = argv[len(prefix) :]
    return () if not prefix or any(_leads_elsewhere(row, word, root) for word in rest) else prefix


def _first_words(row: PrefixRow, argv: Sequence[str]) -> tuple[str, ...]:
    match argv:
        case [name, target, *rest] if row.target:
            alone = _SCRIPT.fullmatch(target) and all(word.startswith("-") for word in rest)
            return (name, target) if alone else ()
        case [name, word, script, *_] if word in row.scripts:
            runs_code = script in SHELLS or script in tool_table().interpreters.split()
            return (name, word, script) if _SCRIPT.fullmatch(script) and not runs_code else ()
        case [name, word, *_] if word in row.commands:
            return (name, word)
        case [name, *_] if "" in row.commands:
            return (name,)
        case _:
            return ()


def _leads_elsewhere(row: PrefixRow, word: str, root: Path) -> bool:
    if row.tools and not _SAME_IN_A_SHELL.fullmatch(word):
        return True  # some versions put the word into a shell's line without quotes
    if not word.startswith("-"):
        return _names_elsewhere(word, root)
    name, *value = _SEPARATORS.split(word, maxsplit=1)
    if word.startswith("--") or row.whole_flags:
        return _is_never(row, name) or any(_names_elsewhere(each, root) for each in value)
    letters = {each[1] for each in row.never.split() if len(each) == 2}
    return bool(letters & set(name[1:])) or not _LETTERS.fullmatch(word)


def _names_elsewhere(word: str, root: Path) -> bool:
    """Whether an argument, or the value of an option, names a place outside or more options. A
    word such as @file stands for further options in that file."""
    parts = _SEPARATORS.split(word)
    return word.startswith("@") or any(
        part.startswith("-") or _leads_out(part, root) for part in parts
    )


def _is_never(row: PrefixRow, option: str) -> bool:
    """Whether the option leads elsewhere. Programs understand `--root-dir` for `--rootDir`, options
    that are written out only in part, and `--config.key` for a part of `--config`."""
    said = _folded(option)
    for each in map(_folded, row.never.split() if said else ()):
        if said == each or said.startswith(f"{each}."):
            return True
        if each.startswith(said) and not row.whole_flags and "." not in each[len(said) :]:
            return True
    return False


def _folded(option: str) -> str:
    return option.lower().replace("-", "").replace("_", "")


def _leads_out(path: str, root: Path) -> bool:
    """Whether a word may be a path that leaves the workspace."""
    if path.startswith(("~", "//")) or "://" in path:
        return True
    inside = os.path.normpath(os.path.join(root, path))
    return ".." in path.split("/") or not f"{inside}/".startswith(f"{root}/")
