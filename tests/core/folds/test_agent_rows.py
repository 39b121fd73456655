"""What a session's agents are shown to do."""

from rookery.core.asks import AskKind
from rookery.core.facts import (
    AgentResult,
    AgentTask,
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Fact,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.core.folds.agent_rows import AgentRows
from support.each_row import each_row

AGENT = AgentTask(task_id="a", name="scout", text="Look.", mode="ask")
STARTED = ToolStarted(call_id="c", tool="run_agents", title="Start an agent", agents=(AGENT,))
OPENED = TaskOpened(text="Look.", agent="scout")
READ = ToolStarted(call_id="c", tool="read_file", title="Read a")
ASKED = Asked(ask_id="q", ask=AskKind.TOOL, title="Edit a")
SPOKE = AssistantSpoke(request_id="r", blocks=(), usage=Usage(cost=0.5))
DONE = CompletionOffered(result="ok")


@each_row(
    ("facts", "shown"),
    [
        ((), "scout (explorer): waiting"),
        ((OPENED,), "scout (explorer): working"),
        ((OPENED, SPOKE, READ), "scout (explorer): working  $0.5000  Read a"),
        ((OPENED, ASKED), "scout (explorer): asking  Edit a"),
        (
            (OPENED, ASKED, Answered(ask_id="q", ask=AskKind.TOOL, reply="yes"), READ),
            "scout (explorer): working  Read a",
        ),
        ((OPENED, READ, DONE, TaskClosed()), "scout (explorer): done"),
        ((OPENED, TaskClosed()), "scout (explorer): stopped"),
        ((OPENED, TaskClosed(fate="out of budget")), "scout (explorer): out of budget"),
        ((OPENED, TaskFailed(message="x")), "scout (explorer): failed"),
    ],
)
def test_an_agent_is_shown_with_its_state_cost_and_last_action(facts: tuple[Fact, ...], shown: str):
    agents = AgentRows()
    agents.see(STARTED)
    for fact in facts:
        assert agents.see_of("a", fact)
    assert [row.text for row in agents.rows] == [shown]
    assert agents.see_of("other", OPENED) is None


def test_the_end_of_the_call_says_how_its_agents_ended():
    agents = AgentRows()
    agents.see(STARTED)
    end = AgentResult(task_id="a", fate="out of budget", cost=0.25)
    agents.see(ToolFinished(call_id="c", text="", agents=(end,)))
    assert agents.text == "  scout (explorer): out of budget  $0.2500"


def test_cancelling_the_session_stops_its_agents():
    agents = AgentRows()
    agents.see(STARTED)
    agents.see_of("a", OPENED)
    agents.see(StepCancelled())
    assert [row.state for row in agents.rows] == ["stopped"]
    assert not agents.running
