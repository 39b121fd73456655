"""Tools and hooks of a program: what they return, raise, or never do."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rookery import tool
from rookery.app.additions import Additions, GuardedHook
from rookery.core.asks import Decision, Ruling, allow, ask
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Permit
from rookery.errors import ToolError, UsageError
from support.each_row import each_row

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c", name="edit")


async def no_action(permit: Permit) -> str:
    return ""


ACTION = Action(title="Edit", perform=no_action)


class OddHook:
    decision = Decision.ALLOW

    async def before(self, call: ToolCall, action: Action) -> Any:
        return self


async def leaves(call: ToolCall, action: Action) -> Ruling:
    sys.exit(3)


async def waits(call: ToolCall, action: Action) -> Ruling:
    from anyio import sleep_forever

    await sleep_forever()
    raise AssertionError


async def approves(call: ToolCall, action: Action) -> Ruling:
    return allow()


@each_row(
    ("hook", "decision", "words"),
    [
        (approves, Decision.NONE, ""),
        (lambda call, action: None, Decision.NONE, ""),
        (lambda call, action: ask("Sure?"), Decision.ASK, "Sure?"),
        (lambda call, action: True, Decision.DENY, "True, which is not a ruling"),
        (OddHook(), Decision.DENY, "not a ruling"),
        (leaves, Decision.DENY, "SystemExit"),
        (waits, Decision.DENY, "did not answer"),
        (lambda call: None, Decision.DENY, "TypeError"),
    ],
)
async def test_a_hook_restricts_or_refuses(hook: Any, decision: Decision, words: str):
    ruling = await GuardedHook(hook, seconds=0.05).before(CALL, ACTION)
    assert ruling.decision is decision
    assert words in str(ruling)


def exits() -> str:
    """Exit."""
    sys.exit(3)


def interrupts() -> str:
    """Interrupt."""
    raise KeyboardInterrupt


def stops() -> str:
    """Stop."""
    raise StopIteration


async def exits_later() -> str:
    """Exit."""
    sys.exit(3)


@each_row("function", [exits, interrupts, stops, exits_later])
async def test_a_tool_that_wants_to_end_the_program_fails(function: Callable[[], str]):
    made = tool(function)
    with pytest.raises(ToolError, match=f"{function.__name__} failed: "):
        await made._perform(made.arguments(), Permit(digest=""))


def complex_argument(number: complex) -> str:
    """Count."""
    return ""


def größe() -> str:
    """Measure."""
    return ""


def test_a_tool_that_no_model_can_call_is_refused():
    with pytest.raises(UsageError, match="cannot be written as JSON: type <class 'complex'>"):
        tool(complex_argument)
    with pytest.raises(UsageError, match="cannot be called 'größe'"):
        Additions(tools=(tool(größe),)).with_tools({})


STUCK = """
import threading, time, anyio
from rookery.platform.own_thread import in_own_thread

async def main():
    started = threading.Event()
    def work():
        started.set()
        time.sleep(1000)
    async with anyio.create_task_group() as group:
        group.start_soon(in_own_thread, work)
        await anyio.to_thread.run_sync(started.wait)
        group.cancel_scope.cancel()

anyio.run(main)
"""


def test_a_function_that_never_returns_does_not_keep_the_program():
    subprocess.run([sys.executable, "-c", STUCK], check=True, timeout=60)
