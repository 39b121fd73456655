"""MCP calls of whole tasks: through the gate, on record, and gone when the user cancels."""

import os
import re
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import anyio.to_thread
import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    Asked,
    Condensed,
    Ending,
    Event,
    Gathered,
    Noted,
    ToolFinished,
    ToolStarted,
    Usage,
    next_event,
)
from rookery.core.folds.history import history
from rookery.core.folds.task_record import fold
from rookery.core.instructions import quoted
from rookery.engine.engine import Engine
from rookery.engine.event_log import EventLog
from rookery.engine.task import Task
from rookery.engine.task_deps import Family
from rookery.mcp.elicitation import DECLINE
from rookery.mcp.hub import McpHub
from rookery.mcp.offered_tools import AlwaysAllowed, ServerGuard
from rookery.mcp.use_mcp_tool import UseMcpTool
from rookery.storage.token_store import TokenStore
from support.asked_user import AskedBench
from support.guarded_mcp_server import guarded_server
from support.mcp_workspace import MISBEHAVING, Bench
from support.scripted_provider import ScriptedProvider
from support.stage import Stage, finish

pytestmark = pytest.mark.anyio


class McpStage(Stage):
    hub: McpHub

    def make_task(self, task_id: str, log: EventLog, family: Family) -> Task:
        deps = super().make_task(task_id, log, family)._deps
        tool = UseMcpTool(self.hub)
        tools = {**deps.tools(), tool.name: tool}
        hooks = [*deps.hooks, AlwaysAllowed(self.hub), ServerGuard(self.hub)]
        return Task(task_id, log, replace(deps, tools=lambda: tools, hooks=hooks), family)

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        """`go` answers nothing, and lets the server go on that waits for it."""
        if entry == "go":
            pipe = self.root.parent / "go"
            await anyio.to_thread.run_sync(pipe.write_bytes, b"")
        else:
            await super()._act(engine, task_id, asked, entry)

    @property
    def finished(self) -> list[ToolFinished]:
        return [fact for fact in self.facts if isinstance(fact, ToolFinished)]


ids = count(1)


def greet(whom: str = "you") -> ToolCall:
    arguments = {"server": "one", "tool": "greet", "arguments": {"whom": whom}}
    return ToolCall(id=f"m{next(ids)}", name="use_mcp_tool", arguments=arguments)


async def test_a_call_needs_approval_and_shows_its_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes", "no not them", "yes")
    first, second = [fact for fact in stage.facts if isinstance(fact, Asked)][:2]
    assert first.title == "Call greet of the MCP server one"
    command = " ".join([sys.executable, "-S", "-E", str(MISBEHAVING), "well", str(bench.folder)])
    assert first.notes == (
        f"starts: {command} (outside the sandbox, as your own mcp.json says)",
        'arguments: {"whom": "you"}',
    )
    assert second.notes == ('arguments: {"whom": "them"}',), "it runs by then"
    assert second.digest != first.digest
    assert [result.ending for result in stage.finished[:2]] == [Ending.DONE, Ending.DENIED]
    assert stage.finished[0].text == quoted("mcp_result", "Hello you")
    [started] = [fact for fact in stage.facts if isinstance(fact, ToolStarted) and fact.external]
    assert started.external == "mcp one greet"
    assert bench.methods.count("tools/call") == 1


async def test_always_applies_to_one_tool_with_any_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("always", "yes")
    first = next(fact for fact in stage.facts if isinstance(fact, Asked))
    assert first.rule == "every call of 'greet' of the MCP server 'one', until this session ends"
    assert stage.asks == ["use_mcp_server", "completion_result"]
    said = [quoted("mcp_result", f"Hello {whom}") for whom in ("you", "them")]
    assert [each.text for each in stage.finished[:2]] == said


def ask_user(tool: str) -> ToolCall:
    arguments = {"server": "asking", "tool": tool, "arguments": {}}
    return ToolCall(id=f"m{next(ids)}", name="use_mcp_tool", arguments=arguments)


@pytest.fixture
def asked(tmp_path: Path) -> AskedBench:
    bench = AskedBench(tmp_path)
    bench.configure_asking(alwaysAllow=["*"])
    return bench


async def test_the_model_does_not_see_the_users_answer_to_a_server(
    asked: AskedBench, tmp_path: Path
):
    stage = McpStage(tmp_path, [ask_user("often")], [finish()])
    async with asked.hub(start=20) as stage.hub:
        await stage.play("message @secret-name", f"message {DECLINE}", "yes")
    assert stage.asks == ["followup", "followup", "completion_result"]
    assert "secret-name" not in repr(stage.model.requests)
    assert not any(isinstance(fact, Gathered) for fact in stage.facts)
    events = list(stage.store.read("t1"))
    condensed = [*events, next_event(events[-1], Condensed(upto=events[-1].seq), 0)]
    assert "secret-name" not in repr(history(condensed))


async def test_a_question_ends_with_the_call(asked: AskedBench, tmp_path: Path):
    os.mkfifo(tmp_path / "go")
    stage = McpStage(tmp_path, [ask_user("without_waiting")], [finish()])
    async with asked.hub(start=20) as stage.hub:
        await stage.play("go", "yes")
    withdrawn = next(fact for fact in stage.facts if isinstance(fact, Answered))
    assert (withdrawn.ask, withdrawn.by) == (AskKind.FOLLOWUP, "policy")
    assert stage.finished[0].text == quoted("mcp_result", "left")


async def test_a_cancelled_call_leaves_no_question_open(asked: AskedBench, tmp_path: Path):
    stage = McpStage(tmp_path, [ask_user("often")], [finish()])
    async with asked.hub(start=20) as stage.hub:
        await stage.play("cancel", "message go on", "yes")
    assert stage.asks == ["followup", "resume_task", "completion_result"]


async def test_requests_to_the_model_count_for_the_session(asked: AskedBench, tmp_path: Path):
    model = ScriptedProvider([["yes", Usage(tokens_in=9, tokens_out=4, cost=0.5)]] * 20)
    asked.provider = lambda: model
    stage = McpStage(tmp_path, [ask_user("sample_often")], [finish()])
    async with asked.hub(start=20) as stage.hub:
        await stage.play("always", "yes")
    state = fold(stage.store.read("t1"))
    assert (state.spent.requests, state.spent.tokens, state.spent.cost) == (2 + 10, 130, 5.0)


class NotedEvents(list[Event]):
    """Passes the address of the page to sign in at to `visit`."""

    def __init__(self, visit: Callable[[str], object]) -> None:
        super().__init__()
        self._visit = visit

    def append(self, event: Event) -> None:
        super().append(event)
        if isinstance(event.fact, Noted) and (found := re.search(r"http\S+", event.fact.text)):
            self._visit(found[0])


def whoami() -> ToolCall:
    arguments = {"server": "far", "tool": "whoami", "arguments": {}}
    return ToolCall(id=f"m{next(ids)}", name="use_mcp_tool", arguments=arguments)


async def test_a_user_can_sign_in_during_a_session(
    asked: AskedBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    tokens = TokenStore(tmp_path / "tokens.json")
    stage = McpStage(tmp_path, [whoami()], [finish()])
    with guarded_server() as guarded, ThreadPoolExecutor() as browser:
        stage.events = NotedEvents(lambda page: browser.submit(urllib.request.urlopen, page))
        asked.configure(far={"type": "http", "url": guarded.url})
        async with asked.hub(start=20, tokens=tokens) as stage.hub:
            await stage.play("yes", "yes", "yes")
    question = [fact for fact in stage.facts if isinstance(fact, Asked)][1]
    assert question.title == "Sign in to the MCP server far?"
    assert stage.finished[0].text == quoted("mcp_result", "You are [secret hidden].")
    journal = repr(list(stage.store.read("t1")))
    assert not [token for token in guarded.provider.tokens if token in journal]


async def test_a_run_that_is_not_interactive_says_what_to_run(asked: AskedBench, tmp_path: Path):
    asked.attended = False
    stage = McpStage(tmp_path, [whoami()], [finish()])
    with guarded_server() as guarded:
        asked.configure(far={"type": "http", "url": guarded.url})
        async with asked.hub(start=20) as stage.hub:
            await stage.play("yes", "yes")
    assert "It wants you to sign in. Run: rookery mcp login far" in stage.finished[0].text
    assert stage.asks == ["use_mcp_server", "completion_result"]
