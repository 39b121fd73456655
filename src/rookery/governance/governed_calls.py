"""What the active intent says to one call, and what the call did.

A command can write anywhere. So the governance files and the ledger are compared before and after
it, and changes outside the scope are reported to the model and to the user.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.event_list import newest
from rookery.core.facts import Effect, FilesRestored, Noted, OutOfScopeWritten, Reminded, Unrecorded
from rookery.core.modes import GOVERNANCE_FOLDER, is_hosts_own
from rookery.core.refusals import Refusal
from rookery.core.undo_plan import background_commands
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import SessionHook, TaskLog
from rookery.engine.ports.workspace import Restored
from rookery.governance.active_intent import ActiveIntent
from rookery.governance.criteria import CHECK_TOOL
from rookery.governance.intents.intent_changes import IntentDefinition
from rookery.governance.ledger.state_files import LedgerBusy, LedgerUnwritable
from rookery.governance.record_fields import content, traced_files
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallContext, CallVerdict, Objection, judge_call
from rookery.governance.scope.locations import NamedPath, judge_paths
from rookery.governance.scope.permission_rules import READ
from rookery.governance.scope.read_rules import strictest_reading, withheld_files
from rookery.governance.scope.scope_verdict import Op
from rookery.governance.scope.touched_paths import needs_intent

FEW_FILES = 10
Withheld: TypeAlias = Callable[[str], bool] | None
"""Returns whether a call must leave a file out of its output; None if it may show all files."""


class JudgedCall(Struct, frozen=True, kw_only=True):
    verdict: CallVerdict = CallVerdict(label="none")
    at: CallContext | None = None
    withheld: Withheld = None


class CallJudge:
    def __init__(
        self, active: ActiveIntent, records: Recorder, confines: Callable[[], bool]
    ) -> None:
        """`confines` returns whether commands can be confined to some folders."""
        self._project = active.project
        self._active = active
        self._records = records
        self._confines = confines
        self.broken = ""
        """Why the ledger cannot be trusted, if that must stop the task; else empty."""

    async def judge(self, call: ToolCall, action: Action) -> JudgedCall:
        if not needs_intent(call, action):
            return await self._judge_reading(call, action)
        verdict, at = await self._judge_change(call, action)
        if at is None or self._records.observes:
            return JudgedCall(verdict=verdict, at=at)
        withheld = await self._withheld_files(call, action, at)
        return JudgedCall(verdict=verdict, at=at, withheld=withheld)

    async def _judge_reading(self, call: ToolCall, action: Action) -> JudgedCall:
        """Judge a call that changes nothing: no intent is needed, but an active one applies."""
        rules = await self._active.reading_permissions() if action.reads else ()
        if isinstance(rules, Refusal):
            return JudgedCall(verdict=_refuse(rules))
        withheld = withheld_files(rules, call.name, self._project.layout)
        look = partial(strictest_reading, rules, call, action, self._project.layout)
        decision, rule = look() if rules else (Decision.NONE, "")
        if decision < Decision.ASK:
            return JudgedCall(withheld=withheld)
        intent_id = self._active.intent_id
        message = f"A rule of {intent_id} about reading applies: {rule}."
        refusal = Refusal(code="CMD-001", message=message, intent_id=intent_id)
        return JudgedCall(verdict=_refuse(refusal, decision), withheld=withheld)

    async def _withheld_files(self, call: ToolCall, action: Action, at: CallContext) -> Withheld:
        """The files that a changing call must not show. The new content of an edited file counts
        as read; the files a command names are judged before it runs."""
        if action.command:
            return withheld_files((at.intent.permissions,), READ, self._project.layout)
        rules = await self._active.reading_permissions()
        if isinstance(rules, Refusal) or not rules:
            return lambda path: True
        as_read = replace(call, name=READ)

        def is_withheld(path: str) -> bool:
            reading = replace(action, reads=[path])
            found = strictest_reading(rules, as_read, reading, self._project.layout)
            return found[0] >= Decision.ASK

        return is_withheld

    async def _judge_change(
        self, call: ToolCall, action: Action
    ) -> tuple[CallVerdict, CallContext | None]:
        if self.broken:
            return _refuse(Refusal(code="TRC-002", message=self.broken)), None
        why = await self._records.retry_unwritten()
        if why and self._project.blocks_unrecorded:
            return _refuse(Refusal(code="TRC-001", message=why)), None
        found = await self._active.standing(action)
        if isinstance(found, Refusal):
            return _refuse(found), None
        if found is None:
            return CallVerdict(label="none"), None
        at = replace(found, **self._confinement(action, found))
        judged = partial(judge_call, call, action, at, self._project.layout)
        # for a few files a thread costs more than the disk access
        few = bool(action.changes) and len(action.changes) <= FEW_FILES
        verdict = judged() if few else await anyio.to_thread.run_sync(judged)
        if over := await self._project.over_budget(at.intent, [f.path for f in verdict.findings]):
            more = _refuse(over)
            verdict = replace(verdict, objections=(*verdict.objections, *more.objections))
        return verdict, at

    def _confinement(self, action: Action, at: CallContext) -> dict[str, Any]:
        """Apply the policy's sandbox setting to this command."""
        if not action.command or at.policy.sandbox == "off":
            return {}
        if self._confines():
            leaves = action.judgement is not None and action.judgement.needs_keys
            return {"sandboxed": not leaves}
        if at.policy.sandbox == "required":
            return {
                "sandbox_error": "The policy requires a sandbox for commands; none is available."
            }
        return {}


def _refuse(refusal: Refusal, decision: Decision = Decision.DENY) -> CallVerdict:
    return CallVerdict(objections=(Objection(decision=decision, refusal=refusal),), label="none")


Contents: TypeAlias = Callable[
    [str, str], Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]
]
"""Returns path, old and new content of each file that differs between two checkpoints."""

LEDGER_NAME = f"{GOVERNANCE_FOLDER}/agent_trace.jsonl"
MAX_REPORTED = 20
MAX_COMPARED = 500
"""Maximum files changed by one command whose lines are recorded."""


class CallEffects(SessionHook):
    follows_files = True

    def __init__(
        self,
        active: ActiveIntent,
        records: Recorder,
        log: TaskLog,
        *,
        contents: Contents | None = None,
    ) -> None:
        """Without `contents`, the effects of commands are unknown."""
        self._project = active.project
        self._active = active
        self._records = records
        self._log = log
        self._contents = contents
        self._files_before: dict[str, str] = {}
        self._running: dict[str, str] = {}
        """Background commands, with the governance files' fingerprint from when they started."""
        self._checks: set[str] = set()
        """Ids of calls that the host made itself to check a criterion."""
        self._definition_at_start: dict[str, IntentDefinition | None] = {}
        """The definition that was active when each command started."""

    async def before_call(self, call: ToolCall, action: Action) -> None:
        """Remember the state before a permitted call."""
        self._checks.discard(call.id)  # models may reuse call ids
        if call.name == CHECK_TOOL:
            self._checks.add(call.id)
        if action.command or action.external:
            self._files_before[call.id] = await self._active.fingerprint_now()
            self._definition_at_start[call.id] = self._active.definition

    async def written(self, action: Action) -> dict[str, bytes | None]:
        """Content of the files that a call changed, read before hooks can change them again."""
        return await anyio.to_thread.run_sync(self._records.contents_of, action)

    async def record(
        self,
        call: ToolCall,
        action: Action,
        outcome: Outcome | None,
        written: Mapping[str, bytes | None] | None,
    ) -> None:
        """Record a call. `written` is its own output, if hooks may have changed the files since."""
        if needs_intent(call, action):
            with anyio.CancelScope(shield=True):
                await self._record(call, action, outcome, written)

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
            await self._check_governance_files(call)

    async def _check_governance_files(self, call: ToolCall) -> None:
        """Check whether a command or server changed the governance files or the ledger. If so,
        the intent is deselected. Background commands are checked for as long as they run."""
        before = self._files_before.pop(call.id, None)
        if before is None:
            return
        if call.id in background_commands(self._log.events):
            self._running[call.id] = before
        await self._check_fingerprint(before)
        await self._check_ledger(call.id)

    async def _check_fingerprint(self, before: str) -> bool:
        """Deselect the intent and return False if the governance files have changed."""
        if before == await self._active.fingerprint_now():
            return True
        await self._active.deselect_after_change("A command changed the governance files")
        return False

    async def check_background_commands(self) -> None:
        """Check what background commands have changed since the last check."""
        if not self._running:
            return
        still = background_commands(self._log.events)
        for call_id, before in list(self._running.items()):
            if call_id not in still:
                del self._running[call_id]
            await self._check_ledger(call_id)
            if not await self._check_fingerprint(before):
                self._running = dict.fromkeys(self._running, await self._active.fingerprint_now())

    async def _check_ledger(self, call_id: str) -> None:
        if not await anyio.to_thread.run_sync(self._is_ledger_intact):
            self._log.append(OutOfScopeWritten(call_id=call_id, paths=(LEDGER_NAME,)))
            await self._active.deselect_after_change("The ledger was changed while a command ran")

    def _is_ledger_intact(self) -> bool:
        if not self._project.keeps_records:
            return True
        try:
            return self._project.recording.ledger.has_last_record(self._active.task_id)
        except LedgerBusy:
            return True  # another host is writing: unknown for now
        except LedgerUnwritable:
            return False

    async def files_changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        if self._contents is None:
            return ()
        from rookery.governance.ledger.statistics import is_by_product

        paths = [each.path for each in effects if not is_hosts_own(each.path)]
        # caches of tools are recorded, but are not a violation of the scope
        work = [path for path in paths if not is_by_product(path)]
        outside = await self._outside(call_id, work)
        old, new = await self._before_and_after(before, after, paths)
        await self._records.settle(call_id, old, new, outside=outside)
        if outside and call_id in self._checks:
            named = ", ".join(outside[:MAX_REPORTED])
            self._log.append(Noted(text=f"A check changed files outside the scope: {named}."))
            return ()
        return self._report_outside(call_id, outside) if outside else ()

    async def _before_and_after(
        self, before: str, after: str, paths: Sequence[str]
    ) -> tuple[dict[str, bytes | None], dict[str, bytes | None]]:
        assert self._contents
        root, workspace = self._project.layout.root, self._project.layout.workspace
        if len(paths) > MAX_COMPARED:
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
        """The files that are outside the scope of the intent that the command ran for."""
        definition = self._definition_at_start.get(call_id) or self._active.definition
        if definition is None:
            return tuple(paths)
        rules = self._project.rules(definition.intent, definition.policy)
        named = [NamedPath(path, Op.MODIFY) for path in paths]
        findings = await anyio.to_thread.run_sync(
            partial(judge_paths, self._project.layout, rules, named)
        )
        granted = self._active.is_granted
        return tuple(each.path for each in findings if each.is_outside and not granted(each.path))

    def _report_outside(self, call_id: str, paths: tuple[str, ...]) -> Sequence[str]:
        """Report the files, and return those that the user should be asked to revert."""
        named = ", ".join(paths[:MAX_REPORTED])
        intent = self._log.state.intent
        self._log.append(OutOfScopeWritten(call_id=call_id, paths=paths))
        notice = Refusal(
            code="CMD-002",
            message=f"The command changed files outside the scope: {named}.",
            intent_id=intent.intent_id if intent else "",
            tool_use_id=call_id,
            details=(("files", list(paths[:MAX_REPORTED])),),
        )
        self._log.append(Noted(text=notice.message))
        text = json.dumps(notice.to_json(), ensure_ascii=False)
        self._log.append(Reminded(text=f"[automatic] {text}"))
        definition = self._active.definition
        asks = definition is not None and definition.policy.on_out_of_scope_write == "ask_revert"
        return paths if asks and not self._records.observes else ()

    async def files_restored(self, done: Restored) -> None:
        """Record a rewind. The ledger itself is never restored."""
        root = self._project.layout.root
        paths = [each.path for each in done.effects]
        now = {path: content(root / path) for path in paths}
        traced = traced_files({path: None for path in paths}, now)
        call = ToolCall(id="", name="")
        entry = self._records.entry("rewind", call, None)
        events = newest(self._log.events, FilesRestored)
        await self._records.settle_rest()  # in order, else they would look interrupted
        await self._records.note(
            replace(
                entry,
                outcome="success",
                files=tuple(replace(each, before=None, ranges=()) for each in traced),
                contributor="human",
                log_seq=next(events).seq,
                more={"removed": [path for path in paths if now[path] is None]},
            )
        )
