"""In which folder each command of a line would run.

`cd` holds for what comes after it in the same shell, and a subshell starts where its parent
is. If a `cd` may fail, what follows may run in either folder; both are considered.
"""

import os

from rookery.commands.words import SimpleCommand, Word
from rookery.commands.wrappers import program_name

Scope = tuple[int, ...]
MOST = 8
UNKNOWN = ""
"""A folder that only shows when the line runs."""
_LONGEST = 1024


class Folders:
    def __init__(self, start: str, home: str) -> None:
        self._at: dict[Scope, tuple[str, ...]] = {(): (start,)}
        self._seen = {start: None}
        self._home = home

    def of(self, command: SimpleCommand) -> tuple[str, ...]:
        """The folders it may run in; then it is gone by, if it is a `cd`."""
        scope = command.scope
        while scope not in self._at:
            scope = scope[:-1]
        folders = self._at[scope]
        self._at.setdefault(command.scope, folders)
        if command.words and program_name(command.words[0].text) in {
            "cd",
            "pushd",
            "popd",
            "chdir",
        }:
            after = self._after(folders, command.words)
            self._seen |= dict.fromkeys(after)
            self._at[command.scope] = after
        return folders

    def _after(self, folders: tuple[str, ...], words: tuple[Word, ...]) -> tuple[str, ...]:
        operands = [word for word in words[1:] if word.text in {"-", "~-"} or word.text[:1] != "-"]
        if words[0].text == "popd" or [word.text for word in operands[:1]] == ["-"]:
            return tuple(self._seen)
        if not operands:
            return (self._home,)
        return entered(folders, operands[0])


def entered(folders: tuple[str, ...], word: Word) -> tuple[str, ...]:
    """Where one is after entering a folder, as far as that can be known."""
    if not word.known:
        return tuple(dict.fromkeys((*folders, UNKNOWN)))
    if len(folders) > MOST or any(len(folder) > _LONGEST for folder in folders):
        return (*folders[:MOST], UNKNOWN)
    found = [way for folder in folders for way in _ways(folder, word.text)]
    if all(folder and os.path.isdir(folder) for folder in found):
        return tuple(dict.fromkeys(found))
    return tuple(dict.fromkeys((*found, *folders)))


def _ways(folder: str, said: str) -> tuple[str, ...]:
    """A shell takes `..` for what stands before it in the path, the system for where a link
    has led to."""
    if not folder and not os.path.isabs(said):
        return (UNKNOWN,)
    joined = os.path.join(folder, said)
    return (joined, os.path.normpath(joined)) if ".." in said.split("/") else (joined,)
