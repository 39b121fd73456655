"""The difference for people: the same as that of `difflib`, which needs longer."""

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.text_lines import line_diff

_old = st.integers(0, 12).map(lambda count: [f"row {number}" for number in range(count)])
_new = st.lists(st.sampled_from(["new", "other"]), max_size=3)


@given(old=_old, new=_new, ends=st.tuples(st.integers(0, 12), st.integers(0, 12)))
def test_a_replaced_block_is_shown_as_difflib_shows_it(
    old: list[str], new: list[str], ends: tuple[int, int]
):
    first, last = sorted(min(end, len(old)) for end in ends)
    edited = [*old[:first], *new, *old[last:]]
    context = 3 if old else 0
    expected = list(unified_diff(old, edited, n=context, lineterm=""))[2:]
    shown = line_diff("\n".join(old), "\n".join(edited))
    assert shown.text.split("\n") == (expected or [""])
    assert (shown.added, shown.removed) == (
        sum(row.startswith("+") for row in expected),
        sum(row.startswith("-") for row in expected),
    )
