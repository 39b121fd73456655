"""How each kind of row is drawn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.text import Text

from rookery.core.message import Message
from rookery.tui.rows.lines import RowKind, ShownRow, all_lines, gap_between, kind_of, wrapped
from rookery.tui.rows.tool_calls import ScreenDiffLine, diff_lines, diff_pieces
from rookery.tui.theme import DARK, LIGHT, THEMES
from support.each_row import each_row
from support.tui_rows import draw_row, markdown, parts_of
from support.tui_scenes import DIFF

LOOK = THEMES[DARK]


def say(kind: str, text: str, **more: Any) -> Message:
    return Message(ts=1, type="say", say=kind, content=text, **more)


def ask(kind: str, text: str, **more: Any) -> Message:
    return Message(ts=1, type="ask", ask=kind, content=text, answered=True, **more)


def lines(message: Message, width: int = 60, **how: Any) -> list[str]:
    shown = ShownRow(message=message, **how)
    return [strip.text.rstrip() for strip in draw_row(shown, width, LOOK)]


def edit(diff: str) -> Message:
    stats = {"added": 1, "removed": 1}
    payload = {"tool": "editedExistingFile", "path": "a.py", "diffStats": stats, "content": diff}
    return ask("tool", json.dumps(payload), title="Edit a.py")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (say("text", "Hi *there*"), ["  Hi there"]),
        (say("user_feedback", "two\nlines"), ["› two", "  lines"]),
        (say("reasoning", "Long\nthoughts"), ["  Thought: Long thoughts"]),
        (say("completion_result", "Done."), ["✔ Done."]),
        (say("error", "It broke."), ["  ✗ It broke."]),
        (say("note", "By the way"), ["  · By the way"]),
        (say("checkpoint_saved", "abc"), []),
        (say("api_req_started", "{}"), []),
        (say("something_new", "progress"), ["  · progress"]),
        (ask("completion_result", ""), []),
        (say("sliding_window_truncation", ""), ["── the older part is left out " + "─" * 30]),
    ],
    ids=lambda value: value.say or value.ask if isinstance(value, Message) else "",
)
def test_each_kind_of_row_has_its_own_style(message: Message, expected: list[str]):
    assert lines(message) == expected


def test_an_auto_approved_edit_shows_its_diff_and_not_the_models_blocks():
    blocks = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    payload = {
        "tool": "appliedDiff",
        "diff": blocks,
        "content": "@@ -1 +1 @@\n-a\n+b\n",
        "diffStats": {"added": 1, "removed": 1},
    }
    message = ask("tool", json.dumps(payload), title="Edit a.py")
    assert lines(message, ended="done") == ["● Edit a.py  +1 −1", "  1 - a", "  1 + b"]


def test_a_call_is_one_line_until_it_is_unfolded():
    message = ask("tool", '{"tool": "readFile"}', title="Read a.py")
    how = {"ended": "done", "result": "File: a.py\n1 | a\n2 | b\n"}
    assert lines(message, **how) == ["● Read a.py  2 lines"]
    unfolded = lines(message, **how, unfolded=True)
    assert unfolded == ["● Read a.py  2 lines", "  File: a.py", "  1 | a", "  2 | b"]


@each_row(
    ("ended", "exit_code", "head"),
    [
        ("done", 0, "● $ make"),
        ("done", 2, "● $ make  exit 2"),
        ("denied", None, "✗ $ make  skipped"),
        ("", None, "● $ make"),
    ],
)
def test_the_first_line_of_a_command_shows_how_it_ended(
    ended: str, exit_code: int | None, head: str
):
    assert lines(ask("command", "make"), ended=ended, exit_code=exit_code) == [head]


def test_an_edit_shows_the_start_of_two_hunks_and_counts_the_rest():
    hunk = "@@ -{0},1 +{0},9 @@\n" + "\n".join(f"+line {n}" for n in range(12))
    diff = "\n".join(hunk.format(start) for start in (1, 101, 201))
    shown = lines(edit(diff))
    assert shown[0] == "● Edit a.py  +1 −1"
    assert sum(" + line" in line for line in shown) == 16
    assert shown[-1] == "  … 21 more lines"
    assert sum(" + line" in line for line in lines(edit(diff), unfolded=True)) == 36


def test_an_edit_shows_the_problems_that_it_caused():
    result = '{"path": "a.py"}\n\nNew problems:\na.py:1:1: error: "b" is not defined'
    shown = lines(edit("@@ -1 +1 @@\n-a\n+b\n"), ended="done", result=result)
    assert shown[-2:] == ["  New problems:", '  a.py:1:1: error: "b" is not defined']


def test_the_end_of_a_commands_output_is_shown():
    text = "\n".join(f"line {n}" for n in range(30))
    shown = lines(say("command_output", text))
    assert shown[0] == "  ▏ … 20 lines above"
    assert shown[1:] == [f"  ▏ line {n}" for n in range(20, 30)]


def test_a_pending_action_shows_only_its_title_in_the_conversation():
    message = Message(ts=1, type="ask", ask="tool", content=edit(DIFF).content, title="Edit a.py")
    assert lines(message) == ["○ Edit a.py  +1 −1"]


@each_row(("badge", "words"), [("isOutsideWorkspace", "outside"), ("isProtected", "protected")])
def test_outside_and_protected_files_have_a_badge(badge: str, words: str):
    message = ask("tool", json.dumps({"tool": "readFile", badge: True}), title="Read /etc/x")
    assert words in lines(message)[0]


def test_rows_of_a_child_are_indented_behind_a_line():
    assert lines(say("text", "inner"), depth=2) == ["│ │   inner"]


def test_control_characters_tabs_and_returns_are_made_visible():
    (line,) = lines(say("user_feedback", "a\tb\x1b[31m\r"))
    assert line == "› a   b␛[31m"


def test_line_numbers_in_a_diff_match_the_file():
    assert list(diff_lines("@@ -3,2 +3,2 @@\n a\n-b\n+c")) == [
        ScreenDiffLine("@", None, ""),
        ScreenDiffLine(" ", 3, "a"),
        ScreenDiffLine("-", 4, "b"),
        ScreenDiffLine("+", 4, "c"),
    ]


@each_row("width", [16, 40, 80])
def test_a_diff_with_wide_characters_never_exceeds_its_width(width: int):
    diff = "@@ -1,1 +1,1 @@\n-割引を計算する関数です、とても長い\n+" + "界" * 60
    for theme in (THEMES[DARK], THEMES[LIGHT]):
        drawn = all_lines(diff_pieces(diff, width, theme))
        assert all(line.cell_len <= width for line in drawn)


@each_row(
    ("text", "expected"),
    [
        ("# Title\nwords", ["Title", "", "words"]),
        ("- a\n- b\n  - c", ["• a", "• b", "  ◦ c"]),
        ("1. a\n2. b", ["1. a", "2. b"]),
        ("3. a\n\n4. b", ["3. a", "4. b"]),
        ("> quoted", ["▏ quoted"]),
        ("```\ncode\n```", [" code"]),
        ("```python\nx = 1", [" x = 1"]),
        ("a [link](http://x)", ["a link (http://x)"]),
        ("|a|b|\n|-|-|\n|1|22|", ["a │ b", "──┼───", "1 │ 22"]),
        ("---", ["─" * 24]),
    ],
)
def test_markdown(text: str, expected: list[str]):
    assert [line.plain.rstrip() for line in markdown(text, 40, LOOK)] == expected


@given(st.text(alphabet="ab \n-`#>*_[]()|1.界\t", max_size=200), st.integers(20, 60))
def test_any_markdown_fits_and_never_fails(text: str, width: int):
    for line in markdown(text, width, LOOK):
        assert line.cell_len <= width


@given(st.lists(st.sampled_from(["para", "- item", "```\na\n\nb\n```", "# h"]), max_size=6))
def test_a_text_is_cut_only_between_blocks(parts: list[str]):
    text = "\n\n".join(parts)
    assert "".join("".join(part.text for part in parts_of(text)).split()) == "".join(text.split())
    assert all(part.text.count("```") % 2 == 0 for part in parts_of(text))


@given(st.text(max_size=120), st.integers(2, 40))
def test_lines_never_exceed_their_width(text: str, width: int):
    from rookery.tui.rows.lines import clean

    assert all(line.cell_len <= width for line in wrapped(Text(clean(text)), width))


@each_row(
    ("above", "below", "tall", "gap"),
    [
        (RowKind.USER, RowKind.ANSWER, False, 1),
        (RowKind.CALL, RowKind.CALL, False, 0),
        (RowKind.CALL, RowKind.CALL, True, 1),
        (RowKind.CALL, RowKind.OUTPUT, True, 0),
        (RowKind.CALL, RowKind.TROUBLE, False, 0),
        (RowKind.OUTPUT, RowKind.CALL, True, 1),
    ],
)
def test_related_rows_have_no_blank_line_between_them(
    above: RowKind, below: RowKind, tall: bool, gap: int
):
    assert gap_between(above, below, tall=tall) == gap


def test_a_failed_request_is_shown():
    failed = json.dumps({"cost": 0, "streamingFailedMessage": "The key expired."})
    assert kind_of(ShownRow(message=say("api_req_started", failed))) is RowKind.TROUBLE
    assert lines(say("api_req_started", failed)) == ["  ✗ The key expired."]


@each_row("width", [20, 33, 60])
def test_a_long_refused_command_is_shown_in_full(width: int):
    command = " ".join(f"word{n:02}" for n in range(8))
    text = " ".join(lines(ask("command", command), width, ended="denied", unfolded=True))
    for word in command.split():
        assert word in text
    assert "skipped" in text


@each_row(("count", "reported"), [(6, "… 1 more line"), (7, "… 2 more lines")])
def test_counts_use_singular_and_plural(count: int, reported: str):
    command = "\n".join("x" for _ in range(count))
    assert lines(ask("command", command))[-1].strip() == reported


def test_a_long_message_of_the_user_is_folded_after_its_first_lines():
    text = "\n".join(f"row {number}" for number in range(60))
    long = ShownRow(message=Message(ts=1, type="say", say="user_feedback", content=text))
    folded = [strip.text.strip() for strip in draw_row(long, 60, LOOK)]
    assert folded[0] == "› row 0"
    assert folded[-2:] == ["row 11", "… 48 more lines"]
    unfolded = draw_row(replace(long, unfolded=True), 60, LOOK)
    assert len(unfolded) == 60
    short = ShownRow(message=replace(long.message, content="one\ntwo"))
    assert len(draw_row(short, 60, LOOK)) == 2
