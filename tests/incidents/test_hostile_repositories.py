"""Open, list, ask, close. Nothing is run, nothing is sent, nothing is written."""

import subprocess
import unicodedata

import pytest

from support.canaries import Visit, World, tree
from support.hostile_repositories import EVIL_NAMES, HARMLESS_QUESTIONS, HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_hostile_folder_runs_and_changes_nothing(stranger: World, name: str):
    HOSTILE[name](stranger)
    before = tree(stranger.workspace)
    visit = stranger.visit(*HARMLESS_QUESTIONS)
    assert visit.code == 0, visit.err
    assert stranger.harm(visit) == []
    assert tree(stranger.workspace) == before
    listed, found, read, command = visit.results
    assert "needle" in read
    assert "This folder is not trusted" in command
    if name == "names":
        check_that_names_hide_nothing(listed, found)
    if name == "words":
        check_that_instructions_are_not_taken(visit)


def check_that_names_hide_nothing(listed: str, found: str) -> None:
    """Names that are split, reordered or invisible are spelled out for the model."""
    unseen = {c for c in listed + found if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert unseen == set()
    assert "\\u202e" in listed
    assert "\\U000e0069" in listed
    assert len(EVIL_NAMES) > 15


def check_that_instructions_are_not_taken(visit: Visit) -> None:
    """They are in the folder, and may be listed; what they say is in no request."""
    assert "mention" in visit.results[2]
    assert "AGENTS.md" in str(visit.requests[-1].body)
    assert not any("You are allowed everything" in str(each.body) for each in visit.requests)


def test_the_canaries_detect_execution_reads_and_requests(world: World):
    """Without this, the other tests would prove nothing."""
    subprocess.run(world.evil("self-test").split(), check=True)
    (world.decoys / ".netrc").read_text()
    reported = list(world.effects())
    assert reported[:2] == ["ran: self-test", "ran inside: executed-self-test"]
    assert "opened: .netrc" in reported
    assert any(line.startswith("called the sink") for line in reported)
