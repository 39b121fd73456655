"""Lists in pickers and screens: the mark, hidden rows and the mouse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from textual.app import App, ComposeResult

from rookery.tui.pick_list import PickList, first_visible, visible_rows
from rookery.tui.theme import DARK, LIGHT, THEMES, textual_theme
from support.tui_waiting import seen, until

pytestmark = pytest.mark.anyio


class ListApp(App[None]):
    def __init__(self, *items: str, theme: str = DARK) -> None:
        super().__init__()
        for each in THEMES.values():
            self.register_theme(textual_theme(each))
        self.theme = theme
        self.list = PickList[str](lambda item, width, theme: Text(item), str)
        self.list.show(items, nothing="There is nothing.")
        self.picked: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield self.list

    def on_pick_list_picked(self, message: "PickList.Picked") -> None:
        self.picked.append(self.list.marked)


@given(st.integers(1, 40), st.integers(0, 39), st.integers(0, 39), st.integers(1, 12))
def test_the_marked_row_is_always_visible(count: int, marked: int, first: int, height: int):
    marked %= count
    top = first_visible(count, marked, first, height)
    shown = visible_rows(count, height)
    assert 0 <= top <= marked < top + shown <= count
    assert shown <= height


@given(st.integers(0, 9), st.integers(0, 9))
def test_rows_that_fit_are_shown_from_the_first(marked: int, first: int):
    assert first_visible(10, marked, first, 10) == 0


async def test_the_mark_wraps_around_both_ways():
    app = ListApp("one", "two", "three")
    async with app.run_test():
        app.list.move(-1)
        assert app.list.marked == "three"
        app.list.move(1)
        assert app.list.marked == "one"


async def test_a_page_ends_at_the_ends():
    app = ListApp(*(f"row {number}" for number in range(30)))
    async with app.run_test(size=(40, 10)):
        app.list.page(-1)
        assert app.list._at == 0
        app.list.page(1)
        assert app.list._at == 8
        for _ in range(9):
            app.list.page(1)
        assert app.list._at == 29


async def test_hidden_rows_are_counted():
    app = ListApp(*(f"row {number}" for number in range(30)))
    async with app.run_test(size=(40, 10)) as pilot:
        await until(pilot, lambda: "↓ 21 below" in seen(pilot))
        assert "above" not in seen(pilot)
        for _ in range(15):
            app.list.move(1)
        await until(pilot, lambda: "↑ 7 above   ↓ 14 below" in seen(pilot))
        assert "▸ row 15" in seen(pilot)


async def test_the_mark_stays_on_its_row_when_rows_are_reloaded():
    app = ListApp("one", "two", "three")
    async with app.run_test():
        app.list.move(1)
        app.list.show(["zero", "one", "two"])
        assert app.list.marked == "two"
        app.list.show(["zero", "one"])
        assert app.list.marked == "one"
        app.list.show([])
        assert app.list.marked is None


async def test_an_empty_list_shows_a_note():
    app = ListApp()
    async with app.run_test() as pilot:
        await until(pilot, lambda: "There is nothing." in seen(pilot))
        app.list.move(1)
        assert app.list.marked is None


@pytest.mark.parametrize("theme", [DARK, LIGHT])
async def test_rows_of_wide_characters_end_at_the_edge(theme: str):
    app = ListApp("割引の計算を直して、テストを追加してください" * 3, "short", theme=theme)
    async with app.run_test(size=(30, 5)) as pilot:
        await until(pilot, lambda: "short" in seen(pilot))
        first, second = seen(pilot).splitlines()[:2]
        assert first.startswith("▸ 割引")
        assert first.endswith("…")
        assert Text(first).cell_len <= 30
        assert second == "  short"


async def test_a_click_picks_the_row_under_it():
    app = ListApp(*(f"row {number}" for number in range(30)))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.click(PickList, offset=(5, 3))
        await until(pilot, lambda: app.picked == ["row 3"])
        await pilot.click(PickList, offset=(5, 9))
        assert app.picked == ["row 3"]


async def test_the_wheel_moves_the_mark_and_stops_at_the_ends():
    app = ListApp("one", "two")
    async with app.run_test() as pilot:
        await pilot._post_mouse_events([_wheel()], PickList)
        await until(pilot, lambda: app.list.marked == "two")
        await pilot._post_mouse_events([_wheel()], PickList)
        assert app.list.marked == "two"


def _wheel() -> type:
    from textual.events import MouseScrollDown

    return MouseScrollDown
