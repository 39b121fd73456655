"""Moments of tasks on a scripted host, for pictures and tests of the full screen."""

import json
from collections.abc import Callable

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    OutputStreamed,
    RequestStarted,
    TextStreamed,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from support.scripted_host import ScriptedHost

TASK = "The discount is ten times too high. Find out why and fix it; the tests must pass."
DIFF = """\
@@ -1,6 +1,6 @@
 def off(price, by):
     \"\"\"The price with a discount of `by` percent.\"\"\"
-    return price - price * by / 10
+    return price - price * by / 100
 
 
 def total(prices):
@@ -14,3 +14,6 @@
 def with_tax(price, rate=19):
     return price + price * rate / 100
+
+
+def 割引(price):
+    return off(price, 5)  # 五パーセント"""
PLAN = """\
The test expects **ten percent** of 50 to be 5, but `off` divides by 10 instead of 100.

1. fix `prices.py`
2. run the tests
"""
TODOS = (
    Todo(id="1", content="Find the cause", status="completed"),
    Todo(id="2", content="Fix prices.py", status="in_progress"),
    Todo(id="3", content="Run the tests"),
)


def _edit_payload() -> str:
    stats = {"added": 5, "removed": 1}
    payload = {"tool": "editedExistingFile", "path": "prices.py", "diffStats": stats}
    return json.dumps({**payload, "content": DIFF})


def reading(host: ScriptedHost) -> None:
    calls = (
        ToolCall(id="c1", name="read_file", arguments={"path": "prices.py"}),
        ToolCall(id="c2", name="search_files", arguments={"regex": "off\\("}),
    )
    think = Thinking(text="The test says 45.0 but gets 0.0.\nSo the factor is off by ten.")
    said = Text(text="I will look at the code and at who calls it.")
    host.tell(
        RequestStarted(request_id="r1", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r1",
            blocks=(think, said, *calls),
            usage=Usage(tokens_in=48_210, tokens_out=612, cost=0.3012),
        ),
        ToolStarted(
            call_id="c1", tool="read_file", title="Read prices.py", text='{"tool": "readFile"}'
        ),
        ToolFinished(call_id="c1", text="\n".join(f"{n} | line" for n in range(1, 18))),
        ToolStarted(
            call_id="c2",
            tool="search_files",
            title="Search for off\\( in .",
            text='{"tool": "searchFiles"}',
        ),
        ToolFinished(call_id="c2", text="prices.py:1\ntest_prices.py:6\ntest_prices.py:9"),
        TodosChanged(todos=TODOS),
    )


def working(host: ScriptedHost) -> None:
    reading(host)
    host.tell(
        RequestStarted(request_id="r2", model="claude-opus-4.6"),
        TextStreamed(request_id="r2", text=PLAN),
        TextStreamed(request_id="r2", text="\n```python\ndef off(price, by):\n    return price"),
        UserSpoke(message_id="m1", text="and mention it in the changelog"),
    )


def proposing(host: ScriptedHost) -> None:
    reading(host)
    call = ToolCall(id="c3", name="edit", arguments={"file_path": "prices.py"})
    host.tell(
        RequestStarted(request_id="r2", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r2",
            blocks=(Text(text=PLAN), call),
            usage=Usage(tokens_in=52_800, tokens_out=410, cost=0.1411),
        ),
    )


EDIT = Asked(
    ask_id="a1",
    ask=AskKind.TOOL,
    text=_edit_payload(),
    title="Edit prices.py",
    diff=DIFF,
    call_id="c3",
    digest="d1",
    rule="edit prices.py",
)
COMMAND = Asked(
    ask_id="a2",
    ask=AskKind.COMMAND,
    text="rm -rf build && python -m pytest -q && curl -fsS https://example.com/notify",
    cwd="",
    call_id="c4",
    digest="d2",
    where="in the sandbox: writes in the workspace only, keys hidden, network on",
    notes=("deletes 40 files below build/", "uses the network: example.com"),
)


def asking_about_an_edit(host: ScriptedHost) -> None:
    proposing(host)
    host.tell(EDIT)


def edited(host: ScriptedHost) -> None:
    asking_about_an_edit(host)
    host.tell(
        Answered(ask_id="a1", ask=AskKind.TOOL, reply="yes"),
        ToolStarted(call_id="c3", tool="edit", title="Edit prices.py", text=_edit_payload()),
        ToolFinished(call_id="c3", text='{"path": "prices.py"}'),
    )


def asking_about_a_command(host: ScriptedHost) -> None:
    edited(host)
    call = ToolCall(id="c4", name="execute_command", arguments={"command": COMMAND.text})
    host.tell(
        RequestStarted(request_id="r3", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r3",
            blocks=(call,),
            usage=Usage(tokens_in=55_100, tokens_out=80, cost=0.0921),
        ),
        COMMAND,
    )


def ran(host: ScriptedHost) -> None:
    asking_about_a_command(host)
    host.tell(
        Answered(ask_id="a2", ask=AskKind.COMMAND, reply="yes"),
        ToolStarted(
            call_id="c4",
            tool="execute_command",
            title=COMMAND.text,
            ask=AskKind.COMMAND,
            command=COMMAND.text,
        ),
        OutputStreamed(call_id="c4", text=".......                                [100%]\n"),
        OutputStreamed(call_id="c4", text="7 passed in 0.21s\n"),
        ToolFinished(call_id="c4", text="Exit code: 0", exit_code=0),
    )


def completed(host: ScriptedHost) -> None:
    ran(host)
    result = "The discount is taken in **percent** now; all 7 tests pass.\n\n- `prices.py`: `/ 100`"
    done = tuple(Todo(id=todo.id, content=todo.content, status="completed") for todo in TODOS)
    host.tell(
        RequestStarted(request_id="r4", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r4",
            blocks=(ToolCall(id="c5", name="attempt_completion", arguments={"result": result}),),
            usage=Usage(tokens_in=56_300, tokens_out=120, cost=0.0734),
        ),
        TodosChanged(todos=done),
        CompletionOffered(result=result),
        Asked(ask_id="a3", ask=AskKind.COMPLETION_RESULT, digest="d3"),
    )


FOLLOWUP = Asked(
    ask_id="a4",
    ask=AskKind.FOLLOWUP,
    text=json.dumps(
        {
            "question": "Which **rounding** should prices have?",
            "suggest": [
                {"answer": "Half up, as shops do"},
                {"answer": "Banker's rounding", "mode": "architect"},
                "None at all",
            ],
        }
    ),
    digest="d4",
)


def wondering(host: ScriptedHost) -> None:
    reading(host)
    host.tell(FOLLOWUP)


SCENES: dict[str, Callable[[ScriptedHost], None]] = {
    "working": working,
    "edit": asking_about_an_edit,
    "command": asking_about_a_command,
    "completed": completed,
    "question": wondering,
}
