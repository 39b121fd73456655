"""How a permitted command is started: as its parsed words or by a shell, confined or not."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.to_thread

from rookery.core.blocks import ToolCall
from rookery.core.protected_paths import OF_BUILDS, protected
from rookery.core.rulings import Ruling
from rookery.engine.ports import Action, Outcome, Permit
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.plain_argv import plain_argv
from rookery.workspace.sandbox import Launch, Sandbox

MOST_LOOKED_AT = 2_000
"""Entries of the workspace among which those to be shielded are looked for, from the top. What
lies deeper is put back after the command."""
_NOT_ENTERED = {".git", "node_modules", "__pycache__"}


class Launching:
    def __init__(self, boundaries: Boundaries, sandbox: Sandbox) -> None:
        self._boundaries = boundaries
        self._root = boundaries.root
        self._sandbox = sandbox

    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        words = list(shell_argv)
        if permit.plain:
            words = plain_argv(permit.plain, root=str(self._root))
        if not permit.confined:
            return Launch(tuple(words), {})
        shielded, hidden = self._special_files()
        return self._sandbox.launch(words, cwd=str(folder), protected=shielded, ignored=hidden)

    def describe(self, *, confined: bool) -> str:
        """Where a command runs, in one line for whoever is asked."""
        if not confined:
            return "outside the sandbox, with your keys and the network"
        return self._sandbox.state.line

    def _special_files(self) -> tuple[list[str], list[str]]:
        """What there is of protected and of ignored files; of a folder only itself."""
        hiding = self._boundaries.hiding(str(self._root))
        shielded: list[str] = []
        hidden: list[str] = []
        waiting, seen = deque([""]), 0
        while waiting and seen < MOST_LOOKED_AT:
            for entry in _entries(self._root / waiting.popleft()):
                seen += 1
                path = os.path.relpath(entry.path, self._root)
                is_folder = entry.is_dir(follow_symlinks=False)
                if hiding.hides(path, is_folder=is_folder):
                    hidden.append(path)
                elif (why := protected(path, new=False)) and why not in OF_BUILDS:
                    shielded.append(path)
                elif is_folder and entry.name not in _NOT_ENTERED:
                    waiting.append(path)
        return [path for path in shielded if path != ".git"], hidden


class NoSandboxNotice:
    """A hook that says once, before the first command, that nothing confines it."""

    def __init__(self, sandbox: Sandbox, tell: Callable[[str], None]) -> None:
        self._sandbox = sandbox
        self._tell = tell
        self._told = False

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if action.command and not self._told:
            self._told = True
            state = await anyio.to_thread.run_sync(lambda: self._sandbox.state)
            if state.kind == "none":
                self._tell(state.line)
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as scan:
            return list(scan)
    except OSError:
        return []  # nobody can read it, and so nobody needs to be kept from it
