"""Who governs the tasks of a workspace, put together when the first governed task begins.

A task without intents passes through here untouched: one look whether there is an intent file is
all it pays for, and nothing that governance needs is even loaded.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread

from rookery.core.asks import Ruling, joined
from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Judgement
from rookery.core.facts import (
    Answered,
    CriteriaChecked,
    Effect,
    Event,
    Governed,
    Noted,
    Reminded,
    TaskOpened,
    TaskReopened,
)
from rookery.core.queries import KnownIntent
from rookery.core.replies import sentence_in
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import TaskLog, Ungoverned
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.ports.workspace import Restored
from rookery.errors import CommandRejected, Denied, RookeryError, StorageError
from rookery.governance.hooked_calls import HookedCalls, open_hooks
from rookery.platform.user_folders import Places
from rookery.platform.wardens import Wardens

if TYPE_CHECKING:
    from rookery.governance.hook import GovernanceHook
    from rookery.governance.layout import Layout
    from rookery.governance.project import GovernedProject

Contents = Callable[[str, str], Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]]


class Oversight:
    """Of one workspace."""

    def __init__(
        self,
        settings: Settings,
        workspace: Path,
        places: Places,
        *,
        intent: str,
        allow: frozenset[str],
        confines: Callable[[], bool],
        contents: Contents | None,
        start_beside: Callable[..., None],
        judge: Callable[[str, str], Judgement],
        wardens: Wardens,
        journal_of: Callable[[str], Sequence[Event] | None],
        trusted: bool,
        attended: bool,
    ) -> None:
        """`intent` is what whoever started the run wants its task to work for, `allow` which
        questions of governance they answer with yes. `attended` if somebody can be asked;
        `journal_of` a task is None while a process works on it."""
        self.journal_of = journal_of
        self.judge = judge
        self.wardens = wardens
        self.trusted = trusted
        self.attended = attended
        self.settings = settings
        self.workspace = workspace.resolve()
        self.intent = intent
        self._allow = allow
        self.confines = confines
        self.contents = contents
        self.start_beside = start_beside
        self.places = places
        self._projects: dict[Path, GovernedProject] = {}

    def of(self, task_id: str, log: TaskLog) -> "TaskOversight":
        return TaskOversight(self, task_id, log)

    async def known(self) -> tuple[KnownIntent, ...]:
        """The intents of the workspace, those in progress first."""
        from rookery.governance.layout import find_layout

        found = find_layout(self.workspace, self.workspace)
        if found.layout is None or self.settings.governance.mode == "off":
            return ()
        from rookery.governance.project import known_intents

        return await known_intents(self.project(found.layout))

    def project(self, layout: "Layout") -> "GovernedProject":
        if layout.root not in self._projects:
            from rookery.governance.project import open_project

            self._projects[layout.root] = open_project(
                self.settings, layout, self.places, allow=self._allow
            )
        return self._projects[layout.root]


class TaskOversight:
    """Governance of one task: nothing at all, until `begin` finds that there is some."""

    def __init__(self, over: Oversight, task_id: str, log: TaskLog) -> None:
        self._over = over
        self._task_id = task_id
        self._log = log
        self._task: GovernanceHook | None = None
        self._hooks: HookedCalls | None = None
        self._tools: dict[str, Tool[Any]] = {}
        self._ended = anyio.Event()

    async def begin(self) -> None:
        await self._begin_governance()
        over, log = self._over, self._log
        self._hooks = open_hooks(
            over.settings,
            over.workspace,
            over.places,
            self._task_id,
            log,
            trusted=over.trusted,
            interactive=over.attended,
            judge=over.judge,
            wardens=over.wardens,
            background=over.start_beside,
        )
        if self._hooks and self._task:
            self._task.announce = self._hooks.tell
        if self._hooks:
            opened = log.events[0].fact
            await self._hooks.began(new=self._is_new() and isinstance(opened, TaskOpened))
            if over.attended and self._hooks.hears("Notification"):
                over.start_beside(self._hooks.notify_of_questions)

    async def _begin_governance(self) -> None:
        state = self._log.state
        if state.governed is None and not self._is_new():
            return
        from rookery.governance.layout import Layout, find_layout

        found = find_layout(self._over.workspace, self._over.workspace)
        if state.governed is None and not self._latch(found.layout is not None, found.notice):
            return
        layout = found.layout or Layout(self._over.workspace, self._over.workspace)
        await self._govern(layout)

    def _is_new(self) -> bool:
        return not any(isinstance(event.fact, TaskReopened) for event in self._log.events)

    def _latch(self, there: bool, notice: str) -> bool:
        """How the task is governed is decided once, when it begins."""
        from rookery.core.modes import GovernanceMode, ModeWishes, latched

        wanted = GovernanceMode(self._over.settings.governance.mode)
        held = latched(ModeWishes(user=wanted), there=there)
        for text in filter(None, (held.notice, notice)):
            self._log.append(Noted(text=text))
        match held.mode:
            case GovernanceMode.OBSERVE:
                self._log.append(Governed(mode="observe"))
            case GovernanceMode.ENFORCE:
                self._log.append(Governed(mode="enforce"))
            case GovernanceMode.REQUIRED:
                self._log.append(Governed(mode="required"))
            case _:
                return False
        return True

    async def _govern(self, layout: "Layout") -> None:
        from rookery.governance.hook import GovernanceHook
        from rookery.governance.intent_tools import intent_tools
        from rookery.governance.project import warn_if_broken, why_broken

        over, log = self._over, self._log
        project = over.project(layout)
        self._task = task = GovernanceHook(
            project,
            self._task_id,
            log,
            confines=over.confines,
            contents=over.contents,
            journal_of=over.journal_of,
        )
        self._tools = intent_tools(task)
        is_new = self._is_new()
        if project.keeps_records and await task.catch_up():
            if project.options.block_broken:
                task.broken = await anyio.to_thread.run_sync(why_broken, project, over.places)
            elif is_new:
                over.start_beside(warn_if_broken, project, over.places, log)
        await task.take_up(over.intent, is_new=is_new)
        over.start_beside(self._stay_alive)

    async def _stay_alive(self) -> None:
        """Other tasks must see that this one still works for its intent."""
        from rookery.governance.intents.leases import HEARTBEAT_SECONDS

        while not self._ended.is_set():
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                await self._ended.wait()
                return
            if self._task and self._task.project.keeps_records:
                await anyio.to_thread.run_sync(self._task.in_force.take_lease)

    # ── what the engine asks and tells ──────────────────────────────────────────────────

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        ruling = await self._task.before(call, action) if self._task else Ruling()
        return joined([ruling, self._hooks.opinion(call)]) if self._hooks else ruling

    async def tolerates_stale(self, call: ToolCall, action: Action) -> bool:
        """Whether files may be edited exactly that changed elsewhere since they were read."""
        return self._task is not None and await self._task.tolerates_stale(call, action)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    async def rewrite(self, call: ToolCall) -> ToolCall:
        call = await self._as_hooks_want(call)
        if self._task:
            await self._task.refuse_unreadable(call)
        return call

    async def _as_hooks_want(self, call: ToolCall) -> ToolCall:
        """Who changes things without an intent is refused anyway, so no program is run for it."""
        if self._hooks is None or (self._task and self._task.is_closed_to(call)):
            return call
        try:
            return await self._hooks.rewrite(call)
        except Denied as error:
            await self._note_denial(call, error)
            raise

    async def _note_denial(self, call: ToolCall, error: Denied) -> None:
        if self._task:
            await self._task.note_hook(call, error.code, sentence_in(str(error)))

    @property
    def hears_prompts(self) -> bool:
        return self._hooks is not None and self._hooks.hears("UserPromptSubmit")

    async def prompted(self, text: str) -> str:
        return await self._hooks.prompted(text) if self._hooks else ""

    async def asked(self, call: ToolCall, question: str) -> None:
        if self._hooks is None:
            return
        try:
            await self._hooks.permission(call, question)
        except Denied as error:
            await self._note_denial(call, error)
            raise

    async def condensing(self, trigger: Literal["auto", "manual"]) -> str:
        return await self._hooks.condensing(trigger) if self._hooks else ""

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        if self._task:
            await self._task.refused(call, action, why, said)

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        if self._task:
            return await self._task.permitted(call, action, why, said, permit)
        return permit

    async def ended(
        self, call: ToolCall, action: Action, outcome: Outcome | None
    ) -> Outcome | None:
        written = None
        if self._hooks and outcome is not None:
            written = await self._task.effects.written(action) if self._task else None
            outcome = await self._hooks.after(call, outcome)
        if self._task is None:
            return outcome
        return await self._task.effects.ended(call, action, outcome, written=written)

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        if self._task is None:
            return ()
        return await self._task.effects.changed(call_id, before, after, effects)

    async def restored(self, done: Restored) -> None:
        if self._task:
            await self._task.effects.restored(done)

    async def select(self, intent_id: str) -> None:
        if self._task is None:
            raise CommandRejected(
                "This session has no intents. After `rookery intents init`, new sessions have them."
            )
        await self._task.select(intent_id)

    async def remind(self) -> None:
        if self._task:
            await self._task.remind()

    async def now(self) -> str:
        """What is said of the intent at the end of a request; nothing without governance."""
        if self._task is None:
            return ""
        if self._task.project.keeps_records:
            self._over.start_beside(self._task.project.flush)
        return await self._task.now()

    def tools(self) -> Mapping[str, Tool[Any]]:
        return self._tools

    async def check(
        self,
        act: Callable[[ToolCall, Action], Awaitable[Outcome]],
        context: Callable[[ToolCall], ToolContext],
    ) -> None:
        if self._hooks:
            await self._hooks.claims_to_be_done(
                child=bool(self._log.state.parent), said=self._log.state.completion or ""
            )
        definition = self._task.in_force.definition if self._task else None
        if self._log.state.completion is None or self._log.state.parent:
            return
        if self._task is None or definition is None or not definition.intent.acceptance_criteria:
            return
        from rookery.governance.criteria import checked, failures_told, told

        intent, layout = definition.intent, self._task.project.layout
        tell = lambda text: self._log.append(Noted(text=text))  # noqa: E731
        checks = await checked(intent, layout, act, context, tell)
        state = await anyio.to_thread.run_sync(self._task.project.ledger_state)
        fact = CriteriaChecked(intent_id=intent.id, checks=checks, state_id=state)
        self._log.append(fact)
        self._log.append(Noted(text=told(intent.id, checks)))
        if self._log.state.completion is None:
            self._log.append(Reminded(text=failures_told(checks)))

    async def end(self) -> None:
        self._ended.set()
        if self._hooks and not self._log.ended:
            await self._hooks.ended()
        task = self._task
        if task is None or not task.project.keeps_records:
            return
        await task.settle_rest()
        try:
            await anyio.to_thread.run_sync(task.in_force.release)
            await anyio.to_thread.run_sync(task.project.recording.close, self._task_id)
        except RookeryError as error:  # it disturbs nothing but what comes after it
            if not self._log.ended:
                self._log.append(Noted(text=str(error)))


class PastGovernance(Ungoverned):
    """For whoever goes back in a session that nobody runs: it is on record what was put back."""

    def __init__(
        self, settings: Settings, workspace: Path, places: Places, task_id: str, log: TaskLog
    ) -> None:
        self._settings = settings
        self._workspace = workspace.resolve()
        self._places = places
        self._task_id = task_id
        self._log = log
        self._hook: GovernanceHook | None = None

    async def begin(self) -> None:
        """Before files are put back: record what a crash cut off. Raises `StorageError`."""
        from rookery.governance.hook import GovernanceHook
        from rookery.governance.layout import find_layout
        from rookery.governance.project import open_project

        layout = find_layout(self._workspace, self._workspace).layout
        if self._log.state.governed is None or layout is None:
            return
        project = open_project(self._settings, layout, self._places)
        self._hook = GovernanceHook(project, self._task_id, self._log, confines=lambda: False)
        if project.keeps_records:
            await self._hook.catch_up()
            if (why := await self._hook.unwritten()) and project.options.block_unrecorded:
                raise StorageError(f"Nothing was restored. {why}")

    async def restored(self, done: Restored) -> None:
        if self._hook:
            await self._hook.effects.restored(done)
            recording = self._hook.project.recording
            await anyio.to_thread.run_sync(recording.close, self._task_id)
