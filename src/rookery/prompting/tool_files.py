"""Tools that users and projects define as TOML files: `tools/<name>.toml`.

A user's own tool is the user's word. A project's tool counts only as a person agreed to it: the
bytes of its file, and of every file in the workspace that its program line names or loads.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.commands.tool_programs import files_in, loaded_by
from rookery.errors import ToolError
from rookery.governance.external_hooks.hook_trust import file_digest, paths_in
from rookery.prompting.config_files import (
    ConfigFolder,
    FoundFile,
    Look,
    projects_folder,
    users_folder,
)
from rookery.tools.custom.custom_tool import ToolDefinition, tool_definition
from rookery.workspace.boundaries import Boundaries

FOLDER = "tools"
PROJECT_FOLDERS = (PROJECT_FOLDER, ".roo")
_ENDING = ".toml"


class FoundTool(Struct, frozen=True):
    """`called` is its file for people, `digest` that of its content. `words` are its program line
    as it is run in the workspace."""

    definition: ToolDefinition
    called: str
    path: Path
    digest: str
    words: tuple[str, ...]
    of_project: bool


class FoundTools(Struct, frozen=True):
    """By name, each name once, and what was wrong, for the user."""

    tools: tuple[FoundTool, ...] = ()
    problems: tuple[str, ...] = ()


def find_tools(config: Path, home: Path, boundaries: Boundaries, *, trusted: bool) -> FoundTools:
    """The user's tools; also those of the project if its folder is trusted."""
    look = Look()
    project = projects_folder(boundaries)
    of_project = [project.below(name) for name in PROJECT_FOLDERS] if trusted else []
    found: dict[str, FoundTool] = {}
    for folder in (users_folder(config, home), *of_project):
        for tool in _tools_in(folder, boundaries.root, look):
            name = tool.definition.name
            if name in found:
                look.complain(f"{tool.called} is not used: {found[name].called} has that name.")
            found.setdefault(name, tool)
    tools = tuple(tool for _, tool in sorted(found.items()))
    return FoundTools(tools, tuple(look.problems))


def fingerprint(tool: FoundTool, root: Path) -> str:
    """Of all that a person agrees to. Raises `ToolError` if the tool is no longer as it was
    read."""
    if file_digest(tool.path) != tool.digest:
        raise ToolError(
            f"{tool.called} has changed since this run read it, so the tool was not run. "
            "The next run reads it anew."
        )
    whole = json.dumps([tool.digest, tool.words, sorted({*_named_files(tool, root)})])
    return sha256(whole.encode()).hexdigest()


def why_not_covered(tool: FoundTool, root: Path) -> str:
    """Why no approval can cover what the tool runs, in a sentence; empty if one can."""
    unknown = loaded_by(tool.words, os.path.realpath(root)).unknown
    if not unknown:
        return ""
    return (
        f"The tool {tool.definition.name} needs approval for every call, because {unknown} can "
        "load files that no approval covers."
    )


def _tools_in(folder: ConfigFolder, root: Path, look: Look) -> Iterator[FoundTool]:
    for file in folder.files(FOLDER, look):
        is_one = "/" not in file.name and file.name.endswith(_ENDING)
        if is_one and (tool := _tool(folder, file, root, look)):
            yield tool


def _tool(folder: ConfigFolder, file: FoundFile, root: Path, look: Look) -> FoundTool | None:
    problems = len(look.problems)
    digest = file_digest(Path(file.path))
    text = folder.text(file.path, look)
    called = folder.called(file.path)
    try:
        if look.problems[problems:]:
            raise ValueError("it could not be read completely")
        definition = tool_definition(file.name.removesuffix(_ENDING), text)
    except ValueError as error:
        look.complain(f"The tool {called} is left out: {error}.")
        return None
    of_project = folder.origin == "project"
    words = tuple(_word(word, Path(file.path), root, of_project) for word in definition.command)
    return FoundTool(definition, called, Path(file.path), digest, words, of_project)


def _word(word: str, file: Path, root: Path, of_project: bool) -> str:
    """A file beside a project's definition is meant by its name. The folder of the user's own
    definitions is hidden from commands, so nothing in it can be meant."""
    if not of_project:
        return os.path.expanduser(word)
    beside = file.parent / word
    is_meant = not os.path.isabs(word) and os.path.isfile(beside)
    return os.path.relpath(beside, root) if is_meant else word


def _named_files(tool: FoundTool, root: Path) -> Iterator[tuple[str, str, str]]:
    """Every file in the workspace that the line may name, where it leads, and its content."""
    for top in {str(root), os.path.realpath(root)}:
        loaded = loaded_by(tool.words, top).paths
        files = (file for path in loaded for file in files_in(path, top) or ())
        for path in dict.fromkeys([*paths_in(tool.words, top), *files]):
            real = os.path.realpath(os.path.join(top, path))
            if os.path.isfile(real):
                yield path, os.path.relpath(real, os.path.realpath(root)), file_digest(Path(real))
