"""The checkpoint screen with a real host: steps, diffs and rewinding."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choose_model
from rookery.app.task_hooks import Consent
from rookery.core.commands import OpenTask
from rookery.core.facts import FilesRestored, Rewound
from rookery.core.modes import Level
from rookery.core.queries import AskRehearsal, RestoreRehearsal
from rookery.core.settings import Settings
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import Host
from rookery.storage.sessions import TaskStore
from rookery.tui.own_commands import run_command
from rookery.tui.screens.checkpoint_screen import CheckpointScreen, RestoreScreen
from support.tui_bare_app import BareApp, handler
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio

SCRIPT = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "two\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""


@pytest.fixture
def anyio_backend() -> str:
    """A real host needs real time."""
    return "asyncio"


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[Host]:
    work = folder / "work"
    work.mkdir()
    (folder / "script.yaml").write_text(SCRIPT)
    places = find_places({"ROOKERY_HOME": str(folder / "home")})
    choice = ModelChoice("scripted", str(folder / "script.yaml"), None, None)

    def choose(settings: Settings) -> ModelChoice:
        return choose_model(settings, {}, places.keys_file, None)

    consent = Consent(trusted=True, level=Level.AUTO, acts_anyway=True)
    async with open_host(
        Settings(), choice, TaskStore(places), work, places, consent, choose
    ) as host:
        yield host


@asynccontextmanager
async def done_task(folder: Path) -> AsyncIterator[tuple[BareApp, Pilot[Any], Path]]:
    """A completed task that wrote a file twice."""
    async with hosted(folder) as host:
        await host.send(OpenTask(task_id="t", text="Make it."))
        app = BareApp(host, "t")
        async with app.run_test(size=(80, 30)) as pilot:
            await until(pilot, lambda: app.view and app.view.agent.state == "idle")
            yield app, pilot, folder / "work" / "made.txt"


def reported(app: BareApp, kind: type) -> list[Any]:
    return [event.fact for event in app.events("t") if isinstance(event.fact, kind)]


async def test_a_step_is_inspected_and_its_files_are_restored(tmp_path: Path):
    async with done_task(tmp_path) as (app, pilot, made):
        await app.push_screen(CheckpointScreen(app))
        await until(pilot, lambda: "File changes since then: 1 file." in seen(pilot))
        assert "-one" in seen(pilot).replace(" ", "")
        assert "+two" in seen(pilot).replace(" ", "")
        await pilot.press("f")
        await until(pilot, lambda: "1 file restored:" in seen(pilot))
        assert made.read_text() == "two\n"
        await pilot.press("y")
        await until(pilot, lambda: made.read_text() == "one\n")
        await until(pilot, lambda: reported(app, FilesRestored))
        assert reported(app, Rewound) == []
        assert app.toasts == ["Rewound: the files."]
        assert not isinstance(app.screen, CheckpointScreen)


async def test_the_conversation_is_rewound_and_the_files_stay(tmp_path: Path):
    async with done_task(tmp_path) as (app, pilot, made):
        await app.push_screen(CheckpointScreen(app))
        await until(pilot, lambda: "File changes since then" in seen(pilot))
        await pilot.press("c")
        await until(pilot, lambda: "The files stay as they are." in seen(pilot))
        await pilot.press("y")
        await until(pilot, lambda: reported(app, Rewound))
        assert reported(app, FilesRestored) == []
        assert made.read_text() == "two\n"


async def test_changes_by_others_are_kept_until_confirmed_twice(tmp_path: Path):
    async with done_task(tmp_path) as (app, pilot, made):
        made.write_text("mine\n")
        await app.push_screen(CheckpointScreen(app))
        await until(pilot, lambda: "File changes since then" in seen(pilot))
        await pilot.press("f")
        await until(pilot, lambda: "1 file kept" in seen(pilot))
        assert "No file changes." in seen(pilot)
        await pilot.press("o")
        await until(pilot, lambda: "will be lost" in seen(pilot))
        await until(pilot, lambda: "1 file restored:" in seen(pilot))
        assert "o overwrite" not in seen(pilot)
        assert made.read_text() == "mine\n"
        await pilot.press("y")
        await until(pilot, lambda: made.read_text() == "one\n")


async def test_undo_previews_its_changes_and_cancelling_changes_nothing(tmp_path: Path):
    async with done_task(tmp_path) as (app, pilot, made):
        assert await run_command("/undo", app, app)
        await until(pilot, lambda: "1 file restored:" in seen(pilot))
        await pilot.press("enter", "escape")
        await until(pilot, lambda: not isinstance(app.screen, RestoreScreen))
        assert made.read_text() == "two\n"
        assert await run_command("/undo", app, app)
        await until(pilot, lambda: "y rewind" in seen(pilot))
        await pilot.press("y")
        await until(pilot, lambda: made.read_text() == "one\n")
        await until(pilot, lambda: reported(app, Rewound))


async def test_a_point_is_named_by_its_number(tmp_path: Path):
    async with done_task(tmp_path) as (app, pilot, made):
        assert await run_command("/files 1", app, app)
        await until(pilot, lambda: "1 file removed:" in seen(pilot))
        await pilot.press("y")
        await until(pilot, lambda: not made.exists())
        assert await run_command("/rewind 4711", app, app)
        assert app.toasts[-1] == "No such point: 4711. /checkpoints lists all."


async def test_diffs_are_placed_by_width_and_an_error_confirms_nothing():
    async with handler() as it:
        for size in ((80, 24), (160, 48)):
            await it.pilot.resize_terminal(*size)
            await it.open(CheckpointScreen)
            shown = await it.sees("prices.py  +5 −1")
            row = next(line for line in shown.splitlines() if "File changes" in line)
            assert ("is a word" in row) is (size[0] == 160), (
                "the diff is beside the points only on a wide terminal"
            )
            await it.press("escape")
            await it.until(lambda: it.closed)
        await it.open(CheckpointScreen)
        await it.sees("File changes")
        await it.press("b")
        await it.sees("y rewind")
        it.host.refusal = "The task is at work."
        await it.press("y")
        await it.until(lambda: it.app.toasts == ["The task is at work."])
        assert isinstance(it.app.screen, RestoreScreen)
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, CheckpointScreen))
        it.host.answer(AskRehearsal, RestoreRehearsal(problem="The shadow repository is gone."))
        await it.press("b")
        assert "y rewind" not in await it.sees("The shadow repository is gone.")
        await it.press("y")
        await it.until(lambda: it.closed)
        assert it.host.sent == []
