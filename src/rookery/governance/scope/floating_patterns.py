"""Patterns that forbid or exempt: as .gitignore has them, so without a `/` they hold anywhere.

What forbids is compared without regard to case and composition too, and its braces are read as the
alternatives somebody who writes them means.
"""

import unicodedata
from collections.abc import Callable, Sequence

from rookery.core.text.characters import caseless
from rookery.governance.scope.braces import PatternError, alternatives
from rookery.platform.patterns import FileRules, file_pattern


def floating_fault(text: str) -> str:
    """What is wrong with a pattern; empty if nothing is."""
    try:
        return "" if file_pattern(text) else "a pattern may not be empty or a comment"
    except ValueError as error:
        return str(error)


def forbidding(patterns: Sequence[str]) -> Callable[[str], str]:
    """Says which of the patterns a path falls under; empty if under none."""
    rules = [
        (text, FileRules.of_ignore_file(spellings), FileRules.of_ignore_file(folded))
        for text in patterns
        for spellings in (_spellings(text),)
        for folded in ([caseless(each) for each in spellings],)
    ]

    def pattern_over(path: str) -> str:
        composed, plain = unicodedata.normalize("NFC", path), caseless(path)
        found = (
            text for text, exact, loose in rules if exact.cover(composed) or loose.cover(plain)
        )
        return next(found, "")

    return pattern_over


def covers(pattern: str, path: str) -> bool:
    """Whether one exempting pattern means the path, exactly as it is spelled."""
    rules = FileRules.of_ignore_file([unicodedata.normalize("NFC", pattern)])
    return rules.cover(unicodedata.normalize("NFC", path))


def _spellings(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text)
    try:
        return list(dict.fromkeys((composed, *alternatives(composed))))
    except PatternError:
        return [composed]
