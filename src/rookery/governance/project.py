"""The intents and the ledger of a workspace, shared by all its tasks."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from rookery.core.facts import Noted
from rookery.core.limits import MIB
from rookery.core.queries import KnownIntent
from rookery.core.refusals import Refusal
from rookery.core.settings import Settings
from rookery.core.text.secrets_filter import SecretsFilter
from rookery.engine.ports.hooks import TaskLog
from rookery.governance.intents.intent import Intent, Policy, selectable
from rookery.governance.intents.intent_context import MOST_RELATED, IntentBackground
from rookery.governance.intents.intent_edits import IntentWriter
from rookery.governance.intents.intent_file import IntentReader, IntentText
from rookery.governance.intents.leases import Lease, Leases
from rookery.governance.layout import Layout
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.state_files import LedgerUnwritable, known_heads
from rookery.governance.ledger.traced import TracedRecord, records_on
from rookery.governance.ledger.verification import audit
from rookery.governance.scope.locations import ignores_case
from rookery.governance.scope.project_rules import (
    CommandPolicy,
    active_scope,
    read_command_policy,
    read_intent_ignore,
)
from rookery.governance.scope.scope_verdict import ScopeRules
from rookery.platform.user_folders import Places

MAX_SEARCHED = 4 * MIB
"""Bytes at the end of the ledger that are searched for work on an intent."""


class BudgetUse(Struct):
    """The part of an intent's budget that all tasks have used so far."""

    files: set[str] = field(default_factory=set)
    lines: int = 0
    calls: int = 0


class GovernedProject:
    def __init__(
        self,
        layout: Layout,
        recording: Recording,
        settings: Settings,
        allow: frozenset[str],
    ) -> None:
        """`allow` are governance questions answered with yes: scope, unknown, delete."""
        self.layout = layout
        self.recording = recording
        self.settings = settings
        self.allow = allow
        self.leases = Leases(layout)
        self._reader = IntentReader(layout)
        self.writer = IntentWriter(layout)
        self._used: dict[str, BudgetUse] = {}
        self._ignores_case: bool | None = None

    @property
    def blocks_unrecorded(self) -> bool:
        """Whether calls that cannot be recorded are refused."""
        return self.settings.trace.on_failure == "block"

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def intents(self, active: str = "") -> IntentText:
        """The current intent file, once it is completely saved."""
        return await self._reader.read_settled(active)

    @property
    def keeps_records(self) -> bool:
        """Whether there is a ledger. Only the user creates its folder; a link does not count."""
        folder = self.layout.folder
        return folder.is_dir() and not folder.is_symlink()

    async def flush(self) -> None:
        """Sync the ledger while the model is being called. A failure is ignored: the task's
        journal has the records, and it is tried again before the next request and at the end."""
        with suppress(LedgerUnwritable):
            await anyio.to_thread.run_sync(self.recording.flush)

    def ledger_state(self) -> str:
        """Id of the ledger's current state; empty if there is no ledger."""
        from rookery.governance.ledger.verify_ledger import state_id

        return state_id(self.recording.ledger.tail().tips) if self.layout.ledger.exists() else ""

    def rules(self, intent: Intent, policy: Policy, text: IntentText | None = None) -> ScopeRules:
        """The scope rules of an intent. `text` is the intent file, if just read."""
        if self._ignores_case is None:
            self._ignores_case = ignores_case(self.layout.root)
        now = self.now()
        known = [each.id for each in (text or self._reader.read()).file.intents]
        ignore = read_intent_ignore(self.layout, known, now)
        return active_scope(intent, policy, ignore, now=now, ignore_case=self._ignores_case)

    def commands(self) -> tuple[CommandPolicy, str]:
        """The project's command policy, and its first problem, if any."""
        policy, problems = read_command_policy(self.layout)
        wrong = problems[0] if problems else None
        return policy, f"{wrong.file}: {wrong.message}" if wrong else ""

    def neighbours(self, task_id: str, intent: Intent) -> tuple[Lease, ...]:
        return self.leases.neighbours(task_id, intent.id, intent.owned_scope, now=self.now())

    async def used(self, intent_id: str) -> BudgetUse:
        """Budget used by an intent: counted once from the ledger, then updated by recorders."""
        if intent_id not in self._used:
            self._used[intent_id] = await anyio.to_thread.run_sync(self._count, intent_id)
        return self._used[intent_id]

    def used_if_counted(self, intent_id: str) -> BudgetUse | None:
        """None if `used` was never called: without a budget nothing is counted."""
        return self._used.get(intent_id)

    def _count(self, intent_id: str) -> BudgetUse:
        used = BudgetUse()
        for record in newest(self.layout.folder, Query(intent=intent_id)):
            if record.kind in ("mutation", "command", "external", "recovered"):
                used.calls += 1
                used.lines += sum(each.lines_added + each.lines_deleted for each in record.files)
                used.files.update(each.path for each in record.files)
        return used

    async def over_budget(self, intent: Intent, paths: Sequence[str]) -> Refusal | None:
        budget = intent.budget
        if budget.max_files is budget.max_changed_lines is budget.max_tool_calls is None:
            return None
        used = await self.used(intent.id)
        limits = (
            ("max_files", budget.max_files, len(used.files.union(paths)), len(used.files)),
            ("max_changed_lines", budget.max_changed_lines, used.lines + 1, used.lines),
            ("max_tool_calls", budget.max_tool_calls, used.calls + 1, used.calls),
        )
        for name, most, wanted, used_so_far in limits:
            if most is not None and wanted > most:
                return Refusal(
                    code="REQ-016",
                    message=f"{intent.id} has used up its {name}: {used_so_far} of {most}.",
                    intent_id=intent.id,
                    details=(("limit", {name: most}), ("used", used_so_far)),
                )
        return None

    async def background_of(self, task_id: str, intent: Intent) -> IntentBackground:
        """Related work, other tasks and remaining budget, for a task that selects the intent."""
        related = await anyio.to_thread.run_sync(self._related, intent.id)
        most = intent.budget.max_files
        files = () if most is None else (await self.used(intent.id)).files
        return IntentBackground(
            related=related,
            others=self.neighbours(task_id, intent),
            files_left=None if most is None else max(most - len(files), 0),
        )

    def _related(self, intent_id: str) -> tuple[TracedRecord, ...]:
        """The newest recorded work on an intent near the end of the ledger."""
        query, named = Query(intent=intent_id), intent_id.encode()
        found: list[TracedRecord] = []
        left = MAX_SEARCHED
        for line in newest_first(self.layout.folder):
            left -= len(line)
            if left < 0 or len(found) >= MOST_RELATED:
                break
            if named in line:
                found += [each for each in records_on(line) if query.matches(each) and each.files]
        return tuple(found)


MAX_VERIFIED = 2 * MIB
"""Maximum bytes of a ledger that is verified in the background when a task starts."""


def open_project(
    settings: Settings, layout: Layout, places: Places, *, allow: frozenset[str] = frozenset()
) -> GovernedProject:
    layout = replace(layout, written=places.host_writes)
    # without the folder there is no ledger, and only the user creates it
    kept = layout.folder.is_dir() and not layout.folder.is_symlink()
    recording = Recording(
        layout.folder,
        heads=known_heads(layout, places.governance) if kept else None,
        flush=Flush(settings.trace.fsync),
        hide=SecretsFilter(os.environ),
    )
    return GovernedProject(layout, recording, settings, allow)


async def known_intents(project: GovernedProject) -> tuple[KnownIntent, ...]:
    """The intents of the project, those in progress first."""
    file = (await project.intents()).file
    now, broken = project.now(), file.broken
    order = sorted(file.intents, key=lambda each: not selectable(each, now))
    return tuple(
        KnownIntent(
            id=each.id,
            name=each.name,
            status=str(each.status),
            revision=each.revision,
            scope=each.owned_scope,
            problem=""
            if each.id not in broken and selectable(each, now)
            else "it has errors"
            if each.id in broken
            else f"it is {each.status}",
        )
        for each in order
    )


async def warn_if_broken(project: GovernedProject, places: Places, log: TaskLog) -> None:
    """Verify the ledger in the background, unless it is large."""
    try:
        size = project.layout.ledger.stat().st_size
    except OSError:
        size = 0
    if size > MAX_VERIFIED:
        return
    if await anyio.to_thread.run_sync(why_broken, project, places) and not log.ended:
        what = "The ledger is damaged; do not rely on it."
        log.append(Noted(text=f"{what} See: rookery trace verify"))


def why_broken(project: GovernedProject, places: Places) -> str:
    """Why the ledger cannot be trusted; empty if it can."""
    try:
        heads = known_heads(project.layout, places.governance)
        known = heads.read()
    except ValueError as error:
        return f"The known state of the ledger cannot be read ({error})."
    whole = audit(project.layout.folder, known=known, keys=heads.trace_keys).whole
    return "" if whole else "The ledger is damaged, so nothing may be changed."
