"""A workspace with an MCP server that asks, and a user who answers."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Noted
from rookery.mcp.server_requests import Answering
from support.mcp_workspace import Bench

ASKING = Path(__file__).with_name("asking_mcp_server.py")


class AskedBench(Bench):
    """A bench whose user gives these answers: to the first question the first one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.answers: Iterator[str] = iter(())
        self.questions: list[dict[str, Any]] = []
        self.attended = True
        self.by = "user"
        self.provider: Any = None

    async def ask(self, kind: AskKind, text: str, **more: Any) -> Answered:
        self.questions.append({"ask": kind, "text": text, **more})
        said = next(self.answers)
        always, word = said == "always", "yes" if said == "always" else said
        reply: Any = word if kind is not AskKind.FOLLOWUP else "message"
        by: Any = self.by
        return Answered(ask_id="q", ask=kind, reply=reply, text=word, by=by, always=always)

    def answering(self) -> Answering:
        return Answering(attended=self.attended, provider=self.provider)

    @property
    def asked(self) -> list[str]:
        return [json.loads(each["text"])["question"] for each in self.questions]

    @property
    def notes(self) -> list[str]:
        return [fact.text for fact in self.facts if isinstance(fact, Noted)]

    async def call(self, tool: str, *answers: str, **arguments: Any) -> str:
        self.answers = iter(answers)
        async with self.hub() as hub:
            outcome = await self.use(hub, server="asking", tool=tool, arguments=arguments)
        return outcome.text

    def configure_asking(self, **more: Any) -> None:
        arguments = ["-S", "-E", str(ASKING), str(self.folder)]
        self.configure(asking={"command": sys.executable, "args": arguments, **more})
