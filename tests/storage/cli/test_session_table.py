"""The table of sessions that a person sees."""

from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from rookery.core.stored_tasks import StoredStatus, TaskSummary
from rookery.core.text.terminal_text import Paint
from rookery.storage.cli.session_listing import (
    TableStyle,
    age,
    cells_of,
    cut,
    cut_front,
    folder_name,
    money,
    table,
)

NOW = datetime(2026, 3, 14, 15, 0, tzinfo=timezone(timedelta(hours=2)))
LOOK = TableStyle(width=60, paint=Paint(False), now=NOW, home="/home/ada")
ONE = "38e51f0c-6c5e-4d2a-9d0b-0c7a1d6f2b11"
TWIN = "38e51f0c-7777-4d2a-9d0b-0c7a1d6f2b22"
OTHER = "a1b2c3d4-6c5e-4d2a-9d0b-0c7a1d6f2b33"


def session(task_id: str, title: str, *, minutes: float = 3, **fields: object) -> TaskSummary:
    then = NOW - timedelta(minutes=minutes)
    summary = TaskSummary(
        id=task_id, title=title, workspace="/home/ada/shop", updated=int(then.timestamp() * 1000)
    )
    return replace(summary, **fields)  # type: ignore[arg-type]


def drawn(*sessions: TaskSummary, style: TableStyle = LOOK, **snippets: str) -> list[str]:
    found = {OTHER: snippets["snippet"]} if snippets else {}
    return table(sessions, found, [one.id for one in sessions], style).splitlines()


def test_columns_are_aligned_and_the_last_line_says_how_to_continue():
    assert drawn(
        session(OTHER, "Fix the\nparser"),
        session(ONE, "Cache", minutes=1440, status=StoredStatus.COMPLETED),
        style=replace(LOOK, width=80),
    ) == [
        "a1b2c3d4  3 min ago  open       Fix the parser",
        "38e51f0c  yesterday  completed  Cache",
        "",
        "Continue with: rookery --session-id ID",
    ]


def test_mode_and_cost_are_shown_where_any_session_has_them():
    assert drawn(
        session(OTHER, "Fix", mode="code", cost=0.01234),
        session(ONE, "Cache", mode="ask", cost=12.3),
        session(TWIN, "New", mode="code"),
        style=replace(LOOK, width=80),
    )[:3] == [
        "a1b2c3d4    3 min ago  open  code  $0.0123  Fix",
        "38e51f0c-6  3 min ago  open  ask    $12.30  Cache",
        "38e51f0c-7  3 min ago  open  code           New",
    ]


def test_a_sub_task_is_listed_below_its_parent():
    lines = drawn(
        session(TWIN, "Grandchild", parent=ONE),
        session(ONE, "Child", parent=OTHER, created=2),
        session("e5f6a7b8", "First child", parent=OTHER, created=1),
        session(OTHER, "Parent"),
        session("ffffffff", "Orphan", parent="gone"),
    )
    assert [line.partition("open  ")[2] for line in lines[:5]] == [
        "Parent",
        "└ First child",
        "└ Child",
        "  └ Grandchild",
        "Orphan",
    ]


def test_sessions_with_circular_parents_are_still_shown():
    lines = drawn(session(ONE, "a", parent=TWIN), session(TWIN, "b", parent=ONE))
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("cost", "said"),
    [(None, ""), (0.0, "$0.00"), (0.00012, "$0.0001"), (0.5, "$0.5000"), (1.0, "$1.00")],
)
def test_costs_are_rounded_to_a_useful_precision(cost: float | None, said: str):
    assert money(cost) == said


def test_short_ids_are_unique_among_hidden_sessions_too():
    [line, *_] = table([session(ONE, "a")], {}, [ONE, TWIN], LOOK).splitlines()
    assert line.startswith("38e51f0c-6  ")


def test_folders_are_shown_if_sessions_of_several_are_listed():
    lines = drawn(
        session(OTHER, "a"),
        session(ONE, "b", workspace="/srv/very/long/way/to/the/backend"),
        style=replace(LOOK, folders=True),
    )
    assert lines[:2] == [
        "a1b2c3d4  3 min ago  open  ~/shop                a",
        "38e51f0c  3 min ago  open  …/way/to/the/backend  b",
    ]


@pytest.mark.parametrize("title", ["x" * 200, "漢" * 200, "e\u0301" * 200, "no spaces " * 30])
@pytest.mark.parametrize("width", [60, 61, 79, 200])
@pytest.mark.parametrize("folders", [False, True])
def test_no_line_is_wider_than_the_terminal(title: str, width: int, folders: bool):
    style = replace(LOOK, width=width, folders=folders)
    lines = drawn(session(OTHER, title, damage="torn " * 99), style=style, snippet=title)
    assert max(map(cells_of, lines)) <= width
    assert width - 2 < cells_of(lines[0])
    assert len(lines) == 5


def test_a_task_is_readable_however_narrow_the_terminal():
    [line, *_] = drawn(session(OTHER, "Fix the parser at once"), style=replace(LOOK, width=5))
    assert line.endswith("  Fix the par…")


def test_snippets_and_damage_are_shown_below_the_session():
    lines = drawn(session(OTHER, "Cache", damage="It cannot be read."), snippet="the\tcache")
    assert lines[1:3] == ["  It cannot be read.", "  the cache"]


@pytest.mark.parametrize(
    ("status", "painted"),
    [
        (StoredStatus.COMPLETED, "\x1b[32mcompleted\x1b[0m"),
        (StoredStatus.FAILED, "\x1b[31mfailed\x1b[0m"),
        (StoredStatus.OPEN, "\x1b[33mopen\x1b[0m"),
        (StoredStatus.WAITING, "\x1b[33mwaiting\x1b[0m"),
        (StoredStatus.CLOSED, "\x1b[2mclosed\x1b[0m"),
    ],
)
def test_a_status_has_its_colour(status: StoredStatus, painted: str):
    [line, *_] = drawn(session(OTHER, "a", status=status), style=replace(LOOK, paint=Paint(True)))
    assert painted in line


def test_nothing_in_a_session_moves_the_cursor():
    evil = "\x1b[2J\r\nx"
    lines = drawn(
        session(OTHER, evil, workspace=evil, damage=evil),
        style=replace(LOOK, folders=True),
        snippet=evil,
    )
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (timedelta(seconds=0), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=-40), "just now"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=14, minutes=59), "14 h ago"),
        (timedelta(hours=15, minutes=1), "yesterday"),
        (timedelta(hours=38, minutes=59), "yesterday"),
        (timedelta(hours=39, minutes=1), "2026-03-12"),
        (timedelta(days=-2), "2026-03-16"),
        (timedelta(days=-1), "2026-03-15"),
    ],
)
def test_ages_are_shown_in_everyday_words(before: timedelta, said: str):
    assert age(int((NOW - before).timestamp() * 1000), NOW) == said


def test_shortly_after_midnight_two_hours_ago_is_not_yesterday():
    midnight = NOW.replace(hour=0, minute=10)
    ts = int((midnight - timedelta(hours=2)).timestamp() * 1000)
    assert age(ts, midnight) == "2 h ago"


def test_an_impossible_time_is_shown_as_unknown():
    assert age(10**18, NOW) == "unknown time"


@pytest.mark.parametrize(
    ("folder", "called"),
    [
        ("/home/ada", "~"),
        ("/home/ada/shop", "~/shop"),
        ("/home/adam", "/home/adam"),
        ("/srv\n/x", "/srv␊/x"),
    ],
)
def test_folders_below_home_are_shortened_with_a_tilde(folder: str, called: str):
    assert folder_name(folder, "/home/ada") == called


def test_folders_are_not_shortened_without_a_home():
    assert folder_name("/home/ada", "") == "/home/ada"


def test_a_text_is_cut_by_columns_not_by_characters():
    assert cut("漢字漢字", 8) == "漢字漢字"
    assert cut("漢字漢字", 7) == "漢字漢…"
    assert cut("漢字漢字", 6) == "漢字…"
    assert cut_front("a/漢字", 5) == "…漢字"
