import os
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.code_index.chunks import LEAST, MOST, TOLERATED, Chunk, chunks, names_of
from rookery.core.indexed_code import Definition, headings
from rookery.core.text.text_lines import rows_of

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LONGEST = 1_000_000 if TORTURE else 200_000
"""Characters of a text that is to take no long time."""

LINES = st.lists(
    st.one_of(
        st.sampled_from(["", "}", "    x = 1", "# note", "def f():", "\t", "\r", "é\u2028\x0c"]),
        st.text(max_size=60),
        st.integers(900, 2500).map(lambda length: "y" * length),
    ),
    max_size=80,
)


def definitions_in(rows: int, seed: int) -> list[Definition]:
    """Anything a parser could say, also what makes no sense."""
    chance = random.Random(seed)
    found = [
        Definition(
            name=f"d{number}",
            kind="function",
            start=(start := chance.randint(0, rows + 1)),
            end=start + chance.randint(0, 20),
            depth=chance.randint(0, 200),
        )
        for number in range(chance.randint(0, 12))
    ]
    return sorted(found, key=lambda each: each.start)


@given(lines=LINES, end=st.sampled_from(["\n", "\r\n", "\r"]), seed=st.integers(0, 1000))
def test_chunks_cover_any_text_without_gap_or_overlap_in_sizes_that_are_promised(
    lines: list[str], end: str, seed: int
):
    text = end.join(lines)
    rows = rows_of(text)
    found = chunks(text, definitions_in(len(rows), seed), statements=[seed % 7, seed % 31])
    assert "".join(text[chunk.begin : chunk.finish] for chunk in found) == text
    sizes = [chunk.finish - chunk.begin for chunk in found]
    assert all(size <= TOLERATED for size in sizes)
    assert all(size >= LEAST for size in sizes) or len(text) < LEAST
    assert all(1 <= chunk.start <= chunk.end <= len(rows) for chunk in found)
    assert [chunk.start for chunk in found] == sorted(chunk.start for chunk in found)


@given(lines=st.lists(st.text(alphabet="ab \n", max_size=40), max_size=60))
def test_the_lines_of_a_chunk_are_those_its_characters_are_in(lines: list[str]):
    text = "\n".join(lines)
    for chunk in chunks(text):
        assert chunk.start == text.count("\n", 0, chunk.begin) + 1
        assert chunk.end == text.count("\n", 0, chunk.finish - 1) + 1


def test_a_definition_is_a_chunk_with_the_comment_on_it():
    body = "    total = 0  # a line of some length\n" * 4
    head = "import os\nSETTING = 'a longer value, so that it stands alone'\n\n# about f\n"
    text = f"{head}def f():\n{body}\ndef g():\n{body}\ndef h():\n{body * 6}"
    f = Definition(name="f", kind="function", start=5, end=9)
    g = Definition(name="g", kind="function", start=11, end=15)
    h = Definition(name="h", kind="function", start=17, end=41)
    found = chunks(text, [f, g, h])
    assert [chunk.start for chunk in found][:3] == [1, 4, 11]
    assert names_of(found, [f, g, h])[:3] == [[], ["f"], ["g"]]


def test_a_large_definition_is_divided_into_what_is_in_it():
    method = "    def method(self):\n" + "        return 'something or other'\n" * 12 + "\n"
    text = "class Large:\n    '''About as much as is in a docstring of one line.'''\n" + method * 4
    inner = [
        Definition(name=f"m{n}", kind="function", start=3 + 14 * n, end=15 + 14 * n, depth=1)
        for n in range(4)
    ]
    whole = Definition(name="Large", kind="class", start=1, end=58)
    found = chunks(text, [whole, *inner])
    assert [chunk.start for chunk in found] == [1, 3, 17, 31, 45]
    assert names_of(found, [whole, *inner])[2] == ["Large", "m1"]


def test_a_large_function_is_divided_between_its_statements():
    statement = "    call(\n" + "        'an argument of a certain length',\n" * 8 + "    )\n"
    text = "def f():\n" + statement * 6
    starts = [2 + 10 * n for n in range(6)]
    found = chunks(text, [Definition(name="f", kind="function", start=1, end=61)], starts)
    assert {chunk.start for chunk in found} <= {1, *starts}
    assert len(found) == 3


def test_markdown_is_divided_at_its_headings():
    paragraph = "Some words about this and that, and then some more of them.\n" * 14
    text = f"# One\n{paragraph}\n## Two\n{paragraph}\n```\n# no heading\n```\n# Three\n{paragraph}"
    found = chunks(text, headings(rows_of(text)))
    assert [rows_of(text)[chunk.start - 1] for chunk in found] == ["# One", "## Two", "# Three"]


@pytest.mark.parametrize(
    "text",
    [
        "(" * LONGEST,
        "\n" * LONGEST,
        "a\n" * (LONGEST // 2),
        "# x\n" * (LONGEST // 4),
        "\ud800" * 10_000,
        "x" * 999 + "\n" + "y" * 1001,
    ],
    ids=["parentheses", "line ends", "short lines", "headings", "surrogates", "edges"],
)
def test_no_text_takes_long(text: str):
    began = time.process_time()
    found = chunks(text, headings(rows_of(text)))
    assert time.process_time() - began < LONGEST / 50_000
    assert found[-1].finish == len(text)
    assert max(chunk.finish - chunk.begin for chunk in found) <= TOLERATED


def test_an_empty_text_has_no_chunks_and_a_small_one_has_one():
    assert chunks("") == []
    assert chunks("a") == [Chunk(start=1, end=1, begin=0, finish=1)]
    assert MOST < TOLERATED
