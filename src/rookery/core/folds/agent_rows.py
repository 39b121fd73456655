"""The agents of a session that run side by side: what each does now, and what it has cost."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import is_non_blocking_ask
from rookery.core.facts import (
    Answered,
    Asked,
    CompletionOffered,
    Event,
    Fact,
    RequestStarted,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.run_tallies import paid_in
from rookery.core.text.terminal_text import harmless_line

AgentStatus: TypeAlias = Literal[
    "waiting", "working", "asking", "done", "failed", "stopped", "out of budget"
]
RUNNING = ("waiting", "working", "asking")


class AgentRow(Struct, frozen=True, kw_only=True):
    """One agent. `action` is the last thing it did."""

    task_id: str
    name: str
    kind: str = ""
    state: AgentStatus = "waiting"
    action: str = ""
    cost: float = 0.0
    result: bool = False

    @property
    def runs(self) -> bool:
        return self.state in RUNNING

    @property
    def text(self) -> str:
        cost = f"  ${self.cost:.4f}" if self.cost else ""
        action = f"  {self.action}" if self.action and self.runs else ""
        return harmless_line(f"{self.name} ({self.kind}): {self.state}{cost}{action}")


class AgentRows:
    """Updated with the facts of a session and of its agents."""

    def __init__(self) -> None:
        self._rows: dict[str, AgentRow] = {}

    @property
    def rows(self) -> Sequence[AgentRow]:
        """All agents, in the order in which they were asked for."""
        return list(self._rows.values())

    @property
    def running(self) -> Sequence[AgentRow]:
        return [row for row in self._rows.values() if row.runs]

    @property
    def text(self) -> str:
        return "\n".join(f"  {row.text}" for row in self.rows) or "No agents were started."

    def find(self, task_id: str) -> AgentRow | None:
        return self._rows.get(task_id)

    def see(self, fact: Fact) -> None:
        """A fact of the session itself."""
        match fact:
            case ToolStarted(agents=agents):
                for agent in agents:
                    row = AgentRow(task_id=agent.task_id, name=agent.name, kind=agent.kind)
                    self._rows[agent.task_id] = row
            case ToolFinished(agents=agents):
                for end in agents:
                    if ended := self._rows.get(end.task_id):
                        self._rows[end.task_id] = replace(ended, state=end.fate, cost=end.cost)
            case StepCancelled():
                for row in self.running:
                    self._rows[row.task_id] = replace(row, state="stopped")
            case _:
                pass

    def see_of(self, task_id: str, fact: Fact) -> AgentRow | None:
        """A fact of a sub-task. Returns the agent, if it is one."""
        row = self._rows.get(task_id)
        if row:
            self._rows[task_id] = row = _after(row, fact)
        return row


def _after(row: AgentRow, fact: Fact) -> AgentRow:
    match fact:
        case TaskOpened() | TaskReopened() | RequestStarted() | Answered():
            return replace(row, state="working")
        case ToolStarted(title=title):
            return replace(row, state="working", action=title)
        case Asked(ask=ask, title=title) if not is_non_blocking_ask(ask):
            return replace(row, state="asking", action=title or row.action)
        case CompletionOffered():
            return replace(row, result=True)
        case TaskClosed(fate=fate):
            return replace(row, state=fate or ("done" if row.result else "stopped"))
        case TaskFailed():
            return replace(row, state="failed")
        case _:
            usage = paid_in(fact)
            return replace(row, cost=row.cost + (usage.cost or 0.0)) if usage else row


def agents_in(own: Sequence[Event], children: Mapping[str, Sequence[Event]]) -> AgentRows:
    """The agents of a session, from its events and those of its sub-tasks by id."""
    agents = AgentRows()
    events = [("", event) for event in own]
    events += [(task_id, event) for task_id, each in children.items() for event in each]
    for task_id, event in sorted(events, key=lambda each: each[1].ts):
        agents.see_of(task_id, event.fact) if task_id else agents.see(event.fact)
    return agents
