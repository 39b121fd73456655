"""How side screens draw times, keys, trees and help, and escape foreign text."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from textual.binding import Binding

from rookery.core.facts import (
    AgentTask,
    AssistantSpoke,
    Condensed,
    Event,
    RequestFailed,
    RequestStarted,
    TaskOpened,
    Todo,
    TodosChanged,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.agent_rows import AgentRows
from rookery.core.limits import FailureKind
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
from rookery.tui.picker_control import TodoPanel, draw_todos
from rookery.tui.pickers import PICKERS
from rookery.tui.screens.checkpoint_screen import CheckpointScreen
from rookery.tui.screens.choice_screens import ModelScreen, ModeScreen, QueueScreen
from rookery.tui.screens.info_screens import (
    ROWS,
    Account,
    CostScreen,
    HelpSection,
    Spending,
    account,
    draw_accounts,
    draw_help,
)
from rookery.tui.screens.shell_screen import ShellScreen
from rookery.tui.screens.side_screen import SideScreen, key_label, key_uses, own_bindings
from rookery.tui.screens.task_screens import (
    ConfirmScreen,
    TaskListScreen,
    TreeScreen,
    root_of,
    tree,
    with_agents,
)
from rookery.tui.short_texts import ago, money, precise_money
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row
from support.scripted_host import ScriptedHost
from support.tui_bare_app import BareApp
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio
LOOK = THEMES[DARK]
SECOND = 1000


@each_row(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 d ago"),
        (6 * 86_400, "6 d ago"),
    ],
)
def test_times_are_shown_as_people_write_them(seconds: int, words: str):
    now = 1_700_000_000_000
    assert ago(now - seconds * SECOND, now) == words


def test_an_old_time_is_shown_as_a_date():
    assert ago(1_700_000_000_000 - 30 * 86_400 * SECOND, 1_700_000_000_000) == "2023-10-15"


def test_cost_has_two_decimals():
    assert [money(0.004), money(12.345), money(None)] == ["$0.00", "$12.35", ""]
    assert [precise_money(0.00421), precise_money(None)] == ["$0.0042", ""]


@each_row(
    ("key", "name"),
    [
        ("escape", "Esc"),
        ("ctrl+d", "Ctrl+D"),
        ("shift+tab", "Shift+Tab"),
        ("f1", "F1"),
        ("f", "f"),
        ("pagedown", "PgDn"),
        ("question_mark", "?"),
    ],
)
def test_keys_have_the_names_printed_on_a_keyboard(key: str, name: str):
    assert key_label(key) == name


def test_a_binding_without_a_description_is_not_listed():
    uses = key_uses(
        [Binding("a,b", "one", "One"), Binding("c", "two", ""), ("d", "three", "Three")]
    )
    assert [(use.key, use.what) for use in uses] == [("a or b", "One"), ("d", "Three")]


def test_a_screen_can_override_inherited_bindings():
    keys = {use.key: use.what for use in key_uses(own_bindings(ConfirmScreen)) if use.shown}
    assert keys == {"y": "yes", "Esc": "no"}


def test_help_has_two_columns_where_there_is_room():
    parts = [HelpSection(f"Part {n}", (("a", "does this"), ("b", "does that"))) for n in range(4)]
    narrow, wide = draw_help(parts, 80, LOOK), draw_help(parts, 140, LOOK)
    assert [line.plain.strip() for line in narrow].count("Part 2") == 1
    assert len(wide) == len(narrow) / 2
    assert wide[0].plain.split() == ["Part", "0", "Part", "2"]


def known(task_id: str, parent: str | None, created: int = 0) -> KnownTask:
    return KnownTask(task_id=task_id, title=task_id, parent=parent, created=created)


def test_a_task_tree_is_drawn_with_branches():
    tasks = [known("a", None), known("c", "a", 2), known("b", "a", 1), known("d", "b", 3)]
    nodes = tree("a", {task.task_id: task for task in tasks}, {})
    assert [node.branch + node.task.title for node in nodes] == ["a", "├ b", "│ └ d", "└ c"]


def test_agents_are_drawn_with_their_names_and_what_they_do():
    names = ("scout", "fixer", "done before")
    agents = tuple(AgentTask(task_id=n, name=n, text="Look.", mode="ask") for n in names)
    rows = AgentRows()
    rows.see(ToolStarted(call_id="c", tool="run_agents", title="Start", agents=agents))
    rows.see_of("scout", ToolStarted(call_id="c", tool="read_file", title="Read a"))
    tasks = {"a": known("a", None), **{name: known(name, "a") for name in names}}
    tasks["done before"] = replace(tasks["done before"], status="completed")
    nodes = with_agents(tree("a", tasks, {}), rows)
    shown = [(node.task.title, node.status) for node in nodes[1:]]
    assert shown[:2] == [("scout: Read a", "working"), ("fixer: fixer", "open")]
    assert shown[2:] == [("done before: done before", "completed")]


def test_cyclic_parents_do_not_loop():
    tasks = {"a": known("a", "b"), "b": known("b", "a"), "c": known("c", "c")}
    assert len(tree("a", tasks, {})) == 2
    assert len(tree("c", tasks, {})) == 1
    assert root_of("a", tasks) in tasks
    assert tree("nobody", tasks, {}) == []
    assert root_of("nobody", tasks) == "nobody"


def test_failed_requests_and_summaries_count_as_cost():
    facts = [
        TaskOpened(text="Do it"),
        RequestStarted(request_id="r1", model="m"),
        RequestFailed(request_id="r1", error=FailureKind.BUSY, message="", usage=Usage(cost=0.1)),
        RequestStarted(request_id="r2", model="m"),
        AssistantSpoke(request_id="r2", blocks=(), usage=Usage(cost=0.2), interrupted=True),
        Condensed(upto=3, usage=Usage(cost=0.4)),
    ]
    spent = account([Event(at, 0, at, fact) for at, fact in enumerate(facts, 1)])
    assert [each.what for each in spent.spendings] == ["failed", "interrupted", "summary"]
    assert spent.sum.cost == pytest.approx(0.7)


def test_earlier_requests_share_one_row():
    spent = tuple(Spending(at, "m", Usage(tokens_in=1, cost=1.0)) for at in range(ROWS + 3))
    lines = [line.plain for line in draw_accounts([Account("Do it", spent)], 70, LOOK)]
    assert len(lines) == 1 + 1 + ROWS + 1
    assert lines[1].split() == ["3", "earlier", "requests", "3", "0", "$3.0000"]
    assert lines[-1].split() == [str(ROWS + 3), "requests", str(ROWS + 3), "0", "$203.0000"]


def test_a_finished_todo_list_shows_a_full_bar():
    done = [Todo(id=str(n), content=f"step {n}", status="completed") for n in range(3)]
    first = draw_todos(done, (), 40, LOOK)[0].plain
    assert first.startswith("━" * 20 + " 100%")


EVIL = "a\x1b]0;owned\x07b\x1b[2Jc\u202ed\u200be\rf\x9bg"
FORBIDDEN = set("\x1b\x07\x9b\r\u202e\u200b")


def hostile_host() -> ScriptedHost:
    host = ScriptedHost()
    task = KnownTask(task_id="t1", title=EVIL, mode=EVIL, excerpt=EVIL)
    host.answer(AskTasks, (task,))
    host.answer(AskModels, (KnownModel(provider=EVIL, model=EVIL),))
    host.answer(AskModes, (KnownMode(slug=EVIL, name=EVIL, when_to_use=EVIL),))
    host.answer(AskCommands, (KnownCommand(name=EVIL, description=EVIL, argument_hint=EVIL),))
    host.answer(AskPaths, (FoundPath(path=EVIL),))
    host.answer(AskDifferences, (FileDifference(path=EVIL, diff=f"@@ -1 +1 @@\n-{EVIL}\n+{EVIL}"),))
    host.answer(AskRehearsal, RestoreRehearsal(written=(EVIL,), removed=(EVIL,), kept=(EVIL,)))
    host.tell(
        TaskOpened(text=EVIL, mode=EVIL),
        RequestStarted(request_id="r", model=EVIL),
        AssistantSpoke(request_id="r", blocks=(), usage=Usage(cost=1)),
        TodosChanged(todos=(Todo(id="1", content=EVIL),)),
        UserSpoke(message_id="m", text=EVIL),
    )
    return host


async def test_foreign_text_never_reaches_the_terminal_unescaped():
    app = BareApp(hostile_host(), "t1")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.view and app.view.queue)
        screens: list[SideScreen[Any]] = [
            TaskListScreen(app),
            ModelScreen(app),
            ModeScreen(app),
            TreeScreen(app),
            CostScreen(app),
            QueueScreen(app),
            CheckpointScreen(app),
            ConfirmScreen(app, "Delete?", EVIL),
            ShellScreen(app, f"echo {json.dumps(EVIL)}"),
        ]
        for screen in screens:
            await app.push_screen(screen)
            await until(pilot, lambda: "owned" in seen(pilot))
            assert not FORBIDDEN & set(seen(pilot)), screen
            if isinstance(screen, QueueScreen):
                await pilot.press("enter")
                await until(pilot, lambda: seen(pilot).count("owned") > 1)
                assert not FORBIDDEN & set(seen(pilot))
            if isinstance(screen, CheckpointScreen):
                await until(pilot, lambda: seen(pilot).count("owned") > 2)
                assert not FORBIDDEN & set(seen(pilot))
                await pilot.press("b")
                await until(pilot, lambda: "kept" in seen(pilot))
                assert not FORBIDDEN & set(seen(pilot))
                await pilot.press("escape")
            await app.pop_screen()
        for trigger in "/@#":
            picker = PICKERS[trigger](app)
            await app.show(picker)
            await picker.search("owned" if trigger == "/" else "")
            await until(pilot, lambda: "owned" in seen(pilot))
            assert not FORBIDDEN & set(seen(pilot)), trigger
            await picker.remove()
        await app.show(TodoPanel(app))
        await until(pilot, lambda: "owned" in seen(pilot))
        assert not FORBIDDEN & set(seen(pilot))
