"""Data of a scripted host, for tests and pictures of pickers and side screens."""

import time

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CheckpointSaved,
    ChildBegan,
    Fact,
    FilesChanged,
    RequestStarted,
    TaskClosed,
    TaskOpened,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.queries import (
    AskCommands,
    AskDifferences,
    AskModels,
    AskModes,
    AskPaths,
    AskRehearsal,
    AskTasks,
    FileDifference,
    FoundPath,
    KnownCommand,
    KnownMode,
    KnownModel,
    KnownTask,
    RestoreRehearsal,
)
from support.scripted_host import ScriptedHost
from support.tui_scenes import DIFF, TASK

NOW = time.time_ns() // 1_000_000
MINUTE = 60_000
MODES = (
    KnownMode(slug="code", name="Code", when_to_use="Write, change and mend code."),
    KnownMode(slug="architect", name="Architect", when_to_use="Plan before anything is built."),
    KnownMode(slug="ask", name="Ask", when_to_use="Explain and answer; nothing is changed."),
    KnownMode(slug="debug", name="Debug", when_to_use="Find the cause of a fault, then mend it."),
    KnownMode(slug="docs", name="Docs-Schreiber 文書", when_to_use="Texte", source="project"),
)
MODELS = (
    KnownModel(
        provider="anthropic",
        model="claude-opus-4.6",
        window=200_000,
        images=True,
        price_in=5,
        price_out=25,
    ),
    KnownModel(
        provider="anthropic",
        model="claude-sonnet-4.6",
        window=1_000_000,
        images=True,
        price_in=3,
        price_out=15,
    ),
    KnownModel(
        provider="anthropic",
        model="claude-haiku-4.5",
        window=200_000,
        images=True,
        price_in=1,
        price_out=5,
    ),
    KnownModel(
        provider="openai", model="gpt-5.2", window=400_000, images=True, price_in=1.75, price_out=14
    ),
    KnownModel(
        provider="openai-compatible", model="qwen3-coder-480b-a35b-instruct", window=262_144
    ),
)
LOCAL = KnownModel(provider="ollama", model="qwen3:8b", window=32_768)


def _task(number: int, title: str, minutes: int, **more: object) -> KnownTask:
    at = NOW - minutes * MINUTE
    return KnownTask(
        task_id=f"7c1e{number:04d}-5b0f-4d6e-9c4d-2f6f3a8e1b{number:02d}",
        title=title,
        workspace="/home/ada/shop",
        mode="code",
        created=at,
        updated=at,
        **more,  # type: ignore[arg-type]
    )


TASKS = (
    KnownTask(
        task_id="t1",
        title=TASK,
        workspace="/home/ada/shop",
        mode="code",
        created=NOW - 6 * MINUTE,
        updated=NOW - 2 * MINUTE,
        tokens_in=212_400,
        tokens_out=1_222,
        cost=0.6078,
    ),
    _task(1, "Round prices half up, as shops do", 130, status="completed", cost=0.42),
    _task(2, "割引の計算を直して、テストを追加してください", 1500, status="completed", cost=1.18),
    _task(3, "Why does the importer lose the last line of a file?", 2900, cost=0.07),
    _task(4, "Move the tests to pytest", 5000, status="failed", cost=3.4),
    _task(5, "Explain how discounts are stacked", 7_300, status="closed"),
)
CHILDREN = (
    KnownTask(task_id="c1", title="Find every caller of off()", parent="t1", mode="ask", created=2),
    KnownTask(task_id="c2", title="Write the missing tests", parent="t1", mode="code", created=3),
    KnownTask(
        task_id="c3",
        title="Look up how banks round",
        parent="c2",
        mode="ask",
        status="completed",
        created=4,
        tokens_in=8_100,
        tokens_out=420,
        cost=0.0312,
    ),
)
CHANGES = (
    FileDifference(path="prices.py", diff=DIFF),
    FileDifference(
        path="tests/test_prices.py",
        change="added",
        diff="@@ -0,0 +1,2 @@\n+def test_off():\n+    assert off(50, 10) == 45",
    ),
    FileDifference(path="logo.png"),
)
REHEARSAL = RestoreRehearsal(
    written=("prices.py",), removed=("tests/test_prices.py",), kept=("README.md",)
)
TODOS = (
    Todo(id="1", content="Find the cause", status="completed"),
    Todo(id="2", content="Fix prices.py", status="in_progress"),
    Todo(id="3", content="Run the tests"),
)


def _as_of_now(task: KnownTask) -> KnownTask:
    """Shift the times by the time since this module was imported."""
    since = time.time_ns() // 1_000_000 - NOW
    return replace(task, created=task.created + since, updated=task.updated + since)


def answering_host() -> ScriptedHost:
    """A host that answers all queries, and a task with a history and children."""
    host = ScriptedHost()
    host.answer(AskModes, MODES)
    host.answer(AskModels, MODELS)
    host.answer(AskTasks, (*map(_as_of_now, TASKS), *CHILDREN))
    host.answer(AskDifferences, CHANGES)
    host.answer(AskRehearsal, REHEARSAL)
    host.answer(
        AskCommands,
        (
            KnownCommand(name="review", description="Review what changed", source="project"),
            KnownCommand(name="release", description="Prepare a release", argument_hint="VERSION"),
        ),
    )
    host.answer(
        AskPaths,
        (
            FoundPath(path="src", folder=True),
            FoundPath(path="src/prices.py"),
            FoundPath(path="notes of 割引.md"),
        ),
    )
    return host


def worked(host: ScriptedHost) -> None:
    """The facts of a task that changed files twice and has two sub-tasks."""
    host.tell(
        TaskOpened(text=TASK, workspace="/home/ada/shop"),
        *_request("r1", "claude-opus-4.6", 48_210, 612, 0.3012, reads=32_000),
        TodosChanged(todos=(Todo(id="1", content="Find the cause", status="in_progress"),)),
        *_edit("e1", "Edit prices.py"),
        *_request("r2", "claude-opus-4.6", 52_800, 410, 0.1411, reads=47_000),
        TodosChanged(todos=TODOS),
        UserSpoke(message_id="m0", text="and add a test for negative prices"),
        *_request("r3", "claude-opus-4.6", 55_100, 80, 0.0921, reads=52_000),
        *_edit("e2", "Create tests/test_prices.py"),
        *_request("r4", "claude-opus-4.6", 56_290, 120, 0.0734, reads=55_000),
        ToolStarted(call_id="n1", tool="new_task", title="Find every caller", child="c1"),
        ChildBegan(call_id="n1", task_id="c1"),
        ToolFinished(call_id="n1", text="Three callers."),
        *_request("r5", "claude-opus-4.6", 57_000, 90, 0.0619),
        ToolStarted(call_id="n2", tool="new_task", title="Write the tests", child="c2"),
        ChildBegan(call_id="n2", task_id="c2"),
    )
    host.tell(
        TaskOpened(text="Find every caller of off()", mode="ask", parent="t1", depth=1),
        *_request("r6", "claude-haiku-4.5", 9_100, 240, 0.0103),
        TaskClosed(),
        task="c1",
    )
    host.end("c1")
    host.tell(
        TaskOpened(text="Write the missing tests", parent="t1", depth=1),
        *_request("r7", "claude-sonnet-4.6", 15_600, 900, 0.0603),
        RequestStarted(request_id="r8", model="claude-sonnet-4.6"),
        task="c2",
    )
    host.tell(
        UserSpoke(message_id="m1", text="and mention it in the changelog"),
        UserSpoke(message_id="m2", text="割引 is a word that must stay as it is"),
    )


def _request(
    name: str, model: str, tokens_in: int, tokens_out: int, cost: float, reads: int = 0
) -> tuple[RequestStarted, AssistantSpoke]:
    usage = Usage(tokens_in=tokens_in, tokens_out=tokens_out, cost=cost, cache_reads=reads)
    said = AssistantSpoke(request_id=name, blocks=(Text(text="I will."),), usage=usage)
    return RequestStarted(request_id=name, model=model), said


def _edit(call_id: str, title: str) -> tuple[Fact, ...]:
    """The facts of a call that was approved and changed files."""
    ask = Asked(ask_id=f"a-{call_id}", ask=AskKind.TOOL, title=title, call_id=call_id)
    # the change starts at the checkpoint's own event number
    return (
        ask,
        Answered(ask_id=ask.ask_id, ask=AskKind.TOOL, reply="yes"),
        CheckpointSaved(id=f"s-{call_id}", call_id=call_id),
        ToolStarted(call_id=call_id, tool="edit", title=title),
        ToolFinished(call_id=call_id, text="{}"),
        FilesChanged(call_id=call_id, before=f"s-{call_id}", after=f"z-{call_id}", since=10_000),
    )
