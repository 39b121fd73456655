"""Streamed words are not cut at the edge of a terminal."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.terminal_text import cells_of
from rookery.plain.screen import WordWrap
from support.each_row import each_row

WIDTH = 20


def seen(written: str, width: int = WIDTH) -> list[str]:
    """The lines that a terminal shows, with its own wrapping."""
    lines: list[list[str]] = [[]]
    column = 0
    for char in re.sub(r"\x1b\[\d*m", "", written):
        if unicodedata.combining(char):
            lines[-1][column - 1] += char
            continue
        cells = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if char == "\n":
            lines.append([])
            column = 0
            continue
        if char == "\b":
            assert 0 < column < width, "the position after the last column is not defined"
            column -= 1
            continue
        if column + cells > width:
            lines.append([])
            column = 0
        lines[-1][column : column + cells] = [char, *[""] * (cells - 1)]
        column += cells
    return ["".join(line).rstrip() for line in lines]


def wrapped(*pieces: str, width: int = WIDTH) -> list[str]:
    wrap = WordWrap()
    return seen("".join(wrap.add(piece, width) for piece in pieces), width)


@each_row(
    ("pieces", "lines"),
    [
        (["one two three four five"], ["one two three four", "five"]),
        (["one two three fo", "ur", "teen five"], ["one two three", "fourteen five"]),
        (["exactly nineteen ab", " c"], ["exactly nineteen ab", "c"]),
        (["exactly nineteen ab", "c"], ["exactly nineteen", "abc"]),
        (["a\n\n  b\n"], ["a", "", "  b", ""]),
        (["x" * 25, " y"], ["x" * 20, "xxxxx y"]),
        (["abc ", "x" * 25, "zz y"], ["abc " + "x" * 16, "x" * 9 + "zz y"]),
        (["日本語 日本語 日本", "語 x"], ["日本語 日本語", "日本語 x"]),
        (["日" * 11, " b"], ["日" * 10, "日 b"]),
        (["e\u0301" * 18, " b"], ["e\u0301" * 18, "b"]),
        (["\x1b[2mone two three four\x1b[0m"], ["one two three four"]),
        ([""], [""]),
    ],
)
def test_lines_end_between_words(pieces: list[str], lines: list[str]):
    assert wrapped(*pieces) == lines


WORDS = st.text(alphabet="ab日", min_size=1, max_size=9)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "  ", "\n", "\t"]))).map(
    lambda pairs: "".join(word + blank for word, blank in pairs)
)


@given(TEXTS, st.integers(1, 30), st.data())
def test_no_word_is_cut_or_lost_wherever_the_pieces_end(text: str, most: int, data: st.DataObject):
    pieces, rest = [], text.replace("\t", " ")
    while rest:
        length = data.draw(st.integers(1, most))
        pieces.append(rest[:length])
        rest = rest[length:]
    lines = wrapped(*pieces)
    assert " ".join(lines).split() == text.split()
    assert lines == wrapped(text.replace("\t", " "))
    assert all(cells_of(line) < WIDTH for line in lines)
