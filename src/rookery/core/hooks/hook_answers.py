"""What a hook's run means: its exit status and output, read as an answer.

Exit status 2 blocks, whatever else was written. 0 is success, and what looks like JSON must be
JSON. Anything else is a failure of the hook and no opinion: what it comes to is for `on_failure`.
A failure never reads like somebody's refusal.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any

from rookery.core.hooks.hook_config import HookCommand, HookEvent, OnFailure
from rookery.core.values import value

BLOCKED, FAILED, TIMED_OUT, UNTRUSTED = "HOOK-001", "HOOK-002", "HOOK-003", "HOOK-004"
BLOCKS = 2

_CAN_BLOCK = frozenset(
    {
        HookEvent.USER_PROMPT_SUBMIT,
        HookEvent.PRE_TOOL_USE,
        HookEvent.PERMISSION_REQUEST,
        HookEvent.STOP,
        HookEvent.SUBAGENT_STOP,
        HookEvent.PRE_COMPACT,
    }
)
_TEXT_IS_CONTEXT = frozenset({HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT})
_LONGEST_REASON = 4_000


class Opinion(IntEnum):
    """From none to the strictest. The greatest of several is the one that holds."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DEFER = 3
    DENY = 4
    HALT = 5


_DECISIONS = {
    "allow": Opinion.ALLOW,
    "approve": Opinion.ALLOW,
    "ask": Opinion.ASK,
    "defer": Opinion.DEFER,
    "deny": Opinion.DENY,
    "block": Opinion.DENY,
}


@value
class HookRun:
    """How a hook's program ended. `status` is None if nobody saw it end; `trouble` says why it
    could not be run, or not to its end. `cut` if it wrote more than is kept."""

    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    trouble: str = ""
    cut: bool = False
    seconds: float = 0.0


@value
class HookAnswer:
    """`code` is that of the refusal, if it is one. `message` is for the person, `context` for the
    model, `warning` what went wrong with the hook itself."""

    opinion: Opinion = Opinion.NONE
    reason: str = ""
    code: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""
    message: str = ""
    warning: str = ""
    new_output: str | None = None


def answer_of(hook: HookCommand, run: HookRun) -> HookAnswer:
    if run.timed_out:
        return failure(hook, TIMED_OUT, f"took longer than {hook.timeout:g} s and was ended")
    if run.trouble:
        return failure(hook, FAILED, run.trouble)
    if run.status == BLOCKS:
        return _blocked(hook, run)
    if run.status != 0:
        return failure(hook, FAILED, _how_it_failed(run))
    return _said(hook, run)


def failure(hook: HookCommand, code: str, what: str) -> HookAnswer:
    """A hook that did not do its work: a warning, or a refusal if it is one that guards."""
    text = f"The hook {hook.name} {what}."
    if hook.on_failure is OnFailure.BLOCK and hook.event in _CAN_BLOCK:
        reason = f"{text} It must succeed before this can go on; nobody has refused it."
        return HookAnswer(opinion=Opinion.DENY, code=code, reason=reason, warning=text)
    return HookAnswer(warning=text)


def untrusted(hook: HookCommand, why: str) -> HookAnswer:
    return failure(hook, UNTRUSTED, f"was not run: {why}")


def _blocked(hook: HookCommand, run: HookRun) -> HookAnswer:
    return _refused(hook, run.stderr.strip())


def _refused(hook: HookCommand, reason: str) -> HookAnswer:
    """Where nothing can be stopped any more, a refusal is something to be told."""
    reason = reason[:_LONGEST_REASON] or f"The hook {hook.name} gave no reason."
    if hook.event in _CAN_BLOCK:
        return HookAnswer(opinion=Opinion.DENY, code=BLOCKED, reason=reason)
    if hook.event.is_after_tool:
        return HookAnswer(context=reason)
    return HookAnswer(message=reason)


def _how_it_failed(run: HookRun) -> str:
    ended = "was killed" if run.status is None else f"failed with exit status {run.status}"
    said = " ".join(run.stderr.split())[:200]
    return f"{ended} ({said})" if said else ended


def _said(hook: HookCommand, run: HookRun) -> HookAnswer:
    text = run.stdout.strip()
    if not text.startswith("{"):
        return HookAnswer(context=text if hook.event in _TEXT_IS_CONTEXT else "")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        why = "is longer than can be read" if run.cut else "is no proper JSON"
        return failure(hook, FAILED, f"gave an answer that {why}")
    return _understood(hook, document)


def _understood(hook: HookCommand, document: Mapping[str, Any]) -> HookAnswer:
    own = document.get("hookSpecificOutput")
    own = own if isinstance(own, Mapping) else {}
    if own.get("hookEventName", hook.event) != hook.event:
        own = {}
    answer = _decided(hook, document, own)
    message, context = _text(document, "systemMessage"), _text(own, "additionalContext")
    message = message[:_LONGEST_REASON]
    answer = replace(
        answer,
        message="\n".join(filter(None, (message, answer.message))),
        context="\n".join(filter(None, (answer.context, context))),
    )
    if hook.event.is_after_tool:
        new = own.get("updatedToolOutput", own.get("updatedMCPToolOutput"))
        if new is not None:
            answer = replace(answer, new_output=new if isinstance(new, str) else json.dumps(new))
    if document.get("continue") is False:
        stop = _text(document, "stopReason") or f"The hook {hook.name} stopped the task."
        stop = stop[:_LONGEST_REASON]
        answer = replace(answer, opinion=Opinion.HALT, code=BLOCKED, reason=stop)
    return answer


def _decided(hook: HookCommand, document: Mapping[str, Any], own: Mapping[str, Any]) -> HookAnswer:
    decision, reason = document.get("decision"), _text(document, "reason")
    updated = own.get("updatedInput")
    if hook.event is HookEvent.PRE_TOOL_USE and "permissionDecision" in own:
        decision, reason = own["permissionDecision"], _text(own, "permissionDecisionReason")
    if hook.event is HookEvent.PERMISSION_REQUEST and isinstance(own.get("decision"), Mapping):
        asked = own["decision"]
        decision, reason = asked.get("behavior"), _text(asked, "message")
        updated = asked.get("updatedInput")
    if decision is None:
        answer = HookAnswer()
    elif decision not in list(_DECISIONS):
        # a guard that cannot be understood must not count as consent
        reason = f"The hook {hook.name} gave an answer that nobody knows: {str(decision)[:100]}."
        answer = HookAnswer(opinion=Opinion.ASK, reason=reason)
    else:
        answer = _with_opinion(hook, _DECISIONS[decision], reason)
    if updated is not None and hook.event in (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST):
        if not isinstance(updated, Mapping):
            return failure(hook, FAILED, "gave an updatedInput that is no object")
        answer = replace(answer, updated_input=updated)
    return answer


def _with_opinion(hook: HookCommand, opinion: Opinion, reason: str) -> HookAnswer:
    if opinion is Opinion.DENY:
        return _refused(hook, reason)
    opinion = opinion if hook.event in _CAN_BLOCK else Opinion.NONE
    return HookAnswer(opinion=opinion, reason=reason[:_LONGEST_REASON])


def _text(said: Mapping[str, Any], key: str) -> str:
    text = said.get(key)
    return text if isinstance(text, str) else ""
