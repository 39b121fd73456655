"""Finding a session by the beginning of its id."""

import os
from pathlib import Path

import pytest

from rookery.core.facts import Event, TaskOpened
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import chosen_session, full_id, short_ids
from rookery.storage.sessions import TaskStore

ONE = "38e51f0c-6c5e-4d2a-9d0b-0c7a1d6f2b11"
TWIN = "38e51f0c-6c5e-4d2a-9d0b-0c7a1d6f2b22"
OTHER = "a1b2c3d4-6c5e-4d2a-9d0b-0c7a1d6f2b33"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def store() -> TaskStore:
    store = TaskStore(find_places(os.environ))
    for task_id in (ONE, TWIN, OTHER):
        journal = store.create(task_id)
        journal.write(Event(1, 0, 1, TaskOpened(text="x", workspace="/anywhere")))
        journal.close()
    return store


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("a1b2", OTHER),
        ("A1B2C3D4", OTHER),
        (ONE[:-1], ONE),
        (TWIN, TWIN),
        (TWIN.upper(), TWIN),
        (NOBODY, NOBODY),
    ],
)
def test_an_id_or_its_beginning_names_a_session(store: TaskStore, given: str, meant: str):
    assert full_id(store, given) == meant


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("38e6", "No session begins with 38e6. See rookery list --all."),
        ("../../etc", "No session begins with ../../etc. See rookery list --all."),
        ("a1b", "'a1b' is too short for a session id; give at least 4 characters of it."),
        ("", "'' is too short for a session id; give at least 4 characters of it."),
        (
            "38e5",
            f"38e5 matches several sessions: {ONE[:-1]}, {TWIN[:-1]}. Give more characters.",
        ),
    ],
)
def test_an_unknown_or_ambiguous_id_is_refused(store: TaskStore, given: str, sentence: str):
    with pytest.raises(SettingsError) as caught:
        full_id(store, given)
    assert str(caught.value) == sentence


def test_only_some_of_many_matching_ids_are_named():
    store = TaskStore(find_places(os.environ))
    for number in range(9):
        journal = store.create(f"38e5{number}f0c-6c5e-4d2a-9d0b-0c7a1d6f2b11")
        journal.write(Event(1, 0, 1, TaskOpened(text="x")))
        journal.close()
    with pytest.raises(SettingsError, match=r": 38e50f0c, .*, 38e54f0c, …\. Give more"):
        full_id(store, "38E5")


def test_the_last_session_is_found_although_two_name_each_other_as_parents():
    store = TaskStore(find_places(os.environ))
    for task_id, parent in (("one", "two"), ("two", "one")):
        journal = store.create(task_id)
        journal.write(Event(1, 0, 1, TaskOpened(text="x", workspace="/w", parent=parent)))
        journal.close()
    assert chosen_session(store, None, Path("/w")) in ("one", "two")


def test_an_id_that_is_a_prefix_of_another_can_be_chosen():
    store = TaskStore(find_places(os.environ))
    for task_id in ("task", "task-2"):
        journal = store.create(task_id)
        journal.write(Event(1, 0, 1, TaskOpened(text="x")))
        journal.close()
    assert full_id(store, "task") == "task"


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        ([], []),
        (["abcdefghij"], ["abcdefgh"]),
        (["abcdefghij", "abcdefgxij"], ["abcdefgh", "abcdefgx"]),
        (["abcdefghij", "abcdefghix"], ["abcdefghij", "abcdefghix"]),
        (["abcdefghijkl", "abcdefghixkl", "b"], ["abcdefghij", "abcdefghix", "b"]),
        (["abcdefghi", "abcdefghijk"], ["abcdefghi", "abcdefghij"]),
    ],
)
def test_an_id_is_cut_to_eight_characters_or_more_if_ambiguous(ids: list[str], short: list[str]):
    assert short_ids(ids) == dict(zip(ids, short, strict=True))
