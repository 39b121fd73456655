"""Every tool has one name, and every name leads back to one tool."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.mcp.catalogue import LONGEST, all_names, find_tool, same_name, tool_name

parts = st.text(st.characters(codec="utf-8"), max_size=80)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("files", "read", "mcp--files--read"),
        ("my files", "read  it", "mcp--my_files--read_it"),
        ("a--b---c", "x/y.z", "mcp--a-b-c--xyz"),
        ("1st", "", "mcp--_1st--_unnamed"),
        ("ü", "t", "mcp--_unnamed--t"),
    ],
)
def test_a_tool_name_is_valid_for_providers(server: str, tool: str, name: str):
    assert tool_name(server, tool) == name


@example([("", "\0"), ("\0", "")])
@given(st.lists(st.tuples(parts, parts), max_size=20))
def test_tool_names_are_unique_short_and_reversible(tools: list[tuple[str, str]]):
    names = all_names(tools)
    assert sorted(names.values()) == sorted(set(tools))
    for name, pair in names.items():
        assert re.fullmatch(r"[A-Za-z_-][A-Za-z0-9_-]*", name)
        assert len(name) <= LONGEST
        assert find_tool(name, names) == pair


def test_long_names_differ_in_their_hash():
    names = all_names([("s", "t" * 90), ("s", "t" * 91)])
    assert len(names) == 2
    assert all(len(name) == LONGEST for name in names)


@pytest.mark.parametrize("name", ["mcp--my-files--read-it", "mcp__my_files__read_it"])
def test_hyphens_and_underscores_do_not_matter(name: str):
    known = all_names([("my-files", "read_it"), ("other", "read_it")])
    assert find_tool(name, known) == ("my-files", "read_it")


def test_an_ambiguous_name_matches_nothing():
    assert same_name("a-b", ["a_b", "a--b"]) is None
    assert same_name("a_b", ["a_b", "a--b"]) == "a_b"
