"""Long texts are shown in full, and only their visible part is laid out."""

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.core.facts import RequestStarted, TextStreamed
from rookery.core.message import Message
from rookery.tui.rows.lines import ShownRow
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.markdown_parts import PART, split_position
from rookery.tui.theme import DARK, THEMES
from support.tui_rows import draw_row, markdown, parts_of
from support.tui_scenes import EDIT
from support.tui_session import play

LOOK = THEMES[DARK]
TABLE = "| number | words |\n|---|---|\n" + "".join(
    f"| {n} | some words |\n" for n in range(30_000)
)
LINKS = " ".join(f"[link {n}](http://example.com/{n})" for n in range(50_000))
HUGE = {
    "table": TABLE,
    "links on one line": LINKS,
    "a list of links": "\n".join(f"- [link {n}](http://example.com/{n})" for n in range(50_000)),
    "code with blank lines": "```python\n" + "x = 1\n\n" * 50_000 + "```",
    "paragraphs": "a paragraph\n\n" * 50_000,
    "one word": "x" * 2_000_000,
    "stars": "*a " * 300_000,
}
KEY_SECONDS = 0.1
SLOW_MACHINE = 5


def words_of(**message: Any) -> str:
    shown = ShownRow(message=Message(ts=1, **message), unfolded=True, ended="done")
    return "".join("".join(strip.text for strip in draw_row(shown, 60, LOOK)).split())


LONG = "".join(f"word{n} " for n in range(4_000))


@pytest.mark.parametrize(
    "message",
    [
        {"type": "say", "say": "text", "content": LONG},
        {"type": "say", "say": "completion_result", "content": LONG},
        {"type": "say", "say": "user_feedback", "content": LONG},
        {"type": "say", "say": "reasoning", "content": LONG},
        {"type": "say", "say": "error", "content": LONG},
        {"type": "say", "say": "note", "content": LONG},
        {"type": "say", "say": "command_output", "content": LONG},
        {"type": "say", "say": "condense_context", "content": LONG},
        {"type": "ask", "ask": "command", "content": LONG, "answered": True},
        {"type": "ask", "ask": "followup", "content": LONG, "answered": True},
        {
            "type": "ask",
            "ask": "tool",
            "answered": True,
            "content": json.dumps({"diffStats": {}, "content": f"@@ -0,0 +1 @@\n+{LONG}"}),
        },
    ],
    ids=lambda message: message.get("say") or message.get("ask"),
)
def test_a_line_of_thousands_of_characters_can_be_read_in_full(message: dict[str, Any]):
    assert "".join(LONG.split()) in words_of(**message).replace("▏", "")


def test_a_long_call_result_unfolds_in_full():
    message = Message(ts=1, type="ask", ask="tool", content='{"tool": "readFile"}', answered=True)
    result = "\n".join(f"line {n}" for n in range(3_000))
    shown = ShownRow(message=message, ended="done", result=result, unfolded=True)
    assert draw_row(shown, 60, LOOK)[-1].text.strip() == "line 2999"


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_each_piece_of_a_huge_text_is_small(text: str):
    growing = GrowingMarkdownLines()
    pieces = growing.pieces(text, 78, LOOK)
    for piece in (*pieces[:2], *pieces[-2:]):
        assert len(list(piece.draw())) <= 200
    begun = time.thread_time()
    growing.pieces(text + " and more", 78, LOOK)
    assert time.thread_time() - begun < KEY_SECONDS


def test_a_text_streamed_by_letter_ends_like_one_that_came_at_once():
    text = (
        "# A\n\n1. one\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx\n\ny\n```\nend"
        + LONG[:PART]
        + "\n\n"
        + "".join(f"| {n} | w |\n" if n > 1 else "| a | b |\n|---|---|\n" for n in range(1, 200))
    )
    growing = GrowingMarkdownLines()
    for end in range(0, len(text), 7):
        growing.pieces(text[:end], 60, LOOK)
    lines = [line.plain for piece in growing.pieces(text, 60, LOOK) for line in piece.draw()]
    whole = [line.plain for line in markdown(text, 60, LOOK)]
    assert [line for line in lines if line] == [line for line in whole if line]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("| a | b |\n|---|---|\n" + "| cell | x |\n" * 500, "cell"),
        ("".join("1. item\n" for _ in range(500)), "500. item"),
        ("```python\n" + "x = 1\n" * 500 + "```", "x = 1"),
        ("> quoted\n" * 2_000, "quoted"),
    ],
    ids=["table", "numbered list", "code", "quotation"],
)
def test_a_block_drawn_in_parts_looks_like_one_block(text: str, last: str):
    assert len(parts_of(text)) > 1
    lines = [line.plain.rstrip() for line in markdown(text, 60, LOOK)]
    assert "" not in lines
    assert last in lines[-1]
    assert sum("───" in line for line in lines) <= 1


def test_a_long_line_is_cut_outside_links_and_code():
    line = "a [link with words](http://x) and `some code here` " * 200
    at = split_position(line)
    assert PART // 2 < at <= PART
    assert line[:at].count("[") == line[:at].count("]")
    assert line[:at].count("`") % 2 == 0


def test_a_long_table_cell_takes_several_lines():
    text = "| a | b |\n|---|---|\n| " + "long words " * 20 + "end | x |"
    assert "end" in " ".join(line.plain for line in markdown(text, 40, LOOK))
    assert max(line.cell_len for line in markdown(text, 40, LOOK)) <= 40


def test_a_table_with_too_many_columns_is_drawn_row_by_row():
    heads = "|".join(f"h{n}" for n in range(30))
    cells = "|".join(f"cell{n}" for n in range(30))
    text = f"|{heads}|\n|{'-|' * 30}\n|{cells}|"
    assert "h29: cell29" in [line.plain for line in markdown(text, 40, LOOK)]


@pytest.mark.anyio
async def test_keys_are_handled_quickly_whatever_is_shown():
    async with play() as played:
        for number, (name, text) in enumerate(HUGE.items()):
            played.host.tell(RequestStarted(request_id=f"r{number}", model="m"))
            played.host.tell(TextStreamed(request_id=f"r{number}", text=text))
            begun = time.thread_time()
            await played.settle()
            played.app._page.transcript.focus()
            for key in ("pageup", "home", "pagedown", "end"):
                await played.press(key)
            await played.settle()
            assert time.thread_time() - begun < SLOW_MACHINE * KEY_SECONDS * 6, name


@pytest.mark.anyio
async def test_a_huge_change_can_be_approved_only_after_scrolling_to_its_end():
    diff = "@@ -0,0 +1,30000 @@\n" + "".join(f"+line {n}\n" for n in range(30_000))
    async with play() as played:
        asked = replace(EDIT, diff=f"{diff}+THE END\n")
        begun = time.thread_time()
        played.host.tell(asked)
        await played.ripen()
        assert time.thread_time() - begun < SLOW_MACHINE * KEY_SECONDS * 6
        assert played.app._page.panel.unread > 29_000
        scroll_view = played.app._page.panel.body
        scroll_view.scroll_to(y=scroll_view.max_scroll_y, animate=False)
        await played.see("THE END")
        await played.press("y")
        assert len(played.host.sent) == 2
