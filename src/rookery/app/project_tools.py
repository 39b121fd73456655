"""The tools that the user and the project define, and who agreed to them: part of the composition
root.
"""

from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool
from rookery.errors import StorageError, ToolError
from rookery.permissions.trust import HOW_TO_AGREE, ToolAgreements
from rookery.platform.user_folders import Places
from rookery.prompting.tool_files import (
    FoundTool,
    find_tools,
    fingerprint,
    why_not_covered,
)
from rookery.tools.custom.custom_tool import Agreement, CustomTool, CustomToolGuard, UsersWord
from rookery.workspace.boundaries import Boundaries


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


def agree_to_tools(places: Places, boundaries: Boundaries, *, first_only: bool) -> tuple[str, ...]:
    """A person agrees to the project's tools as they are now; `first_only` leaves them as they
    are if that has been done before. What was new to agree to, a line each. Raises
    `StorageError` and `ToolError`."""
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
