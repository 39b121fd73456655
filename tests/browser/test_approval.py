"""Approval of browser actions: what is shown, and what is not asked again."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rookery.browser.browser_action import (
    NO_BROWSER,
    NO_EXTRA,
    BrowserAction,
    KnownOrigins,
    find_browser,
)
from rookery.browser.browser_session import AS_ROOT, BrowserSession
from rookery.core.asks import Ruling, allow
from rookery.core.blocks import ToolCall
from rookery.core.tool_traits import BROWSER
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.errors import BadArguments, ToolError
from rookery.tools.registry import declared_by
from support.browser_site import Bench

pytestmark = pytest.mark.anyio
SOURCE = Path(__file__).parents[2] / "src"
LOCAL, FOREIGN = "http://localhost:3000", "https://example.com"


def unopened(*, network: bool = True) -> Bench:
    def start_soon(*_: Any) -> None:
        raise AssertionError("Nothing is started before it is allowed.")

    return Bench(BrowserSession(start_soon, network=network))


def test_the_declared_traits_are_those_of_the_tool():
    assert declared_by(BrowserAction) == BROWSER


async def test_the_question_shows_the_whole_address():
    url = f"{FOREIGN}/search?q=secret&page=2"
    action = await unopened().prepare("launch", url=url)
    assert action.title == f"Launch a browser at {FOREIGN}"
    assert action.external == f"browser {FOREIGN}"
    as_root = [AS_ROOT] if os.geteuid() == 0 else []
    assert list(action.notes) == [f"url: {url}", *as_root]
    assert action.payload == {"tool": "browserAction", "action": "launch", "url": url}
    assert action.changes_things


async def test_read_only_actions_need_no_approval():
    for action in ("screenshot", "scroll_down", "scroll_up", "close"):
        assert not (await unopened().prepare(action)).changes_things, action


async def test_private_addresses_are_refused_without_a_question():
    for host in ("169.254.169.254", "metadata.google.internal", "10.1.2.3"):
        with pytest.raises(ToolError, match="was not opened"):
            await unopened().prepare("launch", url=f"http://{host}/")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "chrome://crash",
        "data:text/html,x",
        "javascript:alert(1)",
        "localhost",
    ],
)
async def test_other_schemes_are_not_opened(url: str):
    with pytest.raises(BadArguments, match="Only http:// and https://"):
        await unopened().prepare("launch", url=url)


async def test_without_network_only_local_pages_are_asked_about():
    bench = unopened(network=False)
    with pytest.raises(ToolError, match="only localhost can be reached"):
        await bench.prepare("launch", url=FOREIGN)
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert (await bench.prepare("launch", url=f"http://{host}:3000/")).external


async def test_known_origins_skip_approval_for_some_actions():
    hook = KnownOrigins(lambda: {LOCAL, FOREIGN})
    for action, origin, ruling in (
        ("navigate", LOCAL, allow()),
        ("type", LOCAL, allow()),
        ("click", FOREIGN, allow()),
        ("navigate", FOREIGN, Ruling()),
        ("type", FOREIGN, Ruling()),
        ("launch", "http://localhost:4000", Ruling()),
        ("click", "https://other.example", Ruling()),
    ):
        found = await hook.before(_CALL, _action(f"browser {origin}", action))
        assert found == ruling, (action, origin)
        assert await hook.before(_CALL, _action(f"mcp {origin}", action)) == Ruling()


_CALL = ToolCall(id="c1", name="browser_action", arguments={})


def _action(external: str, action: str, **fields: str) -> Action:
    async def perform(permit: Permit) -> Outcome:
        raise AssertionError("It must not be performed.")

    payload = {"action": action, **fields}
    return Action(title="", perform=perform, external=external, payload=payload)


KEYS = {
    **dict.fromkeys(("Enter", "Tab", "Shift+Tab", "Escape", "ArrowDown", "F5"), allow()),
    **dict.fromkeys(("s", "S", "7", " ", "é", "Space", "KeyS", "Digit7"), Ruling()),
    **dict.fromkeys(("Shift+s", "Control+V", "Control+Enter", "Minus", ""), Ruling()),
}


async def test_a_key_that_types_text_counts_as_model_text():
    hook = KnownOrigins(lambda: {LOCAL, FOREIGN})
    for key, ruling in KEYS.items():
        pressing = _action(f"browser {FOREIGN}", "press", text=key)
        assert await hook.before(_CALL, pressing) == ruling, key
        at_home = _action(f"browser {LOCAL}", "press", text=key)
        assert await hook.before(_CALL, at_home) == allow(), key


def test_without_a_browser_the_user_learns_what_to_install(tmp_path: Path):
    pytest.importorskip("playwright")
    with pytest.raises(ToolError) as raised:
        find_browser("", str(tmp_path))
    assert str(raised.value) == NO_BROWSER
    with pytest.raises(ToolError, match=r"setting browser\.path"):
        find_browser(str(tmp_path), "")


def test_a_browser_is_searched_in_absolute_paths_only(tmp_path: Path):
    pytest.importorskip("playwright")
    program = tmp_path / "chromium"
    program.touch(mode=0o755)
    assert find_browser("", f".:{tmp_path}") == str(program)
    assert find_browser(str(program), "") == str(program)


def test_without_the_extra_the_user_learns_its_name(tmp_path: Path):
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    script = "from rookery.browser.browser_action import find_browser; find_browser('', '')"
    done = _python("-S", "-c", script, packages=tmp_path)
    assert done.stderr.splitlines()[-1].endswith(NO_EXTRA)


def test_nothing_heavy_is_imported_before_a_browser_is_needed():
    script = (
        "import sys, rookery.browser.browser_session, rookery.browser.browser_action; "
        "print('playwright' in sys.modules)"
    )
    assert _python("-c", script).stdout == "False\n"


def _python(*arguments: str, packages: Path = SOURCE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": f"{SOURCE}:{packages}"},
        capture_output=True,
        text=True,
        check=False,
    )
