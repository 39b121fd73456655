"""`find … | xargs reader`: which files the reader is given, if that can be told.

What `find` prints begins with where it was told to begin, so no name of a file can pass for an
option. But xargs makes several words of a name with blanks or quotes in it, unless it is told
that names end with a zero byte.
"""

import re
from collections.abc import Sequence

from rookery.core.shell.plain_commands import Pipeline, PlainCommand
from rookery.core.shell.program_table import READERS
from rookery.core.shell.programs import reader_row, reading
from rookery.core.shell.shell_words import words
from rookery.core.values import record

_ALONE = {"-0", "--null", "-r", "--no-run-if-empty", "-t"}
_COUNTED = {"-n", "-P", "-L", "--max-args", "--max-procs", "--max-lines"}
_NULLS = {"-0", "--null"}
_OTHER_OUTPUT = {"-printf", "-ls", "-quit"}
_FILTERS = {
    "head": r"-n|-?[0-9]+",
    "tail": r"-n|\+?-?[0-9]+",
    "sort": r"-[urnf]+",
    "uniq": r"",
    "grep": r"-[viEFw]+|[^-].*",
}
"""What hands on whole lines, with the words it may be given."""


@record
class Fed:
    """`own` are the words of xargs itself, `inner` those of the reader. `starts` are the folders
    from which it is given files; with `nulls` each name is one word whatever is in it."""

    own: tuple[str, ...]
    inner: tuple[str, ...]
    starts: tuple[str, ...]
    nulls: bool


def fed(pipeline: Pipeline, place: int) -> Fed | None:
    """What the command at this place is given, if it is xargs with a reader behind find."""
    command = pipeline.commands[place]
    if command.words[0] != "xargs" or not place or command.patterns:
        return None
    own, inner = _split(command.words)
    starts = _starts(pipeline.commands[0])
    filters = pipeline.commands[1:place]
    nulls = bool(_NULLS & set(own))
    printed = "-print0" in pipeline.commands[0].words
    if not starts or nulls != printed or (nulls and filters) or not all(map(_filters, filters)):
        return None
    row, _ = reader_row(inner)
    takes_paths = (
        bool(row) and READERS[row].operands.endswith("PATH*") and not row.startswith("git")
    )
    if not takes_paths or not reading(words([*inner, *starts])).reads_only:
        return None
    return Fed(own, inner, starts, nulls)


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


def _starts(command: PlainCommand) -> tuple[str, ...]:
    said = command.words
    if said[0] != "find" or command.patterns or _OTHER_OUTPUT & set(said):
        return ()
    if not reading(words(said)).reads_only:
        return ()
    options = (place for place, word in enumerate(said) if place and word[:1] in "-(!")
    return said[1 : next(options, len(said))] or (".",)


def _filters(command: PlainCommand) -> bool:
    known = _FILTERS.get(command.words[0])
    if known is None or command.patterns or not reading(words(command.words)).reads_only:
        return False
    return all(re.fullmatch(known, word) for word in command.words[1:]) and (
        command.words[0] != "grep"
        or sum(not word.startswith("-") for word in command.words[1:]) == 1
    )
