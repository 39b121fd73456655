"""Governance of the tasks of a workspace, set up when the first governed task starts.

It is loaded for tasks that may be governed or have hooks, and the rest of governance for those that
are governed.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct, convert, field

from rookery.core.event_list import of_kind
from rookery.core.facts import Governed, Noted, TaskReopened
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.queries import KnownIntent
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Judgement
from rookery.engine.ports.hooks import SessionHook, StoredJournals, TaskLog
from rookery.errors import StorageError
from rookery.first_use import prepared
from rookery.governance.layout import SWITCHED_OFF, Layout, find_layout, mode_of_task
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.governance.hook import GovernanceHook
    from rookery.governance.hooked_calls import HookedCalls
    from rookery.governance.project import GovernedProject

Contents = Callable[[str, str], Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]]


def was_resumed(log: TaskLog) -> bool:
    return any(of_kind(log.events, TaskReopened))


class Oversight(Struct):
    """Governance of one workspace. `intent` is the intent requested for the run, `allow` the
    governance questions that are answered with yes. `attended` means that a person can be asked."""

    settings: Settings
    workspace: Path
    places: Places
    intent: str
    allow: frozenset[str]
    confines: Callable[[], bool]
    contents: Contents | None
    start_soon: Callable[..., None]
    judge: Callable[[str, str], Judgement]
    journals: StoredJournals
    trusted: bool
    attended: bool
    _projects: "dict[Path, GovernedProject]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace = self.workspace.resolve()

    def hooks_of(
        self, task_id: str, log: TaskLog
    ) -> "tuple[GovernanceHook | None, HookedCalls | None]":
        """Find out, when a task begins, whether it is governed and which hooks there are."""
        task = self._governance_of(task_id, log)
        own = self.workspace / GOVERNANCE_FOLDER
        of_claude = self.settings.imports_hooks
        if not self.places.any_hooks(self.workspace, own, of_claude=of_claude):
            return task, None
        from rookery.governance.hooked_calls import open_hooks

        hooks = open_hooks(
            self.settings,
            self.workspace,
            self.places,
            task_id,
            log,
            trusted=self.trusted,
            interactive=self.attended,
            judge=self.judge,
            background=self.start_soon,
        )
        if task:
            task.hooks, task.announce = hooks, hooks.run_event
        return task, hooks

    async def known(self) -> tuple[KnownIntent, ...]:
        """The intents of the workspace, those in progress first."""
        found = find_layout(self.workspace, self.workspace)
        if found.layout is None or self.settings.governance.mode == "off":
            return ()
        from rookery.governance.project import known_intents

        return await known_intents(self.project(found.layout))

    def project(self, layout: Layout) -> "GovernedProject":
        if layout.root not in self._projects:
            from rookery.governance.project import open_project

            self._projects[layout.root] = open_project(
                self.settings, layout, self.places, allow=self.allow
            )
        return self._projects[layout.root]

    def _governance_of(self, task_id: str, log: TaskLog) -> "GovernanceHook | None":
        governed = log.state.governed is not None
        if not governed and was_resumed(log):
            return None
        found = find_layout(self.workspace, self.workspace)
        if not governed and not self._decide_mode(log, found.layout is not None, found.notice):
            return None
        from rookery.governance.hook import GovernanceHook
        from rookery.governance.intent_tools import intent_tools

        task = GovernanceHook(
            self.project(found.layout or Layout(self.workspace, self.workspace)),
            task_id,
            log,
            self.journals,
            confines=self.confines,
            contents=self.contents,
            start_soon=self.start_soon,
        )
        task.tools = intent_tools(task)
        task.on_begin = partial(self._begin, task, log)
        return task

    def _decide_mode(self, log: TaskLog, has_intents: bool, notice: str) -> bool:
        """Decide once, when the task starts, how it is governed. Returns whether it is."""
        mode = mode_of_task(self.settings.governance.mode, has_intents=has_intents)
        is_off = mode == "off"
        for text in filter(None, (SWITCHED_OFF if is_off and has_intents else "", notice)):
            log.append(Noted(text=text))
        if is_off:
            return False
        log.append(convert({"mode": mode}, prepared(Governed)))
        return True

    async def _begin(self, task: "GovernanceHook", log: TaskLog) -> None:
        """Record what a crash interrupted, check the ledger, and restore the intent."""
        from rookery.governance.project import warn_if_broken, why_broken

        project, is_new = task.project, not was_resumed(log)
        if project.keeps_records and await task.catch_up():
            if project.settings.trace.on_broken == "block":
                task.judge.broken = await anyio.to_thread.run_sync(why_broken, project, self.places)
            elif is_new:
                self.start_soon(warn_if_broken, project, self.places, log)
        await task.restore_intent(self.intent, is_new=is_new)
        self.start_soon(task.renew_lease)


async def rewind_hooks(
    settings: Settings,
    workspace: Path,
    places: Places,
    task_id: str,
    log: TaskLog,
    journals: StoredJournals,
) -> Sequence[SessionHook]:
    """The hooks for a rewind of a session that is not running: they record the restored files.
    Interrupted calls are recorded first. Raises `StorageError`."""
    from rookery.governance.hook import GovernanceHook
    from rookery.governance.project import open_project

    layout = find_layout(workspace, workspace).layout
    if log.state.governed is None or layout is None:
        return ()
    project = open_project(settings, layout, places)
    hook = GovernanceHook(project, task_id, log, journals)
    if project.keeps_records:
        await hook.catch_up()
        if (why := await hook.retry_unwritten()) and project.blocks_unrecorded:
            raise StorageError(f"Nothing was restored. {why}")
    return hook, hook.changes
