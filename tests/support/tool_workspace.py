"""Everything a command tool needs: a real workspace, shell and artifacts, and scripted answers
of a user."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Asked, Event, Fact, OfferWithdrawn, next_event
from rookery.core.limits import Limits
from rookery.engine.dialogue import OpenOffer
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.task_deps import BackgroundCommands
from rookery.storage.sessions import TaskArtifacts
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.terminal import Terminal
from rookery.workspace.tree import WorkspaceFinder

F = TypeVar("F", bound=Fact)


class Bench:
    def __init__(self, folder: Path, limits: Limits, answers: list[str] | None = None) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.facts: list[Fact] = []
        self.appended = anyio.Event()
        self.asked: list[tuple[AskKind, str]] = []
        self.offers: list[OpenOffer] = []
        self._answers = iter(answers or [])
        self._to_offer = ""
        self._looked_at = 0
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

    @asynccontextmanager
    async def task(self, to_offer: str = "") -> AsyncIterator[BackgroundCommands]:
        """A task that owns background commands; its user answers every offer with `to_offer`, or
        not at all if it is empty."""
        self._to_offer = to_offer
        async with anyio.create_task_group() as group:
            background = BackgroundCommands(group.start_soon)
            self.context = replace(self.context, background=background, offer=self._offer)
            yield background
            group.cancel_scope.cancel()

    async def next(self, kind: type[F]) -> F:
        """Wait for the next fact of a kind."""
        with anyio.fail_after(60):
            while True:
                while self._looked_at < len(self.facts):
                    fact = self.facts[self._looked_at]
                    self._looked_at += 1
                    if isinstance(fact, kind):
                        return fact
                self.appended = anyio.Event()
                await self.appended.wait()

    def _offer(self, kind: AskKind, text: str, on_answer: Callable[[], None]) -> OpenOffer:
        self._append(Asked(ask_id="o1", ask=kind, text=text))
        offer = OpenOffer(withdraw=lambda: self._withdraw(offer))
        self.offers.append(offer)
        if self._to_offer:
            reply, _, words = self._to_offer.partition(" ")
            offer.answer = Answered(ask_id="o1", ask=kind, reply=reply, text=words)  # type: ignore[arg-type]
            on_answer()
        return offer

    def _withdraw(self, offer: OpenOffer) -> None:
        if offer.answer is None:
            self._append(OfferWithdrawn(ask_id="o1"))

    def _append(self, fact: Fact) -> Event:
        self.facts.append(fact)
        self.appended.set()
        return next_event(None, fact, 0)

    async def _ask(self, kind: AskKind, text: str) -> Answered:
        self.asked.append((kind, text))
        return Answered(ask_id="q1", ask=kind, reply="message", text=next(self._answers))
