"""Header, status line, notifications and terminal colours."""

import pytest

from rookery.core.facts import Event, RequestStarted, TaskOpened, Waiting
from rookery.core.folds.run_tallies import Totals
from rookery.core.folds.view import View, see
from rookery.core.queries import About
from rookery.tui.key_actions import next_name
from rookery.tui.question_queue import AWAY_SECONDS, Attention, Notify
from rookery.tui.short_texts import short_number, short_path
from rookery.tui.status_bars import BottomLine, HeaderFacts, context_bar, header_line, status_line
from rookery.tui.status_updates import activity_text
from rookery.tui.terminal_driver import light_in
from rookery.tui.theme import DARK, THEMES
from support.each_row import each_row

LOOK = THEMES[DARK]


@each_row(
    ("count", "short"),
    [(0, "0"), (999, "999"), (1_000, "1.0K"), (48_210, "48.2K"), (1_240_000, "1.2M")],
)
def test_tokens_have_one_decimal(count: int, short: str):
    assert short_number(count) == short


@each_row(
    ("used", "cells", "ink"),
    [(0, 0, "good"), (100_000, 6, "good"), (110_000, 7, "warning"), (160_000, 10, "bad")],
)
def test_the_bar_has_twelve_cells_and_warns_above_half(used: int, cells: int, ink: str):
    bar = context_bar(used, 200_000, LOOK)
    assert bar.plain.startswith("━" * 12 + " ")
    (full, *_), colour = bar.spans, getattr(LOOK, ink)
    if cells:
        assert full.end - full.start == cells
        assert str(full.style) == colour


def test_the_home_folder_is_shown_as_a_tilde():
    assert short_path("/home/ada/shop", "/home/ada") == "~/shop"
    assert short_path("/home/ada", "/home/ada") == "~"
    assert short_path("/srv/x", "/home/ada") == "/srv/x"


def test_a_long_wait_shows_its_reason():
    opened = TaskOpened(text="x", mode="code")
    loading = Waiting(request_id="r", seconds=2, what="Loading m.gguf")
    view = View()
    for seq, fact in enumerate((opened, RequestStarted(request_id="r", model="m"), loading)):
        view = see(view, Event(seq, seq, seq, fact))
    assert activity_text(view) == "Loading m.gguf"


@each_row("width", [30, 60, 80, 200])
def test_the_header_fits_and_shows_first_what_matters_most(width: int):
    about = About(workspace="/home/ada/" + "deep/" * 20, model="m" * 30, window=1000, mode="code")
    around = HeaderFacts(about=about, automatic=True, usage=Totals(context_tokens=500, cost=1.5))
    line = header_line(around, LOOK, width)
    assert line.cell_len <= width
    assert "auto-approve" in line.plain
    assert "50%" in line.plain or width < 40


@pytest.mark.parametrize(
    ("doing", "seen"),
    [
        (BottomLine(toast="Saved.", working="Working"), "Saved."),
        (BottomLine(toast="Saved.", leaving=True), "Ctrl+C again to exit"),
        (BottomLine(leaving=True, working="Working"), "Ctrl+C again to exit"),
        (
            BottomLine(working="Working", seconds=3, place="line 2"),
            "Working 3 s  Esc stops  line 2",
        ),
        (BottomLine(place="line 2 of 9"), "line 2 of 9"),
        (BottomLine(), "? shortcuts"),
        (BottomLine(todo="☑ 1/3 Fix it"), "☑ 1/3 Fix it"),
    ],
    ids=str,
)
def test_the_status_line_shows_the_most_urgent(doing: BottomLine, seen: str):
    line = status_line(doing, 0, LOOK, 80)
    assert seen in line.plain
    assert line.cell_len <= 80


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def attention(notify: Notify = "auto") -> tuple[Attention, list[str], Clock]:
    written: list[str] = []
    clock = Clock()
    return Attention(written.append, notify, clock), written, clock


def test_no_notification_while_the_terminal_has_focus():
    caller, written, _ = attention()
    assert not caller.notify("a1", "May it?")
    assert written == []


def test_without_focus_one_bell_and_both_notifications_are_sent():
    caller, written, _ = attention()
    caller.focus_changed(False)
    assert caller.notify("a1", "May \x1bit; now?")
    assert not caller.notify("a1", "May it?")
    (text,) = written
    assert text.startswith("\a")
    assert "\x1b]9;rookery: May ␛it, now?\x1b\\" in text
    assert "\x1b]777;notify;rookery;May ␛it, now?\x1b\\" in text


def test_a_notification_is_sent_after_a_long_time_without_keys():
    caller, written, clock = attention("bell")
    clock.now += AWAY_SECONDS + 1
    assert caller.notify("a1", "May it?")
    assert written == ["\a"]
    caller.key()
    assert not caller.notify("a2", "May it?")


def test_no_notification_if_switched_off():
    caller, written, _ = attention("off")
    caller.focus_changed(False)
    assert not caller.notify("a1", "May it?")
    assert written == []


@each_row(
    ("answer", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;c", True),
        (b"\x1b]11;rgb:1414/1717/1c1c\x07\x1b[?62c", False),
        (b"\x1b]11;rgb:fc/fb/f8\x07", True),
        (b"\x1b[?62;c", None),
        (b"", None),
    ],
)
def test_a_light_background_is_detected_from_the_terminals_reply(answer: bytes, light: bool | None):
    assert light_in(answer) is light


@each_row(
    ("model", "seen"),
    [
        ("/srv/very/deep/scripts/answers.yaml", "code · answers.yaml"),
        ("openrouter/some-lab/model-with-a-name", "model-with-a-name"),
        ("a-model-whose-name-is-longer-than-any-header-can-show", "code · a-model-w"),
    ],
)
def test_at_80_columns_a_model_is_shortened_rather_than_left_out(model: str, seen: str):
    about = About(workspace="/home/ada/" + "deep/" * 20, model=model, window=1000, mode="code")
    usage = Totals(context_tokens=500, cost=1.5, tokens_in=101_000, tokens_out=1_000)
    line = header_line(HeaderFacts(about=about, usage=usage), LOOK, 80)
    assert seen in line.plain
    assert line.cell_len <= 80


def test_the_context_bar_uses_the_window_of_the_answering_model():
    about = About(workspace="/w", model="big", window=1000, mode="code")
    header = HeaderFacts(about=about, model="small", window=500, usage=Totals(context_tokens=250))
    assert "50%" in header_line(header, LOOK, 80).plain


@each_row(
    ("here", "there"),
    [("code", "ask"), ("ask", "plan"), ("plan", "code"), ("gone", "code"), ("", "code")],
)
def test_the_next_name_wraps_around_and_defaults_to_the_first(here: str, there: str):
    assert next_name(here, ["code", "ask", "plan"]) == there
