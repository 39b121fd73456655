"""Everything a command tool works with: a real workspace, shell and artifacts, and a user who
answers from a list.
"""

from pathlib import Path
from typing import Any

import anyio
import msgspec

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Event, Fact, next_event
from rookery.core.limits import Limits
from rookery.engine.ports import Action, Outcome, Permit, Tool, ToolContext
from rookery.storage.artifacts import TaskArtifacts
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder
from rookery.workspace.terminal import Terminal


class Bench:
    def __init__(self, folder: Path, limits: Limits, answers: list[str] | None = None) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.facts: list[Fact] = []
        self.appended = anyio.Event()
        self.asked: list[tuple[AskKind, str]] = []
        self._answers = iter(answers or [])
        files = WorkspaceFiles(self.root, limits)
        self.context = ToolContext(
            call_id="c1",
            files=files,
            finder=WorkspaceFinder(self.root, files, limits),
            shell=Terminal(self.root, limits),
            artifacts=TaskArtifacts(folder / "task"),
            append=self._append,
            ask=self._ask,
            limits=limits,
        )

    async def prepare(self, tool: Tool[Any], **arguments: Any) -> Action:
        return await tool.prepare(msgspec.convert(arguments, tool.arguments), self.context)

    async def call(self, tool: Tool[Any], **arguments: Any) -> Outcome:
        action = await self.prepare(tool, **arguments)
        return await action.perform(
            Permit(digest=action.digest, command=action.command, cwd=action.cwd)
        )

    def _append(self, fact: Fact) -> Event:
        self.facts.append(fact)
        self.appended.set()
        return next_event(None, fact, 0)

    async def _ask(self, kind: AskKind, text: str) -> Answered:
        self.asked.append((kind, text))
        return Answered(ask_id="q1", ask=kind, reply="message", text=next(self._answers))
