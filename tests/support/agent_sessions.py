"""Sessions with agents side by side: a scripted model for each, and a client that answers."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import yaml

from rookery.core.asks import AskKind
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.facts import (
    Asked,
    ChildBegan,
    Event,
    Fact,
    ToolFinished,
)
from rookery.core.settings import Settings
from rookery.core.settings_sections import LimitSettings
from rookery.protocol.attend import Response, Say, attend
from rookery.protocol.codec import Host
from support.repositories import git

TASK, OTHER = "root", "other"
ENDS = (AskKind.COMPLETION_RESULT,)
Reply = Callable[[Asked], Awaitable[Response]]


def repository(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    (folder / "b.txt").write_text("b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"tool": name, "arguments": arguments}]}


def start(*agents: dict[str, Any]) -> dict[str, Any]:
    return tool("run_agents", agents=list(agents))


def works(name: str, **more: Any) -> dict[str, Any]:
    return {"task": f"Task of {name}.", "name": name, "works": True, **more}


def reads(name: str, **more: Any) -> dict[str, Any]:
    return {"task": f"Task of {name}.", "name": name, **more}


def say(text: str) -> dict[str, Any]:
    return {"say": text, "usage": {"tokens_in": 10, "tokens_out": 1, "cost": 0.01}}


def edit(old: str, new: str, path: str = "a.txt") -> dict[str, Any]:
    return tool("edit", file_path=path, old_string=old, new_string=new)


def run(command: str) -> dict[str, Any]:
    return tool("execute_command", command=command)


def script(*root: dict[str, Any], **agents: list[dict[str, Any]]) -> str:
    parts = {"Go.": list(root)} | {f"Task of {name}.": each for name, each in agents.items()}
    return yaml.safe_dump(parts, sort_keys=False)


class Watch:
    """Follows a session and its agents, and answers their questions."""

    def __init__(self, host: Host, reply: Reply | None = None) -> None:
        self.host = host
        self.facts: list[tuple[str, Fact]] = []
        self.ids: dict[str, str] = {TASK: TASK}
        self.events: list[Event] = []
        self._reply = reply
        self.answers_completion = False
        self._grown = anyio.Event()

    def show(self, event: Event, child: str = "") -> None:
        task_id = child or TASK
        self.events += [event] if event.fact.lasting and not child else []
        if isinstance(event.fact, ChildBegan):
            self.ids[event.fact.name] = event.fact.task_id
        names = {own: name for name, own in self.ids.items()}
        self.facts.append((names.get(task_id, ""), event.fact))
        self._grown.set()
        self._grown = anyio.Event()

    async def until(self, name: str, kind: type[Fact]) -> None:
        while not any(own == name and isinstance(fact, kind) for own, fact in self.facts):
            await self._grown.wait()

    async def respond(self, asked: Asked) -> Response:
        if self._reply and (self.answers_completion or asked.ask not in ENDS):
            return await self._reply(asked)
        return Say("yes")

    async def play(self, task_id: str = TASK) -> str:
        """The result of the last call of the session."""
        await self.follow(OpenTask(task_id=task_id, text="Go."))
        return self.results[-1] if self.results else ""

    async def follow(self, first: OpenTask | ReopenTask) -> None:
        await self.host.send(first)
        with anyio.fail_after(60):
            await attend(self.host, first.task_id, display=self, respond=self.respond)

    @property
    def results(self) -> list[str]:
        return [f.text for own, f in self.facts if own == TASK and isinstance(f, ToolFinished)]

    def order(self, kind: type[Fact]) -> list[str]:
        return [own for own, fact in self.facts if isinstance(fact, kind)]

    @property
    def asked(self) -> list[Asked]:
        return [f for _, f in self.facts if isinstance(f, Asked) and f.ask is AskKind.TOOL]


def worktrees(folder: Path) -> list[str]:
    place = folder / "work" / ".roo" / "worktrees"
    return (
        sorted(each.name.rpartition("-")[0] for each in place.iterdir()) if place.exists() else []
    )


def limited(**limits: int) -> Settings:
    return Settings(limits=LimitSettings(**limits))
