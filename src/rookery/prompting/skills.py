"""Skills: folders with a SKILL.md, of which the model is told the name and what it is for. The
text itself is read when the model asks for it. A project adds skills, and replaces none of the
user's.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.instructions import Skill
from rookery.core.limits import KIB
from rookery.errors import ToolError
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigScan,
    FileCache,
    projects_folder,
    users_folder,
)
from rookery.prompting.yaml_text import front_matter
from rookery.workspace.boundaries import Boundaries

FILE_NAME = "SKILL.md"
LARGEST = 64 * KIB
LONGEST_DESCRIPTION = 1024
MOST_SKILLS = 500
"""Folders that are looked into for one, of those in one place."""

_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_FOLDER = re.compile(r"skills(?:-([A-Za-z0-9-]+))?")
_FOREIGN = (".agents", ".roo")


class FoundSkills(Struct, frozen=True, kw_only=True):
    """Skills of all modes, those that count more after the others, and what was wrong."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()


class SkillFiles:
    def __init__(self, config: Path, home: Path, boundaries: Boundaries, *, trusted: bool) -> None:
        of_user = [*(home / name for name in _FOREIGN), config]
        self._folders = [users_folder(folder, home) for folder in of_user]
        if trusted:
            root = projects_folder(boundaries)
            self._folders += [root.below(name) for name in (*_FOREIGN, PROJECT_FOLDER)]
        self._files: dict[Skill, tuple[ConfigFolder, str]] = {}
        self._found = FileCache(self._read)

    def read(self) -> FoundSkills:
        return self._found.get()

    def body(self, skill: Skill) -> str:
        """What a skill says. Raises `ToolError` if it can no longer be read."""
        look = ConfigScan()
        folder, file = self._files[skill]
        text = folder.text(file, look, most=LARGEST)
        try:
            _, body = front_matter(text)
        except ValueError as error:
            raise ToolError(f"The skill {skill.name} cannot be read: {error}.") from error
        if not text:
            reason = " ".join(look.problems) or "its file is gone or empty."
            raise ToolError(f"The skill {skill.name} cannot be read: {reason}")
        return body

    def _read(self, look: ConfigScan) -> FoundSkills:
        found: dict[tuple[str, tuple[str, ...], str], Skill] = {}
        for folder in self._folders:
            for skill, file in _skills_of(folder, look):
                key = skill.name, skill.modes, skill.origin
                found.pop(key, None)
                found[key] = skill
                self._files[skill] = folder, file
        _tell_unused(tuple(found.values()), look)
        return FoundSkills(skills=tuple(found.values()), problems=tuple(look.problems))


def _tell_unused(skills: tuple[Skill, ...], look: ConfigScan) -> None:
    users = [skill for skill in skills if skill.origin == "user"]
    for skill in skills:
        if skill.origin == "project" and any(_hides(own, skill) for own in users):
            look.complain(
                f"The project's skill {skill.name} is not used: you have one of that name."
            )


def _hides(own: Skill, other: Skill) -> bool:
    """Whether a skill takes the place of another in all of the other's modes."""
    same_modes = not own.modes or (bool(other.modes) and set(other.modes) <= set(own.modes))
    return own.name == other.name and same_modes


def _skills_of(folder: ConfigFolder, look: ConfigScan) -> Iterator[tuple[Skill, str]]:
    places = list(islice(_places(folder, look), MOST_SKILLS + 1))
    if len(places) > MOST_SKILLS:
        called = folder.called(str(folder.path))
        look.complain(f"{called} has more than {MOST_SKILLS} skills; the rest is not read.")
    for kind, inner, mode in places[:MOST_SKILLS]:
        file = folder.at(f"{kind}/{inner}/{FILE_NAME}")
        if skill := _skill(folder, file, inner, mode, look):
            yield skill, file


def _places(folder: ConfigFolder, look: ConfigScan) -> Iterator[tuple[str, str, str]]:
    """Where skills may be: the folder of their kind, their own, and the mode they are for."""
    for name in folder.folders("", look):
        if kind := _FOLDER.fullmatch(name):
            for inner in folder.folders(name, look):
                yield name, inner, kind[1] or ""


def _skill(folder: ConfigFolder, file: str, name: str, mode: str, look: ConfigScan) -> Skill | None:
    text = folder.text(file, look, most=LARGEST)
    if not text:
        return None
    try:
        about, _ = front_matter(text)
        return Skill(
            name=_checked_name(about, name),
            description=_description(about),
            path=folder.called(file),
            origin=folder.origin,
            modes=(mode,) if mode else _modes(about),
        )
    except ValueError as error:
        look.complain(f"The skill {folder.called(file)} is left out: {error}.")
        return None


def _checked_name(about: dict[str, Any], folder: str) -> str:
    if about.get("name") != folder:
        raise ValueError(f"its name must be that of its folder, {folder}")
    if not _NAME.fullmatch(folder):
        raise ValueError("its name may have small letters, digits and - between them, 64 at most")
    return folder


def _description(about: dict[str, Any]) -> str:
    match about.get("description"):
        case str(text) if 0 < len(text.strip()) <= LONGEST_DESCRIPTION:
            return text.strip()
        case _:
            raise ValueError(f"it needs a description of 1 to {LONGEST_DESCRIPTION} characters")


def _modes(about: dict[str, Any]) -> tuple[str, ...]:
    match about.get("modeSlugs", about.get("mode")):
        case None:
            return ()
        case str(mode):
            return (mode,)
        case list(modes) if all(isinstance(mode, str) for mode in modes):
            return tuple(modes)
        case _:
            raise ValueError("modeSlugs must be a list of modes")
