"""The intents of a workspace and the ledger of what was done for them, for all of its tasks."""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.facts import Noted
from rookery.core.limits import MIB
from rookery.core.queries import KnownIntent
from rookery.core.settings import Settings
from rookery.engine.ports.hooks import TaskLog
from rookery.governance.intents.intent import Intent, Policy, selectable
from rookery.governance.intents.intent_context import IntentSurroundings, OtherWork, TraceLine
from rookery.governance.intents.intent_edits import IntentWriter
from rookery.governance.intents.intent_file import IntentReader, IntentText
from rookery.governance.intents.leases import Leases, Neighbours
from rookery.governance.layout import Layout, governed_places
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import Query
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.state_files import KnownHeads, LedgerUnwritable
from rookery.governance.ledger.traced import TracedRecord, records_on
from rookery.governance.ledger.verification import verified
from rookery.governance.scope.command_policy import CommandPolicy, read_command_policy
from rookery.governance.scope.locations import ignores_case
from rookery.governance.scope.scope_rules import active_scope, read_intent_ignore
from rookery.governance.scope.scope_verdict import ScopeRules
from rookery.platform.user_folders import Places

T = TypeVar("T")
MOST_RELATED = 5
MOST_LOOKED_BACK = 4 * MIB
"""Bytes of the ledger in which work for an intent is looked for, so that a long one is as fast."""


class GovernanceOptions(Struct, frozen=True, kw_only=True):
    """What the user's settings and flags say about governance."""

    auto_single: bool = False
    context_chars: int = 12_000
    block_unrecorded: bool = True
    block_broken: bool = False
    read_only_without_intent: bool = False
    in_scope_unasked: bool = False
    allow: frozenset[str] = frozenset()
    """Which questions of governance are answered with yes for this run: scope, unknown, delete."""


class Used(Struct):
    """What was done for an intent so far, by any task."""

    files: set[str] = field(default_factory=set)
    lines: int = 0
    calls: int = 0


class GovernedProject:
    def __init__(
        self,
        layout: Layout,
        recording: Recording,
        options: GovernanceOptions,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.layout = layout
        self.recording = recording
        self.options = options
        self.now = now
        self.leases = Leases(layout)
        self._reader = IntentReader(layout, now=now)
        self.writer = IntentWriter(layout, now=now)
        self._used: dict[str, Used] = {}
        self._ignores_case: bool | None = None

    async def intents(self, active: str = "") -> IntentText:
        """The intent file as it is now, once whoever saves it has done so."""
        return await self._reader.settled(active)

    @property
    def keeps_records(self) -> bool:
        """Nobody but the user makes the folder; without it, or behind a link, is no ledger."""
        folder = self.layout.folder
        return folder.is_dir() and not folder.is_symlink()

    async def flush(self) -> None:
        """While the model is asked. What cannot be flushed is still in the task's journal; it is
        tried again before the next request, and at the end, which says so."""
        with suppress(LedgerUnwritable):
            await anyio.to_thread.run_sync(self.recording.flush)

    def ledger_state(self) -> str:
        """Names the ledger's present content; empty if there is none."""
        from rookery.governance.ledger.verify_ledger import state_id

        return state_id(self.recording.ledger.tail().tips) if self.layout.ledger.exists() else ""

    def rules(self, intent: Intent, policy: Policy, text: IntentText | None = None) -> ScopeRules:
        """`text` is the intent file, if somebody has just read it."""
        if self._ignores_case is None:
            self._ignores_case = ignores_case(self.layout.root)
        now = self.now()
        known = [each.id for each in (text or self._reader.read()).file.intents]
        ignore = read_intent_ignore(self.layout, known, now)
        return active_scope(intent, policy, ignore, now=now, ignore_case=self._ignores_case)

    def commands(self) -> tuple[CommandPolicy, str]:
        """The project's rules for commands, and what is wrong with them, if anything is."""
        policy, problems = read_command_policy(self.layout)
        wrong = problems[0] if problems else None
        return policy, f"{wrong.file}: {wrong.message}" if wrong else ""

    def neighbours(self, task_id: str, intent: Intent) -> Neighbours:
        return self.leases.neighbours(task_id, intent.id, intent.owned_scope, now=self.now())

    async def used(self, intent_id: str) -> Used:
        """Counted from the ledger once, and kept up to date by whoever records."""
        if intent_id not in self._used:
            self._used[intent_id] = await anyio.to_thread.run_sync(self._count, intent_id)
        return self._used[intent_id]

    def counted(self, intent_id: str) -> Used | None:
        """None as long as nobody has asked: without a budget there is no need to count."""
        return self._used.get(intent_id)

    def _count(self, intent_id: str) -> Used:
        used = Used()
        for record in self.recording.find(Query(intent=intent_id)):
            if record.kind in ("mutation", "command", "external", "recovered"):
                used.calls += 1
                used.lines += sum(each.lines_added + each.lines_deleted for each in record.files)
                used.files.update(each.path for each in record.files)
        return used

    async def surroundings(self, task_id: str, intent: Intent) -> IntentSurroundings:
        """What helps whoever begins to work for an intent."""
        near = self.neighbours(task_id, intent)
        related = await anyio.to_thread.run_sync(self._related, intent.id)
        most = intent.budget.max_files
        files = () if most is None else (await self.used(intent.id)).files
        return IntentSurroundings(
            related=related,
            others=tuple(
                OtherWork(intent_id=each.intent_id, scope=each.scope)
                for each in (*near.same_intent, *near.overlapping)
            ),
            files_left=None if most is None else max(most - len(files), 0),
        )

    def _related(self, intent_id: str) -> tuple[TraceLine, ...]:
        """The newest of the work for an intent, as far as it is near the end of the ledger."""
        query, named = Query(intent=intent_id), intent_id.encode()
        lines: list[TraceLine] = []
        left = MOST_LOOKED_BACK
        for line in newest_first(self.layout.folder):
            left -= len(line)
            if left < 0 or len(lines) >= MOST_RELATED:
                break
            if named in line:
                found = filter(query.matches, records_on(line))
                lines += [_told(record) for record in found if record.files]
        return tuple(lines)

    def path(self, relative: str) -> Path:
        """A file by the name that verdicts and records give it."""
        return self.layout.root / relative


def _told(record: TracedRecord) -> TraceLine:
    return TraceLine(
        id=record.id,
        at=record.time,
        tool=record.tool_name,
        files=tuple(each.path for each in record.files[:5]),
    )


LARGEST_CHECKED = 2 * MIB
"""Bytes of a ledger that is looked through, beside the work, whenever a task begins."""


def heads_of(layout: Layout, places: Places) -> Path:
    return governed_places(layout, places).heads


def open_project(
    settings: Settings, layout: Layout, places: Places, *, allow: frozenset[str] = frozenset()
) -> GovernedProject:
    layout = replace(layout, written=places.host_writes)
    # without the folder there is no ledger, and nobody but the user makes that folder
    kept = layout.folder.is_dir() and not layout.folder.is_symlink()
    recording = Recording(
        layout.folder,
        writer=Writer(name=NAME, version=VERSION),
        heads=KnownHeads(heads_of(layout, places)) if kept else None,
        flush=Flush(settings.trace.fsync),
        hide=SecretsFilter(os.environ),
    )
    options = GovernanceOptions(
        auto_single=settings.governance.auto_select_single,
        context_chars=settings.governance.context_chars,
        block_unrecorded=settings.trace.on_failure == "block",
        block_broken=settings.trace.on_broken == "block",
        read_only_without_intent=settings.commands.read_only_without_intent,
        in_scope_unasked=settings.approve_in_scope,
        allow=allow,
    )
    return GovernedProject(layout, recording, options)


async def known_intents(project: GovernedProject) -> tuple[KnownIntent, ...]:
    """Those in progress first."""
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
    """Beside the work; a large ledger is not looked through."""
    try:
        size = project.layout.ledger.stat().st_size
    except OSError:
        size = 0
    if size > LARGEST_CHECKED:
        return
    if await anyio.to_thread.run_sync(why_broken, project, places) and not log.ended:
        what = "The ledger is damaged; do not rely on it."
        log.append(Noted(text=f"{what} See: rookery trace verify"))


def why_broken(project: GovernedProject, places: Places) -> str:
    """Why the ledger cannot be trusted; empty if it can."""
    try:
        heads = KnownHeads(heads_of(project.layout, places))
        known = heads.read()
    except ValueError as error:
        return f"The known state of the ledger cannot be read ({error})."
    whole = verified(project.layout.folder, known=known, keys=heads.trace_keys).whole
    return "" if whole else "The ledger is damaged, so nothing may be changed."
