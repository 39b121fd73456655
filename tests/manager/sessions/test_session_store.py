"""The list of sessions on disk."""

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rookery.manager.sessions.session_events import LastExit, UserMessage
from rookery.manager.sessions.session_record import (
    ParallelMode,
    QueuedMessage,
    SessionRecord,
    TodoStats,
    session_from_json,
    session_to_json,
)
from rookery.manager.sessions.session_states import ErrorKind, Failure, SessionState, SessionStatus
from rookery.manager.sessions.session_store import SessionStore

ID = "0b5b42ff-6f8e-4b5a-8a3c-0c8f2b7a9d10"

WHOLE = SessionRecord(
    session_id=ID,
    label="ä 🙂 \u202e",
    prompt="one\ntwo",
    end_time=2**53,
    parallel_mode=ParallelMode(branch="agent/x"),
    todo_stats=TodoStats(done=1, total=2),
    cost=0.1,
    logs=("a", ""),
    status=SessionStatus.ERROR,
    state=SessionState.ERROR,
    failure=Failure(kind=ErrorKind.AUTH, text="no key"),
    outbox=(UserMessage(text="more", images=("data:image/png;base64,aGk=",)),),
    last_exit=LastExit(signal=9),
    announced=True,
    taken=8,
    undelivered=(
        QueuedMessage(number=7, message=UserMessage(text="hi"), state="failed", problem="no"),
    ),
)


def kept(**more: Any) -> SessionRecord:
    return SessionRecord(session_id=ID, prompt="Do it", **more)


def test_a_session_round_trips_through_json():
    spelled = json.loads(json.dumps(session_to_json(WHOLE)))
    assert session_from_json({**spelled, "ofALaterVersion": 1}) == WHOLE
    assert all("_" not in key for key in spelled)
    assert spelled["mail"][0]["letter"]["text"] == "hi", "the names that earlier versions stored"


@pytest.mark.parametrize(
    "said", [None, [], 1, {}, {"sessionId": 1}, {"sessionId": ID, "status": "x"}], ids=str
)
def test_invalid_json_is_not_read_as_a_session(said: object):
    assert session_from_json(said) is None


def test_unknown_entries_are_kept(tmp_path: Path):
    file = tmp_path / "own" / "agent-manager.json"
    file.parent.mkdir()
    strange = {"sessionId": "not an id", "of": "another"}
    there = {
        "version": 1,
        "worktrees": {"w": 1},
        "sessions": {ID: {**session_to_json(kept()), "later": [1]}, "not an id": strange},
    }
    file.write_text(json.dumps(there))
    store = SessionStore(tmp_path, tmp_path / "own")
    assert [each.prompt for each in store.all()] == ["Do it"]
    assert "not an id" in store.notices[0]
    store.put(kept(taken=7))
    store.close()
    now = json.loads(file.read_text())
    assert (now["worktrees"], now["sessions"]["not an id"]) == ({"w": 1}, strange)
    assert (now["sessions"][ID]["later"], now["sessions"][ID]["taken"]) == ([1], 7)
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_of_a_later_version_is_read_only(tmp_path: Path):
    file = tmp_path / "own" / "agent-manager.json"
    file.parent.mkdir()
    said = json.dumps({"version": 2, "sessions": {ID: session_to_json(kept())}})
    file.write_text(said)
    store = SessionStore(tmp_path, tmp_path / "own")
    assert len(store.all()) == 1
    assert store.notices == [store.read_only]
    assert "later version" in store.read_only
    store.put(kept(taken=1))
    store.close()
    assert file.read_text() == said


def test_only_one_store_writes_at_a_time(tmp_path: Path):
    own = tmp_path / "own"
    first, second = SessionStore(tmp_path, own), SessionStore(tmp_path, own)
    assert (bool(first.read_only), bool(second.read_only)) == (False, True)
    first.put(kept())
    first.save()
    second.reload()
    assert second.all() == first.all()
    first.close()
    second.close()
    third = SessionStore(tmp_path, tmp_path / "own")
    assert third.read_only == ""
    third.close()


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 10_000, b'{"version": 1, "sessions": 3}'])
def test_a_damaged_file_is_moved_aside_and_never_overwritten(tmp_path: Path, content: bytes):
    file = tmp_path / "own" / "agent-manager.json"
    file.parent.mkdir()
    file.write_bytes(content)
    store = SessionStore(tmp_path, tmp_path / "own")
    assert (store.all(), store.read_only) == ((), "")
    store.put(kept())
    store.close()
    (aside,) = file.parent.glob("*.corrupt-*")
    assert aside.read_bytes() == content
    assert ID in file.read_text()


@pytest.mark.parametrize("name", ["own", "own/agent-manager.json.lock"])
def test_a_symlink_is_not_followed(tmp_path: Path, name: str):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "project" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    store = SessionStore(tmp_path, tmp_path / "project" / "own")
    assert store.read_only
    store.put(kept())
    store.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.anyio
async def test_changes_made_together_are_saved_together(tmp_path: Path):
    store = SessionStore(tmp_path, tmp_path / "own")
    saved: list[int] = []

    async def look() -> None:
        while not saved:
            await anyio.sleep(0.01)
            if store.file.exists():
                saved.append(json.loads(store.file.read_text())["sessions"][ID]["taken"])

    async with anyio.create_task_group() as group:
        group.start_soon(store.save_when_changed)
        group.start_soon(look)
        for taken in range(200):
            store.put(kept(taken=taken))
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(60):
            await look()
        group.cancel_scope.cancel()
    assert saved[0] == 199
    store.close()


def test_an_unwritable_folder_is_reported_and_no_change_is_lost(tmp_path: Path):
    store = SessionStore(tmp_path, tmp_path / "own")
    store.put(kept())
    store.save()
    store.file.parent.chmod(0o500)
    try:
        store.put(kept(taken=3))
        with pytest.raises(Exception, match="cannot be written"):
            store.save()
        assert json.loads(store.file.read_text())["sessions"][ID]["taken"] == 0
    finally:
        store.file.parent.chmod(0o700)
    store.close()
    assert json.loads(store.file.read_text())["sessions"][ID]["taken"] == 3
