"""The governed project of a workspace, for tasks, for commands and for going back in the past."""

import os
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.facts import IntentCleared, IntentSelected, Noted, Reminded
from rookery.core.limits import MIB
from rookery.core.queries import KnownIntent
from rookery.core.refusals import Refusal
from rookery.core.settings import Settings
from rookery.engine.ports.checkpoints import Restored
from rookery.engine.ports.hooks import Ungoverned
from rookery.engine.ports.storage import TaskLog
from rookery.errors import IntentNotSelectable
from rookery.governance.governed_task import GovernedTask
from rookery.governance.intents.intent import digest, selectable
from rookery.governance.intents.intent_changes import Definition
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.intents.selection import select
from rookery.governance.layout import Layout, find_layout, governed_places
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.ledger.verification import verified
from rookery.governance.project import GovernanceOptions, GovernedProject
from rookery.platform.user_folders import Places

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

    async def restored(self, done: Restored) -> None:
        layout = find_layout(self._workspace, self._workspace).layout
        if self._log.state.governed is None or layout is None:
            return
        project = open_project(self._settings, layout, self._places)
        task = GovernedTask(
            project,
            self._task_id,
            self._log,
            confines=lambda: False,
        )
        await task.effects.restored(done)
        await anyio.to_thread.run_sync(project.recording.close, self._task_id)


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
        what = "The ledger is not whole; what it tells cannot be relied on."
        log.append(Noted(text=f"{what} See: rookery trace verify"))


def why_broken(project: GovernedProject, places: Places) -> str:
    """Why the ledger cannot be trusted; empty if it can."""
    try:
        heads = KnownHeads(heads_of(project.layout, places))
        known = heads.read()
    except ValueError as error:
        return f"What is known of the ledger cannot be read ({error})."
    whole = verified(project.layout.folder, known=known, keys=heads.trace_keys).whole
    return "" if whole else "The ledger is not whole, so nothing may be changed."


async def take_up(task: GovernedTask, log: TaskLog, wanted: str, *, is_new: bool) -> None:
    """The intent that the task was begun for, or worked for when it was left. `wanted` is what
    whoever started the run said."""
    active = log.state.intent
    facts = (event.fact for event in log.events)
    task.in_force.inherited = next(
        (f.intent_id for f in facts if isinstance(f, IntentSelected) and f.by == "parent"), ""
    )
    if active is None:
        if wanted and is_new and not log.state.parent:
            await task.select(wanted)
        return
    file = (await task.project.intents()).file
    intent = file.find(active.intent_id)
    usable = intent and intent.id not in file.broken and selectable(intent, task.project.now())
    if intent is None or not usable or digest(intent, file.policy) != active.digest:
        reason = (
            f"{active.intent_id} is not as it was when this task worked for it; select it "
            "again to go on."
        )
        log.append(IntentCleared(reason=reason))
        log.append(Noted(text=reason))
        log.append(Reminded(text=f"[automatic] {reason}"))
        return
    task.in_force.know(Definition(intent, file.policy))
    await anyio.to_thread.run_sync(task.in_force.take_lease)
    if active.by == "parent" and is_new:
        await task.remind()


def check_intent(settings: Settings, workspace: Path, intent_id: str) -> None:
    """Raises `IntentNotSelectable` if a run could not work for the intent."""
    if settings.governance.mode == "off":
        raise IntentNotSelectable("Governance is switched off, so no intent can be worked for.")
    layout = find_layout(workspace, workspace).layout
    if layout is None:
        raise IntentNotSelectable(
            f"There are no intents here, so {intent_id} cannot be worked for. Make some with: "
            "rookery intents init"
        )
    now = datetime.now(UTC)
    found = select(IntentReader(layout).read().file, intent_id, now=now)
    if isinstance(found, Refusal):
        raise IntentNotSelectable(found.message)
