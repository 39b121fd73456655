"""Tools that users and projects define as TOML files (`tools/<name>.toml`), and who agreed to them.

A user's own tool is the user's word. A project's tool counts only as a person agreed to it: the
bytes of its file, and of every file in the workspace that its program line names or loads.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from rookery import PROJECT_FOLDER
from rookery.commands.tool_programs import files_in, loaded_by
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool
from rookery.errors import StorageError, ToolError
from rookery.governance.external_hooks.hook_trust import file_digest, paths_in
from rookery.permissions.trust import HOW_TO_AGREE, ToolAgreements
from rookery.platform.user_folders import Places, find_places
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigScan,
    FoundFile,
    projects_folder,
    users_folder,
)
from rookery.tools.custom.custom_tool import (
    Agreement,
    CustomTool,
    CustomToolGuard,
    ToolDefinition,
    UsersWord,
    tool_definition,
)
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
    scan = ConfigScan()
    project = projects_folder(boundaries)
    of_project = [project.below(name) for name in PROJECT_FOLDERS] if trusted else []
    found: dict[str, FoundTool] = {}
    for folder in (users_folder(config, home), *of_project):
        for tool in _tools_in(folder, boundaries.root, scan):
            name = tool.definition.name
            if name in found:
                scan.complain(f"{tool.called} is not used: {found[name].called} has that name.")
            found.setdefault(name, tool)
    tools = tuple(tool for _, tool in sorted(found.items()))
    return FoundTools(tools, tuple(scan.problems))


def fingerprint(tool: FoundTool, root: Path) -> str:
    """Of all that a person agrees to. Raises `ToolError` if the tool is no longer as it was
    read."""
    if file_digest(tool.path) != tool.digest:
        raise ToolError(
            f"{tool.called} changed after this run had read it, so the tool was not "
            "run. Start again to use the new version."
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


def _tools_in(folder: ConfigFolder, root: Path, scan: ConfigScan) -> Iterator[FoundTool]:
    for file in folder.files(FOLDER, scan):
        is_one = "/" not in file.name and file.name.endswith(_ENDING)
        if is_one and (tool := _tool(folder, file, root, scan)):
            yield tool


def _tool(folder: ConfigFolder, file: FoundFile, root: Path, scan: ConfigScan) -> FoundTool | None:
    problems = len(scan.problems)
    digest = file_digest(Path(file.path))
    text = folder.text(file.path, scan)
    called = folder.called(file.path)
    try:
        if scan.problems[problems:]:
            raise ValueError("it could not be read completely")
        definition = tool_definition(file.name.removesuffix(_ENDING), text)
    except ValueError as error:
        scan.complain(f"The tool {called} is skipped: {error}.")
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


class OfferedTools(Struct, frozen=True):
    """`problems` are sentences for the user, about tools that are not offered."""

    tools: dict[str, Tool[Any]]
    guard: Hook
    problems: tuple[str, ...]


class ProjectAgreement:
    """What a person has agreed to of one tool of the project."""

    def __init__(self, tool: FoundTool, root: Path, agreements: ToolAgreements) -> None:
        self._tool = tool
        self._root = root
        self._agreements = agreements
        self.fingerprint = partial(fingerprint, tool, root)

    def uncovered(self) -> str:
        return why_not_covered(self._tool, self._root)

    def missing(self, fingerprint: str) -> str:
        return self._agreements.missing(self._tool.called, fingerprint)

    def agree(self, fingerprint: str) -> None:
        try:
            self._agreements.agree({self._tool.called: fingerprint})
        except StorageError as error:
            raise ToolError(f"The tool was not run: {error}") from error


def open_custom_tools(
    places: Places, boundaries: Boundaries, *, trusted: bool, attended: bool
) -> OfferedTools:
    """Where nobody can be asked, only the tools that need no question."""
    root = Path(boundaries.root)
    agreements = ToolAgreements(places.tools_agreed, root)
    found = find_tools(places.config, Path.home(), boundaries, trusted=trusted)
    tools: dict[str, Tool[Any]] = {}
    problems = list(found.problems)
    for tool in found.tools:
        agreement: Agreement = UsersWord()
        if tool.of_project:
            agreement = ProjectAgreement(tool, root, agreements)
        if not attended and (why_not := _why_not_offered(agreement)):
            problems.append(f"The tool {tool.definition.name} is not offered: {why_not}")
            continue
        made = CustomTool(tool.definition, tool.words, agreement)
        tools[made.name] = cast(Tool[Any], made)
    return OfferedTools(tools, CustomToolGuard(), tuple(problems))


def _why_not_offered(agreement: Agreement) -> str:
    """Why the tool cannot run unless a person is asked; empty if it can."""
    if uncovered := agreement.uncovered():
        return uncovered
    try:
        missing = agreement.missing(agreement.fingerprint())
    except ToolError as error:
        missing = str(error)
    return f"{missing} {HOW_TO_AGREE}" if missing else ""


def agree_to_servers(root: Path, *, only_new: bool = False) -> None:
    """Trust is for the MCP servers that the folder defines now, not for those of later. Where that
    cannot be kept, each is asked about when it is started. `only_new` leaves out those that were
    defined otherwise before."""
    from rookery.mcp.presence import PROJECT_FILES

    if not any(os.path.lexists(root / name) for name in PROJECT_FILES):
        return
    from rookery.mcp.agreements import agree_to_project
    from rookery.providers.registry import KEY_VARIABLES

    keys = set(KEY_VARIABLES.values())
    environ = {name: text for name, text in os.environ.items() if name not in keys}
    with suppress(ToolError):
        agree_to_project(find_places(os.environ).mcp_file, root, environ, only_new=only_new)


def agree_to_tools(folder: Path, *, first_only: bool = False) -> tuple[str, ...]:
    """Trust is for the tools that the folder defines now, not for those of later. What was new, a
    line each. `first_only` agrees only in a folder whose tools nobody agreed to before. Raises
    `StorageError` and `ToolError`."""
    from rookery.core.limits import Limits
    from rookery.workspace.files import WorkspaceFiles

    places = find_places(os.environ)
    files = WorkspaceFiles(folder, Limits(), own_folders=places.own_folders, home=Path.home())
    boundaries = files.boundaries
    root = Path(boundaries.root)
    agreements = ToolAgreements(places.tools_agreed, root)
    if first_only and agreements.were_looked_at:
        return ()
    found = find_tools(places.config, Path.home(), boundaries, trusted=True)
    now = {tool: fingerprint(tool, root) for tool in found.tools if tool.of_project}
    if first_only and not now:
        return ()  # most folders have no tools, and a run should write no more than it must
    new = [tool for tool, print_ in now.items() if agreements.missing(tool.called, print_)]
    agreements.agree({tool.called: print_ for tool, print_ in now.items()})
    return tuple(
        why_not_covered(each, root) or f"Approved the tool {each.called}: {' '.join(each.words)}"
        for each in new
    )
