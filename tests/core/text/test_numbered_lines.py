from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.text_lines import Span, joined_spans, passage

SPANS = st.builds(
    lambda first, more: Span(first, first + more), st.integers(0, 30), st.integers(0, 9)
)


def lines(spans: list[Span]) -> set[int]:
    return {line for span in spans for line in range(span.first, span.last + 1)}


@given(st.lists(SPANS, max_size=8))
def test_joined_spans_cover_the_same_lines_disjoint_and_sorted(spans: list[Span]):
    joined = joined_spans(spans)
    assert lines(joined) == lines(spans)
    assert all(one.last + 1 < other.first for one, other in pairwise(joined))


@given(
    rows=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30), min_size=1
    ),
    room=st.integers(0, 400),
)
def test_a_passage_fits_its_limit_and_says_if_it_is_complete(rows: list[str], room: int):
    span = Span(0, len(rows) - 1)
    shown = passage(rows, span, width=3, longest=20, room=room)
    assert shown.size == sum(len(row.encode()) + 1 for row in shown.rows)
    assert shown.size <= room or len(shown.rows) == 1
    assert shown.uncut is all(len(row) <= 20 for row in rows[: len(shown.rows)])
    assert [row[:3].strip() for row in shown.rows] == [
        str(number + 1) for number in range(shown.span.last + 1)
    ]
