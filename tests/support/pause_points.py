"""Parts of a task that block once, where a test wants them to, and signal that they do."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.asks import Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change, Effect
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.model import Chunk, ModelRequest
from rookery.engine.ports.workspace import Checkpoint
from rookery.providers.scripted import MODEL, Scene, performance
from rookery.workspace.files import WorkspaceFiles
from support.stage import StageClock


class Hold:
    """Blocks the first caller; all others pass."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.let_go = threading.Event()
        self._taken = False

    async def wait(self) -> None:
        """Block until cancelled."""
        if not self._taken:
            self._taken = True
            self.reached.set()
            await anyio.sleep_forever()

    async def wait_in_thread(self) -> None:
        """Block until released: cancellation does not reach a thread."""
        if not self._taken:
            self._taken = True
            await anyio.to_thread.run_sync(self._block)

    def _block(self) -> None:
        anyio.from_thread.run_sync(self.reached.set)
        self.let_go.wait()


class HeldProvider:
    """Answers by the number of turns in a request. One answer blocks after some chunks."""

    def __init__(self, scenes: Sequence[Scene], hold: Hold, *, after: int) -> None:
        self.model = MODEL
        self._scenes = scenes
        self._hold = hold
        self._after = after

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk], None]:
        number = sum(turn.role == "assistant" for turn in request.turns)
        async with performance(self._scenes, number) as chunks:
            yield self._pieces(chunks)

    async def _pieces(self, chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        count = 0
        async for chunk in chunks:
            if count == self._after:
                await self._hold.wait()
            count += 1
            yield chunk

    async def aclose(self) -> None:
        pass


class HeldFiles(WorkspaceFiles):
    """Files that block while one is written, or while one is examined."""

    def __init__(
        self, root: Path, *, writing: Hold | None = None, looking: Hold | None = None
    ) -> None:
        super().__init__(root, Limits())
        self._writing = writing
        self._looking = looking

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        with anyio.CancelScope(shield=True):  # as one thread would be
            if self._writing:
                await self._writing.wait_in_thread()
            await super().write(change, data, permit)

    async def sha(self, path: str) -> str:
        if self._looking:
            await self._looking.wait_in_thread()
        return await super().sha(path)


class HeldCheckpoints(ShadowCheckpoints):
    """Checkpoints of which one blocks while it is saved."""

    def __init__(self, root: Path, home: Path, hold: Hold, *, nth: int) -> None:
        super().__init__(root, home, Limits())
        self._hold = hold
        self._remaining = nth

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        await self._block()
        return await super().save(paths)

    async def save_after(
        self, before: str, paths: Sequence[str] | None
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        await self._block()
        return await super().save_after(before, paths)

    async def _block(self) -> None:
        self._remaining -= 1
        if self._remaining == 0:
            await self._hold.wait_in_thread()


class HeldClock(StageClock):
    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self._hold = hold

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        await self._hold.wait()


class HeldHook(Hook):
    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        await self._hold.wait()
        return Ruling()
