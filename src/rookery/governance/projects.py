"""The governed project of a workspace, for tasks, for commands and for going back in the past."""

import os
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.refusals import Refusal
from rookery.core.settings import Settings
from rookery.engine.event_log import EventLog
from rookery.engine.ports.checkpoints import Restored
from rookery.engine.ports.hooks import Ungoverned
from rookery.errors import IntentNotSelectable
from rookery.governance.governed_task import GovernedTask
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.intents.selection import select
from rookery.governance.layout import Layout, find_layout, governed_places
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_recording import Recording
from rookery.governance.ledger.records import Writer
from rookery.governance.ledger.secrets_filter import SecretsFilter
from rookery.governance.project import GovernanceWishes, GovernedProject
from rookery.platform.user_folders import Places


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
    wishes = GovernanceWishes(
        auto_single=settings.governance.auto_select_single,
        context_chars=settings.governance.context_chars,
        block_unrecorded=settings.trace.on_failure == "block",
        block_broken=settings.trace.on_broken == "block",
        read_only_without_intent=settings.commands.read_only_without_intent,
        in_scope_unasked=settings.approve_in_scope,
        allow=allow,
    )
    return GovernedProject(layout, recording, wishes, tools={})


class PastGovernance(Ungoverned):
    """For whoever goes back in a session that nobody runs: it is on record what was put back."""

    def __init__(
        self, settings: Settings, workspace: Path, places: Places, task_id: str, log: EventLog
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
            state=lambda: self._log.state,
            events=lambda: self._log.events,
            append=self._log.append,
            confines=lambda: False,
        )
        await task.restored(done)
        await anyio.to_thread.run_sync(project.recording.close, self._task_id)


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
