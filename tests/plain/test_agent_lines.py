"""What the plain client prints of agents side by side."""

from io import StringIO

from rookery.core.facts import (
    AgentTask,
    ChildBegan,
    CompletionOffered,
    Ending,
    TaskClosed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
)
from rookery.plain.agent_lines import AgentLines
from rookery.plain.screen import Screen

AGENT = AgentTask(task_id="a", name="sc\x1b[31mout", text="Look.", mode="ask")
SHOWN = "sc␛[31mout"


def lines_of(screen_is_live: bool, question: str = "") -> str:
    out = StringIO()
    screen = Screen(out, colour=False, live=screen_is_live)
    lines = AgentLines(screen)
    lines.show(ToolStarted(call_id="c", tool="run_agents", title="Start", agents=(AGENT,)))
    if question:
        screen.ask(question)
    lines.show(ChildBegan(call_id="c", task_id="a", name=AGENT.name))
    for fact in (
        TaskOpened(text="Look."),
        ToolStarted(call_id="d", tool="read_file", title="Read a"),
        ToolFinished(call_id="d", text="No such file.", ending=Ending.FAILED),
        CompletionOffered(result="ok"),
        TaskClosed(),
    ):
        assert lines.show_of("a", fact)
    assert not lines.show_of("another", TaskClosed())
    return out.getvalue()


def test_each_action_is_a_line_with_the_name_of_the_agent():
    assert lines_of(False).splitlines() == [
        f"▸ {SHOWN} (explorer) started",
        f"● {SHOWN}: Read a",
        f"  ✗ {SHOWN}: No such file.",
        f"◂ {SHOWN} (explorer): done",
    ]


def test_a_status_line_names_those_at_work_and_an_open_question_is_asked_again():
    assert f"1 of 1 agents: {SHOWN} Read a" in lines_of(True)
    asked = lines_of(True, "Approve? ")
    assert "of 1 agents" not in asked
    assert asked.endswith(f"◂ {SHOWN} (explorer): done\nApprove? ")
