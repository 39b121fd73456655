"""The words that differ between two lines are marked inside their HTML."""

import pytest

from rookery.manager.review.word_changes import mark_words
from rookery.manager.shown_rows import DiffLine


def lines(*given: str) -> list[DiffLine]:
    kinds = {"-": "removed", "+": "added", " ": "same"}
    return [DiffLine(kind=kinds[each[0]], html=each[1:]) for each in given]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "marked"),
    [
        (("-a = 1 + b", "+a = 2 + b"), ("a = <mark>1</mark> + b", "a = <mark>2</mark> + b")),
        (("-one two", "+one two three"), ("one two", "one two<mark> three</mark>")),
        (
            ('-<span class="k">if</span> a &lt; b', '+<span class="k">if</span> a &gt; b'),
            (
                '<span class="k">if</span> a <mark>&lt;</mark> b',
                '<span class="k">if</span> a <mark>&gt;</mark> b',
            ),
        ),
        (
            ("-x(<i>a</i><b>b</b>, keep)", "+x(<i>c</i><b>d</b>, keep)"),
            (
                "x(<i><mark>a</mark></i><b><mark>b</mark></b>, keep)",
                "x(<i><mark>c</mark></i><b><mark>d</mark></b>, keep)",
            ),
        ),
        (("-nothing alike here", "+totally(other)"), ("nothing alike here", "totally(other)")),
        (("-same line 1", " between", "+same line 2"), ("same line 1", "between", "same line 2")),
        (
            ("-a 1", "-b 1", "+a 2", "+b 2", "+c 3"),
            ("a <mark>1</mark>", "b <mark>1</mark>", "a <mark>2</mark>", "b <mark>2</mark>", "c 3"),
        ),
    ],
)
def test_changed_words_are_marked(given: tuple[str, ...], marked: tuple[str, ...]):
    assert tuple(line.html for line in mark_words(lines(*given))) == marked


def test_a_very_long_line_is_not_compared():
    long = "a " * 1000
    assert [each.html for each in mark_words(lines(f"-{long}x", f"+{long}y"))] == [
        f"{long}x",
        f"{long}y",
    ]
