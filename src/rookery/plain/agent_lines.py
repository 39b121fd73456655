"""Prints what agents do that run side by side: a line for each action, with the agent's name.

Their texts are not streamed, because they would mix. A status line shows all that are at work.
"""

from rookery.core.facts import (
    ChildBegan,
    Ending,
    Fact,
    Noted,
    RequestFailed,
    TaskClosed,
    TaskFailed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.agent_rows import AgentRow, AgentRows
from rookery.core.replies import sentence_in
from rookery.core.text.terminal_text import harmless_line
from rookery.plain.screen import LINE_LENGTH, Screen


class AgentLines:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._agents = AgentRows()

    def show(self, fact: Fact) -> None:
        """A fact of the session itself."""
        self._agents.see(fact)
        if isinstance(fact, ChildBegan) and (agent := self._agents.find(fact.task_id)):
            verb = "resumed" if fact.after else "started"
            self._line("▸", f"{agent.name} ({agent.kind}) {verb}")
            self._screen.repeat_question()

    def show_of(self, task_id: str, fact: Fact) -> bool:
        """A fact of a sub-task. Returns whether it is an agent."""
        agent = self._agents.see_of(task_id, fact)
        if agent is None:
            return False
        self._show(agent, fact)
        self._screen.repeat_question()
        if not self._screen.busy:
            self._show_status()
        return True

    def _show_status(self) -> None:
        if working := [row for row in self._agents.running if row.state != "waiting"]:
            doing = " · ".join(harmless_line(f"{row.name} {row.action}").strip() for row in working)
            self._screen.status(f"  {len(working)} of {len(self._agents.rows)} agents: {doing}")

    def _show(self, agent: AgentRow, fact: Fact) -> None:
        match fact:
            case ToolStarted(title=title):
                self._line("●", f"{agent.name}: {title}")
            case ToolFinished(ending=ending, text=text) if ending is not Ending.DONE:
                self._problem(agent, sentence_in(text))
            case RequestFailed(message=message) | Noted(text=message):
                self._problem(agent, message)
            case TaskClosed() | TaskFailed():
                self._line("◂", agent.text)
            case _:
                pass

    def _line(self, mark: str, text: str) -> None:
        self._screen.line(f"{self._screen.paint.cyan(mark)} {harmless_line(text)[:LINE_LENGTH]}")

    def _problem(self, agent: AgentRow, text: str) -> None:
        line = harmless_line(f"{agent.name}: {' '.join(text.split())}")[:LINE_LENGTH]
        self._screen.line(self._screen.paint.red(f"  ✗ {line}"))
