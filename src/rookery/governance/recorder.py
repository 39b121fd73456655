"""Records a task's calls in the ledger.

Before a call is made, the task's journal gets a `CallPermitted`: if the process dies, the next one
finds there what is not on record. While the ledger cannot be written, nothing may be changed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core import event_list
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
from rookery.engine.ports.hooks import StoredJournals, TaskLog
from rookery.errors import RookeryError
from rookery.governance.ledger.ledger_reader import newest
from rookery.governance.ledger.ledger_recording import JournalsWithOwn
from rookery.governance.ledger.records import LedgerEntry, TracedFile
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
    input_digest,
    kind_of,
    outcome_of,
    server_fields,
    traced_files,
    worst_objection,
)
from rookery.governance.scope.call_verdict import CallContext, CallVerdict

MAX_SEARCHED = 500
"""Newest records searched for what is already recorded of a command."""
MAX_NAMED = 100
"""Maximum files named by a command whose state before it is noted."""


class RunningCall(Struct, frozen=True, kw_only=True):
    """A running call, and its files' content before it."""

    action: Action
    entry: LedgerEntry
    before: Mapping[str, bytes | None]


class Recorder:
    def __init__(
        self, project: GovernedProject, task_id: str, log: TaskLog, journals: StoredJournals
    ) -> None:
        self._journals = journals
        self._caught_up = False
        self._project = project
        self._task_id = task_id
        self._log = log
        self._running: dict[str, RunningCall] = {}
        self._unsettled: dict[str, LedgerEntry] = {}
        """Commands that have ended, until their effects are known."""
        self._notified = False

    async def retry_unwritten(self) -> str:
        """Try to write what is unrecorded; returns why that failed, or "" if nothing is left."""
        recording = self._project.recording
        if not self._project.keeps_records:
            return ""
        known = self._caught_up and recording.ledger.has_recorded(self._task_id)
        if known and not recording.backlog_size:
            return ""
        try:
            await anyio.to_thread.run_sync(self._try_ledger)
        except LedgerUnwritable as error:
            return str(error)
        self._notified = False
        return ""

    def _try_ledger(self) -> None:
        """Write the backlog, and make sure that the ledger can be written."""
        self._project.recording.retry()
        self._project.recording.ledger.tail()
        if not self._caught_up:
            self._catch_up()

    async def catch_up(self) -> bool:
        """Record what processes that no longer run left unrecorded. Returns False if that
        failed; then it is tried again before anything is changed."""
        try:
            found = await anyio.to_thread.run_sync(self._catch_up)
        except RookeryError as error:
            self._log.append(Noted(text=str(error)))
            return False
        for text in found.sentences():
            self._log.append(Noted(text=text))
        return True

    def _catch_up(self) -> RecoveredCalls:
        journals = JournalsWithOwn(self._journals, self._task_id, tuple(self._log.events))
        root, recording = self._project.layout.root, self._project.recording
        found = recording.recover(root, journals, self._task_id)
        lost = journals.lost_lines(self._task_id)
        recording.open_task(self._task_id, len(journals.own_events), lost)
        self._caught_up = True
        return found

    async def note(self, entry: LedgerEntry) -> bool:
        """Record an entry that is not a change. Returns False if it could not be written; it is
        then written with the next entry, and the user is notified once."""
        write = partial(self._project.recording.note, entry)
        return self._report_failure(await anyio.to_thread.run_sync(self._try_write, write))

    async def begin(
        self,
        call: ToolCall,
        action: Action,
        verdict: CallVerdict,
        at: CallContext | None,
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
            error=worst_objection(verdict) if self.observes else None,
            more={"matched": verdict.matched} if label == "ignored" else None,
        )
        running, targets = await anyio.to_thread.run_sync(self._prepare, action, verdict, entry)
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
        entry = replace(running.entry, log_seq=self._log.append(permitted).seq)
        self._running[call.id] = replace(running, entry=entry)

    def _prepare(
        self, action: Action, verdict: CallVerdict, entry: LedgerEntry
    ) -> tuple[RunningCall, Mapping[str, bytes | None]]:
        """Do all disk access in one go: each switch to a thread costs as much as a read."""
        entry = replace(entry, base=git_base(self._project.layout.root))
        before = self.contents_of(action)
        running = RunningCall(action=action, entry=entry, before=before)
        return running, {**before, **self._named_files(verdict)}

    async def end(
        self,
        call: ToolCall,
        outcome: Outcome | None,
        *,
        settles: bool,
        written: Mapping[str, bytes | None] | None = None,
    ) -> bool:
        """Record the end of a call and return whether that worked. With `settles`, a command's
        effects are not known yet, and `settle` records them."""
        running = self._running.pop(call.id, None)
        if running is None:
            return True
        await self.settle_rest()  # in order: later events count as interrupted
        entry = replace(running.entry, outcome=outcome_of(outcome))
        if entry.command is not None and outcome is not None and outcome.exit_code is not None:
            entry = replace(entry, command={**entry.command, "exit_code": outcome.exit_code})
        if settles:
            self._unsettled[call.id] = entry
            return True
        done = partial(self._finish, running, entry, written)
        entry, error = await anyio.to_thread.run_sync(done)
        self._count(entry)
        return self._report_failure(error)

    def _finish(
        self, running: RunningCall, entry: LedgerEntry, written: Mapping[str, bytes | None] | None
    ) -> tuple[LedgerEntry, LedgerUnwritable | None]:
        """Compare the call's files with those before it and record the difference."""
        after = self._contents(list(running.before))
        if entry.kind == "mutation" and entry.outcome != "success":
            after = self._own_changes(running, after)
        entry = replace(entry, files=traced_files(running.before, after, written=written))
        if not entry.files and entry.kind == "mutation" and entry.outcome == "success":
            return entry, None  # nothing changed
        return entry, self._try_write(partial(self._project.recording.note, entry))

    async def settle(
        self,
        call_id: str,
        before: Mapping[str, bytes | None],
        after: Mapping[str, bytes | None],
        *,
        outside: Sequence[str],
    ) -> None:
        """Record the effects of a command, or those since the last time it was settled."""
        known = self._unsettled.pop(call_id, None)
        follows = known is None
        files = await anyio.to_thread.run_sync(
            partial(traced_files, before, after, attribution="window" if follows else "")
        )
        if follows:
            files = await anyio.to_thread.run_sync(self._unrecorded, call_id, files)
        if follows and not files:
            return
        entry = replace(known or self._follow_up(call_id), files=files)
        if outside:
            error = {"code": "CMD-002", "type": KINDS["CMD-002"].error_type}
            entry = replace(entry, scope="out_of_scope_detected", error=error)
        self._count(entry)
        await self.note(entry)

    def _unrecorded(self, call_id: str, files: Sequence[TracedFile]) -> tuple[TracedFile, ...]:
        """The changes that no record of the same call has; an interrupted call may have been
        recovered."""
        known = {
            (file.path, file.after)
            for record in islice(newest(self._project.layout.folder), MAX_SEARCHED)
            if (record.task_id, record.tool_use_id) == (self._task_id, call_id)
            for file in record.files
        }
        return tuple(each for each in files if (each.path, each.after) not in known)

    def _follow_up(self, call_id: str) -> LedgerEntry:
        call = ToolCall(id=call_id, name="execute_command")
        entry = self.entry("command", call, None)
        outcome: Any = "success" if self._has_ended(call_id) else "interrupted"
        return replace(entry, outcome=outcome, more={"follow_up": True})

    def _has_ended(self, call_id: str) -> bool:
        """Whether the call has a result; it has none if its process was killed."""
        facts = (event.fact for event in event_list.newest(self._log.events, ToolFinished))
        return any(isinstance(each, ToolFinished) and each.call_id == call_id for each in facts)

    async def settle_rest(self) -> None:
        """Record calls whose effects will not be reported any more."""
        for entry in self._unsettled.values():
            await self.note(replace(entry, more={**(entry.more or {}), "unknown_targets": True}))
        for running in self._running.values():  # its tool raised an error
            entry = replace(running.entry, outcome="interrupted")
            _, error = await anyio.to_thread.run_sync(self._finish, running, entry, None)
            self._report_failure(error)
        self._unsettled.clear()
        self._running.clear()

    async def refused(
        self,
        call: ToolCall,
        why: Ruling,
        at: CallContext | None,
        said: Answered | None,
        action: Action | None = None,
    ) -> None:
        refusals, reasons = why.refusals, why.reasons
        wanted = self.target_fields(refusals, action)
        human = said is not None and said.by == "user"
        worst = min(refusals, key=lambda each: KINDS[each.code].rank) if refusals else None
        error = (
            {"code": worst.code, "type": worst.error_type}
            if worst
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

    def target_fields(self, refusals: Sequence[Refusal], action: Action | None) -> dict[str, Any]:
        """Target paths and command of a call, for records of decisions about it."""
        changed = [self._relative(each.path) for each in action.changes] if action else []
        paths = changed or [each.path for one in refusals for each in one.targets]
        fields: dict[str, Any] = {"more": {"targets": list(dict.fromkeys(map(shown, paths)))}}
        if action and action.command:
            fields["command"] = {"text": action.command, "cwd": action.cwd or "."}
        return fields if paths or "command" in fields else {}

    def entry(self, kind: Any, call: ToolCall, at: CallContext | None) -> LedgerEntry:
        state = self._log.state
        active = state.intent or IntentSelected(intent_id="")
        asked = next(event_list.newest(self._log.events, RequestStarted), None)
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
            related=at.intent.related if at else (),
        )

    @property
    def observes(self) -> bool:
        governed = self._log.state.governed
        return governed is not None and governed.mode == "observe"

    def _relative(self, path: str) -> str:
        """Path relative to the governance root, as in records."""
        layout = self._project.layout
        at = layout.workspace / path
        return at.relative_to(layout.root).as_posix() if at.is_relative_to(layout.root) else path

    def _named_files(self, verdict: CallVerdict) -> dict[str, bytes | None]:
        """Content of the files that a command line names, before it runs."""
        targets = verdict.reach.targets if verdict.reach else ()
        paths = [self._relative(each.path) for each in targets if not each.outside]
        files = [path for path in paths if not (self._project.layout.root / path).is_dir()]
        return self._contents(files[:MAX_NAMED])

    def contents_of(self, action: Action) -> dict[str, bytes | None]:
        return self._contents([self._relative(each.path) for each in action.changes])

    def _contents(self, paths: Sequence[str]) -> dict[str, bytes | None]:
        return {path: content(self._project.layout.root / path) for path in paths}

    def _own_changes(
        self, running: RunningCall, after: Mapping[str, bytes | None]
    ) -> dict[str, bytes | None]:
        """The changes of a failed call that match what it intended to write."""
        wanted = {self._relative(each.path): each.after for each in running.action.changes}
        return {
            path: data if digest_of(data) == wanted[path] else running.before[path]
            for path, data in after.items()
        }

    def _count(self, entry: LedgerEntry) -> None:
        if used := self._project.used_if_counted(entry.intent_id):
            used.calls += 1
            used.files.update(each.path for each in entry.files)
            used.lines += sum(each.lines_added + each.lines_deleted for each in entry.files)

    def _try_write(self, write: Callable[[], object]) -> LedgerUnwritable | None:
        if not self._project.keeps_records:
            return None  # without its folder, which only the user creates, there is no ledger
        try:
            write()
        except LedgerUnwritable as error:
            return error
        return None

    def _report_failure(self, error: LedgerUnwritable | None) -> bool:
        """Return whether the write succeeded; the first failure is shown to the user."""
        if error and not self._notified:
            self._notified = True
            self._log.append(Noted(text=str(error)))
        return error is None


def _model_of(asked: Event | None) -> str:
    fact = asked.fact if asked else None
    return f"{fact.provider}/{fact.model}" if isinstance(fact, RequestStarted) else ""
