"""A workspace on disk, and a gate that permits whatever an action declares."""

from pathlib import Path
from typing import Any, cast

import msgspec

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.ports.workspace import Artifacts, Shell
from rookery.tools.registry import all_tools
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.tree import WorkspaceFinder


def permit_for(action: Action) -> Permit:
    return Permit(action.digest, reads=frozenset(action.reads), changes=frozenset(action.changes))


def permit_to_read(*paths: str) -> Permit:
    return Permit("", reads=frozenset(paths))


class Workbench:
    def __init__(self, root: Path, limits: Limits | None = None, *, sees_images: bool = False):
        self.root = root
        self.limits = limits or Limits()
        self.files = WorkspaceFiles(root, self.limits)
        self._sees_images = sees_images
        self._tools = all_tools()

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def bytes_of(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    async def prepare(self, name: str, **arguments: Any) -> Action:
        tool: Tool[Any] = self._tools[name]
        return await tool.prepare(msgspec.convert(arguments, tool.arguments), self._context())

    async def run(self, name: str, **arguments: Any) -> Outcome:
        action = await self.prepare(name, **arguments)
        return await action.perform(permit_for(action))

    def _context(self) -> ToolContext:
        def unused(*_: object) -> Any:
            raise AssertionError("A file tool neither asks nor appends.")

        return ToolContext(
            call_id="c1",
            files=self.files,
            finder=WorkspaceFinder(self.root, self.files, self.limits),
            shell=cast(Shell, None),
            artifacts=cast(Artifacts, None),
            append=unused,
            ask=unused,
            limits=self.limits,
            sees_images=self._sees_images,
        )
