"""Parsing of a hook's exit status and output, and the combined verdict of several hooks.

Exit status 2 blocks, whatever the output. With 0, output that looks like JSON must be valid. Any
other status is a failure of the hook, and `on_failure` decides.

A guard fails closed: an unreadable answer refuses the action. A missing one (not started, timed
out, killed) refuses it unless `on_failure` is `warn`. The reason always says that the hook failed.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
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
"""Events whose hooks decide whether something is done."""
_TEXT_IS_CONTEXT = frozenset({HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT})
_DECIDING = ("permissionDecision", "decision", "behavior")
_DECISION_KEYS = {
    HookEvent.PRE_TOOL_USE: "permissionDecision",
    HookEvent.PERMISSION_REQUEST: "decision",
}
"""The key of `hookSpecificOutput` that holds the decision."""
_CONSENT = (None, "allow", "approve", {"behavior": "allow"})
_ANSWERS = frozenset({"continue", "decision", "hookSpecificOutput"})
_JSON_LINE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_LONGEST_REASON = 4_000
_JSON_START = re.compile(r"[\[\s\0]*\{")
"""In UTF-16 a NUL may come first."""
_NOT_EXECUTABLE, _NOT_FOUND, _SIGNALS = 126, 127, range(129, 193)
"""Exit statuses of a shell for a program that could not be run or was killed."""


class HookDecision(StrEnum):
    """Ordered by strictness; the strictest of several answers wins."""

    NONE = "none"
    ALLOW = "allow"
    ASK = "ask"
    DEFER = "defer"
    DENY = "deny"
    HALT = "halt"

    @property
    def refuses(self) -> bool:
        return self in (HookDecision.DENY, HookDecision.HALT)


_STRICTNESS = {decision: number for number, decision in enumerate(HookDecision)}
_WORDS = {
    **{name: HookDecision(name) for name in ("allow", "ask", "defer", "deny")},
    "approve": HookDecision.ALLOW,
    "block": HookDecision.DENY,
}


class HookRun(Struct, frozen=True, kw_only=True):
    """How a hook ended. `status` is None if its exit was not observed; `trouble` is why it could
    not run to its end. `cut` if output was dropped, `garbled` if it is not UTF-8."""

    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    trouble: str = ""
    cut: bool = False
    garbled: bool = False
    seconds: float = 0.0


class HookAnswer(Struct, frozen=True, kw_only=True):
    """`code` is the refusal code. `message` is for the user, `context` for the model, and
    `warning` describes a failure of the hook. `arguments` is the updated input, converted to our
    own arguments."""

    name: str = ""
    decision: HookDecision = HookDecision.NONE
    reason: str = ""
    code: str = ""
    updated_input: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    context: str = ""
    message: str = ""
    warning: str = ""
    new_output: str | None = None


class _UnreadableAnswer(Exception):
    """The answer violates the contract. The message completes "gave an answer that ..."."""


def parse_answer(hook: HookCommand, run: HookRun) -> HookAnswer:
    # a guard without an answer refuses, unless `on_failure` is `warn`
    silent = hook.event in _GUARDS and hook.on_failure is OnFailure.UNSET
    if run.timed_out:
        what = f"timed out after {hook.timeout:g} s"
        return failure_answer(hook, TIMED_OUT, what, refuses=silent)
    if run.trouble:
        return failure_answer(hook, FAILED, run.trouble, refuses=silent)
    if run.status == BLOCKS:
        return _refuse(hook, run.stderr.strip())
    if run.status == 0:
        return _parse_output(hook, run)
    refuses = silent and _did_not_run(run.status)
    return failure_answer(hook, FAILED, _failure_text(run), refuses=refuses)


def failure_answer(hook: HookCommand, code: str, what: str, *, refuses: bool = False) -> HookAnswer:
    """Handle a failed hook: a warning, or a refusal if it `refuses` or `on_failure` is `block`."""
    text = f"The hook {hook.name} {what}."
    if not (refuses or (hook.on_failure is OnFailure.BLOCK and hook.event in _CAN_BLOCK)):
        return HookAnswer(warning=text)
    reason = f"{text} This is a failure of the hook, not a refusal. The hook must succeed first."
    return HookAnswer(decision=HookDecision.DENY, code=code, reason=reason, warning=text)


def _did_not_run(status: int | None) -> bool:
    return status in (None, _NOT_EXECUTABLE, _NOT_FOUND) or status in _SIGNALS


def _refuse(hook: HookCommand, reason: str) -> HookAnswer:
    """Refuse or, after the fact, report the reason to the model or the user."""
    reason = reason[:_LONGEST_REASON] or f"The hook {hook.name} gave no reason."
    if hook.event in _CAN_BLOCK:
        return HookAnswer(decision=HookDecision.DENY, code=BLOCKED, reason=reason)
    if hook.event.is_after_tool:
        return HookAnswer(context=reason)
    return HookAnswer(message=reason)


def _failure_text(run: HookRun) -> str:
    ended = "was killed" if run.status is None else f"failed with exit status {run.status}"
    detail = " ".join(run.stderr.split())[:200]
    return f"{ended} ({detail})" if detail else ended


def _parse_output(hook: HookCommand, run: HookRun) -> HookAnswer:
    try:
        document = _parse_document(run)
        if document is not None:
            return _interpret(hook, document)
    except _UnreadableAnswer as error:
        # the answer of a guard may have been a refusal
        what, refuses = f"gave an answer that {error}", hook.event in _GUARDS
        return failure_answer(hook, FAILED, what, refuses=refuses)
    return HookAnswer(context=run.stdout.strip() if hook.event in _TEXT_IS_CONTEXT else "")


def _parse_document(run: HookRun) -> Mapping[str, Any] | None:
    """The JSON object on standard output, or None if it is plain text."""
    if run.garbled:
        raise _UnreadableAnswer("is not UTF-8 text")
    text = run.stdout.removeprefix("\ufeff").strip()
    only_blanks = bool(run.stdout) and not text
    if not _JSON_START.match(text) and not (only_blanks and run.cut):
        if _contains_answer(text):
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


def _contains_answer(text: str) -> bool:
    """Whether JSON follows other text, such as the output of a shell profile."""
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


def _interpret(hook: HookCommand, document: Mapping[str, Any]) -> HookAnswer:
    own = _event_output(hook, document)
    answer = _decide(hook, document, own)
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
    continues = document.get("continue", True)
    if not isinstance(continues, bool):
        raise _UnreadableAnswer("has a continue that is neither true nor false")
    if not continues:
        stop = _text(document, "stopReason") or f"The hook {hook.name} stopped the task."
        stop = stop[:_LONGEST_REASON]
        answer = replace(answer, decision=HookDecision.HALT, code=BLOCKED, reason=stop)
    return answer


def _event_output(hook: HookCommand, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `hookSpecificOutput` for the hook's event."""
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


def _decide(hook: HookCommand, document: Mapping[str, Any], own: Mapping[str, Any]) -> HookAnswer:
    _reject_misplaced(hook, document, own)
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
    # of two contradicting decisions the refusal counts
    answer = older if older.decision.refuses and not newer.decision.refuses else newer
    if updated is not None and hook.event in (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST):
        if not isinstance(updated, Mapping):
            raise _UnreadableAnswer("has an updatedInput that is not an object")
        answer = replace(answer, updated_input=updated)
    return answer


def _reject_misplaced(
    hook: HookCommand, document: Mapping[str, Any], own: Mapping[str, Any]
) -> None:
    """Reject a refusal of a guard in a key of another event, which would be ignored otherwise."""
    if hook.event not in _GUARDS:
        return
    expected = _DECISION_KEYS.get(hook.event, "")
    decisions = [(key, own.get(key)) for key in _DECIDING if key != expected]
    decisions += [(key, document.get(key)) for key in _DECIDING if key != "decision"]
    for key, decision in decisions:
        if decision not in _CONSENT:
            raise _UnreadableAnswer(f"has {key} in a place where it means nothing")


def _with_decision(hook: HookCommand, decision: object, reason: str) -> HookAnswer:
    if decision is None:
        return HookAnswer()
    if isinstance(decision, str) and decision in _WORDS:
        if _WORDS[decision] is HookDecision.DENY:
            return _refuse(hook, reason)
        known = _WORDS[decision] if hook.event in _CAN_BLOCK else HookDecision.NONE
        return HookAnswer(decision=known, reason=reason[:_LONGEST_REASON])
    if hook.event in (HookEvent.USER_PROMPT_SUBMIT, HookEvent.PERMISSION_REQUEST):
        raise _UnreadableAnswer(f"has an unknown decision: {str(decision)[:100]}")
    # an unknown decision must not count as consent
    reason = f"The hook {hook.name} gave an unknown decision: {str(decision)[:100]}."
    return HookAnswer(decision=HookDecision.ASK, reason=reason)


def _text(fields: Mapping[str, Any], key: str) -> str:
    text = fields.get(key)
    return text if isinstance(text, str) else ""


class HookVerdict(Struct, frozen=True, kw_only=True):
    """The combined verdict. `updated_input` replaces all arguments, `new_output` replaces the
    result. `context` is added to the result for the model, `system_messages` go to the user,
    `notes` to the ledger; `warnings` are failures of hooks."""

    decision: HookDecision = HookDecision.NONE
    code: str = ""
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""
    system_messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    new_output: str | None = None


def combine(answers: Sequence[HookAnswer], *, interactive: bool) -> HookVerdict:
    """Combine answers, given in the order of the configuration: the strictest decision wins, and
    the last updated input. A conflict between inputs is added to `notes`."""
    decision = max(
        (each.decision for each in answers), key=_STRICTNESS.__getitem__, default=HookDecision.NONE
    )
    decisive = [each for each in answers if each.decision is decision]
    if decision is HookDecision.DEFER:
        decision = HookDecision.ASK if interactive else HookDecision.DENY
    rewriters = [each for each in answers if each.arguments is not None]
    replacing = [each.new_output for each in answers if each.new_output is not None]
    # a deliberate refusal takes precedence over failures
    codes = sorted(each.code or BLOCKED for each in decisive) if decision.refuses else [""]
    return HookVerdict(
        decision=decision,
        code=codes[0],
        reason=" ".join(_distinct(each.reason for each in decisive)),
        updated_input=rewriters[-1].arguments if rewriters else None,
        context="\n".join(f"[hook {each.name}] {each.context}" for each in answers if each.context),
        system_messages=_distinct(each.message for each in answers),
        warnings=_distinct(each.warning for each in answers),
        notes=_conflict(rewriters),
        new_output=replacing[-1] if replacing else None,
    )


def _conflict(rewriters: Sequence[HookAnswer]) -> tuple[str, ...]:
    if len({repr(each.arguments) for each in rewriters}) < 2:
        return ()
    names = ", ".join(each.name for each in rewriters)
    return (f"Several hooks rewrote the input ({names}); the last one is used.",)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))
