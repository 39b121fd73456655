"""Governance of the tasks of a workspace, set up when the first governed task starts.

It is loaded for tasks that may be governed or have hooks, and the rest of governance for those that
are governed.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct, convert, field

from rookery.core.facts import Governed, Noted, TaskOpened, TaskReopened
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.queries import KnownIntent
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Judgement
from rookery.engine.ports.hooks import StoredJournals, TaskGovernance, TaskLog
from rookery.errors import StorageError
from rookery.governance.layout import Layout, find_layout
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.governance.hook import GovernanceHook
    from rookery.governance.project import GovernedProject
    from rookery.platform.wardens import Wardens

Contents = Callable[[str, str], Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]]


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
    wardens: "Callable[[], Wardens]"
    journals: StoredJournals
    trusted: bool
    attended: bool
    _projects: "dict[Path, GovernedProject]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace = self.workspace.resolve()

    def for_task(self, task_id: str, log: TaskLog) -> "TaskOversight":
        return TaskOversight(self, task_id, log)

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


class TaskOversight(TaskGovernance):
    """Finds out, when a task starts, whether it is governed and which hooks there are."""

    def __init__(self, over: Oversight, task_id: str, log: TaskLog) -> None:
        super().__init__()
        self._over = over
        self._task_id = task_id
        self._log = log

    async def begin(self) -> None:
        task = await self._begin_governance()
        over, log = self._over, self._log
        of_claude, own = over.settings.imports_hooks, over.workspace / GOVERNANCE_FOLDER
        if not over.places.any_hooks(over.workspace, own, of_claude=of_claude):
            return
        from rookery.governance.hooked_calls import open_hooks

        hooks = open_hooks(
            over.settings,
            over.workspace,
            over.places,
            self._task_id,
            log,
            trusted=over.trusted,
            interactive=over.attended,
            judge=over.judge,
            wardens=over.wardens(),
            background=over.start_soon,
        )
        self.hooks = hooks
        if task:
            task.hooks, task.announce = hooks, hooks.run_event
        else:
            self.rules = hooks
        await hooks.start_session(new=self._is_new() and isinstance(log.events[0].fact, TaskOpened))
        if over.attended and hooks.has_hooks_for("Notification"):
            over.start_soon(hooks.notify_of_questions)

    async def _begin_governance(self) -> "GovernanceHook | None":
        state = self._log.state
        if state.governed is None and not self._is_new():
            return None
        found = find_layout(self._over.workspace, self._over.workspace)
        if state.governed is None and not self._decide_mode(found.layout is not None, found.notice):
            return None
        return await self._govern(
            found.layout or Layout(self._over.workspace, self._over.workspace)
        )

    def _is_new(self) -> bool:
        return not any(isinstance(event.fact, TaskReopened) for event in self._log.events)

    def _decide_mode(self, has_intents: bool, notice: str) -> bool:
        """Decide once, when the task starts, how it is governed. Returns whether it is."""
        from rookery.core.modes import GovernanceMode, RequestedModes, latched

        wanted = GovernanceMode(self._over.settings.governance.mode)
        decided = latched(RequestedModes(user=wanted), there=has_intents)
        for text in filter(None, (decided.notice, notice)):
            self._log.append(Noted(text=text))
        if decided.mode in (GovernanceMode.AUTO, GovernanceMode.OFF):
            return False
        self._log.append(convert({"mode": decided.mode.value}, Governed))
        return True

    async def _govern(self, layout: Layout) -> "GovernanceHook":
        from rookery.governance.hook import GovernanceHook
        from rookery.governance.intent_tools import intent_tools
        from rookery.governance.project import warn_if_broken, why_broken

        over, log = self._over, self._log
        project = over.project(layout)
        self.rules = task = GovernanceHook(
            project,
            self._task_id,
            log,
            over.journals,
            confines=over.confines,
            contents=over.contents,
            start_soon=over.start_soon,
        )
        task.own_tools = intent_tools(task)
        is_new = self._is_new()
        if project.keeps_records and await task.catch_up():
            if project.settings.trace.on_broken == "block":
                task.judge.broken = await anyio.to_thread.run_sync(why_broken, project, over.places)
            elif is_new:
                over.start_soon(warn_if_broken, project, over.places, log)
        await task.restore_intent(over.intent, is_new=is_new)
        over.start_soon(task.renew_lease)
        return task


class RewindGovernance(TaskGovernance):
    """Governance for a rewind of a session that is not running: records the restored files."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        places: Places,
        task_id: str,
        log: TaskLog,
        journals: StoredJournals,
    ) -> None:
        super().__init__()
        self._journals = journals
        self._settings = settings
        self._workspace = workspace.resolve()
        self._places = places
        self._task_id = task_id
        self._log = log

    async def begin(self) -> None:
        """Record interrupted calls before files are restored. Raises `StorageError`."""
        from rookery.governance.hook import GovernanceHook
        from rookery.governance.project import open_project

        layout = find_layout(self._workspace, self._workspace).layout
        if self._log.state.governed is None or layout is None:
            return
        project = open_project(self._settings, layout, self._places)
        self.rules = hook = GovernanceHook(project, self._task_id, self._log, self._journals)
        if project.keeps_records:
            await hook.catch_up()
            if (why := await hook.retry_unwritten()) and project.blocks_unrecorded:
                raise StorageError(f"Nothing was restored. {why}")
