"""What the calls of a task did: put on record, and looked through for what they may not do.

A command can write anywhere. So the files of governance and the ledger are compared before and
after it, and what it changed outside of the scope is reported to the model and to the user.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Effect,
    FilesRestored,
    Noted,
    OutOfScopeWritten,
    Reminded,
    Unrecorded,
)
from rookery.core.modes import GOVERNANCE_FOLDER, is_hosts_own
from rookery.core.refusals import Refusal
from rookery.core.undo_plan import commands_running_on
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import TaskLog
from rookery.engine.ports.workspace import Restored
from rookery.governance.active_intent import InForce
from rookery.governance.criteria import CHECK_TOOL
from rookery.governance.intents.intent_changes import IntentDefinition
from rookery.governance.ledger.state_files import LedgerBusy, LedgerUnwritable
from rookery.governance.ledger.statistics import is_by_product
from rookery.governance.record_fields import content, traced_files
from rookery.governance.recorder import Recorder
from rookery.governance.scope.locations import NamedPath, judge_paths
from rookery.governance.scope.scope_verdict import Op, PathFinding, PathVerdict
from rookery.governance.scope.touched_paths import is_destructive

Contents: TypeAlias = Callable[
    [str, str], Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]
]
"""What was in each file that differs between two checkpoints."""

LEDGER_NAME = f"{GOVERNANCE_FOLDER}/agent_trace.jsonl"
MOST_TOLD = 20
MOST_COMPARED = 500
"""Files changed by one command of which the lines are told."""


class CallEffects:
    def __init__(
        self,
        in_force: InForce,
        records: Recorder,
        log: TaskLog,
        *,
        contents: Contents | None = None,
    ) -> None:
        """Without `contents` nobody knows what commands did."""
        self._project = in_force.project
        self._in_force = in_force
        self._records = records
        self._log = log
        self._contents = contents
        self._files_before: dict[str, str] = {}
        self._running: dict[str, str] = {}
        """Commands that run on, and what the files of governance were when each began."""
        self._checks: set[str] = set()
        """Calls that the host made itself, to see whether a criterion is met."""
        self._held: dict[str, IntentDefinition | None] = {}
        """What was in force when a command began."""

    async def about_to_begin(self, call: ToolCall, action: Action) -> None:
        """How things are before a call that was permitted."""
        self._checks.discard(call.id)  # ids are the model's to choose, and may be said again
        if call.name == CHECK_TOOL:
            self._checks.add(call.id)
        if action.command or action.external:
            self._files_before[call.id] = await self._in_force.fingerprint_now()
            self._held[call.id] = self._in_force.definition

    async def written(self, action: Action) -> dict[str, bytes | None]:
        """What a call has made of files, before anybody else changes them again."""
        return await anyio.to_thread.run_sync(self._records.contents_of, action)

    async def ended(
        self,
        call: ToolCall,
        action: Action,
        outcome: Outcome | None,
        *,
        written: Mapping[str, bytes | None] | None = None,
    ) -> Outcome | None:
        """`written` is what the call itself wrote, if hooks may have changed that since."""
        if not is_destructive(call, action):
            return outcome
        with anyio.CancelScope(shield=True):
            await self._record(call, action, outcome, written)
        return outcome

    async def _record(
        self,
        call: ToolCall,
        action: Action,
        outcome: Outcome | None,
        written: Mapping[str, bytes | None] | None,
    ) -> None:
        may_do_more = bool(action.command or action.external)
        settles = may_do_more and action.may_change_files and self._contents is not None
        if call.name == CHECK_TOOL:
            settles = False
        recorded = await self._records.end(call, outcome, settles=settles, written=written)
        if not recorded:
            self._log.append(Unrecorded(call_id=call.id, code=LedgerUnwritable.code))
        if may_do_more:
            await self._watch_own_files(call)

    async def _watch_own_files(self, call: ToolCall) -> None:
        """What a command or a server changes about governance, governs nothing until a person
        has agreed to it. One that runs on is looked after for as long as it does."""
        before = self._files_before.pop(call.id, None)
        if before is None:
            return
        if call.id in commands_running_on(self._log.events):
            self._running[call.id] = before
        await self._compare(before)
        await self._look_at_ledger(call.id)

    async def _compare(self, before: str) -> bool:
        """Whether the files of governance are as they were."""
        if before == await self._in_force.fingerprint_now():
            return True
        await self._in_force.lose_to_own_doing("A command changed the governance files")
        return False

    async def look_after_running(self) -> None:
        """What commands that run on have done to the files of governance since the last look."""
        if not self._running:
            return
        still = commands_running_on(self._log.events)
        for call_id, before in list(self._running.items()):
            if call_id not in still:
                del self._running[call_id]
            await self._look_at_ledger(call_id)
            if not await self._compare(before):
                self._running = dict.fromkeys(self._running, await self._in_force.fingerprint_now())

    async def _look_at_ledger(self, call_id: str) -> None:
        if not await anyio.to_thread.run_sync(self._ledger_is_whole):
            self._log.append(OutOfScopeWritten(call_id=call_id, paths=(LEDGER_NAME,)))
            await self._in_force.lose_to_own_doing("The ledger was changed while a command ran")

    def _ledger_is_whole(self) -> bool:
        if not self._project.keeps_records:
            return True
        try:
            return self._project.recording.ledger.holds_own(self._in_force.task_id)
        except LedgerBusy:
            return True  # another host writes to it: nobody can tell yet
        except LedgerUnwritable:
            return False

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        if self._contents is None:
            return ()
        paths = [each.path for each in effects if not is_hosts_own(each.path)]
        # what tools leave behind as they run is on record, and nobody's trespass
        work = [path for path in paths if not is_by_product(path)]
        outside = await self._outside(call_id, work)
        old, new = await self._before_and_after(before, after, paths)
        await self._records.settle(call_id, old, new, outside=outside)
        if outside and call_id in self._checks:
            named = ", ".join(outside[:MOST_TOLD])
            self._log.append(Noted(text=f"A check changed files outside the scope: {named}."))
            return ()
        return self._tell_outside(call_id, outside) if outside else ()

    async def _before_and_after(
        self, before: str, after: str, paths: Sequence[str]
    ) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
        assert self._contents
        root, workspace = self._project.layout.root, self._project.layout.workspace
        if len(paths) > MOST_COMPARED:
            found: Sequence[tuple[str, bytes | None, bytes | None]] = ()
        else:
            found = await self._contents(before, after)
        wanted = set(paths)
        old: dict[str, bytes | None] = {}
        new: dict[str, bytes | None] = {}
        for path, was, now in found:
            at = workspace / path
            if path in wanted and at.is_relative_to(root):
                name = at.relative_to(root).as_posix()
                old[name], new[name] = was, now
        return old, new

    async def _outside(self, call_id: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Which of these files the intent does not own that a command ran for."""
        definition = self._held.get(call_id) or self._in_force.definition
        if definition is None:
            return tuple(paths)
        rules = self._project.rules(definition.intent, definition.policy)
        named = [NamedPath(path, Op.MODIFY) for path in paths]
        findings = await anyio.to_thread.run_sync(
            partial(judge_paths, self._project.layout, rules, named)
        )
        granted = self._in_force.granted
        return tuple(each.path for each in findings if is_outside(each) and not granted(each.path))

    def _tell_outside(self, call_id: str, paths: tuple[str, ...]) -> Sequence[str]:
        """Those of the files that a person may want to have put back."""
        named = ", ".join(paths[:MOST_TOLD])
        intent = self._log.state.intent
        self._log.append(OutOfScopeWritten(call_id=call_id, paths=paths))
        notice = Refusal(
            code="CMD-002",
            message=f"The command changed files outside the scope: {named}.",
            intent_id=intent.intent_id if intent else "",
            tool_use_id=call_id,
            details=(("files", list(paths[:MOST_TOLD])),),
        )
        self._log.append(Noted(text=notice.message))
        said = json.dumps(notice.to_json(), ensure_ascii=False)
        self._log.append(Reminded(text=f"[automatic] {said}"))
        definition = self._in_force.definition
        asks = definition is not None and definition.policy.on_out_of_scope_write == "ask_revert"
        return paths if asks and not self._records.observes else ()

    async def restored(self, done: Restored) -> None:
        """Files were put back; the ledger itself never is."""
        root = self._project.layout.root
        paths = [each.path for each in done.effects]
        now = {path: content(root / path) for path in paths}
        traced = traced_files({path: None for path in paths}, now)
        call = ToolCall(id="", name="")
        entry = self._records.entry("rewind", call, None)
        events = reversed(self._log.events)
        await (
            self._records.settle_rest()
        )  # in order: what comes after the newest record was cut off
        await self._records.note(
            replace(
                entry,
                outcome="success",
                files=tuple(replace(each, before=None, ranges=()) for each in traced),
                contributor="human",
                log_seq=next(e.seq for e in events if isinstance(e.fact, FilesRestored)),
                more={"removed": [path for path in paths if now[path] is None]},
            )
        )


def is_outside(finding: PathFinding) -> bool:
    return finding.verdict not in (PathVerdict.IN_SCOPE, PathVerdict.IGNORED)
