"""Programs of the user's that have a say: each event is told to those it concerns, and their
answers are joined into one verdict.

They can refuse, ask and rewrite. Their yes outweighs nobody's no, and what they rewrite is judged
anew by everybody else, because they are heard before the call is prepared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.event_input import (
    Situation,
    ToolResponse,
    call_fields,
    encoded,
    event_input,
    heeds_matcher,
    matched_names,
    response_fields,
)
from rookery.governance.external_hooks.hook_answers import (
    FAILED,
    HookAnswer,
    Opinion,
    failure,
)
from rookery.governance.external_hooks.hook_calls import (
    CannotMap,
    Presented,
    mapped_back,
    names_of,
    presented,
    touched_paths,
)
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent, OnFailure
from rookery.governance.external_hooks.hook_round import Desk, Telling, Work, hear
from rookery.governance.external_hooks.hook_verdict import Heard, HookDecision, HookVerdict, joined
from rookery.governance.scope.permission_rules import Form, RuleCall, permission_rule

MOST_HOLDS = 8
"""How often in a row hooks may keep a turn going that the model has ended."""
LONGEST_CONTEXT = 10_000
"""Characters of one hook's text that the model is given."""
LONGEST_OUTPUT = 100_000
"""Characters of what a hook puts in the place of a result."""


class CallSummary(Struct, frozen=True, kw_only=True):
    """What is known of a call beside its arguments. `commands` are the words of every simple
    command; unless `all_known` there may be others."""

    commands: tuple[tuple[str, ...], ...] = ()
    all_known: bool = False


_NOTHING_KNOWN = CallSummary()


class ExternalHooks:
    """The hooks of one task. `situation` says how things stand, `tell` shows a line to the person,
    and `background` takes what nobody waits for; without it, it is waited for."""

    def __init__(
        self,
        desk: Desk,
        *,
        situation: Callable[[], Situation],
        tell: Callable[[str], None],
        interactive: bool,
        background: Callable[[Work], None] | None = None,
    ) -> None:
        self._desk = desk
        self._situation = situation
        self._tell = tell
        self._interactive = interactive
        self._background = background
        self._holds = 0
        self._told: set[str] = set()

    def any_for(self, *events: HookEvent) -> bool:
        """Whether anybody wants to hear of them. Where nobody does, nothing need be worked out."""
        return any(known.hook.event in events for known in self._desk.hooks)

    async def before_tool(
        self, call: ToolCall, action_summary: CallSummary = _NOTHING_KNOWN
    ) -> HookVerdict:
        return await self._about(HookEvent.PRE_TOOL_USE, call, action_summary)

    async def permission_request(
        self, call: ToolCall, ask: str, action_summary: CallSummary = _NOTHING_KNOWN
    ) -> HookVerdict:
        """Before a person is asked. Whoever allows here still allows nothing alone."""
        return await self._about(HookEvent.PERMISSION_REQUEST, call, action_summary, ask=ask)

    async def after_tool(
        self,
        call: ToolCall,
        response: ToolResponse,
        action_summary: CallSummary = _NOTHING_KNOWN,
    ) -> HookVerdict:
        event = HookEvent.POST_TOOL_USE_FAILURE if response.failed else HookEvent.POST_TOOL_USE
        return await self._about(event, call, action_summary, response=response)

    async def event(self, name: HookEvent | str, fields: Mapping[str, Any]) -> HookVerdict:
        """Anything that is not about a tool. For `Stop` a denial means that the turn goes on, with
        the reason as what the model is told."""
        event = HookEvent(name)
        if event is HookEvent.USER_PROMPT_SUBMIT:
            self._holds = 0
        if not self.any_for(event):
            return HookVerdict()
        stops = event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP)
        held = {"stop_hook_active": self._holds > 0} if stops else {}
        situation = self._situation()
        document = encoded(event_input(event, situation, {**fields, **held}))
        names = matched_names(event, fields)
        concerned = [
            known
            for known in self._desk.hooks
            if known.hook.event is event
            and (not heeds_matcher(event) or known.hook.matcher.fits(names))
        ]
        heard = await hear(
            self._desk,
            [Telling(known, document) for known in concerned],
            situation,
            self._background,
        )
        verdict = self._joined([each for _, each in heard])
        return self._counted(verdict) if stops else verdict

    async def _about(
        self,
        event: HookEvent,
        call: ToolCall,
        summary: CallSummary,
        *,
        ask: str = "",
        response: ToolResponse | None = None,
    ) -> HookVerdict:
        if not self.any_for(event):
            return HookVerdict()
        situation = self._situation()
        concerned = [
            known
            for known in self._desk.hooks
            if known.hook.event is event and _concerns(known.hook, call, summary, situation.root)
        ]
        shown_to = {
            dialect: presented(call, dialect, situation.root)
            for dialect in {known.hook.dialect for known in concerned}
        }
        extra = {"ask": ask} if ask else {}

        def document(shown: Presented) -> bytes:
            became = response_fields(response, shown) if response else {}
            fields = {**call_fields(call, shown), **extra, **became}
            return encoded(event_input(event, situation, fields))

        tellings = [
            Telling(known, document(shown), at)
            for known in concerned
            for at, shown in enumerate(shown_to[known.hook.dialect])
        ]
        heard = await hear(self._desk, tellings, situation, self._background)
        return self._joined(
            [
                _rewritten(each, call, shown_to[each.hook.dialect], telling.at, situation.root)
                for telling, each in heard
            ]
        )

    def _joined(self, heard: Sequence[Heard]) -> HookVerdict:
        short = [replace(each, answer=self._shortened(each.answer)) for each in heard]
        verdict = joined(short, interactive=self._interactive)
        for warning in verdict.warnings:
            if warning not in self._told:
                self._told.add(warning)
                self._tell(warning)
        return verdict

    def _shortened(self, answer: HookAnswer) -> HookAnswer:
        new = answer.new_output
        return replace(
            answer,
            context=self._cut(answer.context, LONGEST_CONTEXT),
            new_output=None if new is None else self._cut(new, LONGEST_OUTPUT),
        )

    def _cut(self, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        place = self._desk.keep(text)
        rest = f"; all of it is in {place}" if place else ""
        return f"{text[:most]}\n[{len(text) - most} more characters left out{rest}]"

    def _counted(self, verdict: HookVerdict) -> HookVerdict:
        """A turn is not held open for ever."""
        if verdict.decision is not HookDecision.DENY:
            self._holds = 0
            return verdict
        self._holds += 1
        if self._holds <= MOST_HOLDS:
            return verdict
        self._holds = 0
        warning = f"Hooks held the turn open {MOST_HOLDS} times in a row; it ends now all the same."
        self._tell(warning)
        return HookVerdict(warnings=(*verdict.warnings, warning))


def _concerns(hook: HookCommand, call: ToolCall, summary: CallSummary, root: str) -> bool:
    if not hook.matcher.fits(names_of(call)):
        return False
    if not hook.condition:
        return True
    rule = permission_rule(hook.condition)
    # who guards is asked once too often rather than once too seldom
    if rule.form is Form.COMMANDS and not summary.all_known:
        return call.name in rule.tools
    paths = touched_paths(call, root)
    return rule.touches(RuleCall(tool=call.name, paths=paths, commands=summary.commands))


def _rewritten(
    heard: Heard, call: ToolCall, shown: Sequence[Presented], at: int, root: str
) -> Heard:
    """With the new input as arguments of ours. What is none refuses the call, whatever the hook
    wants done about failures: it wanted something else to be run than what would be."""
    updated = heard.answer.updated_input
    if updated is None or heard.answer.opinion >= Opinion.DENY:
        return heard
    try:
        return replace(heard, arguments=mapped_back(call, shown, at, updated, root))
    except CannotMap as error:
        blocking = replace(heard.hook, on_failure=OnFailure.BLOCK)
        what = f"gave a new input that cannot be used: {error}"
        return replace(heard, answer=failure(blocking, FAILED, what))
