"""Hosts and sessions of the Python API, with the real engine and a scripted model."""

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import rookery
from rookery.core.asks import allow
from support.processes import command_line, descendants
from support.terminal_session import PATIENCE

pytestmark = pytest.mark.anyio

WRITE = """
- calls:
  - tool: write_to_file
    arguments: {path: a.txt, content: hi}
- say: Done.
"""
COMMAND = """
- calls:
  - tool: execute_command
    arguments: {command: "touch began; sleep 1000"}
- say: Done.
"""
CALL = """
- calls:
  - tool: count
    arguments: {word: abc}
- say: Done.
"""


class Place:
    """A folder for the agent, a home, and a script for the model."""

    def __init__(self, folder: Path) -> None:
        self.work, self._script = folder / "work", folder / "script.yaml"
        self.work.mkdir()

    def options(self, script: str, **more: Any) -> dict[str, Any]:
        self._script.write_text(script, encoding="utf-8")
        scripted = {"provider": "scripted", "model": str(self._script), "trust": True}
        return {"folder": self.work, **scripted, **more}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    return Place(tmp_path)


async def test_without_an_answer_nothing_is_approved(place: Place):
    async with rookery.open(**place.options(WRITE)) as host:
        result = await host.run("do it")
    assert (result.status, result.text) == ("completed", "Done.")
    assert list(place.work.iterdir()) == []


def test_callbacks_of_the_loop_may_use_anyio(place: Place):
    """As the watch for ports does that begins while a command runs."""
    failures: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, failure: failures.append(failure))
        async with rookery.open(**place.options(WRITE)):
            loop.call_soon(anyio.CancelScope)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert failures == []


async def test_an_untrusted_folder_is_not_changed_although_the_program_approves(place: Place):
    async def approve(question: rookery.TaskEvent) -> bool:
        return True

    async with rookery.open(**place.options(WRITE, trust=False)) as host:
        await host.run("do it", answer=approve)
    assert list(place.work.iterdir()) == []


async def test_a_host_closed_during_a_question_leaves_a_session_to_resume(place: Place):
    async with rookery.open(**place.options(WRITE)) as host:
        session = await host.start("do it")
        async for event in session.events():
            if event.is_question:
                break
    assert [event async for event in session.events()] == []
    async with rookery.open(**place.options(WRITE)) as host:
        again = await host.resume(session.id)
        await again.proceed()
        async for event in again.events():
            if event.is_question:
                await again.approve(event)
    assert (place.work / "a.txt").read_text() == "hi"


async def test_a_turn_can_be_followed_and_then_finished(place: Place):
    async with rookery.open(**place.options(WRITE)) as host:
        session = await host.start("do it")
        async for event in session.events():
            if event.is_question:
                break
        with anyio.fail_after(PATIENCE):
            first = await session.finish(lambda question: True)
        assert [event async for event in session.events()] == []
        again = await session.finish()
    assert (first.status, first.text) == ("completed", "Done.")
    assert again == first
    assert (place.work / "a.txt").read_text() == "hi"


async def test_a_closed_session_takes_no_message_and_can_be_resumed_at_once(place: Place):
    async with rookery.open(**place.options(WRITE)) as host:
        session = await host.start("do it")
        await session.finish()
        await session.close()
        with pytest.raises(rookery.CommandRejected, match="has ended"):
            await session.say("more")
        with anyio.fail_after(PATIENCE):
            assert (await host.resume(session.id)).id == session.id


async def test_an_error_in_the_program_ends_a_running_command_and_arrives_as_it_is(place: Place):
    async def fails() -> None:
        async with rookery.open(**place.options(COMMAND, level="auto")) as host:
            session = await host.start("do it")
            async for event in session.events():
                if isinstance(event.fact, rookery.ToolStarted):
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    left = descendants(os.getpid())
    assert [pid for pid in left if b"sleep 1000" in command_line(pid)] == []


async def test_a_cancelled_program_leaves_the_host(place: Place):
    with anyio.CancelScope() as scope:
        async with rookery.open(**place.options(WRITE)) as host:
            session = await host.start("do it")
            async for event in session.events():
                if event.is_question:
                    scope.cancel()
    assert scope.cancelled_caught
    with pytest.raises(rookery.UsageError, match="closed"):
        await host.start("more")


@rookery.tool
def count(word: str) -> int:
    """Count letters."""
    return len(word)


async def test_an_added_tool_asks_and_its_result_reaches_the_model(place: Place):
    asked: list[str] = []

    async def approve(question: rookery.TaskEvent) -> bool:
        assert isinstance(question.fact, rookery.Asked)
        asked.extend(question.fact.notes)
        return True

    async with rookery.open(**place.options(CALL, tools=[count])) as host:
        session = await host.start("do it")
        await session.finish(approve)
    assert 'arguments: {"word":"abc"}' in asked


async def test_a_hook_cannot_approve_and_a_failing_hook_refuses(place: Place):
    async def approving(call: rookery.ToolCall, action: rookery.Action) -> rookery.Ruling:
        return allow()

    async def broken(call: rookery.ToolCall, action: rookery.Action) -> rookery.Ruling:
        raise RuntimeError("no disk")

    for hook, expected in ((approving, ["question"]), (broken, ["The hook broken failed: "])):
        seen = []
        async with rookery.open(**place.options(WRITE, hooks=[hook])) as host:
            session = await host.start("do it")
            async for event in session.events():
                if event.is_question:
                    seen.append("question")
                    await session.reject(event)
                elif isinstance(event.fact, rookery.ToolFinished) and hook is broken:
                    seen.append(event.fact.text)
        assert len(seen) == 1
        assert expected[0] in seen[0]
    assert list(place.work.iterdir()) == []


class Generating:
    model = rookery.ModelInfo(id="x", provider="x")

    async def stream(self, request: rookery.ModelRequest) -> AsyncIterator[rookery.Chunk]:
        yield rookery.StopChunk(rookery.StopReason.END)


MISUSES = {
    "no such folder": ({"folder": "/no/such/folder"}, rookery.UsageError, "No such folder"),
    "no such provider": ({"provider": "opnai"}, rookery.SettingsError, "Did you mean"),
    "no such setting": ({"settings": {"modle": "x"}}, rookery.SettingsError, "modle"),
    "no such level": ({"level": "bold"}, rookery.UsageError, "Available: plan, ask"),
    "no tool": ({"tools": [len]}, rookery.UsageError, "@rookery.tool"),
    "no provider": ({"provider": 7}, rookery.UsageError, "is not a provider"),
    "a generator": ({"provider": Generating()}, rookery.UsageError, "async context manager"),
    "no hook": ({"hooks": ["before"]}, rookery.UsageError, "is not a hook"),
    "a name in use": ({"tools": [count, count]}, rookery.UsageError, "already a tool count"),
}


@pytest.mark.parametrize(("given", "kind", "words"), MISUSES.values(), ids=MISUSES.keys())
async def test_misuse_raises_one_error_of_the_family(
    place: Place, given: dict[str, Any], kind: type[Exception], words: str
):
    with pytest.raises(kind, match=words) as raised:
        async with rookery.open(**place.options(WRITE) | given):
            pass
    assert isinstance(raised.value, rookery.RookeryError)


async def test_a_session_is_opened_once_in_a_host(place: Place):
    async with rookery.open(**place.options(WRITE)) as host:
        session = await host.start("do it")
        with pytest.raises(rookery.UsageError, match="is open in this host"):
            await host.resume(session.id)
        await session.close()
        async for _ in session.events():
            pass
        assert (await host.resume(session.id)).id == session.id


async def test_a_session_is_followed_once_at_a_time(place: Place):
    async with rookery.open(**place.options(COMMAND, level="auto")) as host:
        session = await host.start("do it")
        async with anyio.create_task_group() as group:
            group.start_soon(session.finish)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(rookery.UsageError, match="is followed already"):
                await session.finish()
            group.cancel_scope.cancel()


async def test_the_synchronous_form_is_refused_inside_an_event_loop(place: Place):
    with (
        pytest.raises(rookery.UsageError, match="running event loop"),
        rookery.open_sync(**place.options(WRITE)),
    ):
        pass
    gc.collect()  # no coroutine was left waiting


def test_the_synchronous_form_works_in_a_thread(place: Place):
    results: list[str] = []

    def work() -> None:
        with rookery.open_sync(**place.options(WRITE)) as host:
            session = host.start("do it")
            for event in session.events():
                if event.is_question:
                    session.approve(event)
            results.append((place.work / "a.txt").read_text())
        with pytest.raises(rookery.UsageError, match="The host is closed"):
            session.cancel()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == ["hi"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_error_in_a_script_leaves_the_host_and_arrives_as_it_is(
    place: Place, error: type[BaseException]
):
    def fails() -> None:
        with rookery.open_sync(**place.options(WRITE)) as host:
            host.start("do it")
            raise error

    with pytest.raises(error):
        fails()


def test_a_tool_needs_a_docstring_and_annotations():
    def silent(word: str) -> str:
        return word

    def loose(word) -> str:  # type: ignore[no-untyped-def]
        """Say a word."""
        return str(word)

    with pytest.raises(rookery.UsageError, match="needs a docstring"):
        rookery.tool(silent)
    with pytest.raises(rookery.UsageError, match="annotate the argument word"):
        rookery.tool(loose)
