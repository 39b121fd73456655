"""`find ... | xargs reader`: which files the reader gets, if that is certain.

Names printed by `find` start with its starting point, so a file name cannot look like an option.
But xargs splits names with blanks or quotes, unless they end with a zero byte. Other listers, and
the filters after them, are therefore given the option for that, and the reader gets the names after
`--`. A git index may contain any name, so names that lead elsewhere are filtered out.
"""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.program_tables import readers
from rookery.commands.programs import reader_row, reading
from rookery.commands.words import Word, words
from rookery.commands.wrappers import only_name
from rookery.engine.ports.actions import Pipeline, PlainCommand
from rookery.first_use import lazy_pattern

_ALONE = {"-0", "--null", "-r", "--no-run-if-empty", "-t"}
_COUNTED = {"-n", "-P", "-L", "--max-args", "--max-procs", "--max-lines"}
_NULLS = {"-0", "--null"}
_OTHER_OUTPUT = {"-printf", "-ls", "-quit", "-exec"}
_FILTERS = {
    "head": r"-n|-z|-?[0-9]+",
    "tail": r"-n|-z|\+?-?[0-9]+",
    "sort": r"-[urnfz]+",
    "uniq": r"-z",
    "grep": r"-[viEFwz]+|[^-].*",
}
"""Filters that pass whole lines, with the pattern of their allowed arguments."""
_ELSEWHERE = PlainCommand(("grep", "-z", "-v", "-E", r"^/|(^|/)(\.\.|\.git)(/|$)"))


class _Lister(Struct, frozen=True):
    """A program that prints only file names.

    `zero` is the option to end names with a zero byte, `options` the pattern of its allowed options
    and `needed` of one that must be present. `most` is the number of other words it may have.
    `indexed`: the names come from git's index.
    """

    zero: str
    options: str
    needed: str = ""
    most: int = 99
    indexed: bool = False


_LISTERS = {
    "git ls-files": _Lister(
        "-z", r"-[zcomd]+|--(cached|others|modified|exclude-standard)|--", indexed=True
    ),
    "git grep": _Lister("-z", r"-[liEFPwvIz]+", r"-\w*l\w*", most=1, indexed=True),
    "grep": _Lister("-Z", r"-[rlLiwxEFPvsIZ]+|--(in|ex)clude(-dir)?=.*", r"-\w*[lL]\w*"),
    "rg --files": _Lister("-0", r"-[0.]+|-[gtT]|--hidden|--(i?glob|type)=.*"),
    "rg": _Lister("-0", r"-[liwFsSv0.]+|-[gtT]|--hidden|--(i?glob|type)=.*", r"-\w*l\w*"),
}
_PATHSPEC = lazy_pattern(r"(?![:/])(?!.*\.\.).+", re.S)
_READS_FILES = {"PATH*", "TEXT PATH*"}


class XargsInput(Struct, frozen=True):
    """An xargs command: `own` are its own words, `inner` those of the reader, `before` the
    commands that list the files, as they are run. `starts` are the folders of the files.
    `nulls`: names end with a zero byte, so each is one argument."""

    own: tuple[str, ...]
    inner: tuple[str, ...]
    before: tuple[PlainCommand, ...]
    starts: tuple[Word, ...]
    nulls: bool


def parse_xargs(pipeline: Pipeline, place: int) -> XargsInput | None:
    """Parse the command at this position, if it is xargs with a reader after a lister."""
    command, before = pipeline.commands[place], pipeline.commands[:place]
    if command.words[0] != "xargs" or not before or command.patterns or command.source:
        return None
    if any(one.source or one.errors == "with output" for one in before):
        return None  # xargs would get other lines too
    own, inner = _split(command.words)
    nulls = bool(_NULLS & set(own))
    if not all(_filters(one) and ("-z" in one.words) == nulls for one in before[1:]):
        return None
    if before[0].words[0] == "find":
        starts = _starts(before[0])
        given = XargsInput(own, inner, before, starts, nulls)
        printed = "-print0" in before[0].words
        return given if starts and printed == nulls and _takes_paths(inner, starts) else None
    return _parse_lister(own, inner, before)


def with_null_names(pipeline: Pipeline) -> Pipeline:
    """Make names end with a zero byte, if they go to xargs and do not come from `find`."""
    for place, command in enumerate(pipeline.commands):
        if given := parse_xargs(pipeline, place):
            xargs = replace(command, words=(*given.own, *given.inner))
            rest = pipeline.commands[place + 1 :]
            return replace(pipeline, commands=(*given.before, xargs, *rest))
    return pipeline


def _parse_lister(
    own: tuple[str, ...], inner: tuple[str, ...], before: tuple[PlainCommand, ...]
) -> XargsInput | None:
    first, filters = before[0], before[1:]
    row, used = reader_row(first.words)
    lister = _LISTERS.get(row)
    starts = _listed_folders(lister, first, used) if lister else ()
    if lister is None or not starts or not _takes_paths(inner, starts):
        return None
    zero = re.compile(rf"-\w*{lister.zero[1]}\w*")
    has_option = any(map(zero.fullmatch, first.words))
    if has_option != bool(_NULLS & set(own)) or not _takes_files_after_dashes(inner):
        return None
    checked = filters[:1] == (_ELSEWHERE,) or not lister.indexed
    words_first = (*first.words[:used], lister.zero, *first.words[used:])
    return XargsInput(
        own if has_option else (own[0], "-0", *own[1:]),
        inner if "--" in inner else (*inner, "--"),
        (
            first if has_option else replace(first, words=words_first),
            *(() if checked else (_ELSEWHERE,)),
            *map(_with_null_option, filters),
        ),
        starts,
        True,
    )


def _listed_folders(lister: _Lister, command: PlainCommand, used: int) -> tuple[Word, ...]:
    """The folders of the printed files; empty if it may print anything else."""
    arguments = command.words[used:]
    options = [word for word in arguments if word.startswith("-")]
    others = [word for word in arguments if not word.startswith("-")]
    effect = reading(words(command.words))
    if command.patterns or not effect.reads_only or len(others) > lister.most:
        return ()
    if not all(re.fullmatch(lister.options, word) for word in options):
        return ()
    if lister.needed and not any(re.fullmatch(lister.needed, word) for word in options):
        return ()
    if not lister.indexed:
        return tuple(replace(one.word, below="*") for one in effect.operands)
    return (Word(".", below="*"),) if all(map(_PATHSPEC.fullmatch, others)) else ()


def _with_null_option(command: PlainCommand) -> PlainCommand:
    name, *rest = command.words
    if "-z" in rest:
        return command
    counted = [["-n", word[1:]] if re.fullmatch("-[0-9]+", word) else [word] for word in rest]
    return replace(command, words=(name, "-z", *(word for each in counted for word in each)))


def _takes_paths(inner: Sequence[str], starts: Sequence[Word]) -> bool:
    row, _ = reader_row(inner)
    if not row or row.startswith("git") or not readers()[row].operands.endswith("PATH*"):
        return False
    return reading([*words(inner), *starts]).reads_only


def _takes_files_after_dashes(inner: Sequence[str]) -> bool:
    """Whether everything after `--` is a file for it."""
    reader = readers()[reader_row(inner)[0]]
    return reader.operands in _READS_FILES and not (reader.whole_flags or reader.all_operands)


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of xargs, and the command after them; no command if an option is unknown."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] in _ALONE or re.fullmatch(r"-[nPL][0-9]+", words[at]):
            at += 1
        elif words[at] in _COUNTED and at + 1 < len(words) and words[at + 1].isdigit():
            at += 2
        else:
            return tuple(words), ()
    return tuple(words[:at]), tuple(words[at:])


def _starts(command: PlainCommand) -> tuple[Word, ...]:
    """The starting points of `find`, with the pattern of all names it prints."""
    argv = command.words
    if argv[0] != "find" or command.patterns or _OTHER_OUTPUT & set(argv):
        return ()
    if not reading(words(argv)).reads_only:
        return ()
    options = (place for place, word in enumerate(argv) if place and word[:1] in "-(!")
    below = only_name(argv) or "*"
    starts = argv[1 : next(options, len(argv))] or (".",)
    return tuple(Word(start, below=below) for start in starts)


def _filters(command: PlainCommand) -> bool:
    known = _FILTERS.get(command.words[0])
    if known is None or command.patterns or not reading(words(command.words)).reads_only:
        return False
    return all(re.fullmatch(known, word) for word in command.words[1:]) and (
        command.words[0] != "grep"
        or sum(not word.startswith("-") for word in command.words[1:]) == 1
    )
