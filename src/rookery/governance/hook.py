"""Governance of one task: rules on its calls and records them.

The active intent is stored in the task's log, never only in memory or in a prompt, so that
condensing or restarting cannot loosen it. Files are read again before each call that changes
something.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.asks import Decision, Ruling, allow, joined
from rookery.core.blocks import ToolCall
from rookery.core.event_list import of_kind
from rookery.core.facts import (
    Answered,
    CriteriaChecked,
    IntentCleared,
    IntentSelected,
    Noted,
    Reminded,
    ScopeGranted,
)
from rookery.core.modes import EXPAND, SELECT
from rookery.core.refusals import KINDS, Refusal
from rookery.core.replies import sentence_in
from rookery.core.tool_traits import traits_of
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Acting, Hook, SessionHook, StoredJournals, TaskLog, denial_of
from rookery.engine.ports.tool import Tool
from rookery.errors import CommandRejected, Denied, RookeryError
from rookery.governance.active_intent import ActiveIntent
from rookery.governance.criteria import check_criteria, format_failures, format_results
from rookery.governance.governed_calls import CallEffects, CallJudge, Contents, JudgedCall
from rookery.governance.intents.intent import digest, selectable
from rookery.governance.intents.intent_changes import IntentDefinition
from rookery.governance.intents.intent_context import ContextTooLarge, reminder, selectable_intents
from rookery.governance.intents.leases import HEARTBEAT_SECONDS
from rookery.governance.intents.selection import Chosen, choose, context_of
from rookery.governance.project import GovernedProject
from rookery.governance.record_fields import approval_of
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallContext, CallVerdict
from rookery.governance.scope.scope_verdict import writable_prefixes
from rookery.governance.scope.touched_paths import needs_intent, refuse_displaced, refuse_unreadable

NO_HOOKS = Hook()


class GovernanceHook(Hook, SessionHook):
    """It is called around the user's own hooks, because it records what they refuse and what they
    changed."""

    def __init__(
        self,
        project: GovernedProject,
        task_id: str,
        log: TaskLog,
        journals: StoredJournals,
        *,
        confines: Callable[[], bool] = lambda: False,
        contents: Contents | None = None,
        start_soon: Callable[..., None] = lambda *work: None,
    ) -> None:
        """`confines` returns whether commands can be confined to some folders. Without
        `contents`, the effects of commands are unknown."""
        self.project = project
        self.task_id = task_id
        self._log = log
        self._start_soon = start_soon
        self._records = Recorder(project, task_id, log, journals)
        self.catch_up, self.retry_unwritten = self._records.catch_up, self._records.retry_unwritten
        self.active = ActiveIntent(project, task_id, log, self._note)
        self.changes = CallEffects(self.active, self._records, log, contents=contents)
        self.judge = CallJudge(self.active, self._records, confines)
        self.hooks: Hook = NO_HOOKS
        """The user's own hooks."""
        self.announce: Callable[[str, dict[str, Any]], Awaitable[None]] = _ignore_event
        """Called when an intent was selected or became invalid."""
        self.on_begin: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self._judged: dict[str, JudgedCall] = {}
        self.tools: Mapping[str, Tool[Any]] = {}
        self._ended = anyio.Event()

    async def begin(self) -> None:
        await self.on_begin()

    # ── before a call ───────────────────────────────────────────────────────────────────

    async def rewrite(self, call: ToolCall) -> ToolCall:
        if not self._lacks_intent(call):  # it will be refused: run no hooks for it
            try:
                call = await self.hooks.rewrite(call)
            except Denied as error:
                await self._record_hook_denial(call, error)
                raise
        refusal = refuse_unreadable(call, self.active.intent_id)
        if refusal and not self._records.observes:
            await self.deny(call, refusal)
        return call

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        ruling = await self._ruling(call, action)
        return joined([ruling, await self.hooks.before(call, action)])

    async def _ruling(self, call: ToolCall, action: Action) -> Ruling:
        await self.changes.check_background_commands()
        if call.name == SELECT:
            return Ruling() if self._records.observes else await self.active.rule_on_selection(call)
        if call.name == EXPAND:
            return await self.active.rule_on_expansion(action)
        judged = self._judged[call.id] = await self.judge.judge(call, action)
        verdict, at = judged.verdict, judged.at
        if self._records.observes:
            return self._note_objections(verdict)
        edits = bool(action.changes) and not (action.command or action.external)
        if self.project.settings.approve_in_scope and edits and verdict.label == "in_scope":
            return allow() if verdict.decision is Decision.NONE else verdict.ruling
        if at is not None and at.sandboxed:
            where = ", ".join(writable_prefixes(at.intent.owned_scope)) or "the whole workspace"
            return replace(verdict.ruling, notes=(f"it can write only to: {where}",))
        return verdict.ruling

    def _note_objections(self, verdict: CallVerdict) -> Ruling:
        """Log the objections without enforcing them (observe mode)."""
        for each in verdict.objections:
            text = f"observed, not refused: {each.refusal.message} ({each.refusal.code})"
            self._notify(text)
        return Ruling()

    def tolerates_stale(self, call: ToolCall, action: Action) -> bool:
        """Whether a stale file is tolerated. The model sees what changed, so read rules apply."""
        judged = self._judged.get(call.id, JudgedCall())
        if self._records.observes or judged.at is None or judged.at.policy.stale != "context":
            return False
        withheld = judged.withheld
        return withheld is None or not any(withheld(change.path) for change in action.changes)

    # ── the decision ────────────────────────────────────────────────────────────────────

    async def asked(self, call: ToolCall, question: str) -> None:
        try:
            await self.hooks.asked(call, question)
        except Denied as error:
            await self._record_hook_denial(call, error)
            raise

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        judged = self._judged.pop(call.id, JudgedCall())
        if needs_intent(call, action) or call.name in (SELECT, EXPAND):
            await self._records.refused(call, why, judged.at, said, action)

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        if call.name == EXPAND:
            await self._record_decision(call, action, why, said, None)
        judged = self._judged.pop(call.id, JudgedCall())
        permit = replace(permit, withheld=judged.withheld)
        if not needs_intent(call, action):
            return permit
        verdict, at = judged.verdict, judged.at
        label, approval = self._approval(verdict, said)
        if said is not None:
            await self._record_decision(call, action, why, said, at)
            # files may have been moved while the person decided
            intent_id = at.intent.id if at else ""
            if moved := refuse_displaced(action, self.project.layout, intent_id):
                await self.deny(call, moved)
        if said is not None and at is not None and why.question:
            await self._grant(call, said, why, at)
        await self.changes.before_call(call, action)
        await self._records.begin(call, action, verdict, at, approval, label)
        if at is not None and at.sandboxed and permit.confined:
            prefixes = writable_prefixes(at.intent.owned_scope)
            return permit if "" in prefixes else replace(permit, writable=frozenset(prefixes))
        return permit

    def _approval(
        self, verdict: CallVerdict, said: Answered | None
    ) -> tuple[str, Mapping[str, Any]]:
        codes = [each.refusal.code for each in verdict.objections]
        if self._records.observes:
            return (_observed_label(verdict), approval_of(said, codes))
        if verdict.by_flag:
            return verdict.label, {"answer": "once", "by": "flag", "reasons": list(verdict.by_flag)}
        if not codes or said is None:
            return verdict.label, approval_of(said, codes)
        if set(codes) == {"REQ-002"}:
            return "unknown_approved", approval_of(said, codes)
        scopes = {"task": "approved_task", "expand": "in_scope"}
        return scopes.get(said.choice or "", "approved_once"), approval_of(said, codes)

    async def _record_decision(
        self,
        call: ToolCall,
        action: Action,
        why: Ruling,
        said: Answered | None,
        at: CallContext | None,
    ) -> None:
        if said is not None:
            codes = [each.code for each in why.refusals]
            entry = self._records.entry("decision", call, at)
            fields = self._records.target_fields(why.refusals, action)
            approval = approval_of(said, codes)
            await self._records.note(replace(entry, outcome="success", approval=approval, **fields))

    async def _grant(self, call: ToolCall, said: Answered, why: Ruling, at: CallContext) -> None:
        """Apply what the user allowed beyond this call. Raises `Denied`."""
        assert why.question
        if said.choice == "task":
            asked = why.question
            self._log.append(
                ScopeGranted(
                    of="path" if asked.pattern else "command",
                    pattern=asked.grant,
                    digest=at.digest,
                )
            )
        elif said.choice == "expand":
            try:
                await self.active.expand(at.intent.id, why.question.pattern, call.id)
            except RookeryError as error:
                raise Denied(str(error)) from error

    # ── the intent ──────────────────────────────────────────────────────────────────────

    async def select(self, intent_id: str) -> None:
        """Select an intent on behalf of the user. Raises `CommandRejected`."""
        if not intent_id:
            await self.active.clear("The user deselected the intent.")
            return
        found = await choose(self.project, self.task_id, intent_id, by="user")
        if isinstance(found, Refusal):
            raise CommandRejected(found.message)
        await self.adopt(found)
        self._notify(f"Selected intent: {found.fact.intent_id}.")
        self._log.append(
            Reminded(text=f"[automatic] The user has selected an intent.\n{found.context}")
        )

    async def restore_intent(self, wanted: str, *, is_new: bool) -> None:
        """Restore the intent of a resumed or inherited task, or select `wanted`, the one given
        on the command line, for a new task."""
        active = self._log.state.intent
        facts = (event.fact for event in of_kind(self._log.events, IntentSelected))
        self.active.inherited = next(
            (f.intent_id for f in facts if isinstance(f, IntentSelected) and f.by == "parent"), ""
        )
        if active is None:
            if wanted and is_new and not self._log.state.parent:
                await self.select(wanted)
            return
        file = (await self.project.intents()).file
        intent = file.find(active.intent_id)
        usable = intent and intent.id not in file.broken and selectable(intent, self.project.now())
        if intent is None or not usable or digest(intent, file.policy) != active.digest:
            reason = f"{active.intent_id} changed since this task selected it. Select it again."
            self._log.append(IntentCleared(reason=reason))
            self._notify(reason)
            self._log.append(Reminded(text=f"[automatic] {reason}"))
            return
        self.active.remember(IntentDefinition(intent, file.policy))
        await anyio.to_thread.run_sync(self.active.take_lease)
        if active.by == "parent" and is_new:
            await self.after_cut()

    async def adopt(self, chosen: Chosen, call_id: str = "") -> None:
        await self.active.adopt(chosen.fact, chosen.definition, call_id)

    async def after_cut(self) -> None:
        definition = self.active.definition
        if definition is not None:
            try:
                text = await context_of(self.project, self.task_id, definition)
            except ContextTooLarge as error:
                text = f"{error}\n{reminder(definition.intent)}"
            self._log.append(Reminded(text=f"[automatic] You still work for this intent.\n{text}"))

    async def now(self) -> str:
        if self.project.keeps_records:
            self._start_soon(self.project.flush)
        if self._log.state.intent and self.active.definition:
            return reminder(self.active.definition.intent)
        text = await self.project.intents()
        if not text.exists or not text.file.usable:
            return "The intent file is missing or has errors: ask the user. Reading is allowed."
        listed = selectable_intents(text.file.selectable(self.project.now()))
        return (
            f"None is selected: reading is allowed, changing needs select_active_intent.\n{listed}"
        )

    async def _note(self, kind: Any, call_id: str, more: Mapping[str, Any] | None) -> None:
        entry = self._records.entry(kind, ToolCall(id=call_id, name=SELECT), None)
        await self._records.note(replace(entry, outcome="success", more=more))
        if event := _EVENTS.get(kind):
            await self.announce(event, {"intent_id": entry.intent_id, **(more or {})})

    def _lacks_intent(self, call: ToolCall) -> bool:
        """Whether the call is refused because no intent is selected, whatever its arguments."""
        none = self._log.state.intent is None and not self._records.observes
        return none and traits_of(call.name).may_change_files

    async def _record_hook_denial(self, call: ToolCall, error: Denied) -> None:
        """Record that a hook refused the call or failed."""
        if error.code in KINDS:
            message = sentence_in(str(error))
            await self.note_refusal(call, Refusal(code=error.code, message=message))

    async def deny(self, call: ToolCall, refusal: Refusal) -> NoReturn:
        await self.note_refusal(call, refusal)
        raise denial_of(refusal, call)

    async def note_refusal(self, call: ToolCall, refusal: Refusal) -> None:
        await self._records.refused(call, Ruling(refusals=(refusal,)), None, None)

    # ── the end ─────────────────────────────────────────────────────────────────────────

    async def ended(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        written = None
        if self.hooks is not NO_HOOKS:
            written = await self.changes.written(action)
            outcome = await self.hooks.ended(call, action, outcome)
        await self.changes.record(call, action, outcome, written)
        return outcome

    async def interrupted(self, call: ToolCall, action: Action) -> None:
        await self.changes.record(call, action, None, None)

    async def end_turn(self, acting: Acting) -> None:
        """Check the criteria of the intent."""
        state, definition = self._log.state, self.active.definition
        if state.completion is None or state.parent or definition is None:
            return
        intent = definition.intent
        if not intent.acceptance_criteria:
            return
        checks = await check_criteria(
            intent, self.project.layout, acting.act, acting.context, self._notify
        )
        now = await anyio.to_thread.run_sync(self.project.ledger_state)
        self._log.append(CriteriaChecked(intent_id=intent.id, checks=checks, state_id=now))
        self._notify(format_results(intent.id, checks))
        if self._log.state.completion is None:
            self._log.append(Reminded(text=format_failures(checks)))

    def _notify(self, text: str) -> None:
        self._log.append(Noted(text=text))

    async def renew_lease(self) -> None:
        """Renew the lease, so that other tasks see that this one still works for its intent."""
        while not self._ended.is_set():
            with anyio.move_on_after(HEARTBEAT_SECONDS):
                await self._ended.wait()
                return
            if self.project.keeps_records:
                await anyio.to_thread.run_sync(self.active.take_lease)

    async def end(self) -> None:
        self._ended.set()
        if not self.project.keeps_records:
            return
        await self._records.settle_rest()
        try:
            await anyio.to_thread.run_sync(self.active.release)
            await anyio.to_thread.run_sync(self.project.recording.close, self.task_id)
        except RookeryError as error:  # only the next run is affected
            if not self._log.ended:
                self._notify(str(error))


_EVENTS = {"intent_selected": "IntentSelected", "intent_invalidated": "IntentInvalidated"}


async def _ignore_event(event: str, fields: dict[str, Any]) -> None:
    pass


def _observed_label(verdict: CallVerdict) -> str:
    outside = any(each.is_outside for each in verdict.findings)
    return "out_of_scope" if outside else verdict.label
