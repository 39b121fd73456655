"""What looks like commands in a text that no grammar makes sense of.

It finds too much rather than too little: what is found is only ever asked about or denied.
"""

import re
from collections.abc import Iterator

from rookery.commands.words import Redirection, ShellLine, SimpleCommand, Word, words
from rookery.commands.wrappers import SHELLS
from rookery.core.command_lines import program_name

MOST_CRUDE = 32

_RUNS_TEXT = {*SHELLS, "eval", "trap"}
_QUOTES = re.compile(r"['\"\\]")
_SEGMENTS = re.compile(r"[;&|\n\r(){}`]")
_WRITTEN = re.compile(r">[>&|]?[ \t]*([^\s;&|<>(){}`]+)")
_DESTROYERS_LISTED = """
    rm rmdir unlink shred git find fd xargs parallel dd chmod chown mv truncate rsync tee eval
    source mkfs wipefs
"""
_DESTROYERS = frozenset(_DESTROYERS_LISTED.split())
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.S
)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}


def unread_line(text: str, doubt: str, home: str) -> ShellLine:
    """A text that is not read by any grammar. What in it may destroy something is grave, for
    nothing is known of what it would be done to."""
    commands = (*crude_commands(text, home), *crude_redirections(text, home))
    named = {program_name(word.text) for one in commands for word in one.words}
    grave = sorted(f"{doubt}, and names {name}" for name in named & (_DESTROYERS | SHELLS))
    if any(one.redirections for one in commands):
        grave.append(f"{doubt}, and writes files")
    return ShellLine(commands, (doubt,), grave=tuple(grave), redefines=True)


def crude_commands(text: str, home: str) -> Iterator[SimpleCommand]:
    """Whatever stands between the signs of the shell, also behind a shell."""
    for segment in _SEGMENTS.split(_QUOTES.sub("", text)):
        said = re.findall(r"[^\s<>]+", segment)
        if not said:
            continue
        yield SimpleCommand(tuple(_word(one, home) for one in said))
        if "$" in said[0]:
            yield SimpleCommand(words(re.findall(r"[^\s$<>]+", segment)))
        if "," in said[0]:
            # the braces around it have been taken for the end of a command
            parts = said[0].split(",")[:MOST_CRUDE]
            for place in range(len(parts)):
                yield SimpleCommand(words([*parts[place:], *said[1:]]))
        for place, word in enumerate(said[:MOST_CRUDE]):
            if program_name(word) in _RUNS_TEXT:
                rest = said[place + 1 : place + 1 + MOST_CRUDE]
                options = (at for at, one in enumerate(rest) if not one.startswith("-"))
                inner = rest[next(options, len(rest)) :]
                yield SimpleCommand(tuple(_word(one, home) for one in inner))


def crude_redirections(text: str, home: str) -> Iterator[SimpleCommand]:
    for path in dict.fromkeys(_WRITTEN.findall(_QUOTES.sub("", text))):
        if not re.fullmatch(r"[0-9]*-?", path):
            yield SimpleCommand((), (Redirection(_word(path, home), writes=True),))


def without_escapes(text: str) -> str:
    """With what `$'...'` stands for put in, as if it were everywhere."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    if digits := escape[1] or escape[2] or escape[3]:
        return chr(min(int(digits, 16), 0x10FFFF))
    if escape[4]:
        return chr(int(escape[4], 8) & 0xFF)
    if escape[5]:
        return chr(ord(escape[5]) & 0x1F)
    return _NAMED_ESCAPES.get(escape[6], escape[6])


def _word(said: str, home: str) -> Word:
    if home and (said == "~" or said.startswith("~/")):
        said = home + said[1:]
    if "$" in said or said.startswith("~"):
        return Word(said, known=False)
    if "*" in said or "?" in said or ("[" in said and "]" in said):
        return Word(said, known=False, pattern=said)
    return Word(said)
