"""The screens beside the conversation: tasks, models, modes, tree, queue, costs and help."""

from typing import Any

import anyio
import pytest
from rich.text import Text
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from rookery.core.commands import (
    DeleteTask,
    EditQueue,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import RequestStarted, TaskOpened, Todo, TodosChanged
from rookery.core.queries import AskModels, AskTasks
from rookery.tui.own_commands import COMMANDS
from rookery.tui.picker_control import TodoPanel
from rookery.tui.screens.checkpoint_screen import CheckpointScreen
from rookery.tui.screens.choice_screens import ModelScreen, ModeScreen, QueueScreen
from rookery.tui.screens.info_screens import CostScreen, HelpScreen
from rookery.tui.screens.setting_screens import ContextScreen, MemoryScreen
from rookery.tui.screens.side_screen import KeyLine, SideScreen
from rookery.tui.screens.task_screens import ConfirmScreen, TaskListScreen, TreeScreen
from rookery.tui.theme import DARK, LIGHT, THEMES
from support.scripted_host import ScriptedHost
from support.tui_bare_app import BareApp, handler
from support.tui_screen_scenes import CHILDREN, LOCAL, MODELS, TASKS, answering_host
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio

SCREENS: list[type[SideScreen[Any]]] = [
    TaskListScreen,
    ModelScreen,
    ModeScreen,
    TreeScreen,
    QueueScreen,
    CostScreen,
    ContextScreen,
    MemoryScreen,
    HelpScreen,
    CheckpointScreen,
]


async def test_every_screen_fits_the_terminal():
    async with handler() as it:
        for size, theme in (((160, 48), DARK), ((50, 16), LIGHT)):
            await it.pilot.resize_terminal(*size)
            it.app.theme = theme
            for screen in SCREENS:
                await it.open(screen)
                shown = await it.sees("Esc close" if size[0] > 50 else screen.TITLE_TEXT)
                widest = max(Text(line).cell_len for line in shown.splitlines())
                assert widest <= size[0], (screen, size)
                await it.press("escape")
                await it.until(lambda: it.closed)


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (200, 60)], ids=str)
async def test_a_panel_leaves_the_conversation_visible_and_shows_its_keys(size: tuple[int, int]):
    async with handler(size=size) as it:
        for screen in filter(lambda each: each.IS_PANEL, SCREENS):
            await it.open(screen)
            await it.sees(screen.TITLE_TEXT)
            keys = it.app.screen.query_one(KeyLine).region
            assert 0 < keys.bottom <= size[1] - 1, screen
            assert it.app.screen.query_one(".frame").region.y >= size[1] // 5, screen
            await it.press("escape")
            await it.until(lambda: it.closed)


async def test_a_listed_task_is_opened_by_key_click_or_type_ahead():
    async with handler() as it:
        await it.open(TaskListScreen)
        shown = await it.sees("Round prices half up", "割引の計算を直して", "$3.40")
        assert CHILDREN[0].title not in shown
        await it.press("down", "enter")
        await it.until(lambda: it.app.opened)
        assert it.closed
        await it.open(TaskListScreen)
        await it.sees("Round prices")
        await it.pilot.click("PickList", offset=(6, 1))
        await it.until(lambda: len(it.app.opened) == 2)
        await it.open(TaskListScreen)
        await it.sees("Round prices")
        for key, character in [("x", "x"), ("backspace", None), ("y", "y"), ("down", None)]:
            it.app.post_message(Key(key, character))
        it.app.post_message(Key("enter", "\r"))
        await it.until(lambda: len(it.app.opened) == 3)
        assert it.app.opened == [TASKS[1].task_id] * 3


async def test_tasks_are_searched_once_typing_has_paused():
    asked: list[str] = []

    class Searching(ScriptedHost):
        async def query(self, query: Any) -> Any:
            if isinstance(query, AskTasks):
                asked.append(query.words)
                return tuple(task for task in TASKS if query.words in task.title)
            return await super().query(query)

    app = BareApp(Searching())
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(TaskListScreen(app))
        await until(pilot, lambda: "importer" in seen(pilot))
        await pilot.press(*"pytest")
        await until(pilot, lambda: "importer" not in seen(pilot))
        assert "Move the tests to pytest" in seen(pilot)
        assert asked == ["", "pytest"]
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, TaskListScreen))
        # enter before the pause opens the best match
        await app.push_screen(TaskListScreen(app))
        await until(pilot, lambda: "importer" in seen(pilot))
        for character in "pytest\r":
            app.post_message(Key("enter" if character == "\r" else character, character))
        await until(pilot, lambda: app.opened)
        assert app.opened == [TASKS[4].task_id]


async def test_a_task_is_deleted_only_after_confirmation_and_never_while_open():
    async with handler() as it:
        await it.open(TaskListScreen)
        await it.sees("Round prices")
        await it.press("ctrl+d")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.press("y")
        await it.until(lambda: it.app.toasts)
        assert "is open" in it.app.toasts.pop()
        assert it.host.sent == []
        await it.until(lambda: isinstance(it.app.screen, TaskListScreen))
        await it.press("down", "ctrl+d")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.press("enter")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, TaskListScreen))
        assert it.host.sent == []
        await it.press("ctrl+d")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.press("y")
        await it.until(lambda: it.host.sent)
        assert it.host.sent == [DeleteTask(task_id=TASKS[1].task_id)]
        assert it.app.toasts == ["Deleted."]


async def test_a_model_is_found_by_typing_and_a_mode_by_moving_the_mark():
    async with handler() as it:
        await it.open(ModelScreen)
        await it.sees("claude-opus-4.6  now", "$5 / $25", "1.0M")
        await it.press(*"db?")
        assert it.app.screen.query_one(Input).value == "db?", (
            "letters that are key bindings elsewhere are typed here"
        )
        await it.press(*["backspace"] * 3, *"snnt")
        await it.until(lambda: "gpt" not in seen(it.pilot))
        await it.press("enter")
        await it.until(lambda: it.host.sent)
        model = MODELS[1]
        switch = SwitchModel(task_id="t1", provider=model.provider, model=model.model)
        assert it.host.sent == [switch]
        assert it.closed
        await it.open(ModeScreen)
        await it.sees("Plan before anything is built.", "Docs-Schreiber 文書 (docs)")
        await it.press("down", "enter")
        await it.until(lambda: it.closed)
        await it.until(lambda: len(it.host.sent) == 2)
        assert it.host.sent[1] == SwitchMode(task_id="t1", mode="architect")
        assert it.app.pressed == []


async def test_without_a_task_model_and_mode_are_set_for_the_next_one():
    async with handler(task=None) as it:
        await it.open(ModeScreen)
        await it.sees("Plan before anything is built.")
        await it.press("down", "enter")
        await it.until(lambda: it.app.pressed)
        assert it.app.pressed == ["use_mode('architect')"]
        assert it.host.sent == []
        await it.open(ModelScreen)
        await it.sees("gpt-5.2")
        await it.press("enter")
        await it.until(lambda: it.app.toasts)
        (switch,) = it.host.sent
        assert isinstance(switch, SwitchModel)
        assert switch.task_id == ""


async def test_the_mark_stays_when_local_models_arrive_later():
    gate = anyio.Event()

    class Slow(ScriptedHost):
        async def query(self, query: Any) -> Any:
            if isinstance(query, AskModels) and query.local:
                await gate.wait()
                return (LOCAL, *MODELS)
            return MODELS if isinstance(query, AskModels) else await super().query(query)

    app = BareApp(Slow())
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(ModelScreen(app))
        await until(pilot, lambda: "gpt-5.2" in seen(pilot))
        await pilot.press("down")
        assert "▸ anthropic          claude-sonnet-4.6" in seen(pilot)
        gate.set()
        await until(pilot, lambda: "qwen3:8b" in seen(pilot))
        assert "▸ anthropic          claude-sonnet-4.6" in seen(pilot)


async def test_the_tree_shows_state_and_cost_of_every_task_and_opens_one():
    async with handler() as it:
        await it.open(TreeScreen)
        shown = await it.sees("Look up how banks round")
        rows = [line for line in shown.splitlines() if "$" in line]
        costs = [row.split("$")[-1].rstrip(" │╯─") for row in rows]
        assert costs == ["0.77", "0.67", "0.01", "0.06", "0.03"]
        assert "├ · Find every caller of off()" in rows[2]
        assert "└ ◐ Write the missing tests" in rows[3]
        assert "  └ ✔ Look up how banks round" in rows[4]
        assert "working" in rows[3]
        await it.press("up", "enter")
        await it.until(lambda: it.app.opened)
        assert it.app.opened == ["c3"]
        it.host.answer(AskTasks, ())
        await it.open(TreeScreen)
        await it.sees("├ · Find every caller of off()", "└ ◐ Write the missing tests")
        assert "Look up how banks round" not in seen(it.pilot), (
            "no event of the open tasks names it"
        )


async def test_queued_messages_are_edited_and_dropped():
    async with handler() as it:
        await it.open(QueueScreen)
        await it.sees("and mention it in the changelog", "割引 is a word")
        await it.press("enter")
        area = it.app.screen.query_one(TextArea)
        await it.until(lambda: area.has_focus)
        assert area.text == "and mention it in the changelog"
        await it.press(*" too", "ctrl+s")
        await it.until(lambda: it.host.sent)
        text = "and mention it in the changelog too"
        assert it.host.sent == [EditQueue(task_id="t1", message_id="m1", text=text)]
        it.host.sent.clear()
        # enter keeps a change, and one escape does not discard it
        await it.press("enter")
        await it.until(lambda: area.has_focus)
        await it.press("alt+enter", *"too", "escape")
        await it.until(lambda: it.app.toasts)
        assert area.has_focus
        await it.press("enter")
        await it.until(lambda: it.host.sent)
        text = "and mention it in the changelog\ntoo"
        assert it.host.sent == [EditQueue(task_id="t1", message_id="m1", text=text)]
        await it.press("enter")
        await it.until(lambda: area.has_focus)
        await it.press("x", "escape", "escape")
        await it.until(lambda: not area.has_focus)
        assert len(it.host.sent) == 1
        await it.press("down", "d")
        await it.until(lambda: len(it.host.sent) == 2)
        assert it.host.sent[1] == EditQueue(task_id="t1", message_id="m2", text=None)


async def test_a_message_delivered_while_it_is_edited_is_not_lost():
    async with handler() as it:
        await it.open(QueueScreen)
        await it.sees("changelog")
        await it.press("e")
        await it.until(lambda: it.app.screen.query_one(TextArea).has_focus)
        it.host.tell(RequestStarted(request_id="r9", model="claude-opus-4.6"))
        await it.until(lambda: it.app.view and not it.app.view.queue)
        await it.press("ctrl+s")
        await it.until(lambda: it.app.inserted)
        assert it.app.inserted == ["and mention it in the changelog"]
        assert it.host.sent == []
        await it.sees("No queued messages.")


async def test_costs_are_reported_for_every_request_and_every_child():
    async with handler(size=(100, 40)) as it:
        await it.open(CostScreen)
        shown = await it.sees("$0.74 in total")
        assert shown.count("claude-opus-4.6") == 5
        assert "5 requests" in shown
        assert "$0.6697" in shown
        assert "Write the missing tests" in shown
        row = next(line for line in shown.splitlines() if "$0.3012" in line)
        assert row.split()[2:] == ["claude-opus-4.6", "48.2K", "32.0K", "612", "$0.3012", "│"]


async def test_help_shows_every_binding_and_every_command():
    async with handler(size=(160, 100)) as it:
        await it.open(HelpScreen)
        shown = await it.sees("Everywhere", "Esc close")
        assert "Ctrl+O  Unfold or fold everything" in shown
        for each in COMMANDS:
            assert f"/{each.name}" in shown
        await it.pilot.click("KeyLine", offset=(3, 0))
        await it.until(lambda: it.closed)


async def test_todos_show_a_bar_marks_and_changes():
    async with handler() as it:
        await it.app.show(TodoPanel(it.app))
        shown = await it.sees("33%  1 of 3 done")
        assert "✔ Find the cause  done" in shown
        assert "◐ Fix prices.py  new" in shown
        todos = (
            Todo(id="1", content="Find the cause"),
            Todo(id="2", content="Fix prices.py", status="completed"),
            Todo(id="3", content="Run the tests", status="in_progress"),
        )
        it.host.tell(TodosChanged(todos=todos))
        await it.sees(
            "○ Find the cause  reset", "✔ Fix prices.py  done", "◐ Run the tests  started"
        )


async def test_a_long_todo_list_shows_the_current_items():
    host = answering_host()
    many = tuple(
        Todo(id=str(n), content=f"step {n}", status="completed" if n < 12 else "pending")
        for n in range(20)
    )
    host.tell(TaskOpened(text="Do it"), TodosChanged(todos=many))
    app = BareApp(host, "t1")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.view and app.view.todos)
        await app.show(TodoPanel(app))
        await until(pilot, lambda: "○ step 12" in seen(pilot))
        assert "9 above, 2 below" in seen(pilot)
        assert "step 8" not in seen(pilot)


async def test_a_theme_change_reaches_an_open_screen():
    async with handler(theme=DARK) as it:
        for screen in (CostScreen, TaskListScreen):
            await it.open(screen)
            await it.sees("The discount is ten times")
            for theme in (LIGHT, DARK):
                it.app.theme = theme
                await it.until(lambda theme=theme: THEMES[theme].text in _colours(it.pilot))
            await it.press("escape")
            await it.until(lambda: it.closed)


def _colours(pilot: Pilot[Any]) -> set[str]:
    strips = pilot.app.screen._compositor.render_strips()
    styles = [segment.style for strip in strips for segment in strip if segment.style]
    return {style.color.triplet.hex for style in styles if style.color and style.color.triplet}
