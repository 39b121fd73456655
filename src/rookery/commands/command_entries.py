"""Entries of the user's lists of commands, and which commands they mean."""

import re
from collections.abc import Sequence

EVERYTHING = "*"


def begins_with(entry: Sequence[str], said: Sequence[str]) -> bool:
    """Word by word from the start. Letters of options count in any order and grouping."""
    if list(entry) == [EVERYTHING]:
        return True
    from rookery.commands.wrappers import program_name

    if not said or program_name(entry[0]) != program_name(said[0]):
        return False
    if [word.lower() for word in entry[1:]] == [word.lower() for word in said[1 : len(entry)]]:
        return True
    wanted, given = _plain_words(entry[1:]), _plain_words(said[1:])
    return _options(entry[1:]) <= _options(said[1:]) and given[: len(wanted)] == wanted


def _plain_words(said: Sequence[str]) -> list[str]:
    return [word.lower() for word in said if not word.startswith("-")]


def _options(said: Sequence[str]) -> set[str]:
    options = set[str]()
    for word in said:
        if re.fullmatch(r"-[A-Za-z0-9]+", word):
            options |= {f"-{letter}" for letter in word[1:]}
        elif word.startswith("-"):
            options.add(word)
    return options
