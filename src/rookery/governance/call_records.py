"""Puts a task's calls into the ledger: before they are made, and what became of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Event,
    IntentSelected,
    Noted,
    RequestStarted,
    ToolFinished,
)
from rookery.core.folds.task_state import TaskState
from rookery.core.refusals import KINDS, Refusal, shown
from rookery.core.rulings import Ruling
from rookery.engine.ports.actions import Action, Outcome
from rookery.governance.ledger.call_journal import BegunCall, Target
from rookery.governance.ledger.ledger_errors import LedgerUnwritable
from rookery.governance.ledger.ledger_reader import newest
from rookery.governance.ledger.records import Entry, Related, TracedFile
from rookery.governance.project import GovernedProject
from rookery.governance.record_fields import (
    approval_of,
    command_fields,
    content,
    digest_of,
    git_base,
    gravest_objection,
    hash_of,
    input_digest,
    kind_of,
    outcome_of,
    server_fields,
    traced_files,
)
from rookery.governance.scope.call_verdict import CallVerdict, Standing

MOST_LOOKED_THROUGH = 500
"""Records that may tell already what a command did."""
MOST_NAMED = 100
"""Files that a command names of which it is noted how they were before."""


class Begun(Struct, frozen=True, kw_only=True):
    """A call that is being made, and how its files were before."""

    call: ToolCall
    action: Action
    entry: Entry
    journal: BegunCall
    before: Mapping[str, bytes | None]


class CallRecords:
    def __init__(
        self,
        project: GovernedProject,
        task_id: str,
        state: Callable[[], TaskState],
        events: Callable[[], Sequence[Event]],
        tell: Callable[[Noted], object],
    ) -> None:
        self._project = project
        self._task_id = task_id
        self._state = state
        self._events = events
        self._tell = tell
        self._begun: dict[str, Begun] = {}
        self._unsettled: dict[str, tuple[Entry, BegunCall]] = {}
        """Commands that have ended, until it is known what they did."""
        self._complained = False

    async def unwritten(self) -> str:
        """Why the ledger is behind, once another try to write it has failed; nothing if it is
        not."""
        recording = self._project.recording
        if not recording.behind:
            return ""
        try:
            await anyio.to_thread.run_sync(recording.retry)
        except LedgerUnwritable as error:
            return str(error)
        self._complained = False
        return ""

    async def note(self, entry: Entry) -> bool:
        """Record what is no change. What cannot be written is told once, and tried again with
        whatever is recorded next; False says that it could not."""
        return await self._written(partial(self._project.recording.note, entry))

    async def begin(
        self,
        call: ToolCall,
        action: Action,
        verdict: CallVerdict,
        at: Standing | None,
        approval: Mapping[str, Any],
        label: str,
    ) -> None:
        """Raises `LedgerUnwritable`; then nothing may be changed."""
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
        begun = partial(self._enter, call, action, verdict, entry)
        self._begun[call.id] = await anyio.to_thread.run_sync(begun)

    def _enter(self, call: ToolCall, action: Action, verdict: CallVerdict, entry: Entry) -> Begun:
        """All that touches the disk, in one go: each change of thread costs as much as a look."""
        entry = replace(entry, base=git_base(self._project.layout.root))
        before = self.contents_of(action)
        targets = {**before, **self._named_by(verdict)}
        journal = BegunCall(
            task_id=self._task_id,
            tool_use_id=call.id,
            tool_name=call.name,
            input_digest=entry.input_digest,
            parent_task_id=entry.parent_task_id,
            intent_id=entry.intent_id,
            intent_rev=entry.intent_rev,
            intent_digest=entry.intent_digest,
            scope=entry.scope,
            targets=tuple(map(_target, targets.items())),
            unknown_targets=not action.changes,
        )
        self._project.recording.begin(journal)
        return Begun(call=call, action=action, entry=entry, journal=journal, before=before)

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
        entry = replace(begun.entry, outcome=outcome_of(outcome))
        if entry.command is not None and outcome is not None and outcome.exit_code is not None:
            entry = replace(entry, command={**entry.command, "exit_code": outcome.exit_code})
        if settles:
            self._unsettled[call.id] = (entry, begun.journal)
            return True
        done = partial(self._leave, begun, entry, written)
        entry, error = await anyio.to_thread.run_sync(done)
        self._count(entry)
        return self._heard(error)

    def _leave(
        self, begun: Begun, entry: Entry, written: Mapping[str, bytes | None] | None
    ) -> tuple[Entry, LedgerUnwritable | None]:
        """The same, after the call."""
        recording = self._project.recording
        after = self._contents(list(begun.before))
        if entry.kind == "mutation" and entry.outcome != "success":
            after = self._own_doing(begun, after)
        entry = replace(entry, files=traced_files(begun.before, after, written=written))
        if not entry.files and entry.kind == "mutation" and entry.outcome == "success":
            recording.drop(begun.journal)  # nothing is another than it was
            return entry, None
        return entry, self._tried(partial(recording.end, begun.journal, entry))

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
        entry, journal = known or (self._follow_up(call_id), None)
        entry = replace(entry, files=files)
        if outside:
            error = {"code": "CMD-002", "type": KINDS["CMD-002"].error_type}
            entry = replace(entry, scope="out_of_scope_detected", error=error)
        self._count(entry)
        recording = self._project.recording
        write = (
            partial(recording.end, journal, entry) if journal else partial(recording.note, entry)
        )
        await self._written(write)

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

    def _follow_up(self, call_id: str) -> Entry:
        call = ToolCall(id=call_id, name="execute_command")
        entry = self.entry("command", call, None)
        outcome: Any = "success" if self._has_ended(call_id) else "interrupted"
        return replace(entry, outcome=outcome, more={"follow_up": True})

    def _has_ended(self, call_id: str) -> bool:
        """Unlike one whose process was killed."""
        facts = (event.fact for event in reversed(self._events()))
        return any(isinstance(each, ToolFinished) and each.call_id == call_id for each in facts)

    async def settle_rest(self) -> None:
        """Commands of which nobody will say any more what they did."""
        while self._unsettled:
            _, (entry, journal) = self._unsettled.popitem()
            entry = replace(entry, more={**(entry.more or {}), "unknown_targets": True})
            await self._written(partial(self._project.recording.end, journal, entry))

    async def refused(
        self,
        call: ToolCall,
        why: Ruling,
        at: Standing | None,
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

    def entry(self, kind: Any, call: ToolCall, at: Standing | None) -> Entry:
        state = self._state()
        active = state.intent or IntentSelected(intent_id="")
        related = at.intent.related if at else ()
        return Entry(
            kind=kind,
            task_id=self._task_id,
            parent_task_id=state.parent or "",
            turn=self._turn(),
            intent_id=active.intent_id,
            intent_rev=active.revision if active.intent_id else None,
            intent_digest=active.digest,
            tool_name=call.name,
            tool_use_id=call.id,
            input_digest=input_digest(call),
            model_id=self._model(),
            related=tuple(Related(type=each.type, url=each.url) for each in related),
        )

    @property
    def observes(self) -> bool:
        governed = self._state().governed
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

    def _turn(self) -> int:
        """The event at which the model was last asked."""
        return next((e.seq for e in reversed(self._events()) if _is_request(e)), 0)

    def _model(self) -> str:
        asked = next((e.fact for e in reversed(self._events()) if _is_request(e)), None)
        return f"{asked.provider}/{asked.model}" if isinstance(asked, RequestStarted) else ""

    def _count(self, entry: Entry) -> None:
        if used := self._project.counted(entry.intent_id):
            used.calls += 1
            used.files.update(each.path for each in entry.files)
            used.lines += sum(each.lines_added + each.lines_deleted for each in entry.files)

    async def _written(self, write: Callable[[], object]) -> bool:
        return self._heard(await anyio.to_thread.run_sync(self._tried, write))

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
            self._tell(Noted(text=str(error)))
        return error is None


def _target(file: tuple[str, bytes | None]) -> Target:
    path, data = file
    return Target(path=path, before=hash_of(data))


def _is_request(event: Event) -> bool:
    return isinstance(event.fact, RequestStarted)
