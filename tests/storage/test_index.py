import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rookery.core.facts import Event, Fact, TaskOpened, TaskReopened, UserSpoke
from rookery.core.stored_tasks import TaskSummary
from rookery.storage.index import SessionIndex, ask_index
from rookery.storage.journal import Journal
from support.journal_writer import sample_facts, store, write_all

JOURNAL = "journal.jsonl"


def ids(tasks: list[TaskSummary]) -> list[str]:
    return sorted(task.id for task in tasks)


def listed(path: Path, folders: dict[str, Path]) -> list[TaskSummary]:
    return ask_index(path, folders, lambda index: index.summaries())


def found(path: Path, folders: dict[str, Path], words: str) -> list[str]:
    return ask_index(path, folders, lambda index: [hit.task.id for hit in index.search(words)])


def append(folder: Path, *facts: Fact) -> list[Event]:
    journal = Journal.open(folder)
    events = write_all(journal, facts, journal.read().events[-1])
    journal.close()
    return events


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    folders = {name: tmp_path / "tasks" / name for name in ("t1", "t2")}
    store(folders["t1"], sample_facts())
    store(folders["t2"], [TaskOpened(text="Paint the shed")])
    return folders


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tasks.sqlite"


@pytest.fixture
def index() -> SessionIndex:
    return SessionIndex(sqlite3.connect(":memory:", isolation_level=None), full_text=True)


def test_unchanged_journals_are_not_read_again(index: SessionIndex, tmp_path: Path):
    folders = {f"t{number}": tmp_path / f"t{number}" for number in range(40)}
    store(folders["t0"], [TaskOpened(text="Go")])
    line = (folders["t0"] / JOURNAL).read_bytes()
    for folder in list(folders.values())[1:]:
        folder.mkdir()
        (folder / JOURNAL).write_bytes(line)
    assert index.refresh(folders) == 40
    assert index.refresh(folders) == 0
    append(folders["t7"], TaskReopened())
    assert index.refresh(folders) == 1
    assert index.refresh(folders) == 0
    assert len(index.summaries()) == 40


def test_only_appended_events_are_read(index: SessionIndex, folders: dict[str, Path]):
    index.refresh(folders)
    (event,) = append(folders["t1"], UserSpoke(message_id="m2", text="and a cherry on top"))
    journal = folders["t1"] / JOURNAL
    journal.write_bytes(b"X" + journal.read_bytes()[1:])
    index.refresh(folders)
    summary = next(task for task in index.summaries() if task.id == "t1")
    assert (summary.updated, summary.damage) == (event.ts, "")
    assert summary.title == "Fix the parser"
    assert [hit.task.id for hit in index.search("cherry parser")] == ["t1"]


def test_a_truncated_journal_is_read_again(index: SessionIndex, folders: dict[str, Path]):
    journal = folders["t1"] / JOURNAL
    before = journal.read_bytes()
    append(folders["t1"], UserSpoke(message_id="m2", text="apples"))
    index.refresh(folders)
    assert index.search("apples")
    journal.write_bytes(before)
    append(folders["t1"], UserSpoke(message_id="m2", text="quince"), TaskReopened())
    index.refresh(folders)
    assert [hit.task.id for hit in index.search("quince")] == ["t1"]
    assert index.search("apples") == []
    assert [hit.task.id for hit in index.search("parser")] == ["t1"]


def test_deleted_tasks_are_removed_from_the_index(index: SessionIndex, folders: dict[str, Path]):
    index.refresh(folders)
    del folders["t1"]
    index.refresh(folders)
    assert ids(index.summaries()) == ["t2"]
    assert index.search("parser") == []


def test_repaired_damage_is_no_longer_reported(index: SessionIndex, folders: dict[str, Path]):
    journal = folders["t2"] / JOURNAL
    with journal.open("ab") as file:
        file.write(b"torn")
    index.refresh(folders)
    assert [bool(task.damage) for task in index.summaries()] == [False, True]
    Journal.open(folders["t2"]).close()
    index.refresh(folders)
    assert [bool(task.damage) for task in index.summaries()] == [False, False]


def test_a_read_error_is_not_cached(index: SessionIndex, folders: dict[str, Path]):
    journal = folders["t2"] / JOURNAL
    aside = journal.rename(journal.with_name("aside"))
    journal.mkdir()
    index.refresh(folders)
    assert index.refresh(folders) == 1
    journal.rmdir()
    aside.rename(journal)
    index.refresh(folders)
    assert {task.damage for task in index.summaries()} == {""}
    assert len(index.search("shed")) == 1


def test_search_compares_plain_text_without_full_text_support(folders: dict[str, Path]):
    plain = SessionIndex(sqlite3.connect(":memory:", isolation_level=None), full_text=False)
    plain.refresh(folders)
    assert [hit.task.id for hit in plain.search("SHED paint")] == ["t2"]
    assert plain.search("shed parser") == []
    plain.forget("t2")
    plain.scrub()
    assert plain.search("shed") == []


# ── the file ────────────────────────────────────────────────────────────────────────────


def test_the_index_is_kept_private_and_used_again(path: Path, folders: dict[str, Path]):
    assert ids(listed(path, folders)) == ["t1", "t2"]
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    reads = ask_index(path, folders, lambda index: index.refresh(folders))
    assert reads == 0


@pytest.mark.parametrize("damage", ["deleted", "emptied", "nonsense", "cut", "dropped", "version"])
def test_an_unusable_index_is_rebuilt(damage: str, path: Path, folders: dict[str, Path]):
    before = listed(path, folders)
    match damage:
        case "deleted":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "nonsense":
            path.write_bytes(b"nonsense" * 1000)
        case "cut":
            path.write_bytes(path.read_bytes()[:9000])
        case "dropped":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("DROP TABLE tasks")
        case _:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA user_version = 999")
    assert listed(path, folders) == before
    assert found(path, folders, "shed") == ["t2"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (2,)
    aside = path.with_name(path.name + ".damaged")
    assert aside.exists() == (damage not in {"deleted", "emptied"})


def test_a_query_with_a_lone_surrogate_finds_nothing(path: Path, folders: dict[str, Path]):
    listed(path, folders)
    made = path.stat().st_ino
    assert found(path, folders, "shed \ud800") == []
    assert (path.stat().st_ino, path.with_name(path.name + ".damaged").exists()) == (made, False)


def test_a_failed_query_does_not_count_as_damage(path: Path, folders: dict[str, Path]):
    listed(path, folders)

    def fail(index: SessionIndex) -> None:
        raise ValueError("the question is at fault")

    with pytest.raises(ValueError, match="at fault"):
        ask_index(path, folders, fail)
    assert not path.with_name(path.name + ".damaged").exists()


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_tasks_are_listed_although_the_index_is_damaged(
    data: st.DataObject, path: Path, folders: dict[str, Path]
):
    path.unlink(missing_ok=True)
    listed(path, folders)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        content[start : start + 64] = data.draw(st.binary(min_size=64, max_size=64))
    path.write_bytes(content)
    assert len(listed(path, folders)) <= 2
    found(path, folders, "shed")


def test_tasks_are_listed_from_a_read_only_folder(tmp_path: Path, folders: dict[str, Path]):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "tasks.sqlite"
    assert ids(listed(path, folders)) == ["t1", "t2"]
    assert found(path, folders, "shed") == ["t2"]


LIST = """
import sys
from pathlib import Path
from rookery.storage.index import ask_index
tasks = Path(sys.argv[2])
folders = {path.name: path for path in tasks.iterdir()}
for _ in range(5):
    listed = ask_index(Path(sys.argv[1]), folders, lambda index: index.summaries())
print(len(listed), ask_index(Path(sys.argv[1]), folders, lambda index: len(index.search("Go"))))
"""


def test_several_processes_share_one_index(path: Path, tmp_path: Path):
    for number in range(40):
        store(tmp_path / "tasks" / f"t{number}", [TaskOpened(text="Go"), TaskReopened()])
    command = [sys.executable, "-c", LIST, str(path), str(tmp_path / "tasks")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [child.communicate()[0] for child in children] == ["40 40\n"] * 3
    assert [child.returncode for child in children] == [0] * 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM passages").fetchone() == (40,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
