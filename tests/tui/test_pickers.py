"""The pickers of `/`, `@`, `!`, `#` and `?`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from textual.pilot import Pilot

from rookery.core.queries import AskPaths, AskTasks, FoundPath
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Choice
from rookery.tui.own_commands import COMMANDS
from rookery.tui.pickers import PICKERS, TRIGGERS, Picker
from rookery.tui.screens.shell_screen import ShellScreen
from support.scripted_host import ScriptedHost
from support.tui_bare_app import BareApp
from support.tui_screen_scenes import TASKS, answering_host
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio


class OwnPaths(ScriptedHost):
    """Finds paths by their letters, with a configurable delay."""

    def __init__(self, *paths: str) -> None:
        super().__init__()
        self.paths = paths
        self.asked: list[str] = []
        self.gate = anyio.Event()
        self.gate.set()

    async def query(self, query):  # type: ignore[no-untyped-def]
        if not isinstance(query, AskPaths):
            return await super().query(query)
        self.asked.append(query.letters)
        await self.gate.wait()
        return tuple(FoundPath(path=path) for path in self.paths if query.letters in path)


class Opened:
    """An app with a picker and its rows."""

    def __init__(self, app: BareApp, pilot: Pilot[Any], picker: Picker) -> None:
        self.app, self.pilot, self.picker = app, pilot, picker

    @property
    def labels(self) -> list[str]:
        return [choice.label for choice in self.picker.choices]

    @property
    def chosen(self) -> Choice:
        assert self.picker.chosen
        return self.picker.chosen

    async def until(self, holds: Callable[[], object]) -> None:
        await until(self.pilot, holds)


@asynccontextmanager
async def opened(
    trigger: str,
    text: str = "",
    host: ScriptedHost | None = None,
    *,
    app: BareApp | None = None,
    size: tuple[int, int] = (80, 24),
) -> AsyncIterator[Opened]:
    """A picker that has found something; `!` has nothing to find."""
    app = app or BareApp(host or answering_host())
    async with app.run_test(size=size) as pilot:
        picker = PICKERS[trigger](app)
        await app.show(picker)
        await picker.search(text)
        await until(pilot, lambda: picker.choices or trigger == "!")
        yield Opened(app, pilot, picker)


def test_every_trigger_has_a_picker():
    assert [trigger.char for trigger in TRIGGERS] == list("/@!#?")
    assert set(PICKERS) == set("/@!#?")


async def test_slash_lists_built_in_commands_before_the_models():
    async with opened("/") as it:
        assert it.labels == [*(f"/{each.name}" for each in COMMANDS), "/review", "/release"]


async def test_slash_matching_ignores_case():
    async with opened("/", "ReW") as it:
        assert it.labels == ["/rewind", "/review"]


async def test_a_command_for_the_model_is_inserted_and_a_built_in_one_runs():
    async with opened("/", "release") as it:
        assert (it.chosen.insert, it.chosen.action) == ("/release ", None)
        await it.picker.search("new")
        await it.until(lambda: it.chosen.label == "/new")
        assert it.chosen.insert == ""
        assert it.chosen.action
        await it.chosen.action()
        assert it.app.renewed == 1


async def test_a_shell_command_in_the_picker_says_where_to_run_it():
    async with opened("/", "mcp") as it:
        (choice,) = it.picker.choices
        assert (choice.label, choice.detail) == ("/mcp", "In a shell: rookery mcp")


async def test_enter_before_the_pause_chooses_by_the_typed_text():
    async with opened("/") as it:
        await it.picker.search("quit")
        assert it.chosen.label == "/quit"


async def test_a_file_cannot_be_chosen_before_its_search():
    host = OwnPaths("src/a.py", "src/b.py")
    async with opened("@", host=host) as it:
        await it.picker.search("b.py")
        assert it.picker.chosen is None
        await it.until(lambda: it.picker.chosen)
        assert it.chosen.label == "src/b.py"
        # picking before the pause searches at once
        await it.picker.search("a.py")
        choice = await it.picker.settle()
        assert choice
        assert choice.label == "src/a.py"
        assert host.asked == ["", "b.py", "a.py"]


async def test_at_lists_files_and_inserts_a_mention():
    async with opened("@", "s") as it:
        assert [choice.insert for choice in it.picker.choices] == [
            "@/src/ ",
            "@/src/prices.py ",
            "@/notes\\ of\\ 割引.md ",
        ]


async def test_files_are_searched_once_typing_has_paused():
    host = OwnPaths("src/a.py")
    async with opened("@", host=host) as it:
        for letters in ("s", "sr", "src"):
            await it.picker.search(letters)
        await it.until(lambda: len(host.asked) == 2)
        assert host.asked == ["", "src"]


async def test_rows_stay_during_the_next_search():
    host = OwnPaths("src/a.py", "src/b.py")
    async with opened("@", host=host) as it:
        host.gate = anyio.Event()
        await it.picker.search("b")
        await it.until(lambda: host.asked[-1] == "b")
        assert it.labels[:2] == ["src/a.py", "src/b.py"]
        host.gate.set()
        await it.until(lambda: it.labels == ["src/b.py"])


async def test_a_marked_row_stays_marked_while_it_matches():
    async with opened("@", host=OwnPaths("src/a.py", "src/b.py", "src/c.js")) as it:
        it.picker.move(1)
        for letters, label in (("py", "src/b.py"), ("a.py", "src/a.py"), ("py", "src/a.py")):
            await it.picker.search(letters)
            await it.until(lambda: it.picker.chosen)
            assert it.chosen.label == label


async def test_a_refusal_is_shown_in_the_list():
    class Refusing(ScriptedHost):
        async def query(self, query):  # type: ignore[no-untyped-def]
            if isinstance(query, AskPaths) and query.letters:
                raise CommandRejected("The folder cannot be read.")
            return await super().query(query)

    async with opened("@", host=Refusing()) as it:
        await it.picker.search("a")
        await it.until(lambda: "The folder cannot be read." in seen(it.pilot))
        assert it.picker.chosen is None


async def test_hash_lists_at_most_fifteen_tasks_and_opens_one():
    async with opened("#", " half up") as it:
        assert len(it.picker.choices) == len(TASKS)
        choice = it.picker.choices[1]
        assert choice.detail.startswith("2 h ago · completed")
        assert choice.insert == ""
        assert choice.action
        await choice.action()
        assert it.app.opened == [TASKS[1].task_id]
        assert isinstance(it.app.host, ScriptedHost)
        it.app.host.answer(AskTasks, TASKS * 10)
        await it.picker.search("half")
        await it.until(lambda: len(it.picker.choices) == 15)


async def test_bang_shows_the_line_that_would_be_run_and_runs_it_in_a_panel():
    async with opened("!") as it:
        await it.until(lambda: "The model sees only output you keep" in seen(it.pilot))
        assert it.picker.chosen is None
        await it.picker.search("echo hello")
        assert it.chosen.label == "$ echo hello"
        assert it.chosen.action
        await it.chosen.action()
        assert isinstance(it.app.screen, ShellScreen)


async def test_question_mark_lists_triggers_and_the_keys_that_are_bound():
    async with opened("?") as it:
        assert it.labels == ["/", "@", "!", "#", "Ctrl+O", "F1"]
        assert it.picker.choices[1].insert == "@"
        assert it.picker.choices[4].action
        await it.picker.choices[4].action()
        assert it.app.pressed == ["unfold_all"]


async def test_a_click_picks_a_row():
    picked: list[Picker.Picked] = []

    class Clicked(BareApp):
        def on_picker_picked(self, message: Picker.Picked) -> None:
            picked.append(message)

    async with opened("@", app=Clicked(answering_host())) as it:
        await it.until(lambda: "prices.py" in seen(it.pilot))
        await it.pilot.click("PickList", offset=(4, 1))
        await it.until(lambda: picked)
        assert picked[0].choice.insert == "@/src/prices.py "


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 48)])
async def test_a_picker_never_takes_more_than_ten_lines(size: tuple[int, int]):
    async with opened("/", size=size) as it:
        await it.until(lambda: "below" in seen(it.pilot))
        assert 1 < it.picker.size.height <= 10
        assert all(len(line) <= size[0] for line in seen(it.pilot).splitlines())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["prices.py", "git-changes", "problems", "terminal"]),
        ("pr", ["prices.py", "problems"]),
        ("term", ["terminal"]),
    ],
)
async def test_an_at_sign_offers_more_than_files(text: str, found: list[str]):
    async with opened("@", text, OwnPaths("prices.py")) as it:
        assert it.labels == found
