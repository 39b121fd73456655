"""What is known of a shell line's words before it runs.

A word may hold what only the shell finds out: a variable, another command's output, the
files that a pattern matches. Then it is not known, and `text` is what was written.
"""

import re
from collections.abc import Sequence

from rookery.core.values import record

MOST_SPELLINGS = 64


@record
class Word:
    """`text` is the word as the program gets it, if `known`; otherwise as it was written.

    `pattern` is set if the shell replaces the word by the files that match it.
    """

    text: str
    known: bool = True
    pattern: str = ""


@record
class Redirection:
    """A file that the shell opens for a command."""

    word: Word
    writes: bool


@record
class SimpleCommand:
    """One program with its words. `scope` numbers the subshells it is in, outermost first."""

    words: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    scope: tuple[int, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


@record
class ShellLine:
    """Every simple command of a line, in the order they are written; why that may not be all."""

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...] = ()


def words(texts: Sequence[str]) -> tuple[Word, ...]:
    return tuple(Word(text) for text in texts)


def spellings(pattern: str) -> list[str]:
    """The words that braces stand for: `a{b,c}` is `ab` and `ac`.

    Nested braces and too many spellings are left as they are.
    """
    waiting, done = [pattern], list[str]()
    while waiting:
        said = waiting.pop()
        braces = re.search(r"\{([^{},]*(?:,[^{},]*)+)\}", said)
        if braces is None:
            done.append(said)
            continue
        waiting += [
            said[: braces.start()] + choice + said[braces.end() :]
            for choice in braces[1].split(",")
        ]
        if len(waiting) + len(done) > MOST_SPELLINGS:
            return [pattern]
    return sorted(done)
