"""Command lines that are plain enough to parse and run without a shell.

The grammar is an allowlist: simple commands joined by `&&`, `||`, `;` and `|`, with words of a
fixed set of characters. Any other line is left to the bash grammar.

`cd folder &&` sets the folder of the commands that follow, and `[ -f x ]` becomes the program
`test`. File name patterns are kept; `resolved_line` expands them.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from rookery.engine.ports.actions import Errors, Output, Pipeline, Plain, PlainCommand, When
from rookery.first_use import lazy_pattern

MOST_COMMANDS = 32
LONGEST = 4096

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
"""Builtins and keywords: names for which a shell does not look up a program."""

_UNARY_TESTS = {"-e", "-f", "-d", "-s", "-L", "-h", "-r", "-w", "-x", "-n", "-z"}
_NUMBER_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}

_SINGLE = r"'[ -&(-~]*'"
_DOUBLE = r"\"(?:[ #%-\[\]-_a-~]|\\(?=[A-Za-z0-9.,:()\[\]{}|*+?/<>^=_ -])|\$(?=\"))*\""
"""Backslashes and dollar signs only where shells leave them unchanged."""
_LITERAL = rf"{_SINGLE}|{_DOUBLE}"
_GLOB = r"[*?]|\[[!^]?[A-Za-z0-9_.-]+\]"
_BARE = rf"[A-Za-z0-9_./:,@%+-]|(?<=[A-Za-z0-9])[~^]|(?<=[A-Za-z0-9_])=|{_GLOB}"
_WORD = lazy_pattern(rf"(?:{_LITERAL}|{_BARE})+")
_OPTION = lazy_pattern(rf"-(?:{_LITERAL}|{_BARE}|=)*")
_ESCAPED = lazy_pattern(r"\\[()!;](?= |$)")
"""Operators of `find` that must be escaped in a shell."""
_FOUND = lazy_pattern(r"\{\}(?= |$)")
"""Where `find -exec` inserts a name; shells leave it unchanged."""
_JOINT = lazy_pattern(r" (&&|\|\||\||;) |(;) ")
_PROGRAM = lazy_pattern(r"[A-Za-z0-9_./][A-Za-z0-9_./:,@%+-]*")
_PIECE = lazy_pattern(rf"{_LITERAL}|[^'\"]+")
_DIGITS = lazy_pattern(r"[0-9]{1,9}")

_WHEN: dict[str, When] = {";": "always", "&&": "succeeded", "||": "failed"}
_TO_NOWHERE = r"> ?/dev/null"
_FROM_FILE = rf"< ?(?:{_LITERAL}|{_BARE})+"
_SIGN = rf" (?:2>&1|[12]?{_TO_NOWHERE}|&{_TO_NOWHERE}|{_FROM_FILE})"
_SIGNS = lazy_pattern(rf"(?:{_SIGN})+(?=$| (?:&&|\|\||\||;) |; )")
_PATTERN = lazy_pattern(_GLOB)
_TESTS = {"[ ": " ]", "[[ ": " ]]"}
MOST_PATTERNS = 16


def plain(text: str) -> Plain | None:
    """Parse a plain line; None if it is not plain. The text is not trimmed or repaired first."""
    if len(text) > LONGEST:
        return None
    pipelines: list[Pipeline] = []
    commands: list[PlainCommand] = []
    when: When = "always"
    folder = ""
    count = position = 0
    while True:
        read = _command(text, position)
        count += 1
        if read is None or count > MOST_COMMANDS:
            return None
        command, position = read
        joint = _JOINT.match(text, position)
        if joint is None and position != len(text):
            return None
        sign = (joint[1] or joint[2]) if joint else ""
        if command.words[0] == "cd":
            if commands or when != "always" or sign not in {"&&", ";"} or not _is_plain_cd(command):
                return None
            folder = posixpath.join(folder, command.words[1])
        else:
            commands.append(replace(command, folder=folder) if folder else command)
            if sign != "|":
                pipelines.append(Pipeline(tuple(commands), when))
                commands = []
            when = _WHEN.get(sign, when)
        if joint is None:
            return tuple(pipelines)
        position = joint.end()


def _is_plain_cd(command: PlainCommand) -> bool:
    """Whether this is a `cd` that leads to the same folder in every shell."""
    words = command.words
    return (
        len(words) == 2
        and not words[1].startswith("-")
        and bool(words[1])
        and command == PlainCommand(words)
    )


def _command(text: str, position: int) -> tuple[PlainCommand, int] | None:
    """The simple command that starts here, and where it ends."""
    closing = next((end for start, end in _TESTS.items() if text.startswith(start, position)), "")
    words = ["test"] if closing else []
    if closing:
        position = text.index(" ", position) + 1
        if text.startswith("! ", position):
            words, position = ["test", "!"], position + 2
    patterns: list[tuple[int, str]] = []
    first = _PROGRAM.match(text, position)
    if first is None and not closing:
        return None
    while True:
        end = _word_end(text, position)
        if end is None:
            return None
        word, pattern = _unquote(text[position:end])
        patterns += [(len(words), pattern)] if pattern else []
        words.append(word)
        position = end
        if closing and text.startswith(closing, position):
            position += len(closing)
            break
        if _SIGNS.match(text, position) and not closing:
            break
        if text[position : position + 1] != " " or _JOINT.match(text, position):
            break
        position += 1
    words = _use_which(words)
    named = closing or words[0] == "which" or (first is not None and words[0] == first[0])
    if not named or not _runs_program(words) or len(patterns) > MOST_PATTERNS:
        return None
    if closing and (patterns or not text.startswith(closing, position - len(closing))):
        return None
    errors, output, source, position = _redirections(text, position)
    if source is None:
        return None
    command = PlainCommand(tuple(words), errors, output, patterns=tuple(patterns), source=source)
    return command, position


def _use_which(words: list[str]) -> list[str]:
    """Replace `command -v` and `type`, which are builtins, by `which`."""
    match words:
        case ["command", "-v", name] | ["type", name] if name not in SHELL_WORDS:
            return ["which", name]
        case ["type", "-a", name] if name not in SHELL_WORDS:
            return ["which", "-a", name]
    return words


def _word_end(text: str, position: int) -> int | None:
    if alone := _ESCAPED.match(text, position) or _FOUND.match(text, position):
        return alone.end()
    pattern = _OPTION if text.startswith("-", position) else _WORD
    found = pattern.match(text, position)
    return found.end() if found and found.end() > position else None


def _redirections(text: str, position: int) -> tuple[Errors, Output, str | None, int]:
    """Where stderr and stdout go, the input file (None if it is not a single plain name), and
    the position after the redirections."""
    found = _SIGNS.match(text, position)
    errors: Errors = "kept"
    output: Output = "kept"
    source: str | None = ""
    for sign in re.findall(_SIGN, found[0]) if found else ():
        if sign.startswith(" <"):
            named, pattern = _unquote(sign[2:].removeprefix(" "))
            source = named if named and not pattern and source == "" else None
        elif sign == " 2>&1":
            errors = "dropped" if output == "dropped" else "with output"
        elif sign.startswith(" 2"):
            errors = "dropped"
        elif sign.startswith(" &"):
            errors = output = "dropped"
        else:
            output = "dropped"
    return errors, output, source, found.end() if found else position


def _unquote(word: str) -> tuple[str, str]:
    """The word without its quotes, and its file name pattern if it is one."""
    if _ESCAPED.fullmatch(word):
        return word[1:], ""
    text = pattern = ""
    is_pattern = False
    for piece in _PIECE.findall(word):
        bare = piece[1:-1] if piece[0] in "'\"" else piece
        text += bare
        pattern += re.sub(r"([*?\[{])", r"[\1]", bare) if bare is not piece else bare
        is_pattern = is_pattern or (bare is piece and bool(_PATTERN.search(piece)))
    return text, pattern if is_pattern else ""


def _runs_program(words: Sequence[str]) -> bool:
    """Whether every shell runs a program of this name, or a builtin that does exactly the same."""
    match words:
        case ["cd", *_]:
            return True
        case ["echo", *rest]:
            return not rest or not rest[0].startswith("-") or rest[0].startswith("---")
        case ["printf", first, *_]:
            return not first.startswith("-")
        case ["pwd" | "true" | "false", *rest]:
            return not rest
        case ["test", "!", check, operand] | ["test", check, operand]:
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
