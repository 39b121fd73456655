"""The user's programs around a call: runs those an event concerns and joins their answers.

They can refuse, ask and rewrite. An allow of theirs outweighs no refusal, and what they rewrite is
judged again by everything else, because they run before the call is prepared.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_answers import (
    BLOCKED,
    FAILED,
    HookAnswer,
    HookOpinion,
    HookRun,
    answer_of,
    failure,
    untrusted,
)
from rookery.governance.external_hooks.hook_calls import (
    CannotMap,
    Presented,
    Situation,
    ToolResponse,
    call_fields,
    encoded,
    event_input,
    heeds_matcher,
    mapped_back,
    matched_names,
    names_of,
    presented,
    response_fields,
    touched_paths,
)
from rookery.governance.external_hooks.hook_config import HookCommand, HookEvent, OnFailure
from rookery.governance.external_hooks.hook_files import KnownHook
from rookery.governance.external_hooks.hook_verdict import (
    HookDecision,
    HookOutput,
    HookVerdict,
    joined,
)
from rookery.governance.scope.permission_rules import Form, RuleCall, permission_rule

MOST_HOLDS = 8
"""How often in a row hooks may keep a turn going that the model has ended."""
LONGEST_CONTEXT = 10_000
"""Characters of one hook's text that the model is given."""
LONGEST_OUTPUT = 100_000
"""Characters of what a hook puts in the place of a result."""
Work: TypeAlias = Callable[[], Awaitable[None]]
_Run: TypeAlias = Callable[["Invocation"], Coroutine[Any, Any, None]]
_Runs: TypeAlias = dict[tuple[object, ...], HookRun]


class CallSummary(Struct, frozen=True, kw_only=True):
    """What is known of a call beside its arguments. `commands` are the words of every simple
    command; unless `all_known` there may be others."""

    commands: tuple[tuple[str, ...], ...] = ()
    all_known: bool = False


_NOTHING_KNOWN = CallSummary()


class RunnableHooks(Protocol):
    """The hooks that there are, and running them."""

    @property
    def hooks(self) -> Sequence[KnownHook]: ...

    async def why_not(self, known: KnownHook) -> str:
        """Why it must not run; empty if it may."""
        ...

    async def run(
        self, known: KnownHook, document: bytes, *, task_id: str, intent_id: str
    ) -> HookRun: ...

    def keep(self, text: str) -> str:
        """Where a text that is too long for the model can be read; empty if nowhere."""
        ...


class ExternalHooks:
    """The hooks of one task. `situation` says how things stand, `tell` shows a line to the person,
    and `background` takes what nobody waits for; without it, it is waited for."""

    def __init__(
        self,
        runnable: RunnableHooks,
        *,
        situation: Callable[[], Situation],
        tell: Callable[[str], None],
        interactive: bool,
        background: Callable[[Work], None] | None = None,
    ) -> None:
        self._runnable = runnable
        self._situation = situation
        self._tell = tell
        self._interactive = interactive
        self._background = background
        self._holds = 0
        self._told: set[str] = set()

    def any_for(self, *events: HookEvent) -> bool:
        """Whether anybody wants to hear of them. Where nobody does, nothing need be worked out."""
        return any(known.hook.event in events for known in self._runnable.hooks)

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

    def begin_turn(self) -> None:
        """The user spoke: nothing was held open yet since."""
        self._holds = 0

    async def event(self, name: HookEvent | str, fields: Mapping[str, Any]) -> HookVerdict:
        """Anything that is not about a tool. For `Stop` a denial means that the turn goes on, with
        the reason as what the model is told."""
        event = HookEvent(name)
        if not self.any_for(event):
            return HookVerdict()
        stops = event in (HookEvent.STOP, HookEvent.SUBAGENT_STOP)
        held = {"stop_hook_active": self._holds > 0} if stops else {}
        situation = self._situation()
        document = encoded(event_input(event, situation, {**fields, **held}))
        names = matched_names(event, fields)
        concerned = [
            known
            for known in self._runnable.hooks
            if known.hook.event is event
            and (not heeds_matcher(event) or known.hook.matcher.fits(names))
        ]
        heard = await collect_answers(
            self._runnable,
            [Invocation(known, document) for known in concerned],
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
            for known in self._runnable.hooks
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

        invocations = [
            Invocation(known, document(shown), at)
            for known in concerned
            for at, shown in enumerate(shown_to[known.hook.dialect])
        ]
        heard = await collect_answers(self._runnable, invocations, situation, self._background)
        return self._joined(
            [
                _rewritten(each, call, shown_to[each.hook.dialect], invocation.at, situation.root)
                for invocation, each in heard
            ]
        )

    def _joined(self, heard: Sequence[HookOutput]) -> HookVerdict:
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
        place = self._runnable.keep(text)
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
        warning = f"Hooks continued the turn {MOST_HOLDS} times in a row; it ends now."
        self._tell(warning)
        return HookVerdict(code=BLOCKED, warnings=(*verdict.warnings, warning))


class Invocation(Struct, frozen=True):
    """One hook, and what it is told. `at` is which of the files of a call it is about."""

    known: KnownHook
    document: bytes
    at: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Those with the same are run once."""
        hook = self.known.hook
        return hook.command, hook.args, hook.env, hook.background, self.document


async def collect_answers(
    runnable: RunnableHooks,
    invocations: Sequence[Invocation],
    situation: Situation,
    background: Callable[[Work], None] | None,
) -> list[tuple[Invocation, HookOutput]]:
    """The answers in the order of the configuration, whoever was quicker. Who runs in the
    background has none, but it is told if it does not run."""
    runs: _Runs = {}
    refused: dict[KnownHook, str] = {}
    for known in dict.fromkeys(invocation.known for invocation in invocations):
        if why := await runnable.why_not(known):
            refused[known] = why

    async def run(invocation: Invocation) -> None:
        runs[invocation.key] = await runnable.run(
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
    heard: HookOutput, call: ToolCall, shown: Sequence[Presented], at: int, root: str
) -> HookOutput:
    """With the new input as arguments of ours. What is none refuses the call, whatever the hook
    wants done about failures: it wanted something else to be run than what would be."""
    updated = heard.answer.updated_input
    if updated is None or heard.answer.opinion >= HookOpinion.DENY:
        return heard
    try:
        return replace(heard, arguments=mapped_back(call, shown, at, updated, root))
    except CannotMap as error:
        blocking = replace(heard.hook, on_failure=OnFailure.BLOCK)
        what = f"gave a new input that cannot be used: {error}"
        return replace(heard, answer=failure(blocking, FAILED, what))


async def _run_all(
    invocations: Sequence[Invocation], run: _Run, background: Callable[[Work], None] | None
) -> None:
    """All at once, but for those who wait for each other, and those nobody waits for."""
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
        answer = untrusted(invocation.known.hook, refused[invocation.known])
        background = invocation.known.hook.background
        return HookAnswer(warning=answer.warning) if background else answer
    return answer_of(invocation.known.hook, runs[invocation.key])
