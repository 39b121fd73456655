"""Markdown on a plain terminal: drawn while it arrives, and never written twice."""

import re

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import Paint, harmless
from rookery.plain.markdown_stream import MAX_HELD_ROWS, MarkdownStream
from support.each_row import each_row

WIDTH = 60


def drawn(text: str, size: int = 1_000, *, colour: bool = True) -> str:
    stream, written = MarkdownStream(Paint(colour)), ""
    for begin in range(0, len(text), size):
        piece = text[begin : begin + size]
        written += "".join(span.text for span in stream.add(piece, WIDTH))
    return written + "".join(span.text for span in stream.finish(WIDTH))


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"


def code(text: str) -> str:
    return f"\x1b[36m{text}\x1b[0m"


@each_row(
    ("text", "expected"),
    [
        ("plain words", "plain words"),
        ("some **bold words** here", f"some {bold('bold words')} here"),
        ("*em* here", "\x1b[3mem\x1b[0m here"),
        ("run `a * b` now", f"run {code('a * b')} now"),
        ("``a ` b``", code("a ` b")),
        ("# Title\nwords", f"{bold('Title')}\nwords"),
        ("- item\n* other\n", "- item\n* other\n"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("snake_case_name and __init__.py", "snake_case_name and __init__.py"),
        ("f(**kwargs) and *args", "f(**kwargs) and *args"),
        ("an `open end\nnext", "an `open end\nnext"),
        ("#not a heading", "#not a heading"),
        ("|no table", "|no table\n"),
        (
            "```py\n**x**\n```\n**y**",
            f"\x1b[2m```py\x1b[0m\n{code('**x**')}\n\x1b[2m```\x1b[0m\n{bold('y')}",
        ),
    ],
)
def test_markdown_is_drawn(text: str, expected: str):
    assert drawn(text) == expected


TABLE = "| a | long name |\n|---|:-:|\n| **1** | x |\n| 22 | `y` |\nafter"


def test_a_table_has_columns():
    assert uncoloured(drawn(TABLE)).splitlines() == [
        "a  │ long name",
        "───┼──────────",
        "1  │ x",
        "22 │ y",
        "after",
    ]


def test_a_table_that_does_not_fit_is_written_unchanged():
    wide = f"| {'a' * 40} | {'b' * 40} |\n|---|---|\n"
    assert drawn(wide) == wide


def test_a_long_table_is_written_before_its_end():
    stream = MarkdownStream(Paint(False))
    rows = "".join(f"| {n} | x |\n" for n in range(MAX_HELD_ROWS))
    assert stream.add(f"| a | b |\n|---|---|\n{rows}", WIDTH)
    (later,) = stream.add("| 1 | y |\n", WIDTH)
    assert later.text == "1  │ y\n"


def test_text_is_written_as_it_arrives():
    stream = MarkdownStream(Paint(True))
    written = [
        [span.text for span in stream.add(piece, WIDTH)] for piece in ("One ", "two", " **b")
    ]
    assert written == [["One "], ["two"], [" "]]


def test_without_colour_only_tables_are_drawn():
    text = "# Title\n**bold** `code`\n"
    assert drawn(text, colour=False) == text
    assert "22    │ `y`" in drawn(TABLE, colour=False)


MARKDOWN = st.lists(
    st.sampled_from(
        ["*", "**", "_", "`", "```\n", "# ", "|", "|-|-|\n", "- ", "\n", " ", "a", "b "]
    )
).map("".join)


@given(MARKDOWN, st.integers(1, 9))
def test_the_output_does_not_depend_on_the_pieces(text: str, size: int):
    assert uncoloured(drawn(text, size)) == uncoloured(drawn(text))


@given(MARKDOWN)
def test_no_character_is_lost(text: str):
    letters = re.sub(r"[^ab]", "", text)
    assert re.sub(r"[^ab]", "", uncoloured(drawn(text))) == letters


@given(st.text())
def test_only_our_own_colours_are_added(text: str):
    assert "\x1b" not in uncoloured(drawn(harmless(text)))
    assert drawn(harmless(text), colour=False).count("\x1b") == 0
