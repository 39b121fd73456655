import os
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.diff_blocks import (
    EXPLAINED,
    Applied,
    DiffBlock,
    Malformed,
    NotFound,
    Refused,
    apply,
    explain,
    parse,
)
from support.each_row import each_row
from support.timeouts import patience

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


def block(search: str, replace: str, start: int = 0) -> DiffBlock:
    return DiffBlock(tuple(search.split("\n")), tuple(replace.split("\n")), start)


def diff_of(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@each_row(
    ("diff", "blocks"),
    [
        (diff_of("a", "b"), (block("a", "b"),)),
        (diff_of(":start_line:7\n-------\na", "b"), (block("a", "b", 7),)),
        (diff_of(":start_line:7\n:end_line:9\n-------\na", "b"), (block("a", "b", 7),)),
        (diff_of("-------\na", "b"), (block("a", "b"),)),
        ("<<<<<<< SEARCH>\na\n=======\nb\n>>>>>>> REPLACE", (block("a", "b"),)),
        ("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE", (DiffBlock(("a",), ()),)),
        (diff_of("a", "b") + "and\n" + diff_of("c", "d"), (block("a", "b"), block("c", "d"))),
        (diff_of("a", "b").replace("\n", "\r\n"), (block("a", "b"),)),
        (diff_of("\\=======\n\\<<<<<<< HEAD", "\\:start_line:3"),
         (block("=======\n<<<<<<< HEAD", ":start_line:3"),)),
        (diff_of("a\n-------", "b  "), (block("a\n-------", "b  "),)),
    ],
)  # fmt: skip
def test_blocks_are_read(diff: str, blocks: tuple[DiffBlock, ...]):
    assert parse(diff) == blocks


@each_row(
    "row",
    [
        pytest.param(":start_line:" + " " * 400_000 + "x", id="blanks"),
        pytest.param(":start_line:" + "7" * 400_000 + "x", id="digits"),
        pytest.param(" " * 400_000 + "x", id="blanks before a number"),
        pytest.param("7" * 400_000 + "x", id="digits of a number"),
    ],
)
def test_a_long_line_is_scanned_once(row: str):
    with patience():
        blocks = parse(diff_of(row, "b"))
        assert blocks == (block(row, "b"),)
        assert apply("a\n", blocks).count == 0


def test_a_start_line_with_thousands_of_digits_is_past_every_file():
    (only,) = parse(diff_of(":start_line:" + "9" * 5000 + "\n-------\na", "b"))
    assert apply("a\nc\n", [only]).text == "b\nc\n"
    assert apply("a\na\n", [only]).count == 0
    numbered = block("9" * 5000 + " | a", "1 | b")
    assert apply("a\nc\n", [numbered]).text == "b\nc\n"


def test_a_marker_with_a_very_long_end_is_quoted_in_part():
    malformed = parse(diff_of("<<<<<<< " + "x" * 100_000, "b"))
    assert isinstance(malformed, Malformed)
    assert len(malformed.reason) < 1000


@each_row(
    ("diff", "words"),
    [
        ("nothing here", "There is no block"),
        ("<<<<<<< SEARCH\na\n", "'=======' is missing"),
        ("<<<<<<< SEARCH\na\n=======\nb\n", "'>>>>>>> REPLACE' is missing"),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "out of order: there are 1 SEARCH, 0 ======="),
        ("=======\nb\n>>>>>>> REPLACE\n", "out of order: there are 0 SEARCH"),
        (diff_of("a\n=======\nb", "c"), "Line 5 has '=======' inside a block"),
        (diff_of("<<<<<<< HEAD\na", "b"), "escape it with a backslash: '\\<<<<<<< HEAD'"),
        (diff_of("a", ":start_line:4\nb"), "':start_line:4' in the replacement"),
    ],
)
def test_the_error_for_a_malformed_diff_names_the_problem(diff: str, words: str):
    parsed = parse(diff)
    assert isinstance(parsed, Malformed)
    assert words in parsed.reason


@each_row(
    ("text", "change", "after"),
    [
        pytest.param("a\nb\nc\n", block("b", "B"), "a\nB\nc\n", id="exact"),
        pytest.param("a\nb", block("b", "B\nC"), "a\nB\nC", id="no final newline"),
        pytest.param("a\r\nb\r\nc\r\n", block("b", "x\ny"), "a\r\nx\r\ny\r\nc\r\n", id="CRLF"),
        pytest.param("a\rb\rc", block("b", "B\nC"), "a\rB\rC\rc", id="bare CR"),
        pytest.param("a\r\nb\nc\r\n", block("a\nb\nc", "a\nB\nc"), "a\r\nB\nc\r\n", id="mixed"),
        pytest.param("a \nb\n", block("a\nb", "a\nB"), "a \nB\n", id="trailing blanks stay"),
        pytest.param("a\n", block("a", "b  "), "b  \n", id="C14 replacement not trimmed"),
        pytest.param("\tif x:\n\t\ty\n", block("if x:\n\ty", "if x:\n\tz"),
                     "\tif x:\n\t\tz\n", id="C14 tabs stay tabs"),
        pytest.param("    a\n    b\n", block("a\nb", "a\nc\n  d"), "    a\n    c\n      d\n",
                     id="indented as a whole"),
        pytest.param("    f(\n        x)\n", block("f(\n        x)", "g(\n        y)"),
                     "    g(\n        y)\n", id="first line lost its indentation"),
        pytest.param("  1 | a\n", block("  1 | a", "b"), "b\n", id="a listing in a file"),
        pytest.param("a\nb\nc\n", block("2 | b", "2 | B"), "a\nB\nc\n", id="numbers are dropped"),
        pytest.param("x\ny\nx\n", block("x", "z", 3), "x\ny\nz\n", id="start line decides"),
        pytest.param("x\n" + "y\n" * 60 + "x\n", block("x", "z", 4), "z\n" + "y\n" * 60 + "x\n",
                     id="near the start line"),
        pytest.param("x\ny\nx\n", block("3 | x", "3 | z"), "x\ny\nz\n", id="number decides"),
        pytest.param("a\nb\n", DiffBlock(("b",), ()), "a\n", id="deletion"),
        pytest.param("a\nb\n", block("b\n", "B\n"), "a\nB\n", id="empty row behind the last"),
        pytest.param("a\nb\n", block("b\n", "B"), "a\nB\n", id="empty row only in the search"),
        pytest.param("b\na\nb\n", block("b\n", "B\n"), "b\na\nB\n", id="only at the end"),
        pytest.param("a\r\nb\r\n", block("a\nb\n", "x\n"), "x\r\n", id="empty row, CRLF"),
        pytest.param("x\n" + "y\n" * 9 + "x\n", block("x", "z", 3), "z\n" + "y\n" * 9 + "x\n",
                     id="clearly nearest"),
    ],
)  # fmt: skip
def test_a_block_changes_its_lines_and_no_others(text: str, change: DiffBlock, after: str):
    assert apply(text, [change]) == Applied(after, 1)


@each_row(
    ("text", "change", "miss"),
    [
        ("x\ny\nx\n", block("x", "z"), "2 times, at lines 1, 3"),
        ("x\nx\n", block("x", "z", 90), "Line 90 is not clearly nearest to one of them."),
        ("x\ny\nx\n", block("x", "z", 2), "Line 2 is not clearly nearest to one of them."),
        ("x\n" + "y\n" * 6 + "x\n", block("x", "z", 4), "2 times, at lines 1, 8"),
        ("x\n", block("x", "x"), "are the same"),
        ("x\n", DiffBlock((), ("x",)), "is empty"),
    ],
)
def test_an_ambiguous_block_is_refused(text: str, change: DiffBlock, miss: str):
    applied = apply(text, [change])
    assert (applied.text, applied.count) == (text, 0)
    assert isinstance(applied.misses[0], Refused)
    assert miss in applied.misses[0].reason


def test_a_trailing_empty_line_must_match_inside_the_file():
    applied = apply("b\nc\n", [block("b\n", "B\n")])
    assert isinstance(applied.misses[0], NotFound)


def test_the_error_requests_a_start_line_only_if_missing():
    (miss,) = apply("x\ny\nx\n", [block("x", "z", 2)]).misses
    assert isinstance(miss, Refused)
    assert ":start_line:" not in miss.reason
    (miss,) = apply("x\ny\nx\n", [block("x", "z")]).misses
    assert isinstance(miss, Refused)
    assert ":start_line:" in miss.reason


def test_all_blocks_are_matched_against_the_original_text():
    text = "a\nb\nc\nd\n"
    blocks = [block("d", "a\na", 4), block("a", "1\n2\n3", 1), block("c", "b", 3)]
    assert apply(text, blocks) == Applied("1\n2\n3\nb\nb\na\na\n", 3)


def test_a_failed_block_does_not_stop_the_others():
    missing = block("nowhere", "x")
    applied = apply("a\nb\n", [missing, block("b", "B")])
    assert applied == Applied("a\nB\n", 1, (NotFound(1, missing),))


def test_overlapping_blocks_are_not_both_applied():
    applied = apply("a\nb\nc\n", [block("a\nb", "A\nB"), block("b\nc", "X\nY")])
    assert applied == Applied("A\nB\nc\n", 1, (Refused(2, "It overlaps block 1."),))


def test_a_block_that_overlaps_an_applied_block_is_refused():
    text = "a\nb\nc\nd\n"
    assert apply(text, [block("b\nc", "x"), block("a\nb", "y")]).text == "a\nx\nd\n"
    assert apply(text, [block("b\nc", "x"), block("c\nd", "y")]).text == "a\nx\nd\n"
    assert apply(text, [block("c", "x"), block("a", "y"), block("b", "z")]).text == "y\nz\nx\nd\n"
    assert apply(text, [block("c", "x"), block("b\nc\nd", "y")]).misses == (
        Refused(2, "It overlaps block 1."),
    )


def test_very_many_blocks_are_applied():
    count = 60_000 if TORTURE else 8_000
    numbers = range(count)
    blocks = [block(f"row {number}", f"new {number}") for number in numbers]
    with patience():
        applied = apply("".join(f"row {number}\n" for number in numbers), blocks)
    assert applied.count == count
    assert applied.text.endswith(f"new {count - 2}\nnew {count - 1}\n")


def test_the_matches_nearest_to_the_start_line_are_used():
    count = 2_000 if TORTURE else 400
    text = "same\n" * 50 * count
    blocks = [block("same", "new", start) for start in range(1, 10 * count, 10)]
    with patience():
        assert apply(text, blocks).count == count


def test_the_first_misses_are_explained_and_the_rest_counted():
    misses = apply("a\n", [block(f"x{number}", "y") for number in range(50)]).misses
    said = explain("a\n", misses)
    assert said.count("was not applied") == EXPLAINED
    assert said.endswith("40 more blocks were not applied.")


def test_uneven_indentation_is_not_guessed_at():
    text = "def f():\n    a\n        b\n"
    applied = apply(text, [block("a\nb", "a\nc")])
    assert applied.count == 0
    assert "only indentation differs" in explain(text, applied.misses)


@each_row(
    ("text", "search", "words"),
    [
        ("say(“hi”)\nend\n", 'say("hi")\nend', "only typographic characters differ"),
        ("if  x :\n    y\n", "if x:\n    y", "only spacing differs"),
        ("Alpha\nbeta\n", "alpha\nbeta", "only upper and lower case differ"),
        ("one\ntwo\nthree\n", "one\n2\nthree", "Nearest: lines 1-3"),
        ("one\ntwo\n", "quite different", "Nothing in the file resembles it"),
    ],
)
def test_a_miss_is_explained(text: str, search: str, words: str):
    applied = apply(text, [block(search, "x")])
    assert words in explain(text, applied.misses)


def test_a_miss_shows_the_lines_that_differ():
    text = "".join(f"line {n}\n" for n in range(100)) + "def total(items):\n    return sum(items)\n"
    applied = apply(text, [block("def total(items):\n    return add(items)", "x")])
    assert explain(text, applied.misses) == (
        "Block 1 was not applied: its text is not in the file.\n"
        "Nearest: lines 101-102, 92 % alike; 1 line differs.\n"
        "102 file:       return sum(items)\n"
        "102 search:     return add(items)"
    )


def work(function: Callable[[], object]) -> int:
    """How many calls it takes, of Python functions and of built-in ones."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def failing(lines: int) -> tuple[str, DiffBlock]:
    rows = [f"    value_{n % 97} = compute(item, {n})" for n in range(lines)]
    wanted = [row.replace("compute", "calculate") for row in rows[lines // 2 : lines // 2 + 30]]
    return "\n".join(rows), DiffBlock(tuple(wanted), ("x",))


def test_the_cost_of_a_failing_block_is_linear_in_the_file():
    def cost(lines: int) -> int:
        text, wanted = failing(lines)
        return work(lambda: explain(text, apply(text, [wanted]).misses))

    assert cost(8000) < 5 * cost(2000)
    assert cost(8000) < 8000 * 100


def test_the_nearest_place_in_a_long_file_is_found():
    text, wanted = failing(8000)
    assert "Nearest: lines 4001-4030" in explain(text, apply(text, [wanted]).misses)


words = st.text(st.sampled_from("ab \t"), max_size=4)
ends = st.sampled_from(["\n", "\r\n"])


@given(st.lists(st.tuples(words, ends), max_size=6), st.lists(st.tuples(words, ends), max_size=6),
       st.lists(words, min_size=1, max_size=3))  # fmt: skip
def test_no_byte_outside_the_found_lines_changes(
    above: list[tuple[str, str]], below: list[tuple[str, str]], new: list[str]
):
    head = "".join(text + end for text, end in above)
    tail = "".join(text + end for text, end in below)
    applied = apply(f"{head}<here>\r\n{tail}", [DiffBlock(("<here>",), tuple(new))])
    assert applied.count == 1
    assert applied.text.startswith(head)
    assert applied.text.endswith(tail)
    middle = applied.text[len(head) : len(applied.text) - len(tail)]
    assert [row.removesuffix("\r") for row in middle.split("\n")[:-1]] == new


@given(st.lists(words, min_size=1, max_size=8, unique=True), st.data())
def test_unique_exact_blocks_match_plain_text_replacement(rows: list[str], data: st.DataObject):
    text = "".join(f"{row}|{place}\n" for place, row in enumerate(rows))
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, len(rows) - 1))
    old = "\n".join(text.split("\n")[first : last + 1])
    new = "\n".join(data.draw(st.lists(words, min_size=1, max_size=3)))
    blocks = parse(diff_of(old, new))
    assert not isinstance(blocks, Malformed)
    assert apply(text, blocks).text == text.replace(f"{old}\n", f"{new}\n")
