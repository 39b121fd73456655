"""A task: a log, and a loop that keeps asking what to do next and does it."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import anyio

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.condensing import cut_point
from rookery.core.facts import (
    Answered,
    CommandEnded,
    Effect,
    Event,
    Fact,
    HistoryRepaired,
    Noted,
    Pausing,
    Reminded,
    Rewound,
    StepCancelled,
    TaskClosed,
    ToolFinished,
    Truncated,
)
from rookery.core.file_steps import commands_running_on
from rookery.core.hiding import Hiding
from rookery.core.history import history
from rookery.core.limits import Limits
from rookery.core.next_step import (
    Ask,
    CallModel,
    Close,
    Reconcile,
    Remind,
    Repair,
    RunTool,
    Shorten,
    Skip,
    Step,
    Stop,
    next_step,
)
from rookery.core.replies import HISTORY_REPAIRED, HISTORY_SHORTENED, failed
from rookery.core.shell.judgement import Judgement
from rookery.core.values import value
from rookery.engine.background import BackgroundCommands
from rookery.engine.dialogue import Dialogue
from rookery.engine.event_log import EventLog
from rookery.engine.gate import Gate
from rookery.engine.model_turn import model_turn
from rookery.engine.ports import (
    Artifacts,
    Checkpoints,
    Clock,
    CommandList,
    Files,
    Finder,
    Hook,
    ModelRequest,
    Offer,
    Provider,
    RuleBook,
    Shell,
    Tool,
    ToolContext,
    ToolSpec,
)
from rookery.engine.reconcile import reconcile
from rookery.engine.tool_turn import tool_turn
from rookery.engine.undo import Undo


@value
class Gear:
    """What a task works with, put together once by the composition root."""

    provider: Provider
    tools: Mapping[str, Tool[Any]]
    specs: Sequence[ToolSpec]
    system: Callable[[str], str]
    """A mode's system prompt."""
    hooks: Sequence[Hook]
    rules: RuleBook
    checkpoints: Checkpoints
    shielded: Callable[[Sequence[Effect], Collection[str]], Sequence[str]]
    """Which files a command must not have changed without anybody having been asked: all that
    it did, and the files about which somebody was."""
    judge: Callable[[str, str], Judgement]
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    command_list: CommandList
    settle: Callable[[], Coroutine[Any, Any, None]]
    """To be done whenever a command has ended of which nobody had seen the end."""
    clock: Clock
    new_id: Callable[[], str]
    spread: Callable[[float], float]
    """Draws the wait before a retry from its upper bound, so that clients do not return in step."""
    limits: Limits
    hide: Hiding = Hiding()
    """Takes the secrets that are in use out of what tools return."""


class Task:
    def __init__(self, task_id: str, log: EventLog, gear: Gear) -> None:
        self.id = task_id
        self.log = log
        self.dialogue = Dialogue(log, gear.new_id, gear.hide)
        self._gear = gear
        self._gate = Gate(gear.hooks, self.dialogue, gear.rules)
        self._undo = Undo(
            log,
            gear.checkpoints,
            shielded=gear.shielded,
            start_soon=lambda work: self._beside.start_soon(work),
        )
        self._background = BackgroundCommands(lambda work: self._beside.start_soon(work))
        self._step = anyio.CancelScope()
        self._errands: list[Callable[[], Awaitable[object]]] = []
        self._hurry = anyio.Event()

    async def run(self) -> None:
        """Work until there is nothing left to do. What was left running ends with the task."""
        try:
            async with anyio.create_task_group() as self._beside:
                await self._undo.recover()
                while not isinstance(step := await self._next(), Stop):
                    with anyio.CancelScope() as self._step:
                        await self._take(step)
                self._beside.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._gear.settle()

    def cancel(self) -> None:
        """Stop the step under way. The task then asks whether to go on."""
        self._interrupt(self._noting(StepCancelled()))

    def close(self) -> None:
        self._interrupt(self._close)

    def rewind(self, to: int) -> None:
        self._interrupt(self._noting(Rewound(to=to)))

    def restore_files(self, to: int, *, overwrite: bool) -> None:
        self._interrupt(partial(self._undo.restore, to, overwrite=overwrite))

    def stop_command(self, call_id: str) -> None:
        """End a command that runs on behind its call."""
        self._background.stop(call_id)

    def hurry(self) -> None:
        """Do not wait any longer for the next try."""
        self._hurry.set()

    def _interrupt(self, errand: Callable[[], Awaitable[object]]) -> None:
        """End the step under way; once it has ended, do something before the next."""
        self._errands.append(errand)
        self._step.cancel()

    def _noting(self, fact: Fact) -> Callable[[], Awaitable[object]]:
        async def note() -> None:
            self.log.append(fact)

        return note

    async def _close(self) -> None:
        """The end of a task is its last word: what calls did to files is on record by then."""
        await self._undo.settled()
        for call_id, command in commands_running_on(self.log.events).items():
            if self._background.ends_with_task(call_id):
                self.log.append(Noted(text=f"Ended with the task: {command}"))
        self.log.append(TaskClosed())

    async def _next(self) -> Step:
        while self._errands and not self.log.state.closed:
            await self._errands.pop(0)()
        return next_step(self.log.state, self._gear.limits)

    async def _take(self, step: Step) -> None:
        match step:
            case CallModel():
                await self._call_model(step)
            case RunTool(call):
                await self._run_tool(call)
            case Skip(call, text, ending):
                self.log.append(ToolFinished(call_id=call.id, text=failed(text), ending=ending))
            case Reconcile(call):
                await self._reconcile(call)
            case Ask(AskKind.COMPLETION_RESULT):
                await self._ask_whether_done(step)
            case Ask(ask, text):
                await self.dialogue.ask(ask, text)
            case Remind(text, mistake):
                self.log.append(Reminded(text=text, mistake=mistake))
            case Shorten():
                self.log.append(Noted(text=HISTORY_SHORTENED))
                self.log.append(Truncated(upto=cut_point(self.log.events)))
            case Repair():
                self.log.append(Noted(text=HISTORY_REPAIRED))
                self.log.append(HistoryRepaired(upto=self.log.events[-1].seq))
            case Close():
                await self._close()
            case Stop():
                pass
            case _:
                assert_never(step)

    async def _ask_whether_done(self, step: Ask) -> None:
        """Once it is known what calls did to files, and unless something came up meanwhile."""
        await self._undo.settled()
        if next_step(self.log.state, self._gear.limits) == step:
            await self.dialogue.ask(step.ask, step.text)

    async def _call_model(self, step: CallModel) -> None:
        gear = self._gear
        if step.delay:
            wait = step.delay if step.named_by_server else gear.spread(step.delay)
            await self._pause(wait, step.reason)
        request = ModelRequest(
            system=gear.system(self.log.state.mode),
            turns=history(self.log.events),
            tools=gear.specs,
            max_output=gear.provider.model.max_output,
            cache_key=self.id,
        )
        await model_turn(
            self.log,
            gear.provider,
            request,
            new_id=gear.new_id,
            attempt=step.attempt,
            largest_arguments=gear.limits.arguments_bytes,
        )

    async def _pause(self, seconds: float, reason: str) -> None:
        self._hurry = anyio.Event()
        self.log.append(Pausing(seconds=seconds, reason=reason))
        await self._gear.clock.wait(self._hurry, seconds)

    async def _run_tool(self, call: ToolCall) -> None:
        gear = self._gear
        ctx = ToolContext(
            call_id=call.id,
            files=gear.files,
            finder=gear.finder,
            shell=gear.shell,
            artifacts=gear.artifacts,
            append=self._append,
            ask=partial(self._ask_for, call),
            limits=gear.limits,
            judge=gear.judge,
            offer=partial(self._offer_for, call),
            background=self._background,
            command_list=gear.command_list,
            sees_images=gear.provider.model.images,
        )
        await tool_turn(
            call,
            log=self.log,
            gate=self._gate,
            undo=self._undo,
            tools=gear.tools,
            ctx=ctx,
            hide=gear.hide,
        )

    def _append(self, fact: Fact) -> Event:
        if isinstance(fact, CommandEnded):
            self._undo.settle_soon(fact.call_id)
            self._beside.start_soon(self._gear.settle)
        return self.log.append(fact)

    def _offer_for(
        self, call: ToolCall, ask: AskKind, text: str, hear: Callable[[], None]
    ) -> Offer:
        return self.dialogue.offer(ask, text, call_id=call.id, hear=hear)

    async def _ask_for(self, call: ToolCall, ask: AskKind, text: str) -> Answered:
        return await self.dialogue.ask(ask, text, call_id=call.id)

    async def _reconcile(self, call: ToolCall) -> None:
        started = self.log.state.running
        assert started
        assert started.call_id == call.id
        self.log.append(await reconcile(started, self._gear.files))
