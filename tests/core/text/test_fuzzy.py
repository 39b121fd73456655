"""Fuzzy matching of names, and its order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.text.characters import best_matches

PATHS = [
    "README.md",
    "docs/readme-first.md",
    "src/rookery/core/view.py",
    "src/rookery/clients/tui/app.py",
    "tests/core/test_view.py",
    "src/review/pyre.py",
    "Übersicht.md",
]


@pytest.mark.parametrize(
    ("letters", "found"),
    [
        ("", PATHS),
        ("readme", ["README.md", "docs/readme-first.md"]),
        (
            "view",
            ["src/rookery/core/view.py", "tests/core/test_view.py", "src/review/pyre.py"],
        ),
        ("ctapp", ["src/rookery/clients/tui/app.py"]),
        ("core view", ["src/rookery/core/view.py", "tests/core/test_view.py"]),
        ("ÜBER", ["Übersicht.md"]),
        ("zzz", []),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_matches_are_ordered_best_first(letters: str, found: list[str]):
    assert best_matches(PATHS, letters, 20, str) == found


def test_matches_are_limited_to_the_requested_number():
    assert len(best_matches(PATHS, "e", 20, str)) > 2
    assert best_matches(PATHS, "e", 2, str) == best_matches(PATHS, "e", 20, str)[:2]


@given(st.lists(st.text(max_size=20), max_size=20), st.text(max_size=5))
def test_matches_contain_the_letters_in_order(names: list[str], letters: str):
    wanted = "".join(letters.split()).casefold()
    for name in best_matches(names, letters, 50, str):
        rest = iter(name.casefold())
        assert all(letter in rest for letter in wanted)


@given(st.text(min_size=1, max_size=20))
def test_a_name_matches_itself(name: str):
    assert best_matches([name], name, 1, str) == [name]
