"""Which edits may be made in a file that changed elsewhere."""

from rookery.core.text.diff_blocks import DiffBlock, apply
from rookery.core.text.text_lines import (
    COMPARED_LINES,
    Swap,
    exact_pieces,
    line_swap,
    unchanged_around,
)
from support.each_row import each_row

EXACT = [
    ("a\nb\nc\n", "a\nB\nc\n", [Swap("b", "B")], True, "once, and nothing else"),
    ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n", [Swap("a\nb", "a\nB")], True, "line ends may differ"),
    ("a\nb", "a\nB", [line_swap(["b"], ["B"])], True, "a last line without an end"),
    ("a\nb\nc\n", "a\nc\n", [line_swap(["b"], [])], True, "a line is taken out"),
    ("a\nb\n", "B\nA\n", [Swap("b", "A"), Swap("a", "B")], True, "in whichever order"),
    ("a\nb\na\n", "x\nb\nx\n", [Swap("a", "x")], False, "it is there twice"),
    ("aaa\n", "xa\n", [Swap("aa", "x")], False, "two places that overlap"),
    ("  b\n", "  B\n", [line_swap(["b "], ["B"])], False, "only alike"),
    ("a\nb\n", "A\nb\n", [Swap("b", "B")], False, "something else was changed"),
    ("abc\n", "xy\n", [Swap("ab", "x"), Swap("bc", "y")], False, "pieces that overlap"),
    ("a\n", "a\nb\n", [line_swap([], ["b"])], False, "nothing was looked for"),
    ("a\n", "b\n", [], False, "a whole file"),
    ("a\nb\n", "A\nb\n", [Swap("a", "A"), Swap("c", "C")], False, "one of two is missing"),
]  # fmt: skip


@each_row(("text", "edited", "swaps", "exact", "why"), EXACT)
def test_an_edit_is_exact_if_it_replaces_only_the_quoted_text(
    text: str, edited: str, swaps: list[Swap], exact: bool, why: str
):
    assert bool(exact_pieces(text, edited, swaps)) is exact, why


def test_a_match_with_other_indentation_is_not_exact():
    text, block = "def f():\n        return 1\n", DiffBlock(("    return 1",), ("    return 2",))
    applied = apply(text, [block])
    assert applied.count == 1
    assert exact_pieces(text, applied.text, [line_swap(block.search, block.replace)]) == ()


LONG = "".join(f"line {number}\n" for number in range(COMPARED_LINES))
STANDS = [
    ("a\nb\nc\n", "a\nb\nC\n", ["a\n"], True, "another line was changed"),
    ("a\nb\nc\n", "x\ny\na\nb\nc\n", ["b"], True, "lines were added above"),
    ("a\nb\nc\n", "a\nb\nx\nc\n", ["b\n"], True, "a line was added right below"),
    ("a\r\nb\r\n", "a\nb\nc\n", ["b"], True, "other line ends"),
    ("1\na\n2\nb\n3\n", "x\na\n2\nb\ny\n", ["a\n", "b\n"], True, "both pieces stand"),
    ("1\na\n2\nb\n3\n", "1\na\n2\nB\n3\n", ["a\n", "b\n"], False, "one of two does not"),
    ("x = foo\n", "y = foo\n", ["foo"], False, "the rest of its line was changed"),
    ("a\nb\n", "a\nx\nb\n", ["a\nb\n"], False, "a line was added inside"),
    ("a\nb\n", "a\n", ["b"], False, "it is gone"),
    ("a\n", "a\nb\n", ["b"], False, "it was not there before"),
    ("a\n1\na\n2\n", "1\na\n2\n", ["a\n"], False, "it was there twice"),
    ("a\n1\n", "a\n1\na\n", ["a\n"], False, "it is there twice now"),
    ("a\n", "b\n", [], False, "nothing was looked for"),
    (LONG, "x\n" + LONG, ["line 7\nline 8\n"], True, "a long file with a line more"),
    (LONG, f"x\n{LONG}y\n", ["line 7\nline 8\n"], False, "too long to be compared"),
]


@each_row(("was", "now", "pieces", "stands", "why"), STANDS)
def test_a_passage_is_unchanged_if_none_of_its_lines_changed(
    was: str, now: str, pieces: list[str], stands: bool, why: str
):
    assert unchanged_around(was, now, pieces) is stands, why
