"""Words of a shell line, as far as they are known before it runs.

A word may contain a variable, a command substitution or a file name pattern, which only the shell
resolves. Such a word is not `known`, and `text` is what was written.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rookery.engine.ports.actions import Plain
from rookery.first_use import lazy_pattern

MOST_SPELLINGS = 64
_BRACE = r"(?!(?<=\[)\{\])\{"
"""An opening brace that the shell expands; a quoted one is written [{] in a pattern."""
_CHOICES = lazy_pattern(_BRACE + r"(?:([^{},]*(?:,[^{},]*)+)|(\w|-?[0-9]+)\.\.(\w|-?[0-9]+))\}")
_BRACES = lazy_pattern(_BRACE + r"[^{}]*(?:,|\.\.)")


class Word(Struct, frozen=True):
    """A word of a command. `text` is what the program gets if `known`, otherwise what was written.

    `pattern` is set if the shell replaces the word by matching files. `below` is set if the word
    refers to files below the path it names, and is the pattern of their names. For an unknown word,
    `unquoted` is the text without quotes and `literal` the part of it that is known.
    """

    text: str
    known: bool = True
    pattern: str = ""
    below: str = ""
    unquoted: str = ""
    literal: str = ""

    @property
    def script(self) -> "Script":
        """The word as shell text, for a shell that is given it."""
        if self.known or not self.unquoted:
            return Script(self.text, self.known, self.text)
        return Script(self.unquoted, False, self.literal)


class Script(Struct, frozen=True):
    """A text for a shell to run. If it is not `known`, variables and substitutions in it will be
    expanded, which can change the meaning of the text around them. `without` is the text with
    these left out."""

    text: str
    known: bool = True
    without: str = ""

    def skip(self, before: int) -> "Script":
        """Drop the first `before` characters."""
        return Script(self.text[before:], self.known, self.without[before:])


class Redirection(Struct, frozen=True):
    word: Word
    writes: bool


class SimpleCommand(Struct, frozen=True):
    """One program with its words. `scope` are the ids of the subshells it is in, outermost
    first."""

    words: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    scope: tuple[int, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class ParsedLine(Struct, frozen=True):
    """The simple commands of a line in text order, and the doubts about their completeness.

    `runs` are texts in the line that the shell runs too, and `documents` texts that it passes to
    commands. `dangers` concern the line as a whole. `redefines`: a variable or function may change
    what program names mean. `plain` is the whole line if it needs no shell.
    """

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    documents: tuple[Script, ...] = ()
    dangers: tuple[str, ...] = ()
    redefines: bool = False
    plain: Plain | None = None


def join_words(words: Sequence[Word]) -> Script:
    """The words joined by spaces, as shell text."""
    scripts = [word.script for word in words]
    return Script(
        " ".join(script.text for script in scripts),
        all(script.known for script in scripts),
        " ".join(script.without for script in scripts),
    )


def words(texts: Sequence[str]) -> tuple[Word, ...]:
    return tuple(Word(text) for text in texts)


def spellings(pattern: str) -> list[str]:
    """Expand braces: `a{b,c}` and `a{b..c}` are `ab` and `ac`.

    Too many results, and ranges of anything but letters or numbers, are left unexpanded.
    """
    waiting, done = [pattern], list[str]()
    while waiting:
        text = waiting.pop()
        braces = _CHOICES.search(text)
        choices = _choices(braces) if braces else []
        if braces is None or not choices:
            done.append(text)
            continue
        waiting += [
            text[: braces.start()] + choice + text[braces.end() :] for choice in reversed(choices)
        ]
        if len(waiting) + len(done) > MOST_SPELLINGS:
            return [pattern]
    return done


def expand_braces(words: Sequence[Word]) -> tuple[Word, ...]:
    """Expand the braces in the words, as the shell does."""
    found = list[Word]()
    for word in words:
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
    """Whether braces are left that the shell would expand."""
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
    """The range including both ends; empty if it is too long."""
    if abs(last - first) >= MOST_SPELLINGS:
        return []
    return list(range(first, last + 1) if first <= last else range(first, last - 1, -1))


class Split(Struct, frozen=True):
    """The options and operands of a command. `flags` has every option, and each letter of a
    cluster, since an attached value may also be more options."""

    flags: frozenset[str]
    values: Mapping[str, Word]
    operands: tuple[Word, ...]

    def value(self, *names: str) -> Word | None:
        return next((self.values[name] for name in names if name in self.values), None)

    def letter(self, letter: str) -> bool:
        """Whether a short option is given, alone or in a cluster."""
        return f"-{letter}" in self.flags

    def has(self, *longs: str) -> bool:
        """Whether one of these long options is given, in full or abbreviated."""
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
