"""What is known of a shell line's words before it runs.

A word may hold what only the shell finds out: a variable, another command's output, the
files that a pattern matches. Then it is not known, and `text` is what was written.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rookery.core.command_lines import Plain

MOST_SPELLINGS = 64
_BRACE = r"(?!(?<=\[)\{\])\{"
"""A brace that is meant as such; one in quotes is written [{] in a pattern."""
_CHOICES = re.compile(_BRACE + r"(?:([^{},]*(?:,[^{},]*)+)|(\w|-?[0-9]+)\.\.(\w|-?[0-9]+))\}")
_BRACES = re.compile(_BRACE + r"[^{}]*(?:,|\.\.)")


class Word(Struct, frozen=True):
    """`text` is the word as the program gets it, if `known`; otherwise as it was written.

    `pattern` is set if the shell replaces the word by the files that match it. `below` is set
    if the word stands for files below what it names: those whose names match this. `unquoted`
    is what was written without its quotes, if the word is not known, and `literal` what of it
    is known.
    """

    text: str
    known: bool = True
    pattern: str = ""
    below: str = ""
    unquoted: str = ""
    literal: str = ""

    @property
    def script(self) -> "Script":
        """What a shell gets to read that is given the word."""
        if self.known or not self.unquoted:
            return Script(self.text, self.known, self.text)
        return Script(self.unquoted, False, self.literal)


class Script(Struct, frozen=True):
    """A text for a shell to read. If it is not `known`, more is put in where its variables and
    substitutions stand, and so what is around them may not be what it looks like. It is
    `without` them if what is put in is nothing."""

    text: str
    known: bool = True
    without: str = ""

    def behind(self, before: int) -> "Script":
        """Without so many of its first characters."""
        return Script(self.text[before:], self.known, self.without[before:])


class Redirection(Struct, frozen=True):
    """A file that the shell opens for a command."""

    word: Word
    writes: bool


class SimpleCommand(Struct, frozen=True):
    """One program with its words. `scope` numbers the subshells it is in, outermost first."""

    words: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    scope: tuple[int, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class ParsedLine(Struct, frozen=True):
    """Every simple command of a line, in the order they are written; why that may not be all.

    `runs` are texts in it that the shell reads by themselves, and `documents` those that it
    gives to commands. `dangers` are reasons for asking that lie in the line as a whole.
    `redefines`: a variable or function in it may give program names another meaning. `plain` is
    the whole line if it needs no shell.
    """

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    documents: tuple[Script, ...] = ()
    dangers: tuple[str, ...] = ()
    redefines: bool = False
    plain: Plain | None = None


def joined(said: Sequence[Word]) -> Script:
    """What a shell gets to read that is given the words with gaps between them."""
    scripts = [word.script for word in said]
    return Script(
        " ".join(script.text for script in scripts),
        all(script.known for script in scripts),
        " ".join(script.without for script in scripts),
    )


def words(texts: Sequence[str]) -> tuple[Word, ...]:
    return tuple(Word(text) for text in texts)


def spellings(pattern: str) -> list[str]:
    """The words that braces stand for: `a{b,c}` is `ab` and `ac`, and so is `a{b..c}`.

    Too many spellings, and ranges of other than letters or numbers, are left as they are.
    """
    waiting, done = [pattern], list[str]()
    while waiting:
        said = waiting.pop()
        braces = _CHOICES.search(said)
        choices = _choices(braces) if braces else []
        if braces is None or not choices:
            done.append(said)
            continue
        waiting += [
            said[: braces.start()] + choice + said[braces.end() :] for choice in reversed(choices)
        ]
        if len(waiting) + len(done) > MOST_SPELLINGS:
            return [pattern]
    return done


def spelled_out(said: Sequence[Word]) -> tuple[Word, ...]:
    """The words as they are after the shell has replaced braces."""
    found = list[Word]()
    for word in said:
        each = spellings(word.pattern)
        if len(each) < 2:
            found.append(word)
            continue
        found += [
            Word(one, known=False, pattern=one) if re.search(r"[*?\[{]", one) else Word(one)
            for one in each
        ]
    return tuple(found)


def has_braces(spelling: str) -> bool:
    """Whether the shell would still make something else of it."""
    return bool(_BRACES.search(spelling))


def _choices(braces: re.Match[str]) -> list[str]:
    if braces[1] is not None:
        return braces[1].split(",")
    first, last = braces[2], braces[3]
    if re.fullmatch(r"[a-z]{2}|[A-Z]{2}", first + last):
        places = _between(ord(first), ord(last))
        return [chr(place) for place in places]
    if re.fullmatch(r"-?[0-9]{1,9}", first) and re.fullmatch(r"-?[0-9]{1,9}", last):
        return [str(number) for number in _between(int(first), int(last))]
    return []


def _between(first: int, last: int) -> list[int]:
    """Both ends included; nothing if that is more than is spelled out."""
    if abs(last - first) >= MOST_SPELLINGS:
        return []
    return list(range(first, last + 1) if first <= last else range(first, last - 1, -1))


class Split(Struct, frozen=True):
    """`flags` holds every option, clusters of letters also one by one: what may be a value that
    is attached may as well be more options."""

    flags: frozenset[str]
    values: Mapping[str, Word]
    operands: tuple[Word, ...]

    def value(self, *names: str) -> Word | None:
        return next((self.values[name] for name in names if name in self.values), None)

    def letter(self, letter: str) -> bool:
        """Whether a cluster of letters holds this one."""
        return f"-{letter}" in self.flags

    def has(self, *longs: str) -> bool:
        """Whether one of these long options is given, in full or cut short."""
        return any(abbreviates(flag, long) for flag in self.flags for long in longs)


def abbreviates(flag: str, long: str) -> bool:
    return len(flag) > 2 and flag.startswith("--") and long.startswith(flag)


def split(words: Sequence[Word], valued: str = "") -> Split:
    takes_value = set(valued.split())
    flags, values, operands = set[str](), dict[str, Word](), list[Word]()
    waiting = list(reversed(words))
    ended = False
    while waiting:
        word = waiting.pop()
        text = word.text
        if text == "--" and not ended:
            ended = True
        elif ended or text == "-" or not text.startswith("-"):
            operands.append(word)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            flags.add(name)
            meant = [one for one in takes_value if abbreviates(name, one)] or [name]
            if equals:
                given = Word(value, word.known, word.pattern.partition("=")[2])
                values |= dict.fromkeys(meant, given)
            elif takes_value & set(meant) and waiting:
                values |= dict.fromkeys(meant, waiting.pop())
        else:
            flags.add(text)
            for place, letter in enumerate(text[1:], start=2):
                flag = f"-{letter}"
                flags.add(flag)
                if flag in takes_value and flag not in values:
                    if text[place:]:
                        values[flag] = Word(text[place:], word.known)
                    elif waiting:
                        values[flag] = waiting.pop()
    return Split(frozenset(flags), values, tuple(operands))
