"""Formatters, checks and language servers of a task: part of the composition root.

Their modules are loaded with the first edit that concerns them. They act in trusted folders only.
"""

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import anyio.to_thread

from rookery.core.asks import Ruling, allow
from rookery.core.blocks import ToolCall
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Acting, EditChecks, Hook
from rookery.errors import ToolError

if TYPE_CHECKING:
    from rookery.app.local_host import HostParts
    from rookery.diagnostics.edit_watch import EditWatch
    from rookery.diagnostics.languages import FoundServer
    from rookery.diagnostics.servers import LanguageServers
    from rookery.platform.piped_process import PipedProcess

KNOWN_SUFFIXES = frozenset(
    (
        *(".py", ".pyi", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".go"),
        *(".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"),
    )
)
"""Of files that a known language server is for. A test compares them with the table."""


class TaskEdits(EditChecks, Hook):
    """The watch over a task's edits, and the hook that allows its commands once they were
    permitted."""

    def __init__(self, parts: "HostParts", log: EventLog) -> None:
        self._parts = parts
        self._log = log
        self._acting: Acting | None = None
        self._made: EditWatch | None = None

    def bind(self, acting: Acting) -> EditChecks:
        self._acting = acting
        return self

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return allow() if self._made and self._made.agreed(action) else Ruling()

    def formats(self, action: Action) -> bool:
        return self._made is not None and self._made.formats(action)

    async def begin(self, action: Action) -> None:
        if watch := self._watch_of(action):
            await watch.begin(action)

    async def format(self, call: ToolCall, action: Action) -> None:
        if self._made:
            await self._made.format(call, action)

    async def report(self, action: Action, permit: Permit, outcome: Outcome) -> Outcome:
        return await self._made.report(action, permit, outcome) if self._made else outcome

    async def end_turn(self) -> None:
        if self._made:
            await self._made.end_turn()

    def problems(self) -> list[str]:
        """What language servers report now. It starts none."""
        servers = self._parts.__dict__.get("language_servers")
        return servers.all_problems() if servers else []

    def _watch_of(self, action: Action) -> "EditWatch | None":
        """The watch, made with the first edit of a file that it may know something about."""
        if self._made is None and self._concerns(action):
            from rookery.diagnostics.edit_watch import EditWatch

            parts = self._parts
            assert self._acting
            self._made = EditWatch(
                parts.settings,
                self._log,
                parts.files,
                parts.language_servers,
                self._acting,
                narrows=lambda: parts.commands.sandbox.narrows,
            )
        return self._made

    def _concerns(self, action: Action) -> bool:
        settings = self._parts.settings
        if not (action.changes and self._parts.consent.trusted):
            return False
        servers = settings.language_servers
        suffixes = {PurePosixPath(change.path).suffix for change in action.changes}
        return bool(
            settings.checks
            or settings.formatters
            or (servers.use != "off" and (servers.add or suffixes & KNOWN_SUFFIXES))
        )


def open_language_servers(parts: "HostParts") -> "LanguageServers | None":
    from rookery.diagnostics.servers import LanguageServers

    settings = parts.settings.language_servers
    if settings.use == "off":
        return None

    async def allowed() -> bool:
        if settings.use == "always":
            return True
        return await anyio.to_thread.run_sync(lambda: parts.commands.sandbox.state.kind != "none")

    async def start(found: "FoundServer") -> "PipedProcess":
        from rookery.platform.guarded_process import command_environment
        from rookery.platform.piped_process import PipedProcess

        launch = await anyio.to_thread.run_sync(parts.commands.confine, found)
        environment = command_environment(os.environ, confined=True) | dict(launch.environment)
        return PipedProcess(launch.argv, folder=found.root, environment=environment)

    def readable(path: str) -> bool:
        try:
            place = parts.files.place(path)
        except ToolError:
            return False
        return not (place.outside or place.ignored or place.credential)

    return LanguageServers(
        parts.workspace.resolve(),
        settings,
        start=start,
        allowed=allowed,
        readable=readable,
        start_soon=parts.start_soon,
    )
