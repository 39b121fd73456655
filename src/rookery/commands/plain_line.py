"""Command lines that are so plain that no shell is needed to read them, or to run them.

The grammar is positive: simple commands joined by `&&`, `||`, `;` and `|`, made of words from a
fixed set of characters. Whatever is not in it is not plain, and is left to the grammar of bash.

`cd folder &&` is no command here, but where the commands behind it run, and `[ -f x ]` is the
program `test`. Patterns of file names are kept, and replaced by whoever looks at the folder.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from rookery.core.command_lines import Errors, Output, Pipeline, Plain, PlainCommand, When

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
"""Names that a shell takes for its own, or for grammar, instead of looking for a program."""

_UNARY_TESTS = {"-e", "-f", "-d", "-s", "-L", "-h", "-r", "-w", "-x", "-n", "-z"}
_NUMBER_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}

_SINGLE = r"'[ -&(-~]*'"
_DOUBLE = r"\"(?:[ #%-\[\]-_a-~]|\\(?=[A-Za-z0-9.,:()\[\]{}|*+?/<>^=_ -])|\$(?=\"))*\""
"""Where a backslash or a dollar sign means nothing, shells leave it as it is."""
_LITERAL = rf"{_SINGLE}|{_DOUBLE}"
_GLOB = r"[*?]|\[[!^]?[A-Za-z0-9_.-]+\]"
_BARE = rf"[A-Za-z0-9_./:,@%+-]|(?<=[A-Za-z0-9])[~^]|(?<=[A-Za-z0-9_])=|{_GLOB}"
_WORD = re.compile(rf"(?:{_LITERAL}|{_BARE})+")
_OPTION = re.compile(rf"-(?:{_LITERAL}|{_BARE}|=)*")
_ESCAPED = re.compile(r"\\[()!;](?= |$)")
"""Signs of `find`, which shells would take for their own."""
_FOUND = re.compile(r"\{\}(?= |$)")
"""Where `find -exec` puts a name. Shells leave it as it is."""
_JOINT = re.compile(r" (&&|\|\||\||;) |(;) ")
_PROGRAM = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:,@%+-]*")
_PIECE = re.compile(rf"{_LITERAL}|[^'\"]+")
_DIGITS = re.compile(r"[0-9]{1,9}")

_WHEN: dict[str, When] = {";": "always", "&&": "succeeded", "||": "failed"}
_TO_NOWHERE = r"> ?/dev/null"
_FROM_FILE = rf"< ?(?:{_LITERAL}|{_BARE})+"
_SIGN = rf" (?:2>&1|[12]?{_TO_NOWHERE}|&{_TO_NOWHERE}|{_FROM_FILE})"
_SIGNS = re.compile(rf"(?:{_SIGN})+(?=$| (?:&&|\|\||\||;) |; )")
_PATTERN = re.compile(_GLOB)
_TESTS = {"[ ": " ]", "[[ ": " ]]"}
MOST_PATTERNS = 16


def plain(text: str) -> Plain | None:
    """What the text runs, if it is plain. Nothing is trimmed or mended first."""
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
            if commands or when != "always" or sign not in {"&&", ";"} or not _enters(command):
                return None
            folder = posixpath.join(folder, command.words[1])
        else:
            commands.append(_in_folder(command, folder))
            if sign != "|":
                pipelines.append(Pipeline(tuple(commands), when))
                commands = []
            when = _WHEN.get(sign, when)
        if joint is None:
            return tuple(pipelines)
        position = joint.end()


def _enters(command: PlainCommand) -> bool:
    """Whether it is a `cd` that leads to the same folder for every shell."""
    words = command.words
    return (
        len(words) == 2
        and not words[1].startswith("-")
        and bool(words[1])
        and command == PlainCommand(words)
    )


def _in_folder(command: PlainCommand, folder: str) -> PlainCommand:
    return replace(command, folder=folder) if folder else command


def _command(text: str, position: int) -> tuple[PlainCommand, int] | None:
    """The simple command that begins here, and where it ends."""
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
        word, pattern = _unquoted(text[position:end])
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
    words = _asked_of_which(words)
    named = closing or words[0] == "which" or (first is not None and words[0] == first[0])
    if not named or not _means_a_program(words) or len(patterns) > MOST_PATTERNS:
        return None
    if closing and (patterns or not text.startswith(closing, position - len(closing))):
        return None
    errors, output, source, position = _redirected(text, position)
    if source is None:
        return None
    command = PlainCommand(tuple(words), errors, output, patterns=tuple(patterns), source=source)
    return command, position


def _asked_of_which(words: list[str]) -> list[str]:
    """The question that a shell answers itself, put to the program that answers it too."""
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


def _redirected(text: str, position: int) -> tuple[Errors, Output, str | None, int]:
    """What becomes of both outputs, sign by sign as a shell reads them, and the file that is
    read; None if that is not one file by its name."""
    found = _SIGNS.match(text, position)
    errors: Errors = "kept"
    output: Output = "kept"
    source: str | None = ""
    for sign in re.findall(_SIGN, found[0]) if found else ():
        if sign.startswith(" <"):
            named, pattern = _unquoted(sign[2:].removeprefix(" "))
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


def _unquoted(word: str) -> tuple[str, str]:
    """The word, and the pattern that it is for file names, if it is one."""
    if _ESCAPED.fullmatch(word):
        return word[1:], ""
    text = pattern = ""
    is_pattern = False
    for piece in _PIECE.findall(word):
        said = piece[1:-1] if piece[0] in "'\"" else piece
        text += said
        pattern += re.sub(r"([*?\[{])", r"[\1]", said) if said is not piece else said
        is_pattern = is_pattern or (said is piece and bool(_PATTERN.search(piece)))
    return text, pattern if is_pattern else ""


def _means_a_program(words: Sequence[str]) -> bool:
    """Whether every shell runs a program of this name, or does exactly what it would do."""
    match words:
        case ["cd", *_]:
            return True
        case ["echo", *said]:
            return not said or not said[0].startswith("-") or said[0].startswith("---")
        case ["printf", said, *_]:
            return not said.startswith("-")
        case ["pwd" | "true" | "false"]:
            return True
        case ["pwd" | "true" | "false", *_]:
            return False
        case ["test", "!", check, operand]:
            return check in _UNARY_TESTS and not operand.startswith(("-", "(", "!"))
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
