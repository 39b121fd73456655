"""The sub-tasks of a task: one that it waits for, or several agents side by side.

A sub-task has its own log. The parent's log names each child before the child writes anything, so
that after a crash none is started twice: what has ended is read from its log, the rest continues.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from rookery.core.event_list import of_kind
from rookery.core.facts import (
    AgentResult,
    AgentTask,
    ChildBegan,
    Ending,
    Event,
    FellBack,
    ModelSwitched,
    Spent,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    UserSpoke,
    switched_to,
)
from rookery.core.folds.run_tallies import used_since, used_together
from rookery.core.replies import AgentEnd, agents_report
from rookery.engine.event_log import (
    EventLog,
    append_reopened,
    end_of,
    inherited_governance,
    record_changes,
)
from rookery.engine.ports.actions import Outcome
from rookery.engine.ports.tool import ChildEnd, ChildTask, Worktrees
from rookery.engine.task_deps import Family, TaskDeps
from rookery.errors import StorageError, ToolError
from rookery.faults import kp

if TYPE_CHECKING:
    from rookery.engine.task import Task

NO_WORKTREES = "Workers need a git repository, and this workspace is not one."
STOPPED_FOR_A_MESSAGE = "the user stopped the agents and sent a message"


class SubTasks:
    """Starts, resumes and runs the sub-tasks of one task."""

    def __init__(self, family: Family, task_id: str, log: EventLog) -> None:
        self._runner = family.runner
        self._task_id = task_id
        self._log = log
        self.family = family

    async def attend(self, call_id: str, child: ChildTask) -> ChildEnd:
        """Run a child task inside its parent's step, so that cancelling the step ends both."""
        parent = self._log
        family = replace(self.family, above=self.logs)
        opening = TaskOpened(
            text=child.text,
            mode=child.mode,
            workspace=self.family.workspace,
            spent=parent.state.spent,
            todos=child.todos,
            only_reads=parent.state.opened.only_reads,
        )
        try:
            task, after = self._start(child.task_id, opening, family, words=child.words)
        except StorageError as error:
            return ChildEnd(None, str(error).rstrip("."), parent.state.spent)
        failure = None
        try:
            if not task.log.state.closed:
                parent.append(ChildBegan(call_id=call_id, task_id=child.task_id, after=after))
                failure = await self._runner.run(task)
        finally:
            task.log.close()
            record_changes(parent, call_id, task.log.events)
        if failure:
            raise failure  # so that the parent stops too, and its child can be picked up
        return end_of(task.log)

    async def attend_all(
        self,
        call_id: str,
        agents: Sequence[AgentTask],
        deps: TaskDeps,
        *,
        stop: bool = False,
    ) -> Outcome:
        """Run agents side by side inside their parent's step. With `stop`, those that have not
        ended are ended instead."""
        worktrees = deps.worktrees() if any(each.worktree for each in agents) else None
        work = _AgentsAtWork(self, call_id, worktrees, deps.limits.agents_at_once)
        ends = await (work.stop(agents) if stop else work.run(agents))
        spent = used_together(self._log.state.spent, *(end.used for end in ends))
        ending = Ending.DONE if any(end.fate == "done" for end in ends) else Ending.FAILED
        results = tuple(
            AgentResult(task_id=agent.task_id, fate=end.fate, cost=end.used.cost)
            for agent, end in zip(agents, ends, strict=True)
        )
        text = agents_report(agents, ends)
        return Outcome(text=text, ending=ending, spent=spent, agents=results)

    def logs(self) -> Sequence[Sequence[Event]]:
        """The events of the tasks above this one, and of this one."""
        return (*self.family.above(), self._log.events)

    def ended(self, task_id: str) -> EventLog | None:
        """The log of a child that has ended; its folder may be gone by now."""
        if not self.exists(task_id):
            return None
        log = self._runner.log_of(task_id)
        log.close()
        return log if log.state.closed else None

    def stop(self, task_id: str, reason: str) -> EventLog:
        """Add the end to the log of a child that does not run."""
        log = self._runner.log_of(task_id)
        log.append(TaskReopened(resumed=True))
        log.append(TaskClosed(fate="stopped", reason=reason))
        log.close()
        return log

    def begin_agent(self, call_id: str, agent: AgentTask, family: Family) -> "Task":
        """Open or reopen an agent's task."""
        state = self._log.state
        opening = TaskOpened(
            text=agent.text,
            mode=agent.mode,
            workspace=family.workspace,
            spent=state.spent,
            agent=agent.name,
            only_reads=state.opened.only_reads or not agent.worktree,
            budget=agent.budget,
        )
        chosen = (agent.provider, agent.model) if agent.model else None
        task, after = self._start(agent.task_id, opening, family, chosen=chosen)
        began = ChildBegan(call_id=call_id, task_id=agent.task_id, after=after, name=agent.name)
        self._log.append(began)
        return task

    async def release(self, find_worktrees: Callable[[], Worktrees | None]) -> None:
        """Remove the clean worktrees of calls that were rewound before they ended."""
        running = self._log.state.running
        agents = [each for each in self._log.started_agents() if each[1].worktree]
        if not agents:
            return
        ends = (event.fact for event in of_kind(self._log.events, ToolFinished))
        settled = {fact.call_id for fact in ends if isinstance(fact, ToolFinished)}
        settled |= {running.call_id} if running else set()
        rewound = [agent for call_id, agent in agents if call_id not in settled]
        worktrees = find_worktrees() if rewound else None
        for agent in rewound if worktrees else ():
            assert worktrees
            with suppress(ToolError):  # then it is kept, as one with changes is
                await worktrees.settle(agent)

    def agents_left(self, most: int) -> int:
        """How many agents the task may still start: an agent none, rewound ones count."""
        return 0 if self.family.agent else most - len(self._log.started_agents())

    def exists(self, task_id: str) -> bool:
        return self._runner.logs.exists(task_id)

    async def run(self, task: "Task") -> StorageError | None:
        return await self._runner.run(task)

    def _start(
        self,
        task_id: str,
        opening: TaskOpened,
        family: Family,
        *,
        words: UserSpoke | None = None,
        chosen: tuple[str, str] | None = None,
    ) -> tuple["Task", int]:
        """Open or reopen the child. Returns it with the number of events it already had."""
        if self.exists(task_id):
            store = self._runner.logs.open(task_id)
            task = self._runner.make(task_id, store, family)
            before = len(task.log.events)
            if not task.log.state.closed:
                append_reopened(task.log, store, resumed=True)
                if level := self._log.state.level:
                    task.log.append(switched_to(level))
                if words:
                    task.log.append(words)
            return task, before
        task = self._runner.make(task_id, self._runner.logs.create(task_id), family)
        self._open(task.log, opening, chosen or self._log.state.chosen)
        return task, 0

    def _open(self, log: EventLog, opening: TaskOpened, chosen: tuple[str, str]) -> None:
        """Write the first facts: the child has the model, the approval and the intent of its
        parent."""
        parent = self._log.state
        log.append(replace(opening, parent=self._task_id, depth=parent.depth + 1))
        if chosen != ("", ""):
            provider, model = chosen
            log.append(ModelSwitched(provider=provider, model=model, effort=parent.effort))
        if parent.fallback_model != ("", "") and chosen == parent.chosen:
            provider, model = parent.fallback_model
            log.append(FellBack(place=parent.fallback, provider=provider, model=model))
        if parent.level:
            log.append(switched_to(parent.level))
        for fact in inherited_governance(parent):
            log.append(fact)


class _AgentsAtWork:
    """The agents of one call."""

    def __init__(
        self, children: SubTasks, call_id: str, worktrees: Worktrees | None, at_once: int
    ) -> None:
        self._children = children
        self._call_id = call_id
        self._worktrees = worktrees
        self._places = anyio.Semaphore(at_once)
        self._asking = anyio.Lock(fast_acquire=True)
        self._writing = anyio.Lock(fast_acquire=True)
        self._logs: dict[str, EventLog] = {}
        self._ends: dict[str, AgentEnd] = {}
        self._failure: StorageError | None = None

    async def run(self, agents: Sequence[AgentTask]) -> list[AgentEnd]:
        """Run all, some at a time, and wait for the last. Raises `StorageError` if a log could
        not be written: then all stop, and can be continued."""
        async with anyio.create_task_group() as group:
            for agent in agents:
                group.start_soon(self._attend, agent, group.cancel_scope)
        if self._failure:
            raise self._failure
        return [self._ends[agent.task_id] for agent in agents]

    async def stop(self, agents: Sequence[AgentTask]) -> list[AgentEnd]:
        """End those that have not ended, and collect what all of them did."""
        for agent in agents:
            if not self._children.exists(agent.task_id):
                self._ends[agent.task_id] = AgentEnd("stopped", "It had not started.")
                continue
            log = self._children.ended(agent.task_id)
            log = log or self._children.stop(agent.task_id, STOPPED_FOR_A_MESSAGE)
            self._ends[agent.task_id] = await self._end(agent, log)
        return [self._ends[agent.task_id] for agent in agents]

    async def _attend(self, agent: AgentTask, all_of_them: anyio.CancelScope) -> None:
        if log := self._children.ended(agent.task_id):
            self._logs[agent.task_id] = log
            self._ends[agent.task_id] = await self._end(agent, log)
            return
        async with self._places:
            try:
                await self._prepare(agent)
                task = self._children.begin_agent(self._call_id, agent, self._family(agent))
            except (StorageError, ToolError) as error:
                self._ends[agent.task_id] = AgentEnd("failed", str(error))
                return
            self._logs[agent.task_id] = task.log
            try:
                kp("agent.started")
                self._failure = await self._children.run(task) or self._failure
            finally:
                task.log.close()
            if self._failure:
                all_of_them.cancel()
            kp("agent.ended")
            self._ends[agent.task_id] = await self._end(agent, task.log)

    async def _prepare(self, agent: AgentTask) -> None:
        """Make the worktree of a worker that has not started yet."""
        if not agent.worktree or self._children.exists(agent.task_id):
            return
        if self._worktrees is None:
            raise ToolError(NO_WORKTREES)
        async with self._writing:
            await self._worktrees.create(agent)
        kp("agent.worktree")

    def _family(self, agent: AgentTask) -> Family:
        ours = self._children.family
        return Family(
            runner=ours.runner,
            workspace=agent.worktree or ours.workspace,
            agent=agent.name,
            asking=self._asking,
            writing=self._writing,
            beside=lambda: self._used_by_others(agent.task_id),
            above=self._children.logs,
        )

    def _used_by_others(self, task_id: str) -> Spent:
        return used_together(*(_used(log) for own, log in self._logs.items() if own != task_id))

    async def _end(self, agent: AgentTask, log: EventLog) -> AgentEnd:
        end = _end_of_agent(log)
        if not agent.worktree or self._worktrees is None:
            return end
        try:
            async with self._writing:
                work = await self._worktrees.settle(agent)
        except ToolError as error:
            work = f"{error} It is kept as it is."
        return AgentEnd(end.fate, end.text, end.used, work)


def _used(log: EventLog) -> Spent:
    return used_since(log.state.opened.spent, log.state.spent)


def _end_of_agent(log: EventLog) -> AgentEnd:
    """How an agent ended, from its log."""
    used = _used(log)
    if log.state.completion is not None:
        return AgentEnd("done", log.state.completion, used)
    for event in reversed(log.events):
        match event.fact:
            case TaskFailed(message=message):
                return AgentEnd("failed", message, used)
            case TaskClosed(fate=fate, reason=reason):
                return AgentEnd(fate or "stopped", _with_last_message(reason, log), used)
            case _:
                pass
    return AgentEnd("stopped", "", used)


def _with_last_message(reason: str, log: EventLog) -> str:
    words = log.state.words or ""
    return "\n".join(filter(None, [reason and f"Reason: {reason.rstrip('.')}.", words]))
