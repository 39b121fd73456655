"""What branches and folders of worktrees are called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.manager.worktrees.branch_names import (
    automatic_branch,
    folder_name,
    free_branch,
    free_for_versions,
    label_of,
    own_branch,
    version_plans,
)
from rookery.manager.worktrees.worktree_values import block_order


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


@pytest.mark.parametrize(("asked", "made"), [(0, 1), (1, 1), (3, 3), (4, 4), (9, 4)])
def test_there_are_one_to_four_versions(asked: int, made: int):
    assert len(version_plans("L", "b", versions=asked)) == made


def test_versions_have_labels_and_branches_of_their_own():
    plans = version_plans("Fix", "agent/fix", versions=3, group_id="g")
    assert [(each.label, each.branch, each.group_id) for each in plans] == [
        ("Fix", "agent/fix", "g"),
        ("Fix v2", "agent/fix_v2", "g"),
        ("Fix v3", "agent/fix_v3", "g"),
    ]
    (alone,) = version_plans("Fix", "agent/fix", versions=1, group_id="g")
    assert alone.group_id == ""


def test_a_family_of_versions_keeps_its_name_together():
    assert free_for_versions("agent/x", 3, ["agent/x_v3"], []) == "agent/x-2"
    assert free_for_versions("agent/x", 2, ["agent/x_v3"], []) == "agent/x"
    assert free_for_versions("agent/x", 2, ["agent/x", "agent/x-2_v2"], []) == "agent/x-3"


def test_a_label_is_one_short_line():
    assert label_of(" a\n b ") == "a b"
    assert label_of("x" * 41) == "x" * 37 + "..."


def test_every_block_is_tried_once_and_none_overlap():
    blocks = block_order(7)
    ports = [port for block in blocks for port in block.ports]
    assert len(ports) == len(set(ports)) == 12_000
    assert blocks[0].first == 20_070
