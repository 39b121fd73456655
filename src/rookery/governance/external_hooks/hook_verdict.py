"""The one verdict of all hooks that were asked about something."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.refusals import Refusal
from rookery.governance.external_hooks.hook_answers import (
    BLOCKED,
    FAILED,
    HookAnswer,
    HookOpinion,
)
from rookery.governance.external_hooks.hook_config import HookCommand


class HookDecision(StrEnum):
    NONE = "none"
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
    HALT = "halt"


_DECISION_OF = {
    HookOpinion.NONE: HookDecision.NONE,
    HookOpinion.ALLOW: HookDecision.ALLOW,
    HookOpinion.ASK: HookDecision.ASK,
    HookOpinion.DENY: HookDecision.DENY,
    HookOpinion.HALT: HookDecision.HALT,
}


class HookVerdict(Struct, frozen=True, kw_only=True):
    """`code` and `reason` are those of the decision. `updated_input` are whole arguments instead
    of the call's. `context` is for the model, within the result; `system_messages` are for the
    person. `warnings` are what went wrong with hooks, `notes` what the record should say.
    `new_output` is what the model is to see instead of the result."""

    decision: HookDecision = HookDecision.NONE
    code: str = ""
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""
    system_messages: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    new_output: str | None = None


class HookOutput(Struct, frozen=True, kw_only=True):
    """An answer, and whose it is. `arguments` is its updated input as a call of ours."""

    hook: HookCommand
    answer: HookAnswer
    arguments: Mapping[str, Any] | None = None


def joined(heard: Sequence[HookOutput], *, interactive: bool) -> HookVerdict:
    """In the order of the configuration. Nobody's yes outweighs another's no; of several new
    inputs the last one counts, and that there were several is noted."""
    opinion = max((each.answer.opinion for each in heard), default=HookOpinion.NONE)
    decisive = [each for each in heard if each.answer.opinion is opinion]
    if opinion is HookOpinion.DEFER:
        opinion = HookOpinion.ASK if interactive else HookOpinion.DENY
    rewriters = [each for each in heard if each.arguments is not None]
    replacing = [each for each in heard if each.answer.new_output is not None]
    return HookVerdict(
        decision=_DECISION_OF[opinion],
        code=_code(opinion, decisive),
        reason=" ".join(_distinct(each.answer.reason for each in decisive)),
        updated_input=rewriters[-1].arguments if rewriters else None,
        context="\n".join(_labelled(each) for each in heard if each.answer.context),
        system_messages=_distinct(each.answer.message for each in heard),
        warnings=_distinct(each.answer.warning for each in heard),
        notes=_conflict(rewriters),
        new_output=replacing[-1].answer.new_output if replacing else None,
    )


def refusal(verdict: HookVerdict, call: ToolCall, *, intent_id: str = "") -> Refusal:
    """A verdict of deny or halt as the model reads it."""
    return Refusal(
        code=verdict.code or BLOCKED,
        message=verdict.reason,
        intent_id=intent_id,
        tool=call.name,
        tool_use_id=call.id,
    )


def _code(opinion: HookOpinion, decisive: Sequence[HookOutput]) -> str:
    """Who refuses on purpose comes before who only failed."""
    if opinion not in (HookOpinion.DENY, HookOpinion.HALT):
        return ""
    codes = sorted(each.answer.code or BLOCKED for each in decisive)
    return codes[0] if codes else FAILED


def _conflict(rewriters: Sequence[HookOutput]) -> tuple[str, ...]:
    if len({repr(each.arguments) for each in rewriters}) < 2:
        return ()
    names = ", ".join(each.hook.name for each in rewriters)
    return (f"Several hooks rewrote the input ({names}); the last one is used.",)


def _labelled(heard: HookOutput) -> str:
    return f"[hook {heard.hook.name}] {heard.answer.context}"


def _distinct(texts: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
