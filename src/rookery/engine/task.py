"""A task: a log, and a loop that asks `next_step` what to do and does it."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, assert_never

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.commands import Command
from rookery.core.facts import (
    AgentTask,
    CommandEnded,
    CompletionOffered,
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
    switched_to,
)
from rookery.core.next_step import (
    Ask,
    CallModel,
    Close,
    Complete,
    FallBack,
    Gather,
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
from rookery.core.replies import HISTORY_REPAIRED, failed, fell_back
from rookery.core.undo_plan import background_commands
from rookery.engine.context import Context
from rookery.engine.dialogue import Dialogue, Prompts
from rookery.engine.event_log import EventLog, level_after_rewind, outcome_of, resume_message
from rookery.engine.gate import Gate
from rookery.engine.model_turn import Turnstile, WorkTime, model_turn
from rookery.engine.ports.actions import Outcome
from rookery.engine.ports.hooks import Acting, SessionHook
from rookery.engine.ports.tool import ChildTask, ToolContext
from rookery.engine.ports.workspace import Restored
from rookery.engine.task_deps import BackgroundCommands, Family, TaskDeps
from rookery.engine.tool_turn import finished, gathered, own_action, reconcile, tool_turn
from rookery.engine.undo import Undo

if TYPE_CHECKING:
    from rookery.engine.children import SubTasks

MENTION = "mention"
"""The tool name that hooks see when mentions in a message are resolved."""


class Task:
    def __init__(self, task_id: str, log: EventLog, deps: TaskDeps, family: Family) -> None:
        self.id, self.new_id = task_id, deps.new_id
        self._family = family
        self.log = log
        self._work = WorkTime(deps.clock.now)
        self._hooks = list(deps.hooks)
        self._session_hooks: list[SessionHook] = []
        self._prompts = Prompts(log, self._session_hooks, deps.new_id)
        self.dialogue = Dialogue(
            log,
            deps.new_id,
            deps.hide,
            pause=self._work.paused,
            prompts=self._prompts,
            asking=family.asking,
            agent=family.agent,
        )
        self._deps, self.rules = deps, deps.rules
        self._gate = Gate(self._hooks, self.dialogue, deps.rules)
        self._undo = Undo(
            log,
            deps.checkpoints,
            shielded=deps.shielded,
            checked_out=deps.checked_out,
            start_soon=lambda work: self._background_group.start_soon(work),
            hooks=self._session_hooks,
        )
        self._act = partial(own_action, gate=self._gate, undo=self._undo)
        within = partial(own_action, gate=Gate(deps.hooks, self.dialogue, deps.rules), undo=None)
        self._acting = Acting(self._act, within, self._tool_context)
        self._checks = deps.edit_checks(self._acting)
        self._background = BackgroundCommands(lambda work: self._background_group.start_soon(work))
        self._context = Context(
            log,
            lambda: deps.equip(log.state),
            lambda: deps.details(log),
            deps.cache_key,
            hooks=self._session_hooks,
            turnstile=Turnstile(self._keep_pace, self._note_request),
        )
        self._step = anyio.CancelScope()
        self._jobs: list[Callable[[], Awaitable[object]]] = []
        self._retry_now = anyio.Event()

    async def attend(self, call_id: str, child: ChildTask) -> Outcome:
        with self._work.paused():  # the child counts its own time
            async with self._undo.paused():
                return outcome_of(await self._children.attend(call_id, child))

    async def attend_all(
        self, call_id: str, agents: Sequence[AgentTask], *, stop: bool = False
    ) -> Outcome:
        with self._work.paused():
            return await self._children.attend_all(call_id, agents, self._deps, stop=stop)

    @cached_property
    def _children(self) -> "SubTasks":
        from rookery.engine.children import SubTasks

        return SubTasks(self._family, self.id, self.log)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a message and runs no background command."""
        return self.dialogue.only_awaits_message and not self._background.any_runs

    async def recover(self) -> None:
        """Determine what became of the work in progress when the process died."""
        await self._undo.recover()

    async def run(self) -> None:
        """Run until there is nothing left to do. Background commands end with the task."""
        try:
            async with anyio.create_task_group() as self._background_group:
                found = self._deps.find_hooks()
                self._hooks[:0], self._session_hooks[:] = found.calls, found.session
                for hook in found.session:
                    await hook.begin()
                await self._undo.report_recovered()
                while not isinstance(step := await self._next(), Stop):
                    with anyio.CancelScope() as self._step:
                        await self._perform(step)
                self._background_group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._deps.settle()
                await self._undo.settle_rest()
                for hook in reversed(self._session_hooks):
                    await hook.end()
                if self.log.started_agents():
                    await self._children.release(self._deps.worktrees)
                await self._deps.on_task_closed()

    def cancel(self) -> None:
        """Cancel the current step. The task then asks whether to continue."""
        self._interrupt(self._note_cancelled)

    def condense(self) -> None:
        self._run_soon(self._condense)

    async def _condense(self) -> None:
        with anyio.CancelScope() as self._step:  # it asks the model, and that can be stopped
            await self._context.condense("manual")

    def carry_out(self, command: Command) -> None:
        self._run_soon(partial(self._deps.carry_out, command))

    def close(self) -> None:
        self._interrupt(self._close)

    def rewind(self, to: int) -> None:
        self._interrupt(partial(self._rewind, to))

    def restore_files(self, to: int, *, overwrite: bool) -> None:
        self._interrupt(partial(self._undo.restore, to, overwrite=overwrite))

    async def rehearse(self, to: int, *, overwrite: bool) -> Restored:
        return await self._undo.rehearse(to, overwrite=overwrite)

    def stop_command(self, call_id: str) -> None:
        self._background.stop(call_id)

    def retry_now(self) -> None:
        self._retry_now.set()

    def _run_soon(self, job: Callable[[], Awaitable[object]]) -> None:
        """Run a job after the current step, or at once if that only waits for an answer."""
        self._jobs.append(job)
        if self.dialogue.waiting:
            self._step.cancel()

    def _interrupt(self, job: Callable[[], Awaitable[object]]) -> None:
        """Cancel the current step and run a job before the next one."""
        self._jobs.append(job)
        self._step.cancel()

    async def _rewind(self, to: int) -> None:
        """Rewinding does not bring back a level that was left since."""
        level = level_after_rewind(self.log.events, to, self.log.state.level)
        self.log.append(Rewound(to=to))
        if self.log.state.level != level:
            self.log.append(switched_to(level))

    async def _note_cancelled(self) -> None:
        self.log.append(StepCancelled())

    async def _close(self, step: Close = Close()) -> None:  # noqa: B008 (it never changes)
        """Record all file changes first: nothing may follow the end of a task."""
        await self._undo.settled()
        for call_id, command in background_commands(self.log.events).items():
            if self._background.ends_with_task(call_id):
                self.log.append(Noted(text=f"Ended with the task: {command}"))
        self.log.append(TaskClosed(fate=step.fate, reason=step.reason))

    async def _next(self) -> Step:
        while self._jobs and not self.log.state.closed:
            await self._jobs.pop(0)()
        await self._check_new_messages()
        state = self._family.counted(self.log.state, self._work.seconds)
        return next_step(state, self._deps.limits, self._deps.turn)

    async def _check_new_messages(self) -> None:
        """Let hooks check new messages before the model sees them. Can be cancelled."""
        if self.log.state.closed or not self._prompts.waiting:
            return
        with anyio.CancelScope() as self._step:
            await self._prompts.check_all()
        while self._jobs and not self.log.state.closed:
            await self._jobs.pop(0)()

    async def _perform(self, step: Step) -> None:
        match step:
            case CallModel():
                await self._call_model(step)
            case RunTool(call):
                await self._run_tool(call)
            case Skip(call, text, ending):
                self.log.append(ToolFinished(call_id=call.id, text=failed(text), ending=ending))
            case Reconcile(call):
                await self._reconcile(call)
            case Ask(AskKind.COMPLETION_RESULT, text):
                if await self._is_done(step):
                    await self.dialogue.ask(step.ask, text, plan=self.log.state.proposed)
            case Ask(ask, text):
                await self.dialogue.ask(ask, text)
            case Gather(text):
                await self._gather(text)
            case Remind(text, mistake, nudge):
                self.log.append(Reminded(text=text, mistake=mistake, nudge=nudge))
            case Complete(result):
                self.log.append(CompletionOffered(result=result, spoken=True))
            case Shorten(message):
                if not await self._context.cut_without_summary() and not self.log.state.interrupted:
                    await self.dialogue.ask(AskKind.API_REQ_FAILED, message)
            case Repair():
                self.log.append(Noted(text=HISTORY_REPAIRED))
                self.log.append(HistoryRepaired(upto=self.log.events[-1].seq))
            case FallBack(place):
                to = self._deps.fall_back(place)
                self.log.append(Noted(text=fell_back(self.log.state.model, to)))
                self.log.append(to)
            case Close():
                await self._close_if_done(step)
            case Stop():
                pass
            case _:
                assert_never(step)

    async def _is_done(self, step: Step) -> bool:
        """Whether the step is still the next one after file changes were recorded and criteria
        checked."""
        await self._undo.settled()
        await self._check_work()
        return next_step(self.log.state, self._deps.limits, self._deps.turn) == step

    async def _close_if_done(self, step: Close) -> None:
        """Close a sub-task, unless a criteria check finds its work incomplete."""
        state = self.log.state
        if state.parent and state.completion is not None and not state.over:
            await self._check_work()
        again = next_step(self.log.state, self._deps.limits, self._deps.turn)
        if isinstance(again, Close) or step.fate:
            await self._close(step)

    async def _check_work(self) -> None:
        await self._checks.end_turn()
        if self.log.state.unchecked:
            for hook in reversed(self._session_hooks):
                await hook.end_turn(self._acting)

    async def _call_model(self, step: CallModel) -> None:
        deps = self._deps
        if step.delay:
            wait = step.delay if step.named_by_server else deps.jitter(step.delay)
            await self._pause(max(wait, deps.pace.left(deps.clock.now())), step.reason)
        else:
            await self._keep_pace()
        ready = await self._context.request()
        if ready is None or self._prompts.waiting:
            return
        provider, request = ready
        self._note_request()
        await model_turn(
            self.log,
            provider,
            request,
            new_id=deps.new_id,
            attempt=step.attempt,
            size=self._context.size,
            seconds=self._work.lap(),
            largest_arguments=deps.limits.arguments_bytes,
            details=self._context.details,
        )

    async def _keep_pace(self) -> None:
        if left := self._deps.pace.take(self._deps.clock.now()):
            await self._pause(left, paced=True)

    def _note_request(self) -> None:
        self._deps.pace.sent(self._deps.clock.now())

    async def _pause(self, seconds: float, reason: str = "", *, paced: bool = False) -> None:
        self._retry_now = anyio.Event()
        self.log.append(Pausing(seconds=seconds, reason=reason, paced=paced))
        await self._deps.clock.wait(self._retry_now, seconds)

    async def _gather(self, text: str) -> None:
        call = ToolCall(id=f"mention-{self._deps.new_id()}", name=MENTION)
        found = self._deps.gather(text, self._tool_context(call), partial(self._act, call))
        self.log.append(await gathered(found, self._deps.hide, self.dialogue.note))

    async def _run_tool(self, call: ToolCall) -> None:
        await tool_turn(
            self._deps.resolve_alias(call),
            log=self.log,
            gate=self._gate,
            undo=self._undo,
            tools=self._deps.tools(),
            ctx=self._tool_context(call),
            hide=self._deps.hide,
            checks=self._checks,
        )

    def _tool_context(self, call: ToolCall) -> ToolContext:
        deps = self._deps
        return ToolContext(
            call_id=call.id,
            files=deps.files,
            finder=deps.finder,
            shell=deps.shell,
            artifacts=deps.artifacts,
            append=self._append,
            ask=partial(self.dialogue.ask, call_id=call.id),
            limits=deps.limits,
            judge=deps.judge,
            offer=lambda ask, text, then: self.dialogue.offer(
                ask, text, call_id=call.id, on_answer=then
            ),
            background=self._background,
            command_list=deps.command_list,
            mode=self.log.state.mode,
            depth=self.log.state.depth,
            children=self,
            worktrees=deps.worktrees,
            alone=partial(self._family.alone, deps.uses_repository),
            agents_left=lambda: self._children.agents_left(deps.limits.agents),
            outline=deps.outline,
            barred=partial(deps.barred, self.log.state.mode),
            sees_images=deps.sees_images(self.log.state),
        )

    def _append(self, fact: Fact) -> Event:
        if isinstance(fact, CommandEnded):
            self._undo.settle_soon(fact.call_id)
            self._background_group.start_soon(self._deps.settle)
        return self.log.append(fact)

    async def _reconcile(self, call: ToolCall) -> None:
        started = self.log.state.running
        assert started
        assert started.call_id == call.id
        words = resume_message(self.log.events)
        if started.agents:
            outcome = await self.attend_all(call.id, started.agents, stop=words is not None)
        elif started.child:
            child = replace(ChildTask.on_record(started), words=words)
            outcome = await self.attend(call.id, child)
        else:
            self.log.append(await reconcile(started, self._deps.files, self.log.events))
            return
        self.log.append(finished(call, outcome, self._deps.hide))
