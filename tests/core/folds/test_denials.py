"""The refused calls of a run, and whether every change was refused."""

import pytest

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Change,
    Ending,
    Fact,
    FilesChanged,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.run_tallies import Denials
from rookery.core.replies import denied
from support.each_row import each_row

CALLS = AssistantSpoke(
    request_id="r",
    blocks=(
        ToolCall(id="e", name="write_to_file", arguments={"path": "a.txt"}),
        ToolCall(id="c", name="execute_command", arguments={"command": "make"}),
        ToolCall(id="r", name="read_file", arguments={"path": "/etc/shadow"}),
    ),
)


def no(call_id: str, *, change: bool = True) -> ToolFinished:
    text = denied("Not here.")
    return ToolFinished(call_id=call_id, text=text, ending=Ending.DENIED, would_change=change)


def edited(call_id: str = "e") -> list[Fact]:
    change = Change(path="b.txt", before=None, after="1")
    started = ToolStarted(call_id=call_id, tool="t", title="Write", changes=(change,))
    return [started, ToolFinished(call_id=call_id, text="")]


def ran(after: str) -> list[Fact]:
    started = ToolStarted(call_id="c", tool="execute_command", title="Run", command="make")
    changed = FilesChanged(call_id="c", before="1", after=after, since=1)
    return [started, ToolFinished(call_id="c", text=""), changed]


def seen(*facts: Fact) -> Denials:
    denials = Denials()
    for fact in (CALLS, *facts):
        denials.see(fact)
    return denials


@each_row(
    ("facts", "expected"),
    [
        pytest.param([], False, id="nothing was refused"),
        pytest.param([no("e")], True, id="the only edit"),
        pytest.param([no("c")], True, id="the only command"),
        pytest.param([no("r", change=False)], False, id="only a read"),
        pytest.param([no("e"), *edited("f")], False, id="another edit was made"),
        pytest.param([no("e"), *ran(after="2")], False, id="a command changed files"),
        pytest.param([no("e"), *ran(after="1")], True, id="a command changed nothing"),
        pytest.param(
            [
                ToolStarted(call_id="c", tool="t", title="Run", command="make"),
                no("c", change=False),
            ],
            True,
            id="a command that the sandbox refused",
        ),
        pytest.param(
            [ToolFinished(call_id="e", text="no", ending=Ending.FAILED)], False, id="an error"
        ),
    ],
)
def test_a_run_with_only_refused_changes_is_recognized(facts: list[Fact], expected: bool):
    assert seen(*facts).all_changes_refused is expected


def asked_and_refused(by: str) -> list[Fact]:
    question = Asked(ask_id="q", ask=AskKind.TOOL, call_id="e")
    answer = Answered(ask_id="q", ask=AskKind.TOOL, reply="no", by="user" if by else "policy")
    return [question, answer, no("e")]


@each_row(
    ("facts", "sentence"),
    [
        ([], ""),
        ([no("e")], "1 action was refused (write_to_file). Not here."),
        (
            [no("c"), no("e"), no("e")],
            "3 actions were refused (execute_command, write_to_file). Not here.",
        ),
        (
            asked_and_refused(by=""),
            "1 action was refused (write_to_file). This run is not interactive. Use -y.",
        ),
        (
            asked_and_refused(by="user"),
            "1 action was refused (write_to_file). You rejected the last one.",
        ),
    ],
)
def test_the_summary_counts_refused_calls_and_gives_reasons(facts: list[Fact], sentence: str):
    assert seen(*facts).summary("Use -y.") == sentence


def test_each_refused_call_is_listed_once_for_programs():
    denials = seen(no("e"))
    assert denials.as_json() == [
        {
            "tool_name": "write_to_file",
            "tool_use_id": "e",
            "tool_input": {"path": "a.txt"},
            "reason": "Not here.",
        }
    ]
    denials.forget()
    assert denials.as_json() is None
