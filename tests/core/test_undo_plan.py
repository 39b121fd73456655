import stat
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.facts import Effect, FileVersion
from rookery.core.undo_plan import UndoPlan, folder_with, only_undoes, plan, relevant_effects
from support.each_row import each_row

ONE, TWO, THREE = (FileVersion(str(number) * 40, 0o100644) for number in (1, 2, 3))
FOLDER = folder_with(0o755)
RUNNABLE = FileVersion(ONE.blob, 0o100755)
PIPE = FileVersion("", stat.S_IFIFO | 0o644)


def did(path: str, before: FileVersion | None, after: FileVersion | None) -> Effect:
    return Effect(path, before, after)


def planned(
    steps: list[list[Effect]], now: Mapping[str, FileVersion | None], *, overwrite: bool = False
) -> UndoPlan:
    return plan(steps, now.get, overwrite=overwrite)


@each_row(
    ("steps", "now", "expected"),
    [
        pytest.param([], {"a": ONE}, UndoPlan(), id="no steps"),
        pytest.param(
            [[did("a", ONE, TWO)]], {"a": TWO}, UndoPlan((did("a", TWO, ONE),)), id="an edit"
        ),
        pytest.param(
            [[did("a", None, ONE)]], {"a": ONE}, UndoPlan((did("a", ONE, None),)), id="made"
        ),
        pytest.param([[did("a", ONE, None)]], {}, UndoPlan((did("a", None, ONE),)), id="deleted"),
        pytest.param(
            [[did("a", ONE, RUNNABLE)]],
            {"a": RUNNABLE},
            UndoPlan((did("a", RUNNABLE, ONE),)),
            id="rights",
        ),
        pytest.param(
            [[did("a", ONE, TWO)], [did("a", TWO, THREE)]],
            {"a": THREE},
            UndoPlan((did("a", THREE, ONE),)),
            id="two edits",
        ),
        pytest.param(
            [[did("a", ONE, None), did("b", None, ONE)]],
            {"b": ONE},
            UndoPlan((did("a", None, ONE), did("b", ONE, None))),
            id="a rename",
        ),
        pytest.param([[did("a", ONE, TWO)]], {"a": ONE}, UndoPlan(), id="undone already"),
        pytest.param(
            [[did("a", ONE, TWO)], [did("a", TWO, ONE)]],
            {"a": ONE},
            UndoPlan(),
            id="there and back",
        ),
        pytest.param(
            [[did("a", ONE, TWO)]],
            {"a": THREE},
            UndoPlan(kept=("a",)),
            id="edited by others since",
        ),
        pytest.param(
            [[did("a", ONE, TWO)]], {}, UndoPlan(kept=("a",)), id="deleted by others since"
        ),
        pytest.param(
            [[did("a", ONE, PIPE)]],
            {"a": PIPE},
            UndoPlan((did("a", PIPE, ONE),)),
            id="became what no checkpoint holds",
        ),
        pytest.param(
            [[did("a", ONE, PIPE)]],
            {"a": TWO},
            UndoPlan(kept=("a",)),
            id="became what no checkpoint holds, and was mended by others",
        ),
        pytest.param(
            [[did("a", ONE, PIPE)], [did("a", PIPE, TWO)]],
            {"a": TWO},
            UndoPlan((did("a", TWO, ONE),)),
            id="became what no checkpoint holds in between",
        ),
        pytest.param(
            [[did("a", PIPE, None)], [did("a", None, TWO)]],
            {"a": TWO},
            UndoPlan(unsaved=("a",)),
            id="was what no checkpoint holds",
        ),
        pytest.param(
            [[did("a", ONE, None)]],
            {"a": TWO},
            UndoPlan(kept=("a",)),
            id="made by others where one was",
        ),
        pytest.param(
            [[did("a", ONE, TWO)], [did("a", THREE, ONE)]],
            {"a": ONE},
            UndoPlan(),
            id="edited by others in between, but as it was",
        ),
        pytest.param(
            [[did("a", ONE, TWO)], [did("a", THREE, TWO)]],
            {"a": TWO},
            UndoPlan(kept=("a",)),
            id="edited by others in between",
        ),
        pytest.param(
            [[did("a", ONE, None)]],
            {"a": FOLDER},
            UndoPlan(kept=("a",)),
            id="a folder is in the way",
        ),
        pytest.param(
            [[did("d", None, FOLDER), did("d/a", None, ONE)]],
            {"d": FOLDER, "d/a": ONE},
            UndoPlan((did("d", FOLDER, None), did("d/a", ONE, None))),
            id="a folder made with what is in it",
        ),
        pytest.param([[did("a", ONE, None)]], {"a": PIPE}, UndoPlan(kept=("a",)), id="a pipe"),
    ],
)
def test_each_history_of_changes_is_undone_or_kept(
    steps: list[list[Effect]], now: dict[str, FileVersion | None], expected: UndoPlan
):
    assert planned(steps, now) == expected


def test_foreign_changes_are_overwritten_only_if_forced_and_restorable():
    steps = [[did("a", ONE, TWO), did("b", ONE, None)]]
    now = {"a": THREE, "b": PIPE}
    assert planned(steps, now, overwrite=True) == UndoPlan((did("a", THREE, ONE),), ("b",))


def test_a_folder_with_changed_files_is_not_listed_itself():
    effects = [did("d", None, FOLDER), did("d/a", None, ONE), did("e", None, FOLDER)]
    assert relevant_effects(effects) == (effects[1], effects[2])


VERSIONS = st.sampled_from([None, ONE, TWO, THREE, RUNNABLE, FOLDER])
STATES = st.fixed_dictionaries({path: VERSIONS for path in "abc"})


@given(st.lists(STATES, min_size=2, max_size=6))
def test_undo_without_foreign_changes_restores_the_start(
    states: list[dict[str, FileVersion | None]],
):
    steps = [
        [did(path, old[path], new[path]) for path in old if old[path] != new[path]]
        for old, new in pairwise(states)
    ]
    made = planned(steps, states[-1])
    result = {**states[-1], **{change.path: change.after for change in made.changes}}
    assert (result, made.kept) == (states[0], ())


@given(st.lists(STATES, min_size=2, max_size=6), STATES)
def test_undo_without_force_keeps_files_changed_since_the_last_step(
    states: list[dict[str, FileVersion | None]], now: dict[str, FileVersion | None]
):
    """The states in between are others' doing: every second pair is a step."""
    steps = [
        [did(path, old[path], new[path]) for path in old if old[path] != new[path]]
        for old, new in zip(states[::2], states[1::2], strict=False)
    ]
    made = planned(steps, now)
    last = {effect.path: effect.after for step in steps for effect in step}
    assert all(now[change.path] == last[change.path] for change in made.changes)
    assert set(made.kept).isdisjoint(change.path for change in made.changes)


@each_row(
    ("done", "expected"),
    [
        pytest.param([], True, id="nothing yet"),
        pytest.param([did("a", THREE, ONE)], True, id="one of two"),
        pytest.param([did("a", THREE, ONE), did("b", ONE, None)], True, id="all"),
        pytest.param([did("a", THREE, TWO)], False, id="to something else"),
        pytest.param([did("c", ONE, TWO)], False, id="changed by others"),
    ],
)
def test_a_partial_restore_is_recognized_by_its_target(done: list[Effect], expected: bool):
    steps = [[did("a", ONE, TWO), did("b", None, ONE)], [did("a", TWO, THREE)]]
    assert only_undoes(done, steps) is expected
