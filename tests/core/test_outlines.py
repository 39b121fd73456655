from hypothesis import given
from hypothesis import strategies as st

from rookery.core.indexed_code import Definition, folded, headings, rendered, rest_in_short

CLASS = Definition(name="A", kind="class", start=3, end=20, first_line="class A:")
METHOD = Definition(
    name="f", kind="function", start=5, end=9, depth=1, first_line="    def f(self) -> int:"
)
LAST = Definition(name="g", kind="function", start=30, end=31, first_line="def g():")


def test_an_outline_shows_lines_and_nesting():
    assert rendered([CLASS, METHOD, LAST]) == (
        "3--20 | class A:\n5--9 |   def f(self) -> int:\n30--31 | def g():"
    )


def test_the_deepest_entries_are_dropped_first_then_the_last():
    assert folded([CLASS, METHOD, LAST], 1000) == rendered([CLASS, METHOD, LAST])
    assert folded([CLASS, METHOD, LAST], 40) == rendered([CLASS, LAST])
    assert folded([CLASS, LAST, *[LAST] * 30], 60) == (
        "3--20 | class A:\n30--31 | def g():\n(30 more definitions.)"
    )
    assert folded([CLASS], 5) == ""
    assert folded([], 5) == ""


def test_the_rest_of_a_file_is_outlined_only_if_much_shorter():
    assert rest_in_short([CLASS, METHOD, LAST], after=4, size=10_000) == rendered([METHOD, LAST])
    assert rest_in_short([CLASS, METHOD, LAST], after=4, size=100) == "30--31 | def g():"
    assert rest_in_short([CLASS, METHOD, LAST], after=4, size=40) == ""
    assert rest_in_short([CLASS], after=3, size=10_000) == ""


@given(
    depths=st.lists(st.integers(0, 4), max_size=40),
    budget=st.integers(0, 400),
    words=st.text(max_size=150),
)
def test_an_outline_keeps_to_its_budget(depths: list[int], budget: int, words: str):
    found = [
        Definition(name="x", kind="k", start=n, end=n, depth=depth, first_line=words)
        for n, depth in enumerate(depths)
    ]
    assert len(folded(found, budget)) <= budget


def test_headings_contain_the_sections_below_them():
    rows = ["# One #", "text", "## Two", "~~~", "# code", "```", "~~~", "### Three", "# Four", "#x"]
    found = [(each.name, each.start, each.end, each.depth) for each in headings(rows)]
    assert found == [("One", 1, 8, 0), ("Two", 3, 8, 1), ("Three", 8, 8, 2), ("Four", 9, 10, 0)]
