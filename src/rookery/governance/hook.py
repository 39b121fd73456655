"""One task under governance: what its calls may do, and who is asked.

What is in force is in the task's log, never here and never in a prompt: nothing that is condensed,
forgotten or restarted can loosen it. Files are read again before each call that changes something.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NoReturn

import anyio
import anyio.to_thread
from msgspec.structs import replace

from rookery.core.asks import Decision, Ruling, allow
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    IntentCleared,
    IntentSelected,
    Noted,
    Reminded,
    ScopeGranted,
)
from rookery.core.modes import EXPAND, SELECT
from rookery.core.refusals import KINDS, Refusal
from rookery.core.tool_traits import traits_of
from rookery.engine.ports.actions import Action, Permit
from rookery.engine.ports.hooks import TaskLog
from rookery.errors import CommandRejected, Denied, RookeryError
from rookery.governance.active_intent import InForce
from rookery.governance.call_effects import CallEffects, Contents, is_outside
from rookery.governance.intents.intent import digest, selectable
from rookery.governance.intents.intent_changes import IntentDefinition
from rookery.governance.intents.intent_context import ContextTooLarge, reminder, selectable_intents
from rookery.governance.intents.selection import Chosen, choose, context_of
from rookery.governance.ledger.ledger_recording import EventsOf
from rookery.governance.project import GovernedProject
from rookery.governance.record_fields import approval_of
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallStanding, CallVerdict, Objection, judge_call
from rookery.governance.scope.permission_rules import READ
from rookery.governance.scope.read_rules import strictest_reading, withholding
from rookery.governance.scope.scope_verdict import writable_prefixes
from rookery.governance.scope.touched_paths import (
    displaced,
    is_destructive,
    unreadable,
)

FEW_FILES = 10


class GovernanceHook:
    def __init__(
        self,
        project: GovernedProject,
        task_id: str,
        log: TaskLog,
        *,
        confines: Callable[[], bool],
        contents: Contents | None = None,
        journal_of: EventsOf = lambda task_id: None,
    ) -> None:
        """`confines` if commands can be kept to some folders. Without `contents` nobody knows what
        commands did."""
        self.project = project
        self.task_id = task_id
        self._log = log
        self._confines = confines
        self._records = Recorder(project, task_id, log, journal_of)
        self.catch_up, self.unwritten = self._records.catch_up, self._records.unwritten
        self.in_force = InForce(project, task_id, log, self._note)
        self.effects = CallEffects(self.in_force, self._records, log, contents=contents)
        self._verdicts: dict[str, tuple[CallVerdict, CallStanding | None]] = {}
        self._withheld: dict[str, Callable[[str], bool] | None] = {}
        """What a call that looks through folders leaves out."""
        self.announce: Callable[[str, dict[str, Any]], Awaitable[None]] = _to_nobody
        """Who wants to hear that an intent was selected, or no longer holds."""
        self.broken = ""
        """Why the ledger cannot be trusted, if that is to stop the task."""

    # ── before a call ───────────────────────────────────────────────────────────────────

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        await self.effects.look_after_running()
        if call.name == SELECT:
            return Ruling() if self._records.observes else await self.in_force.about_selection(call)
        if call.name == EXPAND:
            return await self.in_force.about_expansion(action)
        if not is_destructive(call, action):
            return await self._about_reading(call, action)
        verdict, at = await self._judged(call, action)
        self._verdicts[call.id] = (verdict, at)
        if at is not None and not self._records.observes:
            self._withheld[call.id] = await self._kept_back(call, action, at)
        if self._records.observes:
            return self._as_observed(verdict)
        edits = bool(action.changes) and not (action.command or action.external)
        if self.project.options.in_scope_unasked and edits and verdict.label == "in_scope":
            return allow() if verdict.decision is Decision.NONE else verdict.ruling
        if at is not None and at.sandboxed:
            where = ", ".join(writable_prefixes(at.intent.owned_scope)) or "the whole workspace"
            return replace(verdict.ruling, notes=(f"it can write only to: {where}",))
        return verdict.ruling

    async def _about_reading(self, call: ToolCall, action: Action) -> Ruling:
        """What changes nothing needs no intent, but the rules of the one in force hold for it."""
        rules = await self.in_force.reading_permissions() if action.reads else ()
        if isinstance(rules, Refusal):
            return self._as_observed(_refused(rules))
        self._withheld[call.id] = withholding(rules, call.name, self.project.layout)
        look = partial(strictest_reading, rules, call, action, self.project.layout)
        decision, rule = look() if rules else (Decision.NONE, "")
        if decision < Decision.ASK:
            return Ruling()
        active = self._log.state.intent
        intent_id = active.intent_id if active else ""
        message = f"A rule of {intent_id} about reading applies: {rule}."
        refusal = Refusal(code="CMD-001", message=message, intent_id=intent_id)
        objection = Objection(decision=decision, refusal=refusal)
        return self._as_observed(CallVerdict(objections=(objection,), label="none"))

    async def tolerates_stale(self, call: ToolCall, action: Action) -> bool:
        """Whether the policy lets files be edited that changed elsewhere since they were read.
        The model is shown what changed, so the rules about reading hold too."""
        at = self._verdicts[call.id][1] if call.id in self._verdicts else None
        if self._records.observes or at is None or at.policy.stale != "context":
            return False
        withheld = self._withheld.get(call.id)
        return withheld is None or not any(withheld(change.path) for change in action.changes)

    async def _kept_back(
        self, call: ToolCall, action: Action, at: CallStanding
    ) -> Callable[[str], bool] | None:
        """Which files a call that changes something must not show. What others make of an edited
        file is shown as if it were read; what a command reads is looked at before it runs."""
        if action.command:
            return withholding((at.intent.permissions,), READ, self.project.layout)
        rules = await self.in_force.reading_permissions()
        if isinstance(rules, Refusal) or not rules:
            return lambda path: True
        as_read = replace(call, name=READ)

        def is_withheld(path: str) -> bool:
            reading = replace(action, reads=[path])
            found = strictest_reading(rules, as_read, reading, self.project.layout)
            return found[0] >= Decision.ASK

        return is_withheld

    def _as_observed(self, verdict: CallVerdict) -> Ruling:
        """The verdict's ruling, unless governance only looks on here."""
        if not self._records.observes:
            return verdict.ruling
        for each in verdict.objections:
            text = f"observed, not refused: {each.refusal.message} ({each.refusal.code})"
            self._log.append(Noted(text=text))
        return Ruling()

    async def _judged(
        self, call: ToolCall, action: Action
    ) -> tuple[CallVerdict, CallStanding | None]:
        if self.broken:
            return _refused(Refusal(code="TRC-002", message=self.broken)), None
        why = await self._records.unwritten()
        if why and self.project.options.block_unrecorded:
            return _refused(Refusal(code="TRC-001", message=why)), None
        found = await self.in_force.standing(call, action)
        if isinstance(found, Refusal):
            return _refused(found), None
        if found is None:
            return CallVerdict(label="none"), None
        at = replace(found, **self._confinement(action, found))
        judged = partial(judge_call, call, action, at, self.project.layout)
        # a few looks at the disk are cheaper than a change of thread
        few = bool(action.changes) and len(action.changes) <= FEW_FILES
        verdict = judged() if few else await anyio.to_thread.run_sync(judged)
        if over := await self.in_force.over_budget(at.intent, [f.path for f in verdict.findings]):
            more = _refused(over)
            verdict = replace(verdict, objections=(*verdict.objections, *more.objections))
        return verdict, at

    def _confinement(self, action: Action, at: CallStanding) -> dict[str, Any]:
        """What the policy's wish for a sandbox comes to for this command."""
        if not action.command or at.policy.sandbox == "off":
            return {}
        if self._confines():
            leaves = action.judgement is not None and action.judgement.needs_keys
            return {"sandboxed": not leaves}
        if at.policy.sandbox == "required":
            return {
                "unsandboxable": "The policy requires a sandbox for commands; none is available."
            }
        return {}

    # ── the decision ────────────────────────────────────────────────────────────────────

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        self._withheld.pop(call.id, None)
        _, at = self._verdicts.pop(call.id, (None, None))
        if is_destructive(call, action) or call.name in (SELECT, EXPAND):
            await self._records.refused(call, why, at, said, action)

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        if call.name == EXPAND:
            await self._decision(call, action, why, said, None)
        permit = replace(permit, withheld=self._withheld.pop(call.id, None))
        if not is_destructive(call, action):
            return permit
        verdict, at = self._verdicts.pop(call.id, (CallVerdict(label="none"), None))
        label, approval = self._approval(verdict, said)
        if said is not None:
            await self._decision(call, action, why, said, at)
            # a person takes their time, and files are moved meanwhile
            intent_id = at.intent.id if at else ""
            if moved := displaced(action, self.project.layout, intent_id):
                await self._deny(call, moved)
        if said is not None and at is not None and why.question:
            await self._widen(call, said, why, at)
        await self.effects.about_to_begin(call, action)
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
            return (_observed(verdict), approval_of(said, codes))
        if verdict.by_flag:
            return verdict.label, {"answer": "once", "by": "flag", "reasons": list(verdict.by_flag)}
        if not codes or said is None:
            return verdict.label, approval_of(said, codes)
        if set(codes) == {"REQ-002"}:
            return "unknown_approved", approval_of(said, codes)
        scopes = {"task": "approved_task", "expand": "in_scope"}
        return scopes.get(said.choice or "", "approved_once"), approval_of(said, codes)

    async def _decision(
        self,
        call: ToolCall,
        action: Action,
        why: Ruling,
        said: Answered | None,
        at: CallStanding | None,
    ) -> None:
        if said is not None:
            codes = [each.code for each in why.refusals]
            entry = self._records.entry("decision", call, at)
            about = self._records.about(why.refusals, action)
            approval = approval_of(said, codes)
            await self._records.note(replace(entry, outcome="success", approval=approval, **about))

    async def _widen(self, call: ToolCall, said: Answered, why: Ruling, at: CallStanding) -> None:
        """What the user has allowed beyond this call. Raises `Denied`."""
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
                await self.in_force.expand(at.intent.id, why.question.pattern, call.id)
            except RookeryError as error:
                raise Denied(str(error)) from error

    # ── the intent ──────────────────────────────────────────────────────────────────────

    async def select(self, intent_id: str) -> None:
        """By the user. Raises `CommandRejected`."""
        if not intent_id:
            await self.in_force.clear("The user deselected the intent.")
            return
        found = await choose(self.project, self.task_id, intent_id, by="user")
        if isinstance(found, Refusal):
            raise CommandRejected(found.message)
        await self.adopt(found)
        self._log.append(Noted(text=f"Selected intent: {found.fact.intent_id}."))
        self._log.append(
            Reminded(text=f"[automatic] The user has selected an intent.\n{found.context}")
        )

    async def take_up(self, wanted: str, *, is_new: bool) -> None:
        """The intent that the task was begun for, or worked for when it was left. `wanted` is what
        whoever started the run said."""
        active = self._log.state.intent
        facts = (event.fact for event in self._log.events)
        self.in_force.inherited = next(
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
            self._log.append(Noted(text=reason))
            self._log.append(Reminded(text=f"[automatic] {reason}"))
            return
        self.in_force.know(IntentDefinition(intent, file.policy))
        await anyio.to_thread.run_sync(self.in_force.take_lease)
        if active.by == "parent" and is_new:
            await self.remind()

    async def adopt(self, chosen: Chosen, call_id: str = "") -> None:
        await self.in_force.adopt(chosen.fact, chosen.definition, call_id)

    async def remind(self) -> None:
        definition = self.in_force.definition
        if definition is not None:
            try:
                text = await context_of(self.project, self.task_id, definition)
            except ContextTooLarge as error:
                text = f"{error}\n{reminder(definition.intent)}"
            self._log.append(Reminded(text=f"[automatic] You still work for this intent.\n{text}"))

    async def now(self) -> str:
        """For the end of each request."""
        if self._log.state.intent and self.in_force.definition:
            return reminder(self.in_force.definition.intent)
        text = await self.project.intents()
        if not text.there or not text.file.usable:
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

    def is_closed_to(self, call: ToolCall) -> bool:
        """Whether the call is one that is refused for want of an intent, whatever it says."""
        none = self._log.state.intent is None and not self._records.observes
        return none and traits_of(call.name).may_change_files

    async def note_hook(self, call: ToolCall, code: str, why: str) -> None:
        """A hook refused the call, or failed."""
        if code in KINDS:
            await self.note_refusal(call, Refusal(code=code, message=why))

    async def refuse_unreadable(self, call: ToolCall) -> None:
        """Raises `Denied` for a call with a path of which nobody can tell where it leads."""
        active = self._log.state.intent
        refusal = unreadable(call, active.intent_id if active else "")
        if refusal and not self._records.observes:
            await self._deny(call, refusal)

    async def _deny(self, call: ToolCall, refusal: Refusal) -> NoReturn:
        await self.note_refusal(call, refusal)
        said = replace(refusal, tool=call.name, tool_use_id=call.id)
        text = json.dumps(said.to_json(), ensure_ascii=False)
        raise Denied(text, code=refusal.code, retryable=refusal.retryable)

    async def note_refusal(self, call: ToolCall, refusal: Refusal) -> None:
        await self._records.refused(call, Ruling(refusals=(refusal,)), None, None)

    async def settle_rest(self) -> None:
        await self._records.settle_rest()


_EVENTS = {"intent_selected": "IntentSelected", "intent_invalidated": "IntentInvalidated"}


async def _to_nobody(event: str, fields: dict[str, Any]) -> None:
    pass


def _refused(refusal: Refusal) -> CallVerdict:
    return CallVerdict(
        objections=(Objection(decision=Decision.DENY, refusal=refusal),), label="none"
    )


def _observed(verdict: CallVerdict) -> str:
    outside = any(is_outside(each) for each in verdict.findings)
    return "out_of_scope" if outside else verdict.label
