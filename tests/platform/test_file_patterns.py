import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from rookery.platform.paths import FileRules, file_pattern
from support.each_row import each_row

MEANS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "*.log": (("deep/x.log",), ("x.logs",)),
    "/x": (("x",), ("a/x",)),
    "a/x": (("a/x",), ("b/a/x",)),
    "a/**": (("a/b/c",), ("a",)),
    "a/**/b": (("a/b", "a/x/y/b"), ("a/x/y/c",)),
    "**/b/c": (("a/a/b/c",), ()),
    "a/***/b": (("a/x/y/b",), ()),
    "a/**/": (("a/b/c",), ("a/b",)),
    "a**b": (("a-b",), ("a/b",)),
    "x/": (("x/y",), ("x",)),
    "[a-c]x[!0-9]": (("bxz",), ()),
    "[a-c]x[^0-9]": ((), ("bx7",)),
    "b[!a]a": ((), ("b/a",)),
    r"[\]a-]": (("]",), ()),
    "[]a]": (("]",), ()),
    r"\#x": (("#x",), ()),
    r"x\ ": (("x ",), ()),
    "x  ": (("x",), ()),
    "x\r": (("x",), ()),
    r"\*": (("*",), ("a",)),
    "a?c": (("abc",), ("ac",)),
    "*a*b*": (("xaybz",), ()),
    "*ab*ab": (("ab-ab",), ("aab",)),
    "*": (("line\nfeed",), ()),
}
"""Paths that a line covers, and paths that it does not."""


def test_a_line_means_what_it_means_to_git():
    for line, (covered, others) in MEANS.items():
        rules = FileRules.of_ignore_file([line])
        assert [path for path in covered if not rules.cover(path)] == [], line
        assert [path for path in others if rules.cover(path)] == [], line


@each_row("line", ["", "   ", "# x", "\r"])
def test_a_line_may_say_nothing(line: str):
    assert file_pattern(line) is None


@each_row("line", ["[a", "x[]", "x\\", "[z-a]", "!", "/", "a//b", "a" * 5000])
def test_a_faulty_line_is_refused_and_passed_over_in_a_file(line: str):
    with pytest.raises(ValueError, match="it"):
        file_pattern(line)
    assert FileRules.of_ignore_file([line, "b"]).cover("b")


def test_the_last_line_that_fits_decides():
    rules = FileRules.of_ignore_file(["*.log", "!keep.log", "keep.log/"])
    assert rules.opinion(["a.log"], is_folder=False) is True
    assert rules.opinion(["keep.log"], is_folder=False) is False
    assert rules.opinion(["keep.log"], is_folder=True) is True
    assert rules.opinion(["a.txt"], is_folder=False) is None


NAME = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
GLOB = st.lists(
    st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[a-b]", r"\a"]), min_size=1, max_size=5
).map("".join)
LINE = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "/", "**/"]),
        st.lists(GLOB | st.just("**"), min_size=1, max_size=4).map("/".join),
        st.sampled_from(["", "/"]),
    ),
).filter(lambda line: "***" not in line and not line.endswith("**/"))
"""Of the others pathspec thinks differently from git."""


@given(LINE, st.lists(NAME, min_size=1, max_size=5).map("/".join))
def test_any_pattern_covers_what_pathspec_says_it_does(line: str, path: str):
    expected = GitIgnoreSpec.from_lines([line]).match_file(path)
    assert FileRules.of_ignore_file([line]).cover(path) is expected


GREEDY = {
    "*a" * 30 + "*b": "a" * 200,
    "**/a/" * 30 + "b": "a/" * 200 + "c",
    "a/**/" * 30 + "b": "a/" * 200 + "c",
    "[ab]*?" * 60 + "c": "ab" * 100,
}


def test_no_pattern_takes_for_ever():
    program = "import sys; from rookery.platform.paths import FileRules\n" + (
        "for line, path in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    print(FileRules.of_ignore_file([line]).cover(path))"
    )
    words = [word for pair in GREEDY.items() for word in pair]
    found = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=Path(__file__).parents[2] / "src",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "False\n" * len(GREEDY)
