"""The scrolling conversation: only nearby rows are drawn, and visible rows stay in place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from rookery.core.message import Message
from rookery.tui.rows.lines import ShownRow
from rookery.tui.transcript_view import TranscriptView
from rookery.tui.virtual_list import NamedRow

pytestmark = pytest.mark.anyio


def row(ts: int, text: str, kind: str = "text") -> NamedRow:
    return ("t1", ts), ShownRow(message=Message(ts=ts, type="say", say=kind, content=text))


class VirtualList(App[None]):
    CSS = "TranscriptView { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.transcript = TranscriptView()

    def compose(self) -> ComposeResult:
        yield self.transcript

    @property
    def lines(self) -> list[str]:
        shown = self.transcript
        return [shown.render_line(y).text.strip() for y in range(shown.size.height)]


def watch_painting(app: VirtualList) -> list[int]:
    """Record how many lines each paint draws from now on."""
    counts: list[int] = []
    original = app.transcript.refresh

    def refresh(*regions: Region, **how: bool) -> TranscriptView:
        counts.append(sum(region.height for region in regions) or app.transcript.size.height)
        return original(*regions, **how)

    app.transcript.refresh = refresh  # type: ignore[method-assign]
    return counts


@asynccontextmanager
async def shown(*rows: NamedRow) -> AsyncIterator[tuple[VirtualList, Pilot[None]]]:
    """A conversation that has the focus."""
    app = VirtualList()
    async with app.run_test(size=(60, 20)) as pilot:
        app.transcript.set_rows(rows)
        app.transcript.focus()
        await pilot.pause()
        yield app, pilot


def numbered(first: int, end: int) -> list[NamedRow]:
    return [row(n, f"row {n}") for n in range(first, end)]


async def test_only_rows_near_the_end_of_ten_thousand_are_laid_out():
    async with shown(*numbered(0, 10_000)) as (app, pilot):
        laid_out = [each for each in app.transcript.rows if each.lines is not None]
        assert len(laid_out) < 60
        assert app.lines[-1] == "row 9999"
        await pilot.press("home")
        await pilot.pause()
        assert "row 0" in app.lines[:3]
        assert sum(each.lines is not None for each in app.transcript.rows) < 200
        await pilot.press("end")
        assert app.lines[-1] == "row 9999"


async def test_after_home_the_scroll_bar_can_go_back_to_the_end():
    async with shown(*numbered(0, 100)) as (app, pilot):
        await pilot.press("home")
        app.transcript.scroll_to(y=app.transcript.max_scroll_y, animate=False)
        await pilot.pause()
        app.transcript.change_rows((), (), [(100, *row(100, "news"))])
        await pilot.pause()
        assert app.lines[-1] == "news"


async def test_home_in_rows_that_fit_on_the_screen_does_not_stop_following():
    async with shown(*numbered(0, 3)) as (app, pilot):
        await pilot.press("home")
        more = [(n, *row(n, f"row {n}")) for n in range(3, 100)]
        app.transcript.change_rows((), (), more)
        await pilot.pause()
        assert app.lines[-1] == "row 99"


async def test_after_scrolling_up_the_view_stays_until_the_end_is_reached():
    async with shown(*numbered(0, 100)) as (app, pilot):
        await pilot.press("pageup")
        await pilot.pause()
        before = app.lines
        assert "row 99" not in before
        app.transcript.change_rows((), (), [(100, *row(100, "news"))])
        await pilot.pause()
        assert app.lines == before
        assert app.transcript.place.startswith("line ")
        await pilot.press("pagedown", "pagedown")
        app.transcript.change_rows((), (), [(101, *row(101, "more"))])
        await pilot.pause()
        assert app.lines[-1] == "more"
        assert app.transcript.place == ""


async def test_rows_inserted_above_do_not_move_visible_rows():
    async with shown(*numbered(500, 600)) as (app, pilot):
        await pilot.press("pageup")
        await pilot.pause()
        before = app.lines
        app.transcript.prepend_rows(row(n, f"old {n}") for n in range(500))
        await pilot.pause()
        assert app.lines == before


async def test_only_changed_lines_of_a_growing_text_are_painted():
    async with shown(row(1, "first"), row(2, "Some words")) as (app, _):
        counts = watch_painting(app)
        app.transcript.change_rows([row(2, "Some words and more")], (), ())
        assert counts == [1]
        app.transcript.change_rows([row(2, "Some words and more")], (), ())
        assert counts == [1]


async def test_rows_unfold_by_key_and_by_click():
    thought = row(2, "one\ntwo\nthree", "reasoning")
    async with shown(row(1, "hello"), thought, row(3, "end")) as (app, pilot):
        assert "Thought: one two three" in app.lines
        await pilot.press("j", "enter")
        await pilot.pause()
        assert "two" in [line.rstrip("▐ ") for line in app.lines]
        await pilot.press("space")
        await pilot.pause()
        at = next(n for n, line in enumerate(app.lines) if line.startswith("Thought:"))
        await pilot.click(TranscriptView, offset=(4, at))
        await pilot.pause()
        assert "two" in [line.rstrip("▐ ") for line in app.lines]


async def test_a_new_width_lays_out_the_rows_again():
    async with shown(row(1, "word " * 20)) as (app, pilot):
        narrow = len([line for line in app.lines if line])
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert len([line for line in app.lines if line]) > narrow
        assert all(len(line) <= 30 for line in app.lines)


async def test_the_mouse_selects_the_visible_text():
    async with shown(row(1, "first words"), row(2, "second 割引 words")) as (app, pilot):
        await pilot.mouse_down(TranscriptView, offset=(2, 1))
        await pilot.hover(TranscriptView, offset=(7, 3))
        await pilot.mouse_up(TranscriptView, offset=(7, 3))
        await pilot.pause()
        assert app.screen.get_selected_text() == "first words\n\n  second"


async def test_the_wheel_scrolls_and_stops_following():
    async with shown(*numbered(0, 100)) as (app, pilot):
        app.transcript.post_message(
            events.MouseScrollUp(app.transcript, 1, 1, 0, 0, 0, False, False, False)
        )
        await pilot.pause()
        assert app.transcript.place.startswith("line ")
