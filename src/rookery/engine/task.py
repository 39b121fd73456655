"""A task: a log, and a loop that keeps asking what to do next and does it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import anyio

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.condensing import cut_point
from rookery.core.facts import (
    Answered,
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
from rookery.core.values import value
from rookery.engine.dialogue import Dialogue
from rookery.engine.event_log import EventLog
from rookery.engine.gate import Gate
from rookery.engine.model_turn import model_turn
from rookery.engine.ports import (
    Artifacts,
    Clock,
    Files,
    Finder,
    Hook,
    ModelRequest,
    Provider,
    Shell,
    Tool,
    ToolContext,
    ToolSpec,
)
from rookery.engine.reconcile import reconcile
from rookery.engine.tool_turn import tool_turn


@value
class Gear:
    """What a task works with, put together once by the composition root."""

    provider: Provider
    tools: Mapping[str, Tool[Any]]
    specs: Sequence[ToolSpec]
    system: Callable[[str], str]
    """A mode's system prompt."""
    hooks: Sequence[Hook]
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    clock: Clock
    new_id: Callable[[], str]
    spread: Callable[[float], float]
    """Draws the wait before a retry from its upper bound, so that clients do not return in step."""
    limits: Limits


class Task:
    def __init__(self, task_id: str, log: EventLog, gear: Gear) -> None:
        self.id = task_id
        self.log = log
        self.dialogue = Dialogue(log, gear.new_id)
        self._gear = gear
        self._gate = Gate(gear.hooks, self.dialogue)
        self._step = anyio.CancelScope()
        self._last_words: list[Fact] = []
        self._hurry = anyio.Event()

    async def run(self) -> None:
        """Work until there is nothing left to do."""
        while not isinstance(step := self._next(), Stop):
            with anyio.CancelScope() as self._step:
                await self._take(step)

    def cancel(self) -> None:
        """Stop the step under way. The task then asks whether to go on."""
        self._interrupt(StepCancelled())

    def close(self) -> None:
        self._interrupt(TaskClosed())

    def rewind(self, to: int) -> None:
        self._interrupt(Rewound(to=to))

    def hurry(self) -> None:
        """Do not wait any longer for the next try."""
        self._hurry.set()

    def _interrupt(self, last_word: Fact) -> None:
        """End the step under way; once it has ended, put on record why."""
        self._last_words.append(last_word)
        self._step.cancel()

    def _next(self) -> Step:
        while self._last_words:
            self.log.append(self._last_words.pop(0))
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
                self.log.append(TaskClosed())
            case Stop():
                pass
            case _:
                assert_never(step)

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
            append=self.log.append,
            ask=partial(self._ask_for, call),
            limits=gear.limits,
            sees_images=gear.provider.model.images,
        )
        await tool_turn(call, log=self.log, gate=self._gate, tools=gear.tools, ctx=ctx)

    async def _ask_for(self, call: ToolCall, ask: AskKind, text: str) -> Answered:
        return await self.dialogue.ask(ask, text, call_id=call.id)

    async def _reconcile(self, call: ToolCall) -> None:
        started = self.log.state.running
        assert started
        assert started.call_id == call.id
        self.log.append(await reconcile(started, self._gear.files))
