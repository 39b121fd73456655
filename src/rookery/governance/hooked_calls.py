"""The user's own hooks around a task's calls.

They are looked up when a task starts; without any, this module is not loaded.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from rookery import NAME
from rookery.core.asks import CATEGORY, AskCategory, AskKind, Ruling, ask
from rookery.core.blocks import ToolCall
from rookery.core.event_list import newest
from rookery.core.facts import (
    HOOK_CHECK,
    Answered,
    Asked,
    CriteriaChecked,
    CriterionCheck,
    Ending,
    Fact,
    Noted,
    Reminded,
    RequestStarted,
    StepCancelled,
    TaskOpened,
    ToolStarted,
    UserSpoke,
)
from rookery.core.modes import GOVERNANCE_FOLDER
from rookery.core.refusals import Refusal
from rookery.core.replies import STOPPED_BY_HOOK
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Action, Judgement, Outcome
from rookery.engine.ports.hooks import Hook, SessionHook, TaskLog, denial_of
from rookery.errors import Denied
from rookery.governance.external_hooks.hook_answers import HookDecision, HookVerdict
from rookery.governance.external_hooks.hook_calls import Situation, ToolResponse
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.governance.external_hooks.hook_files import TranscriptFile, find_hooks, hook_places
from rookery.governance.external_hooks.hook_runner import HookRunner
from rookery.governance.external_hooks.hook_runs import Commands, ExternalHooks
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.layout import hook_trust_file
from rookery.governance.oversight import was_resumed
from rookery.platform.user_folders import Places

TOO_LATE = (
    "A PermissionRequest hook gave a new input. Only PreToolUse hooks may change a call's input, "
    "because the changed call must still be checked."
)


class HookedCalls(Hook, SessionHook):
    """Runs the hooks of one task and applies their verdicts."""

    def __init__(
        self,
        hooks: ExternalHooks,
        log: TaskLog,
        problems: Sequence[str],
        judge: Callable[[str, str], Judgement],
        start_soon: Callable[..., None] | None,
    ) -> None:
        """Without `start_soon`, Notification hooks do not run."""
        self._hooks = hooks
        self._judge = judge
        self._log = log
        self._asks: dict[str, str] = {}
        self._contexts: dict[str, str] = {}
        self._problems = problems
        self._start_soon = start_soon

    async def rewrite(self, call: ToolCall) -> ToolCall:
        """Run PreToolUse hooks, which may change the call. Raises `Denied`."""
        verdict = await self._hooks.for_call(HookEvent.PRE_TOOL_USE, call, self._commands(call))
        self._show(verdict)
        if verdict.decision.refuses:
            raise _denial(call, verdict)
        if verdict.decision == "ask":
            self._asks[call.id] = verdict.reason or "a hook asks for your approval"
        if verdict.context:
            self._contexts[call.id] = verdict.context
        if verdict.updated_input is None:
            return call
        return replace(call, arguments=dict(verdict.updated_input))

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        reason = self._asks.pop(call.id, "")
        return ask(f"hook: {reason}") if reason else Ruling()

    def _commands(self, call: ToolCall) -> Commands:
        """The commands of a shell line, for hooks that match only some commands."""
        line, cwd = call.arguments.get("command"), call.arguments.get("cwd") or ""
        if not isinstance(line, str) or not isinstance(cwd, str):
            return None
        judged = self._judge(line, cwd)
        return None if judged.why_not or judged.too_deep else judged.commands

    async def ended(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        """Run PostToolUse hooks and add their output to the result that the model reads."""
        failed = outcome.ending is not Ending.DONE
        event = HookEvent.POST_TOOL_USE_FAILURE if failed else HookEvent.POST_TOOL_USE
        response = ToolResponse(
            text=outcome.text, failed=failed, duration_ms=self._milliseconds_since_start(call)
        )
        commands = self._commands(call)
        verdict = await self._hooks.for_call(event, call, commands, response=response)
        self._show(verdict)
        text = outcome.text if verdict.new_output is None else verdict.new_output
        objection = verdict.reason if verdict.decision.refuses else ""
        added = [self._contexts.pop(call.id, ""), verdict.context, objection]
        whole = "\n\n".join([text, *filter(None, added)])
        return replace(outcome, text=whole, halts=verdict.decision == "halt")

    def _milliseconds_since_start(self, call: ToolCall) -> int:
        started = next(newest(self._log.events, ToolStarted), None)
        if started is None or getattr(started.fact, "call_id", "") != call.id:
            return 0  # it was refused, so nothing was started
        return max(0, round(time.time() * 1000) - started.ts)

    async def begin(self) -> None:
        for problem in self._problems:
            self._log.append(Noted(text=f"hooks: {problem}"))
        new = isinstance(self._log.events[0].fact, TaskOpened) and not was_resumed(self._log)
        await self._event("SessionStart", {"source": "startup" if new else "resume"})
        if self._start_soon and self.has_hooks_for("Notification"):
            self._start_soon(self.notify_of_questions)

    @property
    def checks_messages(self) -> bool:
        return self.has_hooks_for("UserPromptSubmit")

    def has_hooks_for(self, event: str) -> bool:
        return self._hooks.has_hooks_for(HookEvent(event))

    async def check_message(self, text: str) -> str:
        """Why the message must not be sent to the model; empty if it may be."""
        verdict = await self._event("UserPromptSubmit", {"prompt": text})
        if verdict.decision in ("none", "allow"):
            return ""
        return verdict.reason or "The hook gave no reason."

    async def notify_of_questions(self) -> None:
        """Run Notification hooks for questions, beside the task, which may end meanwhile."""
        async for event in self._log.follow(len(self._log.events)):
            if isinstance(event.fact, Asked) and CATEGORY[event.fact.ask] not in _NOT_NOTIFIED:
                kind, message = _notification(event.fact)
                fields = {"message": message, "type": kind, "notification_type": kind}
                verdict = await self._hooks.event("Notification", fields)
                if not self._log.ended:
                    self._show(verdict)

    async def asked(self, call: ToolCall, question: str) -> None:
        """Run PermissionRequest hooks. Raises `Denied`. If they allow, the user is still asked."""
        event, commands = HookEvent.PERMISSION_REQUEST, self._commands(call)
        verdict = await self._hooks.for_call(event, call, commands, ask=question)
        self._show(verdict)
        if verdict.context:
            self._contexts[call.id] = "\n".join(
                filter(None, (self._contexts.get(call.id), verdict.context))
            )
        if verdict.updated_input is not None and not verdict.decision.refuses:
            late = HookDecision.DENY
            verdict = replace(verdict, decision=late, code="HOOK-002", reason=TOO_LATE)
        if verdict.decision.refuses:
            raise _denial(call, verdict)

    async def before_cut(self, trigger: str) -> str:
        """Why the conversation must not be condensed; empty if it may be."""
        verdict = await self._event("PreCompact", {"trigger": trigger, "custom_instructions": ""})
        if verdict.decision == "halt":
            self._log.append(StepCancelled())
        if verdict.decision.refuses:
            return verdict.reason or "The hook gave no reason."
        return ""

    async def end_turn(self, acting: object) -> None:
        """Run Stop hooks, which may keep the turn going."""
        event = "SubagentStop" if self._log.state.parent else "Stop"
        was_held, spoken_since = self._last_hold()
        if spoken_since:
            self._hooks.begin_turn()
        verdict = await self._event(
            event, {"last_assistant_message": self._log.state.completion or ""}
        )
        if verdict.decision == "deny":
            self._record_hold("failed", verdict.reason)
            self._log.append(Reminded(text=f"[automatic] A hook of the user's: {verdict.reason}"))
        elif was_held and not verdict.code:
            self._record_hold("passed", "")

    def _record_hold(self, state: Literal["failed", "passed"], reason: str) -> None:
        check = CriterionCheck(id=HOOK_CHECK, text=reason, state=state)
        self._log.append(CriteriaChecked(intent_id="", checks=(check,)))

    def _last_hold(self) -> tuple[bool, bool]:
        """Whether a hook last kept the turn going, and whether the user replied since."""
        spoken = False
        for event in newest(self._log.events, CriteriaChecked, UserSpoke, Answered):
            match event.fact:
                case CriteriaChecked(by_hook=True, failed=failed):
                    return failed, spoken
                case fact if _is_message(fact):
                    spoken = True
        return False, spoken

    async def run_event(self, name: str, fields: dict[str, Any]) -> None:
        """Run the hooks of an event that cannot be refused."""
        await self._event(name, fields)

    async def end(self) -> None:
        if not self._log.ended:
            await self._event("SessionEnd", {"reason": "other"})

    async def _event(self, name: str, fields: dict[str, Any]) -> HookVerdict:
        verdict = await self._hooks.event(name, fields)
        self._show(verdict)
        if verdict.context:
            self._log.append(Reminded(text=f"[automatic] {verdict.context}"))
        return verdict

    def _show(self, verdict: HookVerdict) -> None:
        for message in verdict.system_messages:
            self._log.append(Noted(text=message))
        if verdict.decision == "halt":
            self._log.append(Noted(text=f"{STOPPED_BY_HOOK}{verdict.reason}"))


def _is_message(fact: Fact) -> bool:
    match fact:
        case TaskOpened() | UserSpoke():
            return True
        case Answered(by="user", text=text):
            return bool(text.strip())
        case _:
            return False


def _last_message(log: TaskLog) -> int:
    """The number of the event with the user's last message."""
    found = newest(log.events, TaskOpened, UserSpoke, Answered)
    return next((event.seq for event in found if _is_message(event.fact)), 0)


_NOT_NOTIFIED = (AskCategory.NON_BLOCKING,)


def _notification(asked: Asked) -> tuple[str, str]:
    """Type and message of the notification about a question."""
    if asked.ask is AskKind.FOLLOWUP:
        return "elicitation_dialog", f"{NAME} asks: {_question(asked.text)}"
    if CATEGORY[asked.ask] is AskCategory.INTERACTIVE:
        return "permission_prompt", f"{NAME} needs your permission: {asked.title or asked.text}"
    return "idle_prompt", f"{NAME} is waiting for your input"


def _question(text: str) -> str:
    try:
        return str(json.loads(text)["question"])
    except (ValueError, KeyError, TypeError):
        return text


def _denial(call: ToolCall, verdict: HookVerdict) -> Denied:
    refusal = Refusal(
        code=verdict.code or "HOOK-001",
        message=verdict.reason or "A hook refused the call.",
    )
    return denial_of(refusal, call, halts=verdict.decision == "halt")


def open_hooks(
    settings: Settings,
    workspace: Path,
    places: Places,
    task_id: str,
    log: TaskLog,
    *,
    trusted: bool,
    interactive: bool,
    judge: Callable[[str, str], Judgement],
    background: Callable[..., None],
) -> HookedCalls:
    found = find_hooks(hook_places(workspace, places, settings))
    transcript = TranscriptFile(places.tasks / task_id, task_id, str(workspace))

    def situation() -> Situation:
        now = log.state
        facts = (event.fact for event in newest(log.events, RequestStarted))
        asked = next((fact for fact in facts if isinstance(fact, RequestStarted)), None)
        return Situation(
            session_id=task_id,
            root=str(workspace),
            transcript_path=transcript.update(log.events),
            model=asked.model if asked else "",
            turn_id=str(_last_message(log)),
            permission_mode="default" if interactive else "dontAsk",
            agent_id=task_id if now.parent else "",
            agent_type=now.mode if now.parent else "",
            mode=now.governed.mode if now.governed else "off",
            intent_id=now.intent.intent_id if now.intent else "",
            intent_digest=now.intent.digest if now.intent else "",
        )

    def notify(text: str) -> None:
        log.append(Noted(text=text))

    trust = HookTrust(hook_trust_file(workspace, places), workspace, workspace_trusted=trusted)
    runner = HookRunner(workspace, env_allow=settings.hooks.env_allow)
    governed = workspace / GOVERNANCE_FOLDER
    texts = governed / ".state" if governed.is_dir() else places.state.resolve() / "hooks"
    hooks = ExternalHooks(
        found.hooks,
        trust,
        runner,
        situation=situation,
        notify=notify,
        interactive=interactive,
        background=background,
        state=texts,
    )
    problems = [*map(str, found.problems), *filter(None, [trust.problem])]
    return HookedCalls(hooks, log, problems, judge, background if interactive else None)
