"""What a hook answers, by its exit status and its output.

Exit status 2 blocks, whatever else was written. 0 is success, and what looks like JSON must be
JSON. Another status is a failure of the hook and no opinion: `on_failure` decides about it.

A guard fails closed. If its answer cannot be read, the action is refused. If it gave none, because
it did not start, timed out or was killed, the action is refused unless `on_failure` is `warn`.
A failure never reads like somebody's refusal.
"""

import json
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent, OnFailure

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
_GUARDS = frozenset(
    {HookEvent.USER_PROMPT_SUBMIT, HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST}
)
"""Events whose hooks decide whether something is done at all."""
_TEXT_IS_CONTEXT = frozenset({HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT})
_DECIDING = ("permissionDecision", "decision", "behavior")
_OWN_FORM = {
    HookEvent.PRE_TOOL_USE: "permissionDecision",
    HookEvent.PERMISSION_REQUEST: "decision",
}
"""Which key of `hookSpecificOutput` decides."""
_CONSENT = (None, "allow", "approve", {"behavior": "allow"})
_ANSWERS = frozenset({"continue", "decision", "hookSpecificOutput"})
_JSON_LINE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_LONGEST_REASON = 4_000
_JSON_BEGINS = re.compile(r"[\[\s\0]*\{")
"""Zeros are in front of it in UTF-16."""
_NOT_EXECUTABLE, _NOT_FOUND, _SIGNALS = 126, 127, range(129, 193)
"""Exit statuses by which a shell says that a program did not run, or was killed."""


class HookOpinion(IntEnum):
    """From none to the strictest. The greatest of several is the one that holds."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DEFER = 3
    DENY = 4
    HALT = 5


_DECISIONS = {
    "allow": HookOpinion.ALLOW,
    "approve": HookOpinion.ALLOW,
    "ask": HookOpinion.ASK,
    "defer": HookOpinion.DEFER,
    "deny": HookOpinion.DENY,
    "block": HookOpinion.DENY,
}


class HookRun(Struct, frozen=True, kw_only=True):
    """How a hook's program ended. `status` is None if nobody saw it end; `trouble` says why it
    could not be run, or not to its end. `cut` if it wrote more than is kept, and `garbled` if
    its output is not text."""

    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    trouble: str = ""
    cut: bool = False
    garbled: bool = False
    seconds: float = 0.0


class HookAnswer(Struct, frozen=True, kw_only=True):
    """`code` is that of the refusal, if it is one. `message` is for the person, `context` for the
    model, `warning` what went wrong with the hook itself."""

    opinion: HookOpinion = HookOpinion.NONE
    reason: str = ""
    code: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""
    message: str = ""
    warning: str = ""
    new_output: str | None = None


class _UnreadableAnswer(Exception):
    """The hook's answer is not what the contract says. The text ends a sentence about it."""


def answer_of(hook: HookCommand, run: HookRun) -> HookAnswer:
    if run.timed_out:
        return no_answer(hook, TIMED_OUT, f"timed out after {hook.timeout:g} s")
    if run.trouble:
        return no_answer(hook, FAILED, run.trouble)
    if run.status == BLOCKS:
        return _blocked(hook, run)
    if run.status == 0:
        return _said(hook, run)
    if _did_not_run(run.status):
        return no_answer(hook, FAILED, _how_it_failed(run))
    return failure(hook, FAILED, _how_it_failed(run))


def failure(hook: HookCommand, code: str, what: str) -> HookAnswer:
    """The hook failed: a warning, or a refusal if `on_failure` says so."""
    if hook.on_failure is OnFailure.BLOCK and hook.event in _CAN_BLOCK:
        return _failed_closed(hook, code, what)
    return HookAnswer(warning=f"The hook {hook.name} {what}.")


def no_answer(hook: HookCommand, code: str, what: str) -> HookAnswer:
    """The hook did not get to answer. A guard then refuses, unless `on_failure` is `warn`."""
    if hook.event in _GUARDS and hook.on_failure is OnFailure.UNSAID:
        return _failed_closed(hook, code, what)
    return failure(hook, code, what)


def unreadable(hook: HookCommand, what: str) -> HookAnswer:
    """The hook answered, and nobody can tell what. It may have been a refusal."""
    if hook.event in _GUARDS:
        return _failed_closed(hook, FAILED, what)
    return failure(hook, FAILED, what)


def untrusted(hook: HookCommand, why: str) -> HookAnswer:
    return failure(hook, UNTRUSTED, f"was not run: {why}")


def _failed_closed(hook: HookCommand, code: str, what: str) -> HookAnswer:
    text = f"The hook {hook.name} {what}."
    reason = f"{text} This is a failure of the hook, not a refusal. The hook must succeed first."
    return HookAnswer(opinion=HookOpinion.DENY, code=code, reason=reason, warning=text)


def _did_not_run(status: int | None) -> bool:
    return status in (None, _NOT_EXECUTABLE, _NOT_FOUND) or status in _SIGNALS


def _blocked(hook: HookCommand, run: HookRun) -> HookAnswer:
    return _refused(hook, run.stderr.strip())


def _refused(hook: HookCommand, reason: str) -> HookAnswer:
    """Where nothing can be stopped any more, a refusal is something to be told."""
    reason = reason[:_LONGEST_REASON] or f"The hook {hook.name} gave no reason."
    if hook.event in _CAN_BLOCK:
        return HookAnswer(opinion=HookOpinion.DENY, code=BLOCKED, reason=reason)
    if hook.event.is_after_tool:
        return HookAnswer(context=reason)
    return HookAnswer(message=reason)


def _how_it_failed(run: HookRun) -> str:
    ended = "was killed" if run.status is None else f"failed with exit status {run.status}"
    said = " ".join(run.stderr.split())[:200]
    return f"{ended} ({said})" if said else ended


def _said(hook: HookCommand, run: HookRun) -> HookAnswer:
    try:
        document = _document(run)
        if document is not None:
            return _understood(hook, document)
    except _UnreadableAnswer as error:
        return unreadable(hook, f"gave an answer that {error}")
    return HookAnswer(context=run.stdout.strip() if hook.event in _TEXT_IS_CONTEXT else "")


def _document(run: HookRun) -> Mapping[str, Any] | None:
    """The object on standard output; None if there is only text."""
    if run.garbled:
        raise _UnreadableAnswer("is not UTF-8 text")
    text = run.stdout.removeprefix("\ufeff").strip()
    only_blanks = bool(run.stdout) and not text
    if not _JSON_BEGINS.match(text) and not (only_blanks and run.cut):
        if _has_answer_inside(text):
            raise _UnreadableAnswer("has other text before its JSON")
        return None
    try:
        document = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        why = "is longer than can be read" if run.cut else "is not valid JSON"
        raise _UnreadableAnswer(why) from error
    if not isinstance(document, Mapping):
        raise _UnreadableAnswer("is not a JSON object")
    return document


def _has_answer_inside(text: str) -> bool:
    """Whether a line of plain text begins an answer, as after a greeting from a shell profile."""
    begins = _JSON_LINE.search(text)
    if not begins:
        return False
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begins.end() - 1)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, Mapping) and not _ANSWERS.isdisjoint(document)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a key is repeated")
    return document


def _understood(hook: HookCommand, document: Mapping[str, Any]) -> HookAnswer:
    own = _own_part(hook, document)
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
    goes_on = document.get("continue", True)
    if not isinstance(goes_on, bool):
        raise _UnreadableAnswer("has a continue that is neither true nor false")
    if not goes_on:
        stop = _text(document, "stopReason") or f"The hook {hook.name} stopped the task."
        stop = stop[:_LONGEST_REASON]
        answer = replace(answer, opinion=HookOpinion.HALT, code=BLOCKED, reason=stop)
    return answer


def _own_part(hook: HookCommand, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said about the hook's own event."""
    own = document.get("hookSpecificOutput")
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise _UnreadableAnswer("has a hookSpecificOutput that is not an object")
    if own.get("hookEventName", hook.event) == hook.event:
        return own
    if any(own.get(key) not in _CONSENT for key in _DECIDING):
        raise _UnreadableAnswer(f"is for another event: {str(own['hookEventName'])[:40]}")
    return {}


def _decided(hook: HookCommand, document: Mapping[str, Any], own: Mapping[str, Any]) -> HookAnswer:
    _demand_no_misplaced(hook, document, own)
    decision, reason = document.get("decision"), _text(document, "reason")
    older = _with_decision(hook, decision, reason)
    updated = own.get("updatedInput")
    if hook.event is HookEvent.PRE_TOOL_USE and "permissionDecision" in own:
        decision, reason = own["permissionDecision"], _text(own, "permissionDecisionReason")
    if hook.event is HookEvent.PERMISSION_REQUEST and "decision" in own:
        asked = own["decision"]
        if not isinstance(asked, Mapping) or "behavior" not in asked:
            raise _UnreadableAnswer("has a decision without a behavior")
        decision, reason = asked["behavior"], _text(asked, "message")
        updated = asked.get("updatedInput")
    newer = _with_decision(hook, decision, reason)
    # who contradicts itself has refused
    answer = older if HookOpinion.DENY is older.opinion > newer.opinion else newer
    if updated is not None and hook.event in (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST):
        if not isinstance(updated, Mapping):
            raise _UnreadableAnswer("has an updatedInput that is not an object")
        answer = replace(answer, updated_input=updated)
    return answer


def _demand_no_misplaced(
    hook: HookCommand, document: Mapping[str, Any], own: Mapping[str, Any]
) -> None:
    """A guard that refuses in the form of another event has refused all the same."""
    if hook.event not in _GUARDS:
        return
    expected = _OWN_FORM.get(hook.event, "")
    said = [(key, own.get(key)) for key in _DECIDING if key != expected]
    said += [(key, document.get(key)) for key in _DECIDING if key != "decision"]
    for key, decision in said:
        if decision not in _CONSENT:
            raise _UnreadableAnswer(f"has {key} in a place where it means nothing")


def _with_decision(hook: HookCommand, decision: object, reason: str) -> HookAnswer:
    if decision is None:
        return HookAnswer()
    if isinstance(decision, str) and decision in _DECISIONS:
        return _with_opinion(hook, _DECISIONS[decision], reason)
    if hook.event in (HookEvent.USER_PROMPT_SUBMIT, HookEvent.PERMISSION_REQUEST):
        raise _UnreadableAnswer(f"has an unknown decision: {str(decision)[:100]}")
    # a guard that cannot be understood must not count as consent
    reason = f"The hook {hook.name} gave an unknown decision: {str(decision)[:100]}."
    return HookAnswer(opinion=HookOpinion.ASK, reason=reason)


def _with_opinion(hook: HookCommand, opinion: HookOpinion, reason: str) -> HookAnswer:
    if opinion is HookOpinion.DENY:
        return _refused(hook, reason)
    opinion = opinion if hook.event in _CAN_BLOCK else HookOpinion.NONE
    return HookAnswer(opinion=opinion, reason=reason[:_LONGEST_REASON])


def _text(said: Mapping[str, Any], key: str) -> str:
    text = said.get(key)
    return text if isinstance(text, str) else ""
