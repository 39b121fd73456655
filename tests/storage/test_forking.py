"""A fork is complete or absent, and works like any other session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    CheckpointSaved,
    FilesChanged,
    Noted,
    RequestStarted,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.task_record import fold
from rookery.errors import SettingsError
from rookery.storage.journal import TaskLock
from rookery.storage.session_copies import fork, settled_up_to
from rookery.storage.sessions import TaskArtifacts
from rookery.storage.verify import verify
from support.stored_sessions import CHILD, FACTS_OF_PARENT, PARENT, keep, keep_family, store

NEW = "ffffffff-0000-4000-8000-000000000006"
NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_HOME", str(tmp_path / "home"))
    keep_family(tmp_path)


def forked(source: str = PARENT, at: int | None = None) -> list[object]:
    fork(store(), source, NEW, at=at, now=NOW)
    assert verify(store().folder(NEW)) == []
    return [event.fact for event in store().read(NEW)]


def test_a_fork_has_the_facts_of_its_source_and_names_it():
    before = list(store().read(PARENT))
    facts = forked()
    assert facts[:-1] == [event.fact for event in before]
    assert facts[-1] == Noted(text=f"This session was forked from {PARENT} at event 13.")
    assert list(store().read(PARENT)) == before
    [summary] = [one for one in store().list() if one.id == NEW]
    assert (summary.title, summary.status, summary.parent) == (
        "Change the world",
        "completed",
        None,
    )


@pytest.mark.parametrize("at", range(1, FACTS_OF_PARENT + 1))
def test_a_fork_at_any_event_is_a_sound_session_without_running_calls(at: int):
    cut = fork(store(), PARENT, NEW, at=at, now=NOW)
    assert 1 <= cut <= at
    assert verify(store().folder(NEW)) == []
    state = fold(store().read(NEW))
    assert not state.running
    assert not state.pending


def test_a_fork_does_not_run_pending_calls():
    facts = forked(at=3)
    assert facts[3:] == [
        Rewound(to=3),
        Noted(text=f"This session was forked from {PARENT} at event 3."),
    ]


def test_a_fork_of_a_child_has_no_parent():
    opened, *_ = forked(CHILD)
    assert isinstance(opened, TaskOpened)
    assert (opened.parent, opened.depth, opened.text) == (None, 0, "Look at it.")


def test_a_child_that_had_ended_is_kept_as_its_result():
    finished = [fact for fact in forked(at=10) if isinstance(fact, ToolFinished)]
    assert finished[-1].text == "The sub-task is done. Its result:\nfine"


def test_a_call_with_unrecorded_changes_counts_as_running():
    keep(
        "edits",
        TaskOpened(text="Edit"),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=(ToolCall(id="c", name="x", arguments={}),)),
        CheckpointSaved(id="1" * 40, call_id="c"),
        ToolStarted(call_id="c", tool="x", title="x"),
        ToolFinished(call_id="c", text="done"),
        FilesChanged(call_id="c", before="1" * 40, after="2" * 40, since=4),
    )
    events = list(store().read("edits"))
    assert [settled_up_to(events, at) for at in range(3, 8)] == [3, 4, 4, 4, 7]


def test_a_fork_copies_long_texts_and_command_outputs():
    long = "x" * 200_000
    keep("long", TaskOpened(text="Long"), ToolFinished(call_id="c", text=long))
    output = TaskArtifacts(store().folder("long")).create()
    output.write(b"what it wrote")
    output.close()
    fork(store(), "long", NEW, at=None, now=NOW)
    store().delete("long")
    assert [e.fact.text for e in store().read(NEW) if isinstance(e.fact, ToolFinished)] == [long]
    assert TaskArtifacts(store().folder(NEW)).read("cmd-1.txt", 0, 100)[0] == b"what it wrote"


def test_a_session_in_use_can_be_forked():
    lock = TaskLock(store().folder(PARENT))
    try:
        assert forked()
    finally:
        lock.release()


@pytest.mark.parametrize("at", [0, -1, FACTS_OF_PARENT + 1])
def test_a_missing_event_is_reported(at: int):
    with pytest.raises(SettingsError, match=f"No such event: {at}. The events are 1 to 13"):
        fork(store(), PARENT, NEW, at=at, now=NOW)
    assert not store().folder(NEW).exists()


@pytest.mark.parametrize("point", ["disk.before_rename", "fork.built", "fork.renamed"])
def test_after_a_kill_a_fork_is_complete_or_absent_and_the_next_one_cleans_up(point: str):
    script = (
        "import os\n"
        "from rookery.platform.user_folders import find_places\n"
        "from rookery.storage.sessions import TaskStore\n"
        "from rookery.storage.session_copies import fork\n"
        f"fork(TaskStore(find_places(os.environ)), {PARENT!r}, {NEW!r}, at=None, now={NOW})\n"
    )
    died = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "ROOKERY_KILLPOINT": point}, check=False
    )
    assert died.returncode == -9
    tasks = store().folder(NEW).parent
    whole = point == "fork.renamed"
    assert store().exists(NEW) is whole
    assert bool(list(tasks.glob(".forking-*"))) is not whole
    assert {one.id for one in store().list()} >= {PARENT}
    if whole:
        assert verify(store().folder(NEW)) == []
    again = NEW.replace("f", "e")
    fork(store(), PARENT, again, at=None, now=NOW)
    assert verify(store().folder(again)) == []
    assert list(tasks.glob(".forking-*")) == []
