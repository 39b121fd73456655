"""Runs the hooks that match an event and combines their answers.

Hooks can refuse, ask and rewrite. An allow never overrides a refusal. A rewritten call is judged
again by all other rules, because hooks run before the call is prepared.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_answers import (
    BLOCKED,
    FAILED,
    HookAnswer,
    HookDecision,
    HookOpinion,
    HookOutput,
    HookRun,
    HookVerdict,
    combine,
    failure_answer,
    parse_answer,
    untrusted_answer,
)
from rookery.governance.external_hooks.hook_calls import (
    CannotMap,
    ShownCall,
    Situation,
    ToolResponse,
    call_fields,
    encode,
    event_input,
    map_back,
    matched_names,
    names_of,
    response_fields,
    shown_calls,
    touched_paths,
    uses_matcher,
)
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent, OnFailure
from rookery.governance.external_hooks.hook_files import KnownHook
from rookery.governance.external_hooks.hook_runner import HookSet
from rookery.governance.scope.permission_rules import Form, RuleCall, permission_rule

MOST_HOLDS = 8
"""How often in a row hooks may continue a turn that the model has ended."""
LONGEST_CONTEXT = 10_000
"""Characters of one hook's context that the model gets."""
LONGEST_OUTPUT = 100_000
"""Characters of a result replaced by a hook."""
Work: TypeAlias = Callable[[], Awaitable[None]]
_Run: TypeAlias = Callable[["Invocation"], Coroutine[Any, Any, None]]
_Runs: TypeAlias = dict[tuple[object, ...], HookRun]


class CallSummary(Struct, frozen=True, kw_only=True):
    """What is known of a call besides its arguments. `commands` are the words of each simple
    command; without `all_known` there may be more."""

    commands: tuple[tuple[str, ...], ...] = ()
    all_known: bool = False


_NOTHING_KNOWN = CallSummary()


class ExternalHooks:
    """The hooks of one task. `notify` shows a line to the user; `background` starts work without
    waiting for it (without it, background hooks are awaited)."""

    def __init__(
        self,
        hook_set: HookSet,
        *,
        situation: Callable[[], Situation],
        notify: Callable[[str], None],
        interactive: bool,
        background: Callable[[Work], None] | None = None,
    ) -> None:
        self._hook_set = hook_set
        self._situation = situation
        self._notify = notify
        self._interactive = interactive
        self._background = background
        self._holds = 0
        self._notified: set[str] = set()

    def has_hooks_for(self, *events: HookEvent) -> bool:
        """Whether any hook is for one of the events; if not, callers need not prepare input."""
        return any(known.hook.event in events for known in self._hook_set.hooks)

    async def before_tool(
        self, call: ToolCall, action_summary: CallSummary = _NOTHING_KNOWN
    ) -> HookVerdict:
        return await self._run_for_call(HookEvent.PRE_TOOL_USE, call, action_summary)

    async def permission_request(
        self, call: ToolCall, ask: str, action_summary: CallSummary = _NOTHING_KNOWN
    ) -> HookVerdict:
        """Run before the user is asked. An allow only counts if nothing else objects."""
        return await self._run_for_call(HookEvent.PERMISSION_REQUEST, call, action_summary, ask=ask)

    async def after_tool(
        self,
        call: ToolCall,
        response: ToolResponse,
        action_summary: CallSummary = _NOTHING_KNOWN,
    ) -> HookVerdict:
        event = HookEvent.POST_TOOL_USE_FAILURE if response.failed else HookEvent.POST_TOOL_USE
        return await self._run_for_call(event, call, action_summary, response=response)

    def begin_turn(self) -> None:
        """Reset the limit on continued turns; called for each user message."""
        self._holds = 0

    async def event(self, name: HookEvent | str, fields: Mapping[str, Any]) -> HookVerdict:
        """Run the hooks of an event that is not about a tool. For `Stop`, DENY continues the
        turn and the reason goes to the model."""
        event = HookEvent(name)
        if not self.has_hooks_for(event):
            return HookVerdict()
        stops = event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP)
        held = {"stop_hook_active": self._holds > 0} if stops else {}
        situation = self._situation()
        document = encode(event_input(event, situation, {**fields, **held}))
        names = matched_names(event, fields)
        matching = [
            known
            for known in self._hook_set.hooks
            if known.hook.event is event
            and (not uses_matcher(event) or known.hook.matcher.matches(names))
        ]
        outputs = await collect_answers(
            self._hook_set,
            [Invocation(known, document) for known in matching],
            situation,
            self._background,
        )
        verdict = self._combine([each for _, each in outputs])
        return self._limit_holds(verdict) if stops else verdict

    async def _run_for_call(
        self,
        event: HookEvent,
        call: ToolCall,
        summary: CallSummary,
        *,
        ask: str = "",
        response: ToolResponse | None = None,
    ) -> HookVerdict:
        if not self.has_hooks_for(event):
            return HookVerdict()
        situation = self._situation()
        matching = [
            known
            for known in self._hook_set.hooks
            if known.hook.event is event and _applies(known.hook, call, summary, situation.root)
        ]
        shown_to = {
            dialect: shown_calls(call, dialect, situation.root)
            for dialect in {known.hook.dialect for known in matching}
        }
        extra = {"ask": ask} if ask else {}

        def document(shown: ShownCall) -> bytes:
            response_part = response_fields(response, shown) if response else {}
            fields = {**call_fields(call, shown), **extra, **response_part}
            return encode(event_input(event, situation, fields))

        invocations = [
            Invocation(known, document(shown), at)
            for known in matching
            for at, shown in enumerate(shown_to[known.hook.dialect])
        ]
        outputs = await collect_answers(self._hook_set, invocations, situation, self._background)
        return self._combine(
            [
                _translate(each, call, shown_to[each.hook.dialect], invocation.at, situation.root)
                for invocation, each in outputs
            ]
        )

    def _combine(self, outputs: Sequence[HookOutput]) -> HookVerdict:
        short = [replace(each, answer=self._shorten(each.answer)) for each in outputs]
        verdict = combine(short, interactive=self._interactive)
        for warning in verdict.warnings:
            if warning not in self._notified:
                self._notified.add(warning)
                self._notify(warning)
        return verdict

    def _shorten(self, answer: HookAnswer) -> HookAnswer:
        new = answer.new_output
        return replace(
            answer,
            context=self._cut(answer.context, LONGEST_CONTEXT),
            new_output=None if new is None else self._cut(new, LONGEST_OUTPUT),
        )

    def _cut(self, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        place = self._hook_set.store_text(text)
        rest = f"; all of it is in {place}" if place else ""
        return f"{text[:most]}\n[{len(text) - most} more characters left out{rest}]"

    def _limit_holds(self, verdict: HookVerdict) -> HookVerdict:
        """Limit how often hooks can continue a turn."""
        if verdict.decision is not HookDecision.DENY:
            self._holds = 0
            return verdict
        self._holds += 1
        if self._holds <= MOST_HOLDS:
            return verdict
        self._holds = 0
        warning = f"Hooks continued the turn {MOST_HOLDS} times in a row; it ends now."
        self._notify(warning)
        return HookVerdict(code=BLOCKED, warnings=(*verdict.warnings, warning))


class Invocation(Struct, frozen=True):
    """One run of a hook. `at` is the index of the file of the call it is about."""

    known: KnownHook
    document: bytes
    at: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Invocations with equal keys run once."""
        hook = self.known.hook
        return hook.command, hook.args, hook.env, hook.background, self.document


async def collect_answers(
    hook_set: HookSet,
    invocations: Sequence[Invocation],
    situation: Situation,
    background: Callable[[Work], None] | None,
) -> list[tuple[Invocation, HookOutput]]:
    """Run hooks and return their answers in the order of the configuration. Background hooks
    only have an answer if they must not run."""
    runs: _Runs = {}
    refused: dict[KnownHook, str] = {}
    for known in dict.fromkeys(invocation.known for invocation in invocations):
        if why := await hook_set.why_not(known):
            refused[known] = why

    async def run(invocation: Invocation) -> None:
        runs[invocation.key] = await hook_set.run(
            invocation.known,
            invocation.document,
            task_id=situation.session_id,
            intent_id=situation.intent_id,
        )

    distinct: dict[tuple[object, ...], Invocation] = {}
    for invocation in invocations:
        if invocation.known not in refused:
            distinct.setdefault(invocation.key, invocation)
    await _run_all(list(distinct.values()), run, background)
    return [
        (
            invocation,
            HookOutput(hook=invocation.known.hook, answer=_answer(invocation, runs, refused)),
        )
        for invocation in invocations
        if invocation.known in refused or not invocation.known.hook.background
    ]


def _applies(hook: HookCommand, call: ToolCall, summary: CallSummary, root: str) -> bool:
    if not hook.matcher.matches(names_of(call)):
        return False
    if not hook.condition:
        return True
    rule = permission_rule(hook.condition)
    # better to run a guard needlessly than to skip it
    if rule.form is Form.COMMANDS and not summary.all_known:
        return call.name in rule.tools
    paths = touched_paths(call, root)
    return rule.touches(RuleCall(tool=call.name, paths=paths, commands=summary.commands))


def _translate(
    output: HookOutput, call: ToolCall, shown: Sequence[ShownCall], at: int, root: str
) -> HookOutput:
    """Translate the updated input. If that fails, the call is refused regardless of
    `on_failure`, because the hook did not want the original call to run."""
    updated = output.answer.updated_input
    if updated is None or output.answer.opinion >= HookOpinion.DENY:
        return output
    try:
        return replace(output, arguments=map_back(call, shown, at, updated, root))
    except CannotMap as error:
        blocking = replace(output.hook, on_failure=OnFailure.BLOCK)
        what = f"gave a new input that cannot be used: {error}"
        return replace(output, answer=failure_answer(blocking, FAILED, what))


async def _run_all(
    invocations: Sequence[Invocation], run: _Run, background: Callable[[Work], None] | None
) -> None:
    """Run hooks concurrently, except for sequential ones. Background hooks are not awaited."""
    in_turn = [
        each
        for each in invocations
        if each.known.hook.sequential and not each.known.hook.background
    ]

    async def run_in_turn() -> None:
        for invocation in in_turn:
            await run(invocation)

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_turn)
        for invocation in invocations:
            if invocation.known.hook.background and background:
                background(partial(run, invocation))
            elif invocation not in in_turn:
                group.start_soon(run, invocation)


def _answer(invocation: Invocation, runs: _Runs, refused: Mapping[KnownHook, str]) -> HookAnswer:
    if invocation.known in refused:
        answer = untrusted_answer(invocation.known.hook, refused[invocation.known])
        background = invocation.known.hook.background
        return HookAnswer(warning=answer.warning) if background else answer
    return parse_answer(invocation.known.hook, runs[invocation.key])
