"""Commands that users and projects write as Markdown files: `commands/<name>.md`."""

import re
from pathlib import Path
from typing import Any

from rookery import PROJECT_FOLDER
from rookery.core.instructions import SlashCommand
from rookery.core.limits import KIB
from rookery.core.values import value
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.surroundings.config_files import (
    ConfigFolder,
    FoundFile,
    projects_folder,
    users_folder,
)
from rookery.workspace.surroundings.looks import Look, Remembered
from rookery.workspace.surroundings.yaml_text import front_matter

FOLDER = "commands"
LARGEST = 64 * KIB

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ENDING = ".md"

INIT = SlashCommand(
    name="init",
    description="Look through the project and write AGENTS.md",
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


@value
class FoundCommands:
    """All commands, each name once, and what was wrong, for the user."""

    commands: tuple[SlashCommand, ...] = BUILT_IN
    problems: tuple[str, ...] = ()


class CommandFiles:
    def __init__(self, config: Path, home: Path, boundaries: Boundaries, *, trusted: bool) -> None:
        root = projects_folder(boundaries)
        of_project = [root.below(name) for name in (PROJECT_FOLDER, ".roo")] if trusted else []
        of_user = [users_folder(folder, home) for folder in (config, home / ".roo")]
        self._folders = [*of_project, *of_user]
        self._found = Remembered(self._read)

    def read(self) -> FoundCommands:
        return self._found.get()

    def _read(self, look: Look) -> FoundCommands:
        commands: dict[str, SlashCommand] = {}
        for folder in self._folders:
            for file in folder.files(FOLDER, look):
                command = _command(folder, file, look)
                if command is not None:
                    commands.setdefault(command.name, command)
        for command in BUILT_IN:
            commands.setdefault(command.name, command)
        in_order = tuple(commands[name] for name in sorted(commands))
        return FoundCommands(commands=in_order, problems=tuple(look.problems))


def _command(folder: ConfigFolder, file: FoundFile, look: Look) -> SlashCommand | None:
    name = file.name.removesuffix(_ENDING)
    if not file.name.endswith(_ENDING) or not _NAME.fullmatch(name):
        return None
    text = folder.text(file.path, look, most=LARGEST)
    try:
        about, body = front_matter(text)
        return SlashCommand(
            name=name,
            content=body.strip(),
            description=_text(about, "description"),
            argument_hint=_text(about, "argument-hint"),
            mode=_text(about, "mode"),
            origin=folder.origin,
        )
    except ValueError as error:
        look.complain(f"The command {folder.called(file.path)} is left out: {error}.")
        return None


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
