"""Commands that users and projects write as Markdown files: `commands/<name>.md`.

A user who types a name means what they know by it: their own command, or else the one that has
always been there. A project can add commands, and replace none.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.core.instructions import SlashCommand
from rookery.core.limits import KIB
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigScan,
    FileCache,
    FoundFile,
    projects_folder,
    users_folder,
)
from rookery.prompting.yaml_text import front_matter
from rookery.workspace.boundaries import Boundaries

FOLDER = "commands"
LARGEST = 64 * KIB

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ENDING = ".md"

INIT = SlashCommand(
    name="init",
    description="ConfigScan through the project and write AGENTS.md",
    content=f"""\
Write an AGENTS.md for this project: what an engineer who is new to it could not guess, and would
get wrong for want of knowing.

1. Look first: at AGENTS.md and other agents' instruction files that are there, the README, the
   build and test configuration, continuous integration, and a few files of each part of the code.
2. Write only what you found in the project and what is special to it:
   - how to build, check and test, and how to run a single test;
   - how the parts fit together, where that takes several files to see;
   - conventions that differ from the usual, and traps: orders that matter, generated files,
     settings that must agree.
   Leave out what any engineer knows, what the file tree shows, and advice that fits every project.
3. Keep it to a screen or two of short lines. If there is an AGENTS.md, improve it: keep what is
   right, mend what is wrong, remove what is obvious.
4. If what matters differs by what one does, write it to {PROJECT_FOLDER}/rules-<mode>/AGENTS.md
   for the modes code, debug, ask and architect, and only there. Make no file without content.
5. At the end say in a few lines what you wrote, and what you could not find out.""",
)
BUILT_IN: tuple[SlashCommand, ...] = (INIT,)


class FoundCommands(Struct, frozen=True, kw_only=True):
    """All commands, each name once, and what was wrong, for the user."""

    commands: tuple[SlashCommand, ...] = BUILT_IN
    unreadable: tuple[tuple[str, str], ...] = ()
    """Names of files that are no command, each with a sentence that says why."""
    problems: tuple[str, ...] = ()


class CommandFiles:
    def __init__(self, config: Path, home: Path, boundaries: Boundaries, *, trusted: bool) -> None:
        root = projects_folder(boundaries)
        self._of_project = [root.below(name) for name in (PROJECT_FOLDER, ".roo")]
        self._of_user = [users_folder(folder, home) for folder in (config, home / ".roo")]
        self._trusted = trusted
        self._found = FileCache(self._read)

    def read(self) -> FoundCommands:
        return self._found.get()

    def _read(self, look: ConfigScan) -> FoundCommands:
        users = _commands_in(self._of_user, look)
        usual: dict[str, SlashCommand | str] = {command.name: command for command in BUILT_IN}
        known = usual | users
        for name, command in _commands_in(self._of_project if self._trusted else [], look).items():
            if name in known:
                whose = "you have one of that name" if name in users else "it is a name of ours"
                look.complain(f"The project's own command /{name} is not used: {whose}.")
            known.setdefault(name, command)
        return FoundCommands(
            commands=tuple(
                command for _, command in sorted(known.items()) if isinstance(command, SlashCommand)
            ),
            unreadable=tuple(
                (name, reason) for name, reason in sorted(known.items()) if isinstance(reason, str)
            ),
            problems=tuple(look.problems),
        )


def _commands_in(
    folders: Sequence[ConfigFolder], look: ConfigScan
) -> dict[str, SlashCommand | str]:
    """The commands by name, of files that have the same name the first that can be read; or
    sentences that say why there is none."""
    found: dict[str, SlashCommand | str] = {}
    for folder in folders:
        for file in filter(_is_meant, folder.files(FOLDER, look)):
            name, command = _name(file), _command(folder, file, look)
            if not isinstance(found.get(name), SlashCommand):
                found[name] = command
    return found


def _is_meant(file: FoundFile) -> bool:
    return file.name.endswith(_ENDING) and bool(_NAME.fullmatch(_name(file)))


def _name(file: FoundFile) -> str:
    return file.name.removesuffix(_ENDING)


def _command(folder: ConfigFolder, file: FoundFile, look: ConfigScan) -> SlashCommand | str:
    """The command, or a sentence that says why there is none."""
    complaints = len(look.problems)
    text = folder.text(file.path, look, most=LARGEST)
    if not text and look.problems[complaints:]:
        return look.problems[-1]
    try:
        about, body = front_matter(text)
        return SlashCommand(
            name=_name(file),
            content=body.strip(),
            description=_text(about, "description"),
            argument_hint=_text(about, "argument-hint"),
            mode=_text(about, "mode"),
            origin=folder.origin,
        )
    except ValueError as error:
        reason = f"The command {folder.called(file.path)} is left out: {error}."
        look.complain(reason)
        return reason


def _text(about: dict[str, Any], key: str) -> str:
    match about.get(key):
        case None:
            return ""
        case str(text):
            return text.strip()
        case [str(text)]:
            return f"[{text}]"  # how a hint in brackets comes out of YAML
        case _:
            raise ValueError(f"{key} is no text")
