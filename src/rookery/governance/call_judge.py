"""The active intent's verdict on one call, and the files the call must not show."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.refusals import Refusal
from rookery.engine.ports.actions import Action
from rookery.governance.active_intent import ActiveIntent
from rookery.governance.recorder import Recorder
from rookery.governance.scope.call_verdict import CallContext, CallVerdict, Objection, judge_call
from rookery.governance.scope.permission_rules import READ
from rookery.governance.scope.read_rules import strictest_reading, withheld_files
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
        found = await self._active.standing(call, action)
        if isinstance(found, Refusal):
            return _refuse(found), None
        if found is None:
            return CallVerdict(label="none"), None
        at = replace(found, **self._confinement(action, found))
        judged = partial(judge_call, call, action, at, self._project.layout)
        # for a few files a thread costs more than the disk access
        few = bool(action.changes) and len(action.changes) <= FEW_FILES
        verdict = judged() if few else await anyio.to_thread.run_sync(judged)
        if over := await self._active.over_budget(at.intent, [f.path for f in verdict.findings]):
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
