"""A line as it is typed, key by key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.plain.keyboard import TimedLine, TypedLine
from support.each_row import each_row

pytestmark = pytest.mark.anyio


def typed(*pieces: str) -> tuple[TypedLine, str, str]:
    """The line, its echo, and the keys left over."""
    shown: list[str] = []
    line = TypedLine(shown.append)
    left = "".join(line.feed(piece) for piece in pieces)
    return line, "".join(shown), left


@each_row(
    ("keys", "result", "left"),
    [
        pytest.param("yes\n", TimedLine("yes"), "", id="enter-returns-the-buffer"),
        pytest.param("\n", TimedLine(""), "", id="enter-on-nothing-returns-nothing"),
        pytest.param("one\ntwo\n", TimedLine("one"), "two\n", id="a-paste-submits-at-its-break"),
        pytest.param(
            "one\r\ntwo", TimedLine("one"), "\ntwo", id="a-paste-with-carriage-returns-too"
        ),
        pytest.param("noo\x7f\x08o\n", TimedLine("no"), "", id="backspace-edits"),
        pytest.param("\x7fa\n", TimedLine("a"), "", id="backspace-on-nothing"),
        pytest.param("much\x15x\n", TimedLine("x"), "", id="ctrl-u-clears"),
        pytest.param("two words  \x17x\n", TimedLine("two x"), "", id="ctrl-w-erases-a-word"),
        pytest.param("\x17\x17x\n", TimedLine("x"), "", id="ctrl-w-on-nothing"),
        pytest.param(
            "\x1b[200~a\rb\n\x1b[201~c\nd",
            TimedLine("a\nb\nc"),
            "d",
            id="a-bracketed-paste-is-one-line",
        ),
        pytest.param("half\x03", TimedLine("", cancelled=True), "", id="ctrl-c-cancels"),
        pytest.param("\x04", TimedLine("", timed_out=True), "", id="end-of-input-is-a-timeout"),
        pytest.param("a\x04b\n", TimedLine("ab"), "", id="end-of-input-after-text-is-ignored"),
        pytest.param("\x1b[A\x1b[1;5Dgo\x1bOP\n", TimedLine("go"), "", id="arrow-keys-are-ignored"),
        pytest.param("\x1b\x07x\n", TimedLine("x"), "", id="control-characters-are-ignored"),
        pytest.param("grüße 日本\n", TimedLine("grüße 日本"), "", id="any-script"),
    ],
)
def test_keys(keys: str, result: TimedLine, left: str):
    line, _, rest = typed(keys)
    assert line.ended.is_set()
    assert (line.result, rest) == (result, left)


async def test_the_first_key_is_detected_at_once():
    line, _, _ = typed()
    assert not line.started.is_set()
    line.feed("\x1b")
    assert line.started.is_set()
    assert not line.ended.is_set()


def test_erased_characters_are_removed_cell_by_cell():
    _, shown, _ = typed("a日\x7f\n")
    assert shown == "a日\b\b  \b\b\n"


@given(st.text(alphabet=st.characters(exclude_categories=("C",), exclude_characters="\x7f")))
def test_plain_text_is_returned_unchanged_in_any_pieces(words: str):
    line, shown, left = typed(*words, "\n")
    assert (line.result, left) == (TimedLine(words), "")
    assert shown == words + "\n"


@given(st.text(max_size=30))
def test_typed_control_characters_are_never_echoed(keys: str):
    _, shown, _ = typed(keys)
    assert all(char.isprintable() or char in "\n\b" for char in shown if char.isascii())
