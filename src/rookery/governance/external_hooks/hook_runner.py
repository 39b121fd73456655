"""Where and with what hooks run: in the workspace, without a terminal, without the user's keys.

They run outside of the sandbox. So nothing is found for them in the workspace that nobody named:
what the agent may write must not become their programs or modules. The files of hooks are read
once: a task in which a guard is deleted keeps the guard.
"""

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import translate
from functools import cached_property
from pathlib import Path

import anyio
import anyio.to_thread

from rookery import ENV_PREFIX
from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_config import HookCommand
from rookery.governance.external_hooks.hook_files import FoundHooks, KnownHook, TrustStatus
from rookery.governance.external_hooks.hook_process import run_hook
from rookery.governance.external_hooks.hook_trust import PROJECT_VARIABLES, HookTrust
from rookery.platform.processes.command_environment import command_environment
from rookery.platform.processes.own_programs import find_own_program
from rookery.platform.processes.wardens import Wardens

AT_ONCE = 8
WITHHELD = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*")
"""Beside what no command is given."""
TASK_VARIABLE, INTENT_VARIABLE = f"{ENV_PREFIX}TASK_ID", f"{ENV_PREFIX}INTENT_ID"
_withheld = re.compile("|".join(map(translate, WITHHELD)))
LONG_CONTEXTS = "hook_context"


class HookRunner:
    """`env_allow` are variables that hooks are given though their names look like secrets."""

    def __init__(
        self,
        workspace: Path,
        *,
        environ: Mapping[str, str] | None = None,
        env_allow: Collection[str] = (),
        wardens: Wardens | None = None,
    ) -> None:
        self._workspace = workspace
        self._environ = os.environ if environ is None else environ
        self._env_allow = frozenset(env_allow)
        self._wardens = wardens or Wardens()

    async def run(
        self, hook: HookCommand, document: bytes, *, task_id: str = "", intent_id: str = ""
    ) -> HookRun:
        """Run it to its end. Cancelling this ends it and all it started."""
        async with self._turns:
            words = [self._shell, "-c", hook.command]
            return await run_hook(
                self._wardens,
                words if hook.args is None else [hook.command, *hook.args],
                document,
                folder=self._folder,
                environment=self._environment(hook, task_id, intent_id),
                seconds=hook.timeout,
            )

    @cached_property
    def _turns(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(AT_ONCE)

    @cached_property
    def _shell(self) -> str:
        return find_own_program("bash", self._workspace) or "/bin/sh"

    @property
    def _folder(self) -> Path:
        """The workspace, or the nearest folder above it that is still there."""
        above = (self._workspace, *self._workspace.parents)
        return next(folder for folder in above if folder.is_dir())

    @property
    def _path(self) -> str:
        """The user's, without folders of the workspace."""
        root = os.path.realpath(self._workspace)
        return os.pathsep.join(
            folder
            for folder in self._environ.get("PATH", os.defpath).split(os.pathsep)
            if os.path.isabs(folder) and not Path(os.path.realpath(folder)).is_relative_to(root)
        )

    def _environment(self, hook: HookCommand, task_id: str, intent_id: str) -> dict[str, str]:
        usual = command_environment(self._environ, confined=False)
        asked_for = {name: self._environ[name] for name in self._env_allow & {*self._environ}}
        return {
            **{name: text for name, text in usual.items() if not _withheld.match(name.upper())},
            "PATH": self._path,
            "PYTHONSAFEPATH": "1",
            **asked_for,
            **{name: str(self._workspace) for name in PROJECT_VARIABLES},
            TASK_VARIABLE: task_id,
            INTENT_VARIABLE: intent_id,
            **dict(hook.env),
        }


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
