import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.core.path_patterns import LONGEST, path_pattern
from support.each_row import each_row


@each_row(
    ("pattern", "path", "fits"),
    [
        (r"\.md$", "docs/plan.md", True),
        (r"\.md$", "docs/plan.mdx", False),
        (r"\.md$", "plan.md/src.py", False),
        (r"^src/.*\.(ts|tsx)$", "src/a/b.tsx", True),
        (r"^src/.*\.(ts|tsx)$", "lib/src/a.ts", False),
        (r"(?i)readme", "docs/README.txt", True),
        (r"^(?!.*secret).*\.py$", "src/secret.py", False),
        (r"^(?!.*secret).*\.py$", "src/open.py", True),
        (r"(?<=test_)\w+\.py$", "tests/test_a.py", True),
        (r"(?<!test_)a\.py$", "tests/test_a.py", False),
        (r"[^/]+/[^/]{2,3}$", "a/bcd", True),
        (r"[^/]+/[^/]{2,3}$", "a/b", False),
        (r"\bdocs\/", "my docs/a", True),
        (r"[]a]x", "]x", True),
        (r"a{,2}b{1}c{2,}", "abcc", True),
        (r"x{}", "x{}", True),
        ("", "anything", True),
        (r"^$", "", True),
        (r"(?P<name>a|b)+?c", "abac", True),
        (r"é+", "caféé", True),
    ],
)
def test_patterns_match_like_regular_expressions(pattern: str, path: str, fits: bool):
    assert path_pattern(pattern).found_in(path) is fits
    assert bool(re.search(pattern, path)) is fits


def test_a_class_that_python_warns_about_is_accepted_without_a_warning():
    assert path_pattern(r"[[]*x").found_in("[[x")


ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\w", "^", "$", r"\b", "/"])


def joined(parts: list[str]) -> str:
    return "".join(parts)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = inner.map(lambda one: f"(?:{one})")
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(joined),
        st.lists(inner, min_size=2, max_size=3).map(lambda many: f"({'|'.join(many)})"),
        st.tuples(grouped, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"])).map(
            "".join
        ),
        inner.map(lambda one: f"(?={one})"),
        inner.map(lambda one: f"(?!{one})"),
    )


@given(st.recursive(ATOMS, grown, max_leaves=6), st.text("ab./x", max_size=8))
@example("(?:(?:^)*)*a", "a")
@example("(?!(?:a|b)*$)b", "ab/")
def test_random_patterns_match_like_re(pattern: str, path: str):
    assert path_pattern(pattern).found_in(path) is bool(re.search(pattern, path))


@each_row(
    "pattern",
    [
        r"^(a+)+$",
        r"^(a|a)*$",
        r"^(a|aa)+$",
        r"^((a*)*)*$",
        r"^(?:a*a*a*a*a*a*)*$",
        r"^((a*b?)*c?)*$",
        r"(?:a{1000}){1000}$",
        r"^(?=(?:a+)+$)(?=(?:a|aa)+$)",
        r"^(?:(?=a*!)a)*$",
        r"^(?:(?:a*!)?a)*$",
        "^" + "(?:" * 39 + "a*" + ")*" * 39 + "$",
    ],
)
def test_no_pattern_takes_long_to_match(pattern: str):
    began = time.process_time()
    assert not path_pattern(pattern).found_in("a" * 4000 + "!")
    assert time.process_time() - began < 2


@each_row(
    ("pattern", "reason"),
    [
        ("(", "not a regular expression"),
        ("a**", "not a regular expression"),
        (r"(a)\1", "a back-reference"),
        (r"(?P<n>a)(?P=n)", "a back-reference"),
        (r"(?>a+)", "not supported"),
        (r"(?i:a)", "not supported"),
        (r"a++", "possessive repetition"),
        ("(?x) a", "flag x"),
        ("a{1001}", "more than 1000"),
        ("(" * 60 + ")" * 60, "nested"),
        ("a" * (LONGEST + 1), "longer"),
    ],
)
def test_an_unsupported_pattern_is_refused_when_parsed(pattern: str, reason: str):
    with pytest.raises(ValueError, match=reason):
        path_pattern(pattern)
