"""Paths as text: how they are shown, and which lies in which folder."""

import unicodedata
from collections.abc import Iterable

_HIDDEN_CHARACTERS = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def within(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it; both are canonical."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def within_any(path: str, folders: Iterable[str]) -> bool:
    return any(within(path, folder) for folder in folders)


def hidden(name: str) -> bool:
    """Whether it has characters that hide, move or break text."""
    return any(unicodedata.category(character) in _HIDDEN_CHARACTERS for character in name)


def visible(name: str) -> str:
    """A name as it may be shown: characters that hide, move or break text are spelled out."""
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN_CHARACTERS
        else character
        for character in name
    )
