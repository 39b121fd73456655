"""The composition root: settings in, a host out. It names every part and decides nothing."""

import platform
import random
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from rookery.core.system_prompt import system_prompt
from rookery.core.values import record
from rookery.engine.engine import Engine
from rookery.engine.event_log import EventLog
from rookery.engine.task import Gear, Task
from rookery.governance.approval_gate import ApprovalGate
from rookery.providers import open_provider
from rookery.settings import Settings
from rookery.storage.artifacts import TaskArtifacts
from rookery.storage.keys import Key
from rookery.storage.tasks import TaskStore
from rookery.tools import all_tools, spec_of
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.search import WorkspaceFinder
from rookery.workspace.terminal import Terminal


@record
class ModelChoice:
    """Which model to call, and how to reach it."""

    provider: str
    model: str
    base_url: str | None
    key: Key | None

    @property
    def name(self) -> str:
        """How a person would call the model."""
        return Path(self.model).name if self.provider == "scripted" else self.model


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await event.wait()


@asynccontextmanager
async def open_host(
    settings: Settings, choice: ModelChoice, store: TaskStore, workspace: Path, *, automatic: bool
) -> AsyncIterator[Engine]:
    """An engine for one workspace. Leaving the context ends every task and process."""
    limits = settings.as_limits()
    clock = SystemClock()
    tools = all_tools()
    files = WorkspaceFiles(workspace, limits)
    finder = WorkspaceFinder(workspace, files, limits)
    shell = Terminal(workspace, limits)
    surroundings = f"{platform.system()}, shell {shell.name}"
    provider = open_provider(
        choice.provider,
        model=choice.model,
        base_url=choice.base_url,
        api_key=choice.key.reveal() if choice.key else "",
        key_source=f"from {choice.key.source}" if choice.key else "",
        limits=limits,
        described=settings.models.get(choice.model, {}),
    )

    def make_task(task_id: str, log: EventLog) -> Task:
        gear = Gear(
            provider=provider,
            tools=tools,
            specs=[spec_of(tool) for tool in tools.values()],
            system=lambda mode: system_prompt(
                mode=mode, workspace=str(workspace), tools=list(tools), surroundings=surroundings
            ),
            hooks=[ApprovalGate(automatic=automatic)],
            files=files,
            finder=finder,
            shell=shell,
            artifacts=TaskArtifacts(store.folder(task_id)),
            clock=clock,
            new_id=lambda: uuid.uuid4().hex,
            spread=lambda most: random.uniform(0, most),
            limits=limits,
        )
        return Task(task_id, log, gear)

    try:
        async with anyio.create_task_group() as group:
            yield Engine(group, store, make_task, now=clock.now, workspace=str(workspace))
            group.cancel_scope.cancel()
    finally:
        await provider.aclose()
