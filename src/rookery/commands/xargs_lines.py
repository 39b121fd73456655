"""`find … | xargs reader`: which files the reader is given, if that can be told.

What `find` prints begins with where it was told to begin, so no name of a file can pass for an
option. But xargs makes several words of a name with blanks or quotes in it, unless it is told
that names end with a zero byte. Other programs that list files are therefore told to end names
that way, all filters behind them too, and the reader gets the names after `--`.
The index of a repository may hold any name, so those that lead elsewhere are left out.
"""

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rookery.commands.program_tables import readers
from rookery.commands.programs import reader_row, reading
from rookery.commands.words import Word, words
from rookery.commands.wrappers import only_name
from rookery.core.command_lines import Pipeline, PlainCommand

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
"""What hands on whole lines, with the words it may be given."""
_ELSEWHERE = PlainCommand(("grep", "-z", "-v", "-E", r"^/|(^|/)(\.\.|\.git)(/|$)"))


class _Lister(Struct, frozen=True):
    """A program that prints names of files and nothing else: the option by which each of them
    ends with a zero byte, the options it may have, and those of which it needs one. `most`: so
    many other words. `indexed`: the names are those of git's index."""

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
_PATHSPEC = re.compile(r"(?![:/])(?!.*\.\.).+", re.S)
_READS_FILES = {"PATH*", "TEXT PATH*"}


class Fed(Struct, frozen=True):
    """`own` are the words of xargs itself, `inner` those of the reader, and `before` the commands
    that list the files, as they are run. `starts` are the folders from which it is given files;
    with `nulls` each name is one word whatever is in it."""

    own: tuple[str, ...]
    inner: tuple[str, ...]
    before: tuple[PlainCommand, ...]
    starts: tuple[Word, ...]
    nulls: bool


def fed(pipeline: Pipeline, place: int) -> Fed | None:
    """What the command at this place is given, if it is xargs with a reader behind a lister."""
    command, before = pipeline.commands[place], pipeline.commands[:place]
    if command.words[0] != "xargs" or not before or command.patterns or command.source:
        return None
    if any(one.source or one.errors == "with output" for one in before):
        return None  # then it is given other lines as well
    own, inner = _split(command.words)
    nulls = bool(_NULLS & set(own))
    if not all(_filters(one) and ("-z" in one.words) == nulls for one in before[1:]):
        return None
    if before[0].words[0] == "find":
        starts = _starts(before[0])
        given = Fed(own, inner, before, starts, nulls)
        printed = "-print0" in before[0].words
        return given if starts and printed == nulls and _takes_paths(inner, starts) else None
    return _fed_by_lister(own, inner, before)


def as_run(pipeline: Pipeline) -> Pipeline:
    """With names that end with a zero byte, if they are for xargs and not from `find`."""
    for place, command in enumerate(pipeline.commands):
        if given := fed(pipeline, place):
            xargs = replace(command, words=(*given.own, *given.inner))
            rest = pipeline.commands[place + 1 :]
            return replace(pipeline, commands=(*given.before, xargs, *rest))
    return pipeline


def _fed_by_lister(
    own: tuple[str, ...], inner: tuple[str, ...], before: tuple[PlainCommand, ...]
) -> Fed | None:
    first, filters = before[0], before[1:]
    row, used = reader_row(first.words)
    lister = _LISTERS.get(row)
    starts = _listed(lister, first, used) if lister else ()
    if lister is None or not starts or not _takes_paths(inner, starts):
        return None
    zero = re.compile(rf"-\w*{lister.zero[1]}\w*")
    said = any(map(zero.fullmatch, first.words))
    if said != bool(_NULLS & set(own)) or not _takes_dashes(inner):
        return None
    checked = filters[:1] == (_ELSEWHERE,) or not lister.indexed
    words_first = (*first.words[:used], lister.zero, *first.words[used:])
    return Fed(
        own if said else (own[0], "-0", *own[1:]),
        inner if "--" in inner else (*inner, "--"),
        (
            first if said else replace(first, words=words_first),
            *(() if checked else (_ELSEWHERE,)),
            *map(_zero_ended, filters),
        ),
        starts,
        True,
    )


def _listed(lister: _Lister, command: PlainCommand, used: int) -> tuple[Word, ...]:
    """Where what it prints lies; empty if it may print anything else."""
    said = command.words[used:]
    options = [word for word in said if word.startswith("-")]
    others = [word for word in said if not word.startswith("-")]
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


def _zero_ended(command: PlainCommand) -> PlainCommand:
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


def _takes_dashes(inner: Sequence[str]) -> bool:
    """Whether it takes all that follows `--` for files."""
    reader = readers()[reader_row(inner)[0]]
    return reader.operands in _READS_FILES and not (reader.whole_flags or reader.all_operands)


def _split(said: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options of xargs, and the command behind them; no command if one is not known."""
    at = 1
    while at < len(said) and said[at].startswith("-"):
        if said[at] in _ALONE or re.fullmatch(r"-[nPL][0-9]+", said[at]):
            at += 1
        elif said[at] in _COUNTED and at + 1 < len(said) and said[at + 1].isdigit():
            at += 2
        else:
            return tuple(said), ()
    return tuple(said[:at]), tuple(said[at:])


def _starts(command: PlainCommand) -> tuple[Word, ...]:
    """Where `find` begins, and the pattern of all the names that it prints."""
    said = command.words
    if said[0] != "find" or command.patterns or _OTHER_OUTPUT & set(said):
        return ()
    if not reading(words(said)).reads_only:
        return ()
    options = (place for place, word in enumerate(said) if place and word[:1] in "-(!")
    below = only_name(said) or "*"
    starts = said[1 : next(options, len(said))] or (".",)
    return tuple(Word(start, below=below) for start in starts)


def _filters(command: PlainCommand) -> bool:
    known = _FILTERS.get(command.words[0])
    if known is None or command.patterns or not reading(words(command.words)).reads_only:
        return False
    return all(re.fullmatch(known, word) for word in command.words[1:]) and (
        command.words[0] != "grep"
        or sum(not word.startswith("-") for word in command.words[1:]) == 1
    )
