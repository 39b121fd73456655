import re
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.governance.scope.name_patterns import PatternError, alternatives
from rookery.governance.scope.scope_patterns import (
    covers_workspace,
    may_be_within,
    overlaps,
    scope,
    scope_pattern,
    within,
)
from rookery.governance.scope.scope_verdict import nearest, smallest_pattern, writable_prefixes
from support.each_row import each_row

COMPOSED, DECOMPOSED = "src/caf\u00e9/**", "src/cafe\u0301/x"

TABLE = [
    (["src/auth/**"], "src/auth/a/b.py", True),
    (["src/auth/**"], "src/authz/x.py", False),
    (["src/auth"], "src/auth/jwt.py", True),
    (["src/auth"], "src/auth.py", False),
    (["src/*.py"], "src/a/b.py", False),
    (["*.md"], "docs/x.md", False),
    (["**/*.md"], "README.md", True),
    (["**/*.md"], "docs/x.md", True),
    (["src/**/test_*.py"], "src/test_a.py", True),
    (["src/{a,b}/**"], "src/b/z", True),
    (["!src/gen/**", "src/**"], "src/gen/x.py", False),
    (["src/**", "!src/gen/**"], "src/gen/x.py", False),
    ([COMPOSED], DECOMPOSED, True),
    ([unicodedata.normalize("NFD", COMPOSED)], "src/caf\u00e9/x", True),
    (["**"], ".env", True),
    (["src/auth/**"], "src/auth", False),
    (["src/auth"], "src/auth", True),
    (["src/auth/"], "src/auth", False),
    (["src/auth/"], "src/auth/x", True),
    (["./src"], "src/x", True),
    (["/src"], "src/x", True),
    (["src/*"], "src/.hidden", True),
    (["src/?.py"], "src/a.py", True),
    (["src/?.py"], "src/ab.py", False),
    (["src/[a-c].py"], "src/b.py", True),
    (["src/[!a-c].py"], "src/b.py", False),
    (["src/[!a-c].py"], "src/d.py", True),
    (["src/[]]x"], "src/]x", True),
    ([r"src/\*.py"], "src/*.py", True),
    ([r"src/\*.py"], "src/a.py", False),
    ([r"src/\{a,b\}"], "src/{a,b}", True),
    (["src/**/gen/*.py"], "src/a/b/gen/x.py", True),
    (["a/**/b/**/c"], "a/b/c", True),
    (["a/**/b/**/c"], "a/x/b/y/c/z", False),
    (["src/{a,{b,c}}.py"], "src/c.py", True),
    (["src/test{,s}/x"], "src/tests/x", True),
    (["**", "!*.key"], "deep/down/secret.key", False),
    (["**", "!secrets"], "deep/secrets/x", False),
    (["**", "!/secrets"], "deep/secrets/x", True),
    (["**", "!/secrets"], "secrets/x", False),
    (["SRC/**"], "src/a", False),
    (["src/**", "!src/*.py"], "src/a.py", False),
]


@each_row(("patterns", "path", "inside_it"), TABLE)
def test_what_a_scope_covers(patterns: list[str], path: str, inside_it: bool):
    assert scope(patterns).covers(path) is inside_it


@each_row("path", ["SRC/AUTH/jwt.py", "src/AUTH/Jwt.py"])
def test_case_counts_only_on_case_sensitive_volumes(path: str):
    assert scope(["src/auth/**"], ignore_case=True).covers(path)
    assert not scope(["src/auth/**"]).covers(path)
    assert scope(["src/[A-Z]uth/*"], ignore_case=True).covers(path)


@each_row("order", [["src/**", "!src/gen/**"], ["!src/gen/**", "src/**"]])
def test_subtracted_paths_are_excluded_in_either_order(order: list[str]):
    found = scope(order)
    assert not found.covers("src/gen/x.py")
    assert found.covers("src/x.py")
    assert found.excluding_pattern("src/gen/x.py") == "!src/gen/**"


@each_row(
    ("pattern", "says"),
    [
        ("", "empty"),
        ("!", "empty"),
        ("./", "empty"),
        ("../shared/**", "climb above"),
        ("src/../x", "climb above"),
        ("src/{a,..}/x", "climb above"),
        (r"src/\.\./x", "climb above"),
        ("C:/x", "absolute"),
        ("c:x", "absolute"),
        ("//server/share", "absolute"),
        ("\\\\server", "absolute"),
        ("file:///x", "absolute"),
        ("~/x", "expanded"),
        ("~user/x", "expanded"),
        ("a\0b", "NUL"),
        ("src/[a", "bracket"),
        ("src/{a,b", "brace"),
        ("src/a}", "brace"),
        ("src/a**", "stand alone"),
        ("**.py", "stand alone"),
        ("src/{a,**b}", "stand alone"),
        ("src/***", "stand alone"),
        ("src/[z-a]", "range"),
        ("src/[^a]", "two ways"),
        ("src/a\\", "backslash"),
        ("{a,b}" * 7, "64"),
        ("x" * 5000, "4096"),
    ],
)
def test_E206_a_bad_pattern_is_reported_with_the_reason_and_a_fix(pattern: str, says: str):
    with pytest.raises(PatternError, match=re.escape(says)) as caught:
        scope_pattern(pattern)
    assert caught.value.fix


def test_64_alternatives_are_the_most():
    assert len(scope_pattern("{a,b}" * 6).variants) == 64


NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "{a,b}", "{,a}", "a*"])
PARTS = st.one_of(
    st.just("**"),
    st.lists(PIECES, min_size=1, max_size=3).map("".join).filter(lambda part: "**" not in part),
)
GRANTS = (
    st.tuples(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["", "/"]))
    .map(lambda made: "/".join(made[0]) + made[1])
    .filter(lambda text: is_good(text))
)
SCOPES = st.lists(st.one_of(GRANTS, GRANTS.map(lambda text: f"!{text}")), min_size=1, max_size=3)


def is_good(text: str) -> bool:
    try:
        scope_pattern(text)
    except PatternError:
        return False
    return True


def naive(patterns: list[str], path: str) -> bool:
    """The same language as regular expressions of `re`, on inputs too small to hold it up."""
    granted = any(naive_fits(text, path) for text in patterns if not text.startswith("!"))
    return granted and not any(naive_fits(text, path) for text in patterns if text.startswith("!"))


def naive_fits(text: str, path: str) -> bool:
    broad = text.startswith("!")
    return any(
        re.fullmatch(naive_expression(spelling, broad=broad), path)
        for spelling in alternatives(text.removeprefix("!"))
    )


def naive_expression(spelling: str, *, broad: bool) -> str:
    names = [name for name in spelling.split("/") if name not in ("", ".")]
    wild = any(sign in spelling for sign in "*?[")
    expression = "(?:[^/]+/)*" if broad and "/" not in spelling.rstrip("/") else ""
    for at, name in enumerate(names):
        last = at == len(names) - 1
        if name == "**":
            expression += "(?:[^/]+/)*" + ("[^/]+" if last else "")
        else:
            body = re.sub(r"\[!", "[^/", name.replace(".", r"\."))
            expression += body.replace("*", "[^/]*").replace("?", "[^/]") + ("" if last else "/")
    if names[-1] == "**":
        return expression
    if spelling.endswith("/"):
        return expression + "/.+"
    return expression + ("(?:/.+)?" if broad or not wild else "")


@given(SCOPES, PATHS)
@example(["**/a"], "a")
@example(["a[!a]a"], "a/a")
@example(["a/**/**/b"], "a/b")
@example(["!a/**", "**"], "b/a/a")
def test_the_matcher_agrees_with_a_naive_one(patterns: list[str], path: str):
    assert scope(patterns).covers(path) is naive(patterns, path)


@given(SCOPES, SCOPES, st.lists(PATHS, min_size=1, max_size=8))
def test_overlap_never_misses_a_common_path(one: list[str], other: list[str], paths: list[str]):
    a, b = scope(one), scope(other)
    if any(a.covers(path) and b.covers(path) for path in paths):
        assert overlaps(one, other)
        assert overlaps(other, one)


@given(SCOPES, SCOPES, st.lists(PATHS, min_size=1, max_size=8))
def test_what_is_within_covers_no_other_path(child: list[str], parent: list[str], paths: list[str]):
    if within(child, parent):
        mine, its = scope(child), scope(parent)
        assert all(its.covers(path) for path in paths if mine.covers(path))
        assert may_be_within(child, parent)


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4).map("/".join))
def test_the_smallest_pattern_covers_what_it_was_made_for(path: str):
    names = path.split("/")
    if "\0" in path or any(name in ("", ".", "..") for name in names) or not path.strip():
        return
    assert scope([smallest_pattern([path])]).covers(path)
    assert scope([smallest_pattern([path, f"{path}x", "z/other"])]).covers(path)


@each_row(
    ("paths", "pattern"),
    [
        (["src/api/user.py"], "src/api/user.py"),
        (["src/api/a.py", "src/api/b.py"], "src/api/{a.py,b.py}"),
        (["src/a", "lib/b"], "{src/a,lib/b}"),
        ([f"src/{n}" for n in range(20)], "src/**"),
        (["we[i]rd"], r"we\[i\]rd"),
        (["!x"], "./!x"),
        (["c:x"], "./c:x"),
        ([" "], "./ "),
    ],
)
def test_the_smallest_pattern(paths: list[str], pattern: str):
    assert smallest_pattern(paths) == pattern
    assert all(scope([pattern]).covers(path) for path in paths)


@each_row(
    ("path", "near"),
    [
        ("src/api/user.py", "src/auth/**"),
        ("src/auth/x/y", "src/auth/**"),
        ("lib/util/a.py", "lib/*.py"),
        ("other", "src/auth/**"),
    ],
)
def test_the_nearest_pattern(path: str, near: str):
    assert nearest(["src/auth/**", "lib/*.py", "!other"], path) == near
    assert nearest(["!x"], path) == ""


@each_row(
    ("one", "other", "meet"),
    [
        (["src/**"], ["src/api/**"], True),
        (["src/a/**"], ["src/b/**"], False),
        (["**/*.py"], ["docs/**"], True),
        (["src/*.py"], ["src/*.js"], False),
        (["src/a*c"], ["src/*bc"], True),
        (["src/[a-c]"], ["src/[d-f]"], False),
        (["src/**", "!src/gen/**"], ["src/gen/**"], False),
        (["src/gen/**"], ["src/**", "!gen"], False),
        (["src/auth"], ["src/auth/jwt.py"], True),
        (["src/auth.py"], ["src/auth/**"], False),
        (["!x"], ["**"], False),
    ],
)
def test_overlap(one: list[str], other: list[str], meet: bool):
    assert overlaps(one, other) is meet


@each_row(
    ("child", "parent", "fits"),
    [
        (["src/auth/**"], ["src/**"], True),
        (["src/auth"], ["src/auth/**"], True),
        (["src/a.py"], ["src/*.py"], True),
        (["src/**"], ["src/auth/**"], False),
        (["src/**"], ["src/**", "!src/gen/**"], False),
        (["src/**", "!src/gen/**"], ["src/**", "!src/gen/**"], True),
        (["src/{a,b}/**"], ["src/a/**", "src/b/**"], True),
        (["docs/x"], ["src/**"], False),
        ([], ["src/**"], True),
    ],
)
def test_E212_a_child_scope_must_be_inside_its_parent(
    child: list[str], parent: list[str], fits: bool
):
    assert may_be_within(child, parent) is fits


@each_row(
    ("patterns", "prefixes"),
    [
        (["src/auth/**", "!src/auth/x"], ("src/auth",)),
        (["src/*.py", "src/middleware/jwt.py"], ("src", "src/middleware/jwt.py")),
        (["{a,b}/c", "**/*.md"], ("a/c", "b/c", "")),
        (["a/b/*/c"], ("a/b",)),
    ],
)
def test_where_a_sandbox_must_let_write(patterns: list[str], prefixes: tuple[str, ...]):
    assert set(writable_prefixes(patterns)) == set(prefixes)


@given(SCOPES, PATHS)
def test_granted_paths_are_below_a_prefix(patterns: list[str], path: str):
    if scope(patterns).covers(path):
        prefixes = writable_prefixes(patterns)
        assert any(f"{path}/".startswith(f"{each}/" if each else "") for each in prefixes)


def test_W303_a_scope_of_the_whole_workspace_is_recognised():
    assert covers_workspace("**")
    assert covers_workspace("**/*")
    assert not covers_workspace("*")
    assert not covers_workspace("src/**")


def test_hostile_patterns_take_no_time():
    stars = "*a" * 500
    deep = "/".join(["**", "a"] * 200)
    started = time.perf_counter()
    assert not scope([f"{stars}b"]).covers("a" * 3000)
    assert not scope([f"{deep}/b"]).covers("/".join("a" * 1500))
    assert overlaps([stars], [stars[1:]])
    assert time.perf_counter() - started < 20
