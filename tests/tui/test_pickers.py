"""The pickers of `/`, `@`, `!`, `#` and `?`."""

import anyio
import pytest

from rookery.core.queries import AskPaths, AskTasks, FoundPath
from rookery.errors import CommandRejected
from rookery.tui.own_commands import COMMANDS
from rookery.tui.pickers import PICKERS, TRIGGERS, Picker, picker_for
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


async def opened(app: BareApp, trigger: str, text: str = "") -> Picker:
    picker = picker_for(trigger, app)
    await app.show(picker)
    await picker.search(text)
    return picker


def labels(picker: Picker) -> list[str]:
    return [choice.label for choice in picker.choices]


def test_every_trigger_has_a_picker():
    assert [trigger.char for trigger in TRIGGERS] == list("/@!#?")
    assert set(PICKERS) == set("/@!#?")


async def test_slash_lists_built_in_commands_before_the_models():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "/")
        await until(pilot, lambda: picker.choices)
        own = [f"/{each.name}" for each in COMMANDS]
        assert labels(picker) == [*own, "/review", "/release"]


async def test_slash_matching_ignores_case():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "/", "ReW")
        await until(pilot, lambda: picker.choices)
        assert labels(picker) == ["/rewind", "/review"]


async def test_a_command_for_the_model_is_inserted_and_a_built_in_one_runs():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "/", "release")
        await until(pilot, lambda: picker.choices)
        assert picker.chosen
        assert (picker.chosen.insert, picker.chosen.action) == ("/release ", None)
        await picker.search("new")
        await until(pilot, lambda: picker.chosen and picker.chosen.label == "/new")
        assert picker.chosen
        assert picker.chosen.insert == ""
        assert picker.chosen.action
        await picker.chosen.action()
        assert app.renewed == 1


async def test_a_word_that_is_no_command_here_is_answered_by_name():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "/", "mcp")
        await until(pilot, lambda: picker.choices)
        assert [(each.label, each.detail) for each in picker.choices] == [
            ("/mcp", "In a shell: rookery mcp")
        ]


async def test_enter_before_the_pause_chooses_by_the_typed_text():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "/")
        await until(pilot, lambda: picker.choices)
        await picker.search("quit")
        assert picker.chosen
        assert picker.chosen.label == "/quit"


async def test_a_file_cannot_be_chosen_before_its_search():
    host = OwnPaths("src/a.py", "src/b.py")
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        await picker.search("b.py")
        assert picker.chosen is None
        await until(pilot, lambda: picker.chosen)
        assert picker.chosen
        assert picker.chosen.label == "src/b.py"


async def test_picking_before_the_pause_searches_at_once():
    host = OwnPaths("src/a.py", "src/b.py")
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        await picker.search("b.py")
        choice = await picker.settle()
        assert choice
        assert choice.label == "src/b.py"
        assert host.asked == ["", "b.py"]


async def test_at_lists_files_and_inserts_a_mention():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "@", "s")
        await until(pilot, lambda: picker.choices)
        assert [choice.insert for choice in picker.choices] == [
            "@/src/ ",
            "@/src/prices.py ",
            "@/notes\\ of\\ 割引.md ",
        ]


async def test_files_are_searched_once_typing_has_paused():
    host = OwnPaths("src/a.py")
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        for letters in ("s", "sr", "src"):
            await picker.search(letters)
        await until(pilot, lambda: len(host.asked) == 2)
        assert host.asked == ["", "src"]


async def test_rows_stay_during_the_next_search():
    host = OwnPaths("src/a.py", "src/b.py")
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        host.gate = anyio.Event()
        await picker.search("b")
        await until(pilot, lambda: host.asked[-1] == "b")
        assert labels(picker)[:2] == ["src/a.py", "src/b.py"]
        host.gate.set()
        await until(pilot, lambda: labels(picker) == ["src/b.py"])


async def test_a_marked_row_stays_marked_while_it_matches():
    host = OwnPaths("src/a.py", "src/b.py", "src/c.js")
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        picker.move(1)
        await picker.search("py")
        await until(pilot, lambda: picker.chosen)
        assert picker.chosen
        assert picker.chosen.label == "src/b.py"
        await picker.search("a.py")
        await until(pilot, lambda: picker.chosen)
        await picker.search("py")
        await until(pilot, lambda: picker.chosen)
        assert picker.chosen.label == "src/a.py"


async def test_a_refusal_is_shown_in_the_list():
    class Refusing(ScriptedHost):
        async def query(self, query):  # type: ignore[no-untyped-def]
            if isinstance(query, AskPaths):
                raise CommandRejected("The folder cannot be read.")
            return await super().query(query)

    app = BareApp(Refusing())
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: "The folder cannot be read." in seen(pilot))
        assert picker.chosen is None


async def test_hash_lists_tasks_and_opens_one():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "#", " half up")
        await until(pilot, lambda: picker.choices)
        assert len(picker.choices) == len(TASKS)
        assert picker.choices[1].detail.startswith("2 h ago · completed")
        assert picker.choices[1].insert == ""
        assert picker.choices[1].action
        await picker.choices[1].action()
        assert app.opened == [TASKS[1].task_id]


async def test_hash_shows_at_most_fifteen():
    host = answering_host()
    host.answer(AskTasks, TASKS * 10)
    app = BareApp(host)
    async with app.run_test() as pilot:
        picker = await opened(app, "#")
        await until(pilot, lambda: picker.choices)
        assert len(picker.choices) == 15


async def test_bang_shows_the_line_that_would_be_run_and_runs_it_in_a_panel():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "!")
        await until(pilot, lambda: "The model sees only output you keep" in seen(pilot))
        assert picker.chosen is None
        await picker.search("echo hello")
        assert picker.chosen
        assert picker.chosen.label == "$ echo hello"
        assert picker.chosen.action
        await picker.chosen.action()
        assert isinstance(app.screen, ShellScreen)


async def test_question_mark_lists_triggers_and_the_keys_that_are_bound():
    app = BareApp(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "?")
        await until(pilot, lambda: picker.choices)
        assert labels(picker) == ["/", "@", "!", "#", "Ctrl+O", "F1"]
        assert picker.choices[1].insert == "@"
        assert picker.choices[4].action
        await picker.choices[4].action()
        assert app.pressed == ["unfold_all"]


async def test_a_click_picks_a_row():
    picked: list[Picker.Picked] = []

    class Clicked(BareApp):
        def on_picker_picked(self, message: Picker.Picked) -> None:
            picked.append(message)

    app = Clicked(answering_host())
    async with app.run_test() as pilot:
        picker = await opened(app, "@")
        await until(pilot, lambda: picker.choices)
        await until(pilot, lambda: "prices.py" in seen(pilot))
        await pilot.click("PickList", offset=(4, 1))
        await until(pilot, lambda: picked)
        assert picked[0].choice.insert == "@/src/prices.py "


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 48)])
async def test_a_picker_never_takes_more_than_ten_lines(size: tuple[int, int]):
    app = BareApp(answering_host())
    async with app.run_test(size=size) as pilot:
        picker = await opened(app, "/")
        await until(pilot, lambda: picker.choices)
        await until(pilot, lambda: "below" in seen(pilot))
        assert 1 < picker.size.height <= 10
        lines = seen(pilot).splitlines()
        assert all(len(line) <= size[0] for line in lines)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["prices.py", "git-changes", "problems", "terminal"]),
        ("pr", ["prices.py", "problems"]),
        ("term", ["terminal"]),
    ],
)
async def test_an_at_sign_offers_more_than_files(text: str, found: list[str]):
    app = BareApp(OwnPaths("prices.py"))
    async with app.run_test() as pilot:
        picker = await opened(app, "@", text)
        await until(pilot, lambda: labels(picker) == found)
