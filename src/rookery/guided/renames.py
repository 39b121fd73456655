"""Renames that need no model: an identifier in all files, or a file."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from msgspec import Struct

_NAME = r"`?([A-Za-z_$][\w$]*)(?:\(\))?`?(?![\w/]|\.\w)"
_FILE = r"`?((?:[\w.-]+/)*[\w-]+\.\w{1,6})`?"
_THING = r"(?:function|method|class|variable|constant|type|module|file)"
_RENAME = re.compile(rf"\brename (?:the )?(?:{_THING} )?{_NAME} to {_NAME}", re.I)
_CALLED = re.compile(rf"\b{_THING} {_NAME} (?:should|must) be (?:called|named) {_NAME}", re.I)
_MOVE = re.compile(
    rf"\b(?:rename|move) (?:the )?(?:{_THING} )?{_FILE} (?:to|into|as) {_FILE}", re.I
)
_CODE = re.compile(r"\.(?:[cm]?[jt]sx?|py|go|rs|java|rb|php|c|h|cpp|hpp|cs|kt|swift|lua|vue|md)")
_LOADS = re.compile(r"\b(?:import|require|from|include|use)\b")


class Rename(Struct, frozen=True):
    old: str
    new: str
    is_file: bool


def rename_in(task: str) -> Rename | None:
    """The rename that a task asks for, if that is what it asks for."""
    if found := _MOVE.search(task):
        return Rename(found[1], found[2], is_file=True)
    found = _RENAME.search(task) or _CALLED.search(task)
    return Rename(found[1], found[2], is_file=False) if found else None


def renamed(rename: Rename, files: Mapping[str, str]) -> dict[str, str | None]:
    """The files that change; None stands for a file that is gone. Empty if the old name is not
    there or the new one is taken."""
    if rename.is_file:
        return _file_renamed(rename, files)
    code = {
        path: text for path, text in files.items() if _CODE.fullmatch(PurePosixPath(path).suffix)
    }
    if any(_word(rename.new).search(text) for text in code.values()):
        return {}
    changed = {path: _replaced(text, rename.old, rename.new) for path, text in code.items()}
    return {path: text for path, text in changed.items() if text != code[path]}


def _file_renamed(rename: Rename, files: Mapping[str, str]) -> dict[str, str | None]:
    before, after = PurePosixPath(rename.old), PurePosixPath(rename.new)
    if rename.old not in files or rename.new in files:
        return {}
    changed: dict[str, str | None] = {rename.new: files[rename.old], rename.old: None}
    if before.parent != after.parent:
        return changed  # what relative imports become then is for the model
    for path, text in files.items():
        lines = text.split("\n")
        new = [
            _replaced(line, before.stem, after.stem) if _LOADS.search(line) else line
            for line in lines
        ]
        if path != rename.old and new != lines:
            changed[path] = "\n".join(new)
    return changed


def _replaced(text: str, old: str, new: str) -> str:
    return _word(old).sub(lambda _: new, text)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
