import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from rookery.platform.paths import FileRules, file_pattern


@pytest.mark.parametrize(
    ("line", "path", "fits"),
    [
        ("*.log", "deep/x.log", True),
        ("*.log", "x.logs", False),
        ("/x", "x", True),
        ("/x", "a/x", False),
        ("a/x", "a/x", True),
        ("a/x", "b/a/x", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y/c", False),
        ("**/b/c", "a/a/b/c", True),
        ("a/***/b", "a/x/y/b", True),
        ("a/**/", "a/b", False),
        ("a/**/", "a/b/c", True),
        ("a**b", "a-b", True),
        ("a**b", "a/b", False),
        ("x/", "x/y", True),
        ("x/", "x", False),
        ("[a-c]x[!0-9]", "bxz", True),
        ("[a-c]x[^0-9]", "bx7", False),
        ("b[!a]a", "b/a", False),
        (r"[\]a-]", "]", True),
        ("[]a]", "]", True),
        (r"\#x", "#x", True),
        ("x\\ ", "x ", True),
        ("x  ", "x", True),
        ("x\r", "x", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("*a*b*", "xaybz", True),
        ("*ab*ab", "ab-ab", True),
        ("*ab*ab", "aab", False),
        ("*", "line\nfeed", True),
    ],
)
def test_a_line_means_what_it_means_to_git(line: str, path: str, fits: bool):
    assert FileRules.of_ignore_file([line]).cover(path) is fits


@pytest.mark.parametrize("line", ["", "   ", "# x", "\r"])
def test_a_line_may_say_nothing(line: str):
    assert file_pattern(line) is None


@pytest.mark.parametrize("line", ["[a", "x[]", "x\\", "[z-a]", "!", "/", "a//b", "a" * 5000])
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


@pytest.mark.parametrize(
    ("line", "path"),
    [
        pytest.param("*a" * 30 + "*b", "a" * 200, id="stars"),
        pytest.param("**/a/" * 30 + "b", "a/" * 200 + "c", id="double stars"),
        pytest.param("a/**/" * 30 + "b", "a/" * 200 + "c", id="inner double stars"),
        pytest.param("[ab]*?" * 60 + "c", "ab" * 100, id="classes"),
    ],
)
def test_no_pattern_takes_for_ever(line: str, path: str):
    program = "import sys; from rookery.platform.paths import FileRules; " + (
        "print(FileRules.of_ignore_file(sys.argv[1:2]).cover(sys.argv[2]))"
    )
    source = Path(__file__).parents[2] / "src"
    found = subprocess.run(
        [sys.executable, "-c", program, line, path],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "False\n"
