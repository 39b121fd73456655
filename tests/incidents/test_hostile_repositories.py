"""Open, list, ask, close. Nothing is run, nothing is sent, nothing is written."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from support.canaries import World
from support.hostile_repositories import HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_happens_by_looking_at_a_hostile_folder(visited: Callable[[str], Any], name: str):
    seen = visited(name)
    assert seen.visit.code == 0, seen.visit.err
    assert seen.world.harm(seen.visit) == []
    assert seen.unchanged
    assert len(seen.visit.results) == 4, "every question was put"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_command_is_not_run_where_nothing_is_trusted(visited: Callable[[str], Any], name: str):
    assert "This folder is not trusted" in visited(name).visit.results[3]


def test_the_canaries_notice(world: World):
    """Otherwise none of this proves anything."""
    subprocess.run(world.evil("self-test").split(), check=True)
    (world.decoys / ".netrc").read_text()
    told = list(world.effects())
    assert told[:2] == ["ran: self-test", "ran inside: executed-self-test"]
    assert "opened: .netrc" in told
    assert any(line.startswith("called the sink") for line in told)
