"""Command lines so plain that no shell is needed to know what they run.

The grammar is positive: simple commands joined by `&&`, `||`, `;` and `|`, made of words from
a fixed set of characters. Whatever is not in it is not plain, and is left to a person.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from rookery.core.values import record

MOST_COMMANDS = 32
LONGEST = 4096

Errors: TypeAlias = Literal["kept", "with output", "dropped"]
When: TypeAlias = Literal["always", "succeeded", "failed"]


@record
class PlainCommand:
    """One program and its arguments. `errors` says where its standard error goes."""

    words: tuple[str, ...]
    errors: Errors = "kept"


@record
class Pipeline:
    """Commands whose output is each the next one's input; `when` it is run, by how the pipeline
    before it ended."""

    commands: tuple[PlainCommand, ...]
    when: When = "always"


Plain: TypeAlias = tuple[Pipeline, ...]

_SHELL_WORDS_LISTED = """
    if then else elif fi for in while until do done case esac select function time coproc
    . : alias bg bind break builtin caller cd chdir command compgen complete compopt continue
    declare dirs disown enable eval exec exit export fc fg getopts hash help history jobs kill let
    local logout mapfile popd printf pushd read readarray readonly return set shift shopt source
    suspend times trap type typeset ulimit umask unalias unset wait
    autoload bye emulate end float foreach functions integer limit log nocorrect noglob print
    private pushln r rehash repeat sched setopt unfunction unlimit unsetopt vared whence
    where zcompile zle zmodload zparseopts zstyle
"""
SHELL_WORDS = frozenset(_SHELL_WORDS_LISTED.split())
"""Names that a shell takes for its own, or for grammar, instead of looking for a program."""

_UNARY_TESTS = {"-e", "-f", "-d", "-s", "-L", "-h", "-r", "-w", "-x", "-n", "-z"}
_NUMBER_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}

_CHARACTERS = r"[ #%&(-\[\]-_a-~]*"
_LITERAL = rf"'{_CHARACTERS}'|\"{_CHARACTERS}\""
_BARE = r"[A-Za-z0-9_./:,@%+-]|(?<=[A-Za-z0-9])[~^]"
_WORD = re.compile(rf"(?:{_LITERAL}|{_BARE})+")
_OPTION = re.compile(rf"-(?:{_LITERAL}|{_BARE}|=)*")
_JOINT = re.compile(r" (&&|\|\||\||;) |(;) ")
_PROGRAM = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:,@%+-]*")
_PIECE = re.compile(rf"{_LITERAL}|[^'\"]+")
_DIGITS = re.compile(r"[0-9]{1,9}")

_WHEN: dict[str, When] = {";": "always", "&&": "succeeded", "||": "failed"}
_ERRORS: dict[str, Errors] = {"2>/dev/null": "dropped", "2>&1": "with output"}


def plain(text: str) -> Plain | None:
    """What the text runs, if it is plain. Nothing is trimmed or mended first."""
    if len(text) > LONGEST:
        return None
    pipelines: list[Pipeline] = []
    commands: list[PlainCommand] = []
    when: When = "always"
    count = position = 0
    while True:
        read = _command(text, position)
        count += 1
        if read is None or count > MOST_COMMANDS:
            return None
        command, position = read
        commands.append(command)
        joint = _JOINT.match(text, position)
        if joint is None and position != len(text):
            return None
        sign = (joint[1] or joint[2]) if joint else ""
        if sign != "|":
            pipelines.append(Pipeline(tuple(commands), when))
            commands = []
        if joint is None:
            return tuple(pipelines)
        when = _WHEN.get(sign, when)
        position = joint.end()


def _command(text: str, position: int) -> tuple[PlainCommand, int] | None:
    """The simple command that begins here, and where it ends."""
    words: list[str] = []
    errors: Errors = "kept"
    first = _PROGRAM.match(text, position)
    if first is None:
        return None
    while True:
        end = _word_end(text, position)
        if end is None:
            return None
        words.append(_unquoted(text[position:end]))
        position = end
        if (wish := _errors_wish(text, position)) is not None:
            errors, position = wish
            break
        if text[position : position + 1] != " " or _JOINT.match(text, position):
            break
        position += 1
    if words[0] != first[0] or not _means_a_program(words):
        return None
    return PlainCommand(tuple(words), errors), position


def _word_end(text: str, position: int) -> int | None:
    pattern = _OPTION if text.startswith("-", position) else _WORD
    found = pattern.match(text, position)
    return found.end() if found and found.end() > position else None


def _errors_wish(text: str, position: int) -> tuple[Errors, int] | None:
    for said, errors in _ERRORS.items():
        if text.startswith(f" {said}", position):
            end = position + len(said) + 1
            if end == len(text) or _JOINT.match(text, end):
                return errors, end
    return None


def _unquoted(word: str) -> str:
    return "".join(piece[1:-1] if piece[0] in "'\"" else piece for piece in _PIECE.findall(word))


def _means_a_program(words: Sequence[str]) -> bool:
    """Whether every shell runs a program of this name, or does exactly what it would do."""
    match words:
        case ["echo", *said]:
            return not said or not said[0].startswith("-") or said[0].startswith("---")
        case ["pwd" | "true" | "false"]:
            return True
        case ["pwd" | "true" | "false", *_]:
            return False
        case ["test", check, operand]:
            return check in _UNARY_TESTS and not operand.startswith(("-", "(", "!"))
        case ["test", left, check, right]:
            numbers = _DIGITS.fullmatch(left) and _DIGITS.fullmatch(right)
            return check in _NUMBER_TESTS and bool(numbers)
        case ["test", *_]:
            return False
        case [name, *_]:
            return name not in SHELL_WORDS
        case _:
            return False
