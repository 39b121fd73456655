"""Puts a task's calls into the ledger.

Before a call is made the task's journal says so (`CallPermitted`): if the process dies, whoever
comes next finds there what is not on record. While something cannot be written, nothing more may
be changed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    CallPermitted,
    Event,
    IntentSelected,
    Noted,
    RequestStarted,
    ToolFinished,
)
from rookery.core.refusals import KINDS, Refusal, shown
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import TaskLog
from rookery.errors import RookeryError, StorageError
from rookery.governance.ledger.ledger_reader import newest
from rookery.governance.ledger.ledger_recording import EventsOf
from rookery.governance.ledger.records import LedgerEntry, RelatedLink, TracedFile
from rookery.governance.ledger.recovery import RecoveredCalls
from rookery.governance.ledger.state_files import LedgerUnwritable
from rookery.governance.project import GovernedProject
from rookery.governance.record_fields import (
    approval_of,
    command_fields,
    content,
    digest_of,
    file_before,
    git_base,
    gravest_objection,
    input_digest,
    kind_of,
    outcome_of,
    server_fields,
    traced_files,
)
from rookery.governance.scope.call_verdict import CallStanding, CallVerdict

MOST_LOOKED_THROUGH = 500
"""Records that may tell already what a command did."""
MOST_NAMED = 100
"""Files that a command names of which it is noted how they were before."""


class Begun(Struct, frozen=True, kw_only=True):
    """A call that is being made, and how its files were before."""

    action: Action
    entry: LedgerEntry
    before: Mapping[str, bytes | None]


class Recorder:
    def __init__(
        self, project: GovernedProject, task_id: str, log: TaskLog, journal_of: EventsOf
    ) -> None:
        self._journal_of = journal_of
        self._caught_up = False
        self._project = project
        self._task_id = task_id
        self._log = log
        self._begun: dict[str, Begun] = {}
        self._unsettled: dict[str, LedgerEntry] = {}
        """Commands that have ended, until it is known what they did."""
        self._complained = False

    async def unwritten(self) -> str:
        """Why the ledger is behind, once another try to write it has failed; nothing if it is
        not."""
        recording = self._project.recording
        if not self._project.keeps_records:
            return ""
        known = self._caught_up and recording.ledger.has_recorded(self._task_id)
        if known and not recording.behind:
            return ""
        try:
            await anyio.to_thread.run_sync(self._try_ledger)
        except LedgerUnwritable as error:
            return str(error)
        self._complained = False
        return ""

    def _try_ledger(self) -> None:
        """Before the first call of a task too: what cannot be recorded is not done."""
        self._project.recording.retry()
        self._project.recording.ledger.tail()
        if not self._caught_up:
            self._catch_up()

    async def catch_up(self) -> bool:
        """Record what processes that are gone have left unrecorded; False if that failed. Then
        it is tried again before anything is changed."""
        try:
            found = await anyio.to_thread.run_sync(self._catch_up)
        except RookeryError as error:
            self._log.append(Noted(text=str(error)))
            return False
        for text in found.sentences():
            self._log.append(Noted(text=text))
        return True

    def _catch_up(self) -> RecoveredCalls:
        events = tuple(self._log.events)

        def events_of(task_id: str) -> Sequence[Event] | None:
            if task_id == self._task_id:
                return events
            with suppress(StorageError):  # it stays among the open ones, for whoever can read it
                return self._journal_of(task_id)
            return None

        root, recording = self._project.layout.root, self._project.recording
        found = recording.recover(root, events_of, self._task_id)
        recording.open_task(self._task_id, len(events))
        self._caught_up = True
        return found

    async def note(self, entry: LedgerEntry) -> bool:
        """Record what is no change. What cannot be written is told once, and tried again with
        whatever is recorded next; False says that it could not."""
        write = partial(self._project.recording.note, entry)
        return self._heard(await anyio.to_thread.run_sync(self._tried, write))

    async def begin(
        self,
        call: ToolCall,
        action: Action,
        verdict: CallVerdict,
        at: CallStanding | None,
        approval: Mapping[str, Any],
        label: str,
    ) -> None:
        entry = replace(
            self.entry(kind_of(action), call, at),
            scope=label,
            approval=approval,
            enforced=not self.observes,
            command=command_fields(action, verdict),
            mcp=server_fields(action),
            error=gravest_objection(verdict) if self.observes else None,
            more={"matched": verdict.matched} if label == "ignored" else None,
        )
        begun, targets = await anyio.to_thread.run_sync(self._look, action, verdict, entry)
        permitted = CallPermitted(
            call_id=call.id,
            tool=call.name,
            input_digest=entry.input_digest,
            intent_id=entry.intent_id,
            intent_rev=entry.intent_rev,
            intent_digest=entry.intent_digest,
            scope=label,
            files=tuple(map(file_before, targets.items())),
            unknown_targets=not action.changes,
        )
        entry = replace(begun.entry, log_seq=self._log.append(permitted).seq)
        self._begun[call.id] = replace(begun, entry=entry)

    def _look(
        self, action: Action, verdict: CallVerdict, entry: LedgerEntry
    ) -> tuple[Begun, Mapping[str, bytes | None]]:
        """All that touches the disk, in one go: each change of thread costs as much as a look."""
        entry = replace(entry, base=git_base(self._project.layout.root))
        before = self.contents_of(action)
        begun = Begun(action=action, entry=entry, before=before)
        return begun, {**before, **self._named_by(verdict)}

    async def end(
        self,
        call: ToolCall,
        outcome: Outcome | None,
        *,
        settles: bool,
        written: Mapping[str, bytes | None] | None = None,
    ) -> bool:
        """Whether it is on record what the call did. Of a command that still `settles` it is not
        known yet."""
        begun = self._begun.pop(call.id, None)
        if begun is None:
            return True
        await self.settle_rest()  # in order: what comes after the newest record was cut off
        entry = replace(begun.entry, outcome=outcome_of(outcome))
        if entry.command is not None and outcome is not None and outcome.exit_code is not None:
            entry = replace(entry, command={**entry.command, "exit_code": outcome.exit_code})
        if settles:
            self._unsettled[call.id] = entry
            return True
        done = partial(self._leave, begun, entry, written)
        entry, error = await anyio.to_thread.run_sync(done)
        self._count(entry)
        return self._heard(error)

    def _leave(
        self, begun: Begun, entry: LedgerEntry, written: Mapping[str, bytes | None] | None
    ) -> tuple[LedgerEntry, LedgerUnwritable | None]:
        """The same, after the call."""
        after = self._contents(list(begun.before))
        if entry.kind == "mutation" and entry.outcome != "success":
            after = self._own_doing(begun, after)
        entry = replace(entry, files=traced_files(begun.before, after, written=written))
        if not entry.files and entry.kind == "mutation" and entry.outcome == "success":
            return entry, None  # nothing is another than it was
        return entry, self._tried(partial(self._project.recording.note, entry))

    async def settle(
        self,
        call_id: str,
        before: Mapping[str, bytes | None],
        after: Mapping[str, bytes | None],
        *,
        outside: Sequence[str],
    ) -> None:
        """It is known now what a command did, or has done since it was last looked at."""
        known = self._unsettled.pop(call_id, None)
        follows = known is None
        files = await anyio.to_thread.run_sync(
            partial(traced_files, before, after, attribution="window" if follows else "")
        )
        if follows:
            files = await anyio.to_thread.run_sync(self._not_recorded_yet, call_id, files)
        if follows and not files:
            return
        entry = replace(known or self._follow_up(call_id), files=files)
        if outside:
            error = {"code": "CMD-002", "type": KINDS["CMD-002"].error_type}
            entry = replace(entry, scope="out_of_scope_detected", error=error)
        self._count(entry)
        await self.note(entry)

    def _not_recorded_yet(
        self, call_id: str, files: Sequence[TracedFile]
    ) -> tuple[TracedFile, ...]:
        """What no record of the same call tells: one that was cut off may have been recovered."""
        told = {
            (file.path, file.after)
            for record in islice(newest(self._project.layout.folder), MOST_LOOKED_THROUGH)
            if (record.task_id, record.tool_use_id) == (self._task_id, call_id)
            for file in record.files
        }
        return tuple(each for each in files if (each.path, each.after) not in told)

    def _follow_up(self, call_id: str) -> LedgerEntry:
        call = ToolCall(id=call_id, name="execute_command")
        entry = self.entry("command", call, None)
        outcome: Any = "success" if self._has_ended(call_id) else "interrupted"
        return replace(entry, outcome=outcome, more={"follow_up": True})

    def _has_ended(self, call_id: str) -> bool:
        """Unlike one whose process was killed."""
        facts = (event.fact for event in reversed(self._log.events))
        return any(isinstance(each, ToolFinished) and each.call_id == call_id for each in facts)

    async def settle_rest(self) -> None:
        """Calls before the last one of which nobody will say any more what they did."""
        for entry in self._unsettled.values():
            await self.note(replace(entry, more={**(entry.more or {}), "unknown_targets": True}))
        for begun in self._begun.values():  # its tool broke down
            entry = replace(begun.entry, outcome="interrupted")
            _, error = await anyio.to_thread.run_sync(self._leave, begun, entry, None)
            self._heard(error)
        self._unsettled.clear()
        self._begun.clear()

    async def refused(
        self,
        call: ToolCall,
        why: Ruling,
        at: CallStanding | None,
        said: Answered | None,
        action: Action | None = None,
    ) -> None:
        refusals, reasons = why.refusals, why.reasons
        wanted = self.about(refusals, action)
        human = said is not None and said.by == "user"
        gravest = min(refusals, key=lambda each: KINDS[each.code].rank) if refusals else None
        error = (
            {"code": gravest.code, "type": gravest.error_type}
            if gravest
            else {"code": "denied", "type": (reasons[0] if reasons else "approval")[:200]}
        )
        if said is not None:
            decision = self.entry("decision", call, at)
            await self.note(
                replace(
                    decision,
                    outcome="denied",
                    error=error,
                    approval=approval_of(said, [each.code for each in refusals]),
                    **wanted,
                )
            )
        blocked = self.entry("blocked", call, at)
        outcome: Any = "denied" if human else "blocked"
        await self.note(replace(blocked, outcome=outcome, error=error, **wanted))

    def about(self, refusals: Sequence[Refusal], action: Action | None) -> dict[str, Any]:
        """What a call is aimed at, for whoever reads what was decided about it."""
        changed = [self._named(each.path) for each in action.changes] if action else []
        paths = changed or [each.path for one in refusals for each in one.targets]
        told: dict[str, Any] = {"more": {"targets": list(dict.fromkeys(map(shown, paths)))}}
        if action and action.command:
            told["command"] = {"text": action.command, "cwd": action.cwd or "."}
        return told if paths or "command" in told else {}

    def entry(self, kind: Any, call: ToolCall, at: CallStanding | None) -> LedgerEntry:
        state = self._log.state
        active = state.intent or IntentSelected(intent_id="")
        related = at.intent.related if at else ()
        events = reversed(self._log.events)
        asked = next((each for each in events if isinstance(each.fact, RequestStarted)), None)
        return LedgerEntry(
            kind=kind,
            task_id=self._task_id,
            parent_task_id=state.parent or "",
            turn=asked.seq if asked else 0,
            intent_id=active.intent_id,
            intent_rev=active.revision if active.intent_id else None,
            intent_digest=active.digest,
            tool_name=call.name,
            tool_use_id=call.id,
            input_digest=input_digest(call),
            model_id=_model_of(asked),
            related=tuple(RelatedLink(type=each.type, url=each.url) for each in related),
        )

    @property
    def observes(self) -> bool:
        governed = self._log.state.governed
        return governed is not None and governed.mode == "observe"

    def _named(self, path: str) -> str:
        """A file as records name it: below the governance root."""
        layout = self._project.layout
        at = layout.workspace / path
        return at.relative_to(layout.root).as_posix() if at.is_relative_to(layout.root) else path

    def _named_by(self, verdict: CallVerdict) -> dict[str, bytes | None]:
        """The files that a command line names, as they are before it."""
        targets = verdict.reach.targets if verdict.reach else ()
        paths = [self._named(each.path) for each in targets if not each.outside]
        files = [path for path in paths if not self._project.path(path).is_dir()]
        return self._contents(files[:MOST_NAMED])

    def contents_of(self, action: Action) -> dict[str, bytes | None]:
        return self._contents([self._named(each.path) for each in action.changes])

    def _contents(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        return {path: content(self._project.path(path)) for path in paths}

    def _own_doing(
        self, begun: Begun, after: Mapping[str, bytes | None]
    ) -> dict[str, bytes | None]:
        """What a call that failed can have done is what it wanted; all else was somebody else."""
        wanted = {self._named(each.path): each.after for each in begun.action.changes}
        return {
            path: data if digest_of(data) == wanted[path] else begun.before[path]
            for path, data in after.items()
        }

    def _count(self, entry: LedgerEntry) -> None:
        if used := self._project.counted(entry.intent_id):
            used.calls += 1
            used.files.update(each.path for each in entry.files)
            used.lines += sum(each.lines_added + each.lines_deleted for each in entry.files)

    def _tried(self, write: Callable[[], object]) -> LedgerUnwritable | None:
        if not self._project.keeps_records:
            return None  # nobody but the user makes that folder; without it there is no ledger
        try:
            write()
        except LedgerUnwritable as error:
            return error
        return None

    def _heard(self, error: LedgerUnwritable | None) -> bool:
        """Whether it is on record. That it is not is told once."""
        if error and not self._complained:
            self._complained = True
            self._log.append(Noted(text=str(error)))
        return error is None


def _model_of(asked: Event | None) -> str:
    fact = asked.fact if asked else None
    return f"{fact.provider}/{fact.model}" if isinstance(fact, RequestStarted) else ""
