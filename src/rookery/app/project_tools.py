"""Custom tools that users and projects define as TOML files (`tools/<name>.toml`), and their
approval.

The user's own tools need no approval. A project's tool runs only as the user approved it: the
content of its file, and of every file in the workspace that its command names or loads.
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
from rookery.commands.nested_commands import files_in, loaded_by
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool
from rookery.errors import StorageError, ToolError
from rookery.governance.external_hooks.hook_trust import file_digest, paths_in
from rookery.permissions.trust import HOW_TO_AGREE, ToolAgreements
from rookery.platform.user_folders import Places, find_places
from rookery.prompting.config_files import (
    ConfigFolder,
    ConfigPlaces,
    ConfigScan,
    FoundFile,
)
from rookery.tools.programs.custom_tool import (
    Agreement,
    CustomTool,
    CustomToolGuard,
    OwnToolAgreement,
    ToolDefinition,
    tool_definition,
)
from rookery.workspace.boundaries import Boundaries

FOLDER = "tools"
PROJECT_FOLDERS = (PROJECT_FOLDER, ".roo")
_ENDING = ".toml"


class FoundTool(Struct, frozen=True):
    """A custom tool. `label` is the display name of its file, `digest` the hash of its content,
    `words` the command as it is run in the workspace."""

    definition: ToolDefinition
    label: str
    path: Path
    digest: str
    words: tuple[str, ...]
    of_project: bool


class FoundTools(Struct, frozen=True):
    """Custom tools, each name once, and problems to show to the user."""

    tools: tuple[FoundTool, ...] = ()
    problems: tuple[str, ...] = ()


def find_tools(config: Path, home: Path, boundaries: Boundaries, *, trusted: bool) -> FoundTools:
    """Find the user's tools, and the project's if its folder is trusted."""
    scan = ConfigScan()
    places = ConfigPlaces(config, home, boundaries, trusted=trusted)
    project = places.project
    of_project = [project.below(name) for name in PROJECT_FOLDERS] if project else []
    found: dict[str, FoundTool] = {}
    for folder in (places.config, *of_project):
        for tool in _tools_in(folder, boundaries.root, scan):
            name = tool.definition.name
            if name in found:
                scan.report(f"{tool.label} is not used: {found[name].label} has that name.")
            found.setdefault(name, tool)
    tools = tuple(tool for _, tool in sorted(found.items()))
    return FoundTools(tools, tuple(scan.problems))


def fingerprint(tool: FoundTool, root: Path) -> str:
    """Hash everything that an approval covers. Raises `ToolError` if the tool's file changed
    since it was read."""
    if file_digest(tool.path) != tool.digest:
        raise ToolError(
            f"{tool.label} changed after this run had read it, so the tool was not "
            "run. Start again to use the new version."
        )
    whole = json.dumps([tool.digest, tool.words, sorted({*_named_files(tool, root)})])
    return sha256(whole.encode()).hexdigest()


def why_not_covered(tool: FoundTool, root: Path) -> str:
    """Return why no approval can cover what the tool runs; empty if one can."""
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
    label = folder.label(file.path)
    try:
        if scan.problems[problems:]:
            raise ValueError("it could not be read completely")
        definition = tool_definition(file.name.removesuffix(_ENDING), text)
    except ValueError as error:
        scan.report(f"The tool {label} is skipped: {error}.")
        return None
    of_project = folder.origin == "project"
    words = tuple(_resolve(word, Path(file.path), root, of_project) for word in definition.command)
    return FoundTool(definition, label, Path(file.path), digest, words, of_project)


def _resolve(word: str, file: Path, root: Path, of_project: bool) -> str:
    """Resolve a word of the command: a project's tool may name a file beside its definition. The
    folder of the user's definitions is hidden from commands, so its files cannot be used."""
    if not of_project:
        return os.path.expanduser(word)
    beside = file.parent / word
    is_beside = not os.path.isabs(word) and os.path.isfile(beside)
    return os.path.relpath(beside, root) if is_beside else word


def _named_files(tool: FoundTool, root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield every workspace file that the command names or loads: path, target, hash."""
    for top in {str(root), os.path.realpath(root)}:
        loaded = loaded_by(tool.words, top).paths
        files = (file for path in loaded for file in files_in(path, top) or ())
        for path in dict.fromkeys([*paths_in(tool.words, top), *files]):
            real = os.path.realpath(os.path.join(top, path))
            if os.path.isfile(real):
                yield path, os.path.relpath(real, os.path.realpath(root)), file_digest(Path(real))


class OfferedTools(Struct, frozen=True):
    """The tools to offer. `problems` says which tools are not offered and why."""

    tools: dict[str, Tool[Any]]
    guard: Hook
    problems: tuple[str, ...]


class ProjectAgreement:
    """The user's approval of one tool of the project."""

    def __init__(self, tool: FoundTool, root: Path, agreements: ToolAgreements) -> None:
        self._tool = tool
        self._root = root
        self._agreements = agreements
        self.fingerprint = partial(fingerprint, tool, root)

    def uncovered(self) -> str:
        return why_not_covered(self._tool, self._root)

    def missing(self, fingerprint: str) -> str:
        return self._agreements.missing(self._tool.label, fingerprint)

    def agree(self, fingerprint: str) -> None:
        try:
            self._agreements.agree({self._tool.label: fingerprint})
        except StorageError as error:
            raise ToolError(f"The tool was not run: {error}") from error


def open_custom_tools(
    places: Places, boundaries: Boundaries, *, trusted: bool, attended: bool
) -> OfferedTools:
    """Open the custom tools. If no user can be asked, only those that need no question."""
    root = Path(boundaries.root)
    agreements = ToolAgreements(places.tools_agreed, root)
    found = find_tools(places.config, Path.home(), boundaries, trusted=trusted)
    tools: dict[str, Tool[Any]] = {}
    problems = list(found.problems)
    for tool in found.tools:
        agreement: Agreement = OwnToolAgreement()
        if tool.of_project:
            agreement = ProjectAgreement(tool, root, agreements)
        if not attended and (why_not := _why_not_offered(agreement)):
            problems.append(f"The tool {tool.definition.name} is not offered: {why_not}")
            continue
        made = CustomTool(tool.definition, tool.words, agreement)
        tools[made.name] = cast(Tool[Any], made)
    return OfferedTools(tools, CustomToolGuard(), tuple(problems))


def _why_not_offered(agreement: Agreement) -> str:
    """Return why the tool cannot run without asking; empty if it can."""
    if uncovered := agreement.uncovered():
        return uncovered
    try:
        missing = agreement.missing(agreement.fingerprint())
    except ToolError as error:
        missing = str(error)
    return f"{missing} {HOW_TO_AGREE}" if missing else ""


def agree_to_servers(root: Path, *, only_new: bool = False) -> None:
    """Approve the MCP servers that the folder defines now; later changes are asked about again.
    If the approval cannot be stored, each server is asked about when it starts. `only_new` skips
    servers whose definition changed."""
    from rookery.platform.user_folders import PROJECT_MCP_FILES

    if not any(os.path.lexists(root / name) for name in PROJECT_MCP_FILES):
        return
    from rookery.mcp.agreements import agree_to_project
    from rookery.providers.registry import PRIVATE_VARIABLES

    environ = {name: text for name, text in os.environ.items() if name not in PRIVATE_VARIABLES}
    with suppress(ToolError):
        agree_to_project(find_places(os.environ).mcp_file, root, environ, only_new=only_new)


def agree_to_tools(folder: Path, *, first_only: bool = False) -> tuple[str, ...]:
    """Approve the tools that the folder defines now; later changes are asked about again. Return
    a line for each new one. `first_only` does nothing in a folder whose tools were reviewed
    before. Raises `StorageError` and `ToolError`."""
    from rookery.core.limits import Limits
    from rookery.workspace.files import WorkspaceFiles

    places = find_places(os.environ)
    files = WorkspaceFiles(folder, Limits(), own_folders=places.own_folders, home=Path.home())
    boundaries = files.boundaries
    root = Path(boundaries.root)
    agreements = ToolAgreements(places.tools_agreed, root)
    if first_only and agreements.were_reviewed:
        return ()
    found = find_tools(places.config, Path.home(), boundaries, trusted=True)
    now = {tool: fingerprint(tool, root) for tool in found.tools if tool.of_project}
    if first_only and not now:
        return ()  # do not write the file for folders without tools
    new = [tool for tool, digest in now.items() if agreements.missing(tool.label, digest)]
    agreements.agree({tool.label: digest for tool, digest in now.items()})
    return tuple(
        why_not_covered(each, root) or f"Approved the tool {each.label}: {' '.join(each.words)}"
        for each in new
    )
