"""A host whose facts the test supplies, to watch clients."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any, TypeVar, cast

import anyio

from rookery.core.commands import Command, OpenTask, ReopenTask
from rookery.core.facts import Event, Fact, TaskOpened, next_event
from rookery.core.queries import (
    About,
    AskAbout,
    AskCommands,
    AskContext,
    AskDifferences,
    Asking,
    AskModels,
    AskModes,
    AskPaths,
    AskPermissions,
    AskTasks,
    AskViewStart,
    ContextPart,
    KnownContext,
    KnownMode,
    Permissions,
    ViewStart,
)
from rookery.errors import CommandRejected

T = TypeVar("T")

ABOUT = About(
    version="0.1.0",
    workspace="/home/ada/shop",
    provider="anthropic",
    model="claude-opus-4.6",
    window=200_000,
    trusted=True,
)
MODES = (KnownMode(slug="code", name="Code"), KnownMode(slug="architect", name="Architect"))


CONTEXT = KnownContext(
    workspace="/home/ada/shop",
    mode="code",
    model="m",
    window=10_000,
    conversation=500,
    parts=(
        ContextPart(kind="prompt", name="system prompt", characters=900, tokens=300, sent=True),
        ContextPart(kind="tool", name="read_file", characters=600, tokens=200, sent=True),
        ContextPart(
            kind="rules",
            name="CLAUDE.md",
            path="CLAUDE.md",
            source="project",
            agent="claude",
            characters=90,
            tokens=30,
            sent=True,
        ),
        ContextPart(kind="command", name="/fix", path="fix.md", source="project"),
        ContextPart(
            kind="rules",
            name="GEMINI.md",
            path="GEMINI.md",
            source="project",
            unused="it is too old",
        ),
    ),
)


class ScriptedHost:
    """Records the commands it gets, and answers queries as configured."""

    def __init__(self, **answers: object) -> None:
        self.sent: list[Command] = []
        self.refusal = ""
        """Why the next command is refused; empty if it is accepted."""
        self._logs: dict[str, list[Event]] = {}
        self._over: set[str] = set()
        self._more = anyio.Event()
        self._now = count(1_700_000_000_000, 1_000)
        self._answers: dict[type, object] = {
            AskAbout: ABOUT,
            AskModes: MODES,
            AskCommands: (),
            AskModels: (),
            AskTasks: (),
            AskPaths: (),
            AskPermissions: Permissions(),
            AskDifferences: (),
            AskContext: CONTEXT,
            AskViewStart: ViewStart(),
            **{cast(Any, kind): answer for kind, answer in answers.items()},
        }

    def answer(self, kind: type, answer: object) -> None:
        self._answers[kind] = answer

    def tell(self, *facts: Fact, task: str = "t1") -> None:
        log = self._logs.setdefault(task, [])
        for fact in facts:
            log.append(next_event(log[-1] if log else None, fact, next(self._now)))
        self._wake()

    def end(self, task: str = "t1") -> None:
        """End the task's event stream."""
        self._over.add(task)
        self._wake()

    def _wake(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def send(self, command: Command) -> None:
        if self.refusal:
            why, self.refusal = self.refusal, ""
            raise CommandRejected(why)
        self.sent.append(command)
        match command:
            case OpenTask(task_id=task_id, text=text, mode=mode) if task_id not in self._logs:
                self.tell(
                    TaskOpened(text=text, mode=mode, workspace="/home/ada/shop"), task=task_id
                )
            case ReopenTask(task_id=task_id):
                self._over.discard(task_id)
            case _:
                pass

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if task_id not in self._logs:
            raise CommandRejected(f"No such session: {task_id}.")
        seen = after
        log = self._logs[task_id]
        while True:
            more = self._more
            while seen < len(log):
                seen += 1
                yield log[seen - 1]
            if task_id in self._over:
                return
            await more.wait()

    async def query(self, query: Asking[T]) -> T:
        if type(query) not in self._answers:
            raise CommandRejected(f"This host cannot answer {type(query).__name__}.")
        return cast(T, self._answers[type(query)])
