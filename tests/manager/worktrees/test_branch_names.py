"""What branches and folders of worktrees are called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.manager.worktrees.create import (
    automatic_branch,
    folder_name,
    free_branch,
    free_for_versions,
    own_branch,
    version_branches,
)


@pytest.mark.parametrize(
    ("said", "branch"),
    [
        ("Fix the Parser!", "fix-the-parser"),
        ("feature/New UI", "feature/new-ui"),
        ("--force", "force"),
        ("a..b//c.lock", "a-b/c-lock"),
        ("@{-1}", "1"),
        ("x" * 80, "x" * 50),
        ("été", "t"),
        ("!!!", ""),
    ],
)
def test_a_name_of_the_users_is_made_fit(said: str, branch: str):
    assert own_branch(said) == branch


def test_an_automatic_name_is_made_from_the_prompt():
    assert automatic_branch("Fix login: it  hangs") == "agent/fix-login-it-hangs"
    assert automatic_branch("修复", chance=12) == "agent/brisk-field"
    assert automatic_branch("x", prefix="bot-") == "bot-x"


@pytest.mark.parametrize(
    ("branches", "folders", "free"),
    [
        ([], [], "agent/x"),
        (["agent/x"], [], "agent/x-2"),
        ([], ["agent-x"], "agent/x-2"),
        (["agent/x"], ["agent-x-2"], "agent/x-3"),
        (["agent"], [], "agent-x"),
        (["agent/x/y"], [], "agent/x-2"),
    ],
)
def test_branch_and_folder_must_both_be_free(branches: list[str], folders: list[str], free: str):
    assert free_branch("agent/x", branches, folders) == free


@given(st.text(max_size=120))
def test_whatever_is_said_git_can_have_it_as_a_branch(said: str):
    for branch in (own_branch(said), automatic_branch(said)):
        assert re.fullmatch(r"(?:[a-z0-9_]+(?:-+[a-z0-9_]+)*(?:/|$))*", branch)
        assert not branch.endswith(("/", "-"))
        assert len(branch) <= 56
        assert "/" not in folder_name(branch)


def test_one_to_four_versions_share_a_name_that_is_free_for_all():
    assert version_branches("fix", 3) == ["fix", "fix_v2", "fix_v3"]
    assert [len(version_branches("fix", asked)) for asked in (0, 1, 4, 9)] == [1, 1, 4, 4]
    assert free_for_versions("agent/x", 3, ["agent/x_v3"], []) == "agent/x-2"
    assert free_for_versions("agent/x", 2, ["agent/x_v3"], []) == "agent/x"
    assert free_for_versions("agent/x", 2, ["agent/x", "agent/x-2_v2"], []) == "agent/x-3"
