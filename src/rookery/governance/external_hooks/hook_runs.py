"""Runs the hooks that match an event and combines their answers.

Hooks can refuse, ask and rewrite. An allow never overrides a refusal. A rewritten call is judged
again by all other rules, because hooks run before the call is prepared. Hook files are read once
per task, so deleting a hook during a task does not disable it.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_answers import (
    BLOCKED,
    FAILED,
    UNTRUSTED,
    HookAnswer,
    HookDecision,
    HookRun,
    HookVerdict,
    combine,
    failure_answer,
    parse_answer,
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
from rookery.governance.external_hooks.hook_runner import HookRunner
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.scope.permission_rules import Form, RuleCall, permission_rule
from rookery.platform.disk import put

MOST_HOLDS = 8
"""How often in a row hooks may continue a turn that the model has ended."""
LONGEST_CONTEXT = 10_000
"""Characters of one hook's context that the model gets."""
LONGEST_OUTPUT = 100_000
"""Characters of a result replaced by a hook."""
LONG_CONTEXTS = "hook_context"
Work: TypeAlias = Callable[[], Awaitable[None]]


Commands: TypeAlias = tuple[tuple[str, ...], ...] | None
"""The words of each simple command of a call; None if there may be others."""


class ExternalHooks:
    """The hooks of one task. `notify` shows a line to the user; `background` starts work without
    waiting for it (without it, background hooks are awaited). `state` is the folder for texts too
    long for the model, if any. `on_run` gets the input and the end of every run."""

    def __init__(
        self,
        hooks: Sequence[KnownHook],
        trust: HookTrust,
        runner: HookRunner,
        *,
        situation: Callable[[], Situation],
        notify: Callable[[str], None],
        interactive: bool,
        background: Callable[[Work], None] | None = None,
        state: Path | None = None,
        on_run: Callable[[KnownHook, bytes, HookRun], None] = lambda *run: None,
    ) -> None:
        self._hooks = hooks
        self._on_run = on_run
        self._trust = trust
        self._runner = runner
        self._state = state
        self._situation = situation
        self._notify = notify
        self._interactive = interactive
        self._background = background
        self._holds = 0
        self._notified: set[str] = set()

    def has_hooks_for(self, *events: HookEvent) -> bool:
        """Whether any hook is for one of the events; if not, callers need not prepare input."""
        return any(known.hook.event in events for known in self._hooks)

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
            for known in self._hooks
            if known.hook.event is event
            and (not uses_matcher(event) or known.hook.matcher.matches(names))
        ]
        found = await self._answers([Invocation(known, document) for known in matching], situation)
        verdict = self._combine([answer for _, answer in found])
        return self._limit_holds(verdict) if stops else verdict

    async def for_call(
        self,
        event: HookEvent,
        call: ToolCall,
        commands: Commands = None,
        *,
        ask: str = "",
        response: ToolResponse | None = None,
    ) -> HookVerdict:
        """Run the hooks of an event about a call. An allow only counts if nothing else objects.
        `ask` is what the user would be asked."""
        if not self.has_hooks_for(event):
            return HookVerdict()
        situation = self._situation()
        matching = [
            known
            for known in self._hooks
            if known.hook.event is event and _applies(known.hook, call, commands, situation.root)
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
        answers = [
            _translate(answer, made, call, shown_to[made.known.hook.dialect], situation.root)
            for made, answer in await self._answers(invocations, situation)
        ]
        return self._combine(answers)

    async def _answers(
        self, invocations: Sequence["Invocation"], situation: Situation
    ) -> "list[tuple[Invocation, HookAnswer]]":
        """Run hooks and return their answers in the order of the configuration. Background hooks
        only have an answer if they must not run."""
        refused: dict[KnownHook, str] = {}
        for known in dict.fromkeys(each.known for each in invocations):
            if why := await anyio.to_thread.run_sync(self._trust.why_not, known):
                refused[known] = why
        distinct: dict[tuple[object, ...], Invocation] = {}
        for each in invocations:
            if each.known not in refused:
                distinct.setdefault(each.key, each)
        runs = await self._run_all(list(distinct.values()), situation)
        return [
            (each, replace(_answer(each, runs, refused), name=each.known.hook.name))
            for each in invocations
            if each.known in refused or not each.known.hook.background
        ]

    async def _run_all(
        self, invocations: Sequence["Invocation"], situation: Situation
    ) -> dict[tuple[object, ...], HookRun]:
        """Run hooks concurrently, except for sequential ones. Background hooks are not awaited."""
        runs: dict[tuple[object, ...], HookRun] = {}

        async def run(*some: Invocation) -> None:
            for each in some:
                runs[each.key] = await self._runner.run(
                    each.known.hook,
                    each.document,
                    task_id=situation.session_id,
                    intent_id=situation.intent_id,
                )
                self._on_run(each.known, each.document, runs[each.key])

        in_turn = []
        async with anyio.create_task_group() as group:
            for each in invocations:
                if each.known.hook.background and self._background:
                    self._background(partial(run, each))
                elif each.known.hook.sequential and not each.known.hook.background:
                    in_turn.append(each)
                else:
                    group.start_soon(run, each)
            group.start_soon(run, *in_turn)
        return runs

    def _combine(self, answers: Sequence[HookAnswer]) -> HookVerdict:
        verdict = combine([self._shorten(each) for each in answers], interactive=self._interactive)
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
        place = self._store_text(text)
        rest = f"; all of it is in {place}" if place else ""
        return f"{text[:most]}\n[{len(text) - most} more characters left out{rest}]"

    def _store_text(self, text: str) -> str:
        """Store a long text. Returns its path, or an empty string if that failed."""
        if self._state is None:
            return ""
        data = text.encode("utf-8", "replace")
        folder = self._state / LONG_CONTEXTS
        path = folder / f"{sha256(data).hexdigest()[:16]}.txt"
        if os.path.realpath(folder) != str(folder):  # the agent could create a symlink there
            return ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            put(path, [data], durable=False)
        except OSError:
            return ""
        return str(path)

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


def _applies(hook: HookCommand, call: ToolCall, commands: Commands, root: str) -> bool:
    if not hook.matcher.matches(names_of(call)):
        return False
    if not hook.condition:
        return True
    rule = permission_rule(hook.condition)
    # better to run a guard needlessly than to skip it
    if rule.form is Form.COMMANDS and commands is None:
        return call.name in rule.tools
    paths = touched_paths(call, root)
    return rule.touches(RuleCall(tool=call.name, paths=paths, commands=commands or ()))


def _translate(
    answer: HookAnswer, made: Invocation, call: ToolCall, shown: Sequence[ShownCall], root: str
) -> HookAnswer:
    """Translate the updated input. If that fails, the call is refused regardless of
    `on_failure`, because the hook did not want the original call to run."""
    updated = answer.updated_input
    if updated is None or answer.decision.refuses:
        return answer
    try:
        return replace(answer, arguments=map_back(call, shown, made.at, updated, root))
    except CannotMap as error:
        blocking = replace(made.known.hook, on_failure=OnFailure.BLOCK)
        what = f"gave a new input that cannot be used: {error}"
        return replace(failure_answer(blocking, FAILED, what), name=answer.name)


def _answer(
    made: Invocation,
    runs: Mapping[tuple[object, ...], HookRun],
    refused: Mapping[KnownHook, str],
) -> HookAnswer:
    hook = made.known.hook
    if made.known not in refused:
        return parse_answer(hook, runs[made.key])
    answer = failure_answer(hook, UNTRUSTED, f"was not run: {refused[made.known]}")
    return HookAnswer(warning=answer.warning) if hook.background else answer
