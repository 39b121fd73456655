"""The hooks of one workspace: those that were found, whether each may run, and running it.

The files are read once. What is written into them later counts for the next task: a task in which
a guard is deleted keeps the guard.
"""

from pathlib import Path

import anyio.to_thread

from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_files import FoundHooks
from rookery.governance.external_hooks.hook_runner import HookRunner
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.external_hooks.known_hooks import KnownHook, TrustStatus

LONG_CONTEXTS = "hook_context"


class HookDesk:
    """`state` is where texts go that are too long for the model, if there is such a folder."""

    def __init__(
        self, found: FoundHooks, trust: HookTrust, runner: HookRunner, state: Path | None = None
    ) -> None:
        self.hooks = found.hooks
        self.problems = tuple(map(str, found.problems))
        self._trust = trust
        self._runner = runner
        self._state = state

    async def why_not(self, known: KnownHook) -> str:
        """Why a hook must not run; empty if it may. Its files are looked at each time."""
        return await anyio.to_thread.run_sync(self._why_not, known)

    async def run(
        self, known: KnownHook, document: bytes, *, task_id: str, intent_id: str
    ) -> HookRun:
        return await self._runner.run(known.hook, document, task_id=task_id, intent_id=intent_id)

    def keep(self, text: str) -> str:
        """Where a long text can be read; empty if it could not be kept."""
        from hashlib import sha256

        if self._state is None:
            return ""
        data = text.encode("utf-8", "replace")
        folder = self._state / LONG_CONTEXTS
        path = folder / f"{sha256(data).hexdigest()[:16]}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            return ""
        return str(path)

    def _why_not(self, known: KnownHook) -> str:
        status: TrustStatus = self._trust.status(known)
        return "" if status.may_run else self._trust.why_not(known, status)
