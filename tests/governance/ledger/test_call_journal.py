"""What was begun is recorded, whenever the process dies, and never twice."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rookery.governance.ledger.call_journal import BegunCall, Target
from rookery.governance.ledger.known_heads import KnownHeads
from rookery.governance.ledger.ledger_errors import LedgerUnwritable
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.ledger_recording import Recovered, hash_of_file
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.state_files import JournalKey
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import exit_code
from support.sample_ledgers import LedgerBench, change
from support.warm_programs import run_program


@pytest.fixture
def bench(tmp_path: Path) -> LedgerBench:
    return LedgerBench(tmp_path / "space")


def call(number: int = 1, *paths: str, root: Path | None = None, **more: Any) -> BegunCall:
    targets = tuple(
        Target(path=path, before=hash_of_file(root / path) if root else None) for path in paths
    )
    told = {"task_id": "t-1", "tool_use_id": f"toolu_{number}", "tool_name": "write_to_file"}
    return BegunCall(**{**told, "targets": targets, **more})


def entry(of: BegunCall) -> Entry:
    return change(of.task_id, 1, tool_use_id=of.tool_use_id)


def records(bench: LedgerBench) -> list[TracedRecord]:
    return [record for record in oldest(bench.folder) if record.tool_use_id]


def as_a_process_that_is_gone(bench: LedgerBench, **owner: Any) -> None:
    """Make the entries those of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for path in (bench.folder / ".state" / "journal").iterdir():
        said = json.loads(path.read_text())
        said["owner"] |= {"pid": ended.pid, **owner}
        path.write_bytes(JournalKey(bench.heads.journal_key).marked(said))


def test_a_call_is_in_the_journal_until_the_ledger_tells_of_it(bench: LedgerBench):
    recording = bench.recording(flush=Flush.ALWAYS)
    recording.begin(call(1, "a.txt"))
    [path] = (bench.folder / ".state" / "journal").iterdir()
    assert json.loads(path.read_text())["targets"] == [{"path": "a.txt", "before": None}]
    recording.end(call(1), entry(call(1)))
    assert len(recording.journal) == 0
    assert [record.tool_use_id for record in records(bench)] == ["toolu_1"]


def test_with_batches_it_stays_until_the_ledger_is_flushed(bench: LedgerBench):
    recording = bench.recording(flush=Flush.BATCH)
    recording.begin(call(1))
    recording.end(call(1), entry(call(1)))
    assert len(recording.journal) == 1
    recording.flush()
    assert len(recording.journal) == 0


def test_a_change_without_a_record_is_recovered(bench: LedgerBench):
    (bench.root / "old.txt").write_text("old\n", encoding="utf-8")
    (bench.root / "gone.txt").write_text("gone\n", encoding="utf-8")
    begun = call(
        1, "old.txt", "new.txt", "gone.txt", "same.txt", root=bench.root, intent_id="INT-1"
    )
    bench.recording().begin(begun)
    (bench.root / "old.txt").write_text("newer\n", encoding="utf-8")
    (bench.root / "new.txt").write_text("new\n", encoding="utf-8")
    (bench.root / "gone.txt").unlink()
    as_a_process_that_is_gone(bench)
    after = bench.recording()
    assert after.recover(bench.root) == Recovered(changed=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.intent_id) == ("recovered", "interrupted", "INT-1")
    assert [(file.path, file.op) for file in record.files] == [
        ("old.txt", "modify"),
        ("new.txt", "create"),
        ("gone.txt", "delete"),
    ]
    assert record.files[0].before == begun.targets[0].before
    assert record.files[0].after == hash_of_file(bench.root / "old.txt")
    assert after.recover(bench.root) == Recovered()
    assert len(records(bench)) == 1
    assert exit_code(bench.report()) == 0


def test_a_call_that_changed_nothing_was_blocked(bench: LedgerBench):
    bench.recording().begin(call(1, "a.txt"))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.files) == ("blocked", "interrupted", ())


def test_a_command_may_have_changed_what_nobody_looks_at(bench: LedgerBench):
    bench.recording().begin(call(1, unknown_targets=True))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(changed=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.files) == ("recovered", "interrupted", ())
    assert record.raw["metadata"]["orchestration"]["unknown_targets"] is True


def test_what_is_recorded_already_is_not_recorded_twice(bench: LedgerBench):
    recording = bench.recording(flush=Flush.BATCH)
    recording.begin(call(1, "a.txt"))
    recording.end(call(1, "a.txt"), entry(call(1)))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(known=1)
    assert len(records(bench)) == 1


def test_it_is_found_in_a_sealed_file_too(bench: LedgerBench):
    recording = bench.recording(flush=Flush.BATCH)
    recording.begin(call(1))
    recording.end(call(1), entry(call(1)))
    recording.ledger.seal("t-1")
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(known=1)


def test_a_question_about_the_call_is_not_its_record(bench: LedgerBench):
    recording = bench.recording()
    recording.note(Entry(kind="decision", task_id="t-1", tool_use_id="toolu_1", outcome="success"))
    recording.begin(call(1))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)


def test_tasks_may_name_their_calls_alike(bench: LedgerBench):
    recording = bench.recording(flush=Flush.BATCH)
    one, other = call(1), call(1, task_id="t-2")
    recording.begin(one)
    recording.begin(other)
    assert len(recording.journal) == 2
    recording.end(one, entry(one))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(known=1, unchanged=1)


def test_a_call_of_a_living_process_is_left_to_it(bench: LedgerBench):
    recording = bench.recording()
    recording.begin(call(1))
    assert bench.recording().recover(bench.root) == Recovered()
    assert len(recording.journal) == 1


@pytest.mark.parametrize(
    "owner",
    [{"pid": os.getpid(), "born": "another"}, {"pid": os.getpid(), "born": ""}],
    ids=["number used again", "unknown"],
)
def test_a_process_number_may_be_used_again(bench: LedgerBench, owner: dict[str, Any]):
    bench.recording().begin(call(1))
    as_a_process_that_is_gone(bench, **owner)
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)


def test_a_process_of_another_machine_is_gone_after_a_day(bench: LedgerBench):
    bench.recording().begin(call(1))
    as_a_process_that_is_gone(bench, where="elsewhere")
    assert bench.recording().recover(bench.root) == Recovered()
    [path] = (bench.folder / ".state" / "journal").iterdir()
    os.utime(path, (0, 0))
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)


def test_an_entry_that_was_never_finished_began_nothing(bench: LedgerBench):
    folder = bench.folder / ".state" / "journal"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text('{"task_id": "t')
    assert bench.recording().recover(bench.root) == Recovered()
    assert (folder / "x.json").exists()
    os.utime(folder / "x.json", (0, 0))
    bench.recording().recover(bench.root)
    assert not (folder / "x.json").exists()
    assert not bench.active.exists()


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "link"])
def test_a_journal_that_came_with_the_workspace_leads_nowhere_else(
    bench: LedgerBench, tmp_path: Path, path: str
):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (bench.root / "link").symlink_to(tmp_path / "secret")
    bench.recording().begin(call(1, path))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)
    [record] = records(bench)
    assert record.files == ()


HERE = f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
FOREIGN: dict[str, Any] = {
    "well-formed": {},
    "path is a number": {"targets": [{"path": 123, "before": None}]},
    "path is a surrogate": {"targets": [{"path": "\ud800", "before": None}]},
    "path has a zero": {"targets": [{"path": "x\0y", "before": None}]},
    "path is long": {"targets": [{"path": "a" * 5000, "before": None}]},
    "hash is none": {"targets": [{"path": "a", "before": {"sha256": 5, "size": "x"}}]},
    "targets are a number": {"targets": 5},
    "owner is a list": {"owner": []},
    "number of the process is a word": {"owner": {"pid": "zz", "born": "x", "where": HERE}},
    "number of the process is large": {"owner": {"pid": 10**30, "born": "", "where": HERE}},
    "revision is large": {"intent_rev": 10**400},
    "name is a surrogate": {"tool_name": "\ud800"},
    "mark is guessed": {"mark": "0" * 64},
    "mark is a list": {"mark": []},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_call_that_nobody_here_began_is_put_away(bench: LedgerBench, name: str):
    folder = bench.folder / ".state" / "journal"
    folder.mkdir(parents=True)
    said = {
        "task_id": "t-9",
        "tool_use_id": "x",
        "tool_name": "write_to_file",
        "intent_id": "INT-777",
        "scope": "approved_once",
        "targets": [{"path": "a.txt", "before": None}],
        "owner": {"pid": 999_999_999, "born": "x", "where": HERE},
        **FOREIGN[name],
    }
    (folder / "x.json").write_text(json.dumps(said))
    (bench.root / "a.txt").write_text("a")
    assert bench.recording().recover(bench.root) == Recovered(put_away=1)
    assert list(folder.iterdir()) == []
    assert len(list((bench.folder / ".state" / "quarantine").iterdir())) == 1
    assert not bench.active.exists()


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "7", '{"a": 1}', "9" * 5000, "\xff"])
def test_an_entry_that_is_none_is_put_away(bench: LedgerBench, text: str):
    folder = bench.folder / ".state" / "journal"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(text, encoding="latin-1")
    assert bench.recording().recover(bench.root) == Recovered(put_away=1)
    assert list(folder.iterdir()) == []


def test_an_entry_of_another_workspace_is_put_away(bench: LedgerBench, tmp_path: Path):
    other = LedgerBench(tmp_path / "other")
    other.recording().begin(call(1, unknown_targets=True))
    as_a_process_that_is_gone(other)
    shutil.copytree(other.folder / ".state", bench.folder / ".state")
    assert bench.recording().recover(bench.root) == Recovered(put_away=1)
    assert other.recording().recover(other.root) == Recovered(changed=1)


@pytest.mark.parametrize("name", ["journal", "."])
def test_nothing_is_put_away_where_a_link_leads(bench: LedgerBench, tmp_path: Path, name: str):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "journal").mkdir(parents=True)
    for path in (elsewhere, elsewhere / "journal"):
        (path / "package.json").write_text("{}")
    state = bench.folder / ".state"
    if name == "journal":
        state.mkdir()
    (state / name).symlink_to(elsewhere)
    with pytest.raises(LedgerUnwritable, match="symbolic link"):
        bench.recording().recover(bench.root)
    assert (elsewhere / "package.json").exists()
    assert (elsewhere / "journal" / "package.json").exists()


def test_a_name_that_no_file_can_have_is_no_obstacle(bench: LedgerBench):
    bench.recording().begin(call(1, "a" * 5000, "x\0y", "\ud800"))
    as_a_process_that_is_gone(bench)
    assert bench.recording().recover(bench.root) == Recovered(unchanged=1)


def test_the_key_is_the_users_own_and_stays(bench: LedgerBench):
    bench.recording().begin(call(1))
    key = bench.heads.journal_key
    assert key.stat().st_mode & 0o777 == 0o600
    held = key.read_bytes()
    bench.recording().begin(call(2))
    assert key.read_bytes() == held
    assert not key.is_relative_to(bench.root)


def test_a_key_that_cannot_be_kept_stops_no_call(bench: LedgerBench, tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    recording = bench.recording(heads=KnownHeads(tmp_path / "file" / "heads.json"))
    recording.begin(call(1))
    assert len(recording.journal) == 1


@pytest.mark.parametrize("name", ["../../../etc/x", "a/b", "é" * 300, "", "a\0b"])
def test_a_name_of_a_call_is_no_path(bench: LedgerBench, name: str):
    recording = bench.recording()
    recording.begin(call(1, tool_use_id=name))
    [path] = (bench.folder / ".state" / "journal").iterdir()
    assert path.suffix == ".json"
    recording.drop(call(1, tool_use_id=name))
    assert len(recording.journal) == 0


def test_the_folder_of_a_workspace_that_is_not_governed_is_never_made(bench: LedgerBench):
    recording = bench.recording()
    bench.folder.rmdir()
    with pytest.raises(LedgerUnwritable):
        recording.begin(call(1))
    with pytest.raises(LedgerUnwritable):
        recording.note(change("t", 1))
    assert recording.recover(bench.root) == Recovered()
    assert not bench.folder.exists()


def test_a_journal_that_cannot_be_written_stops_the_call(bench: LedgerBench):
    recording = bench.recording()
    (bench.folder / ".state").mkdir()
    (bench.folder / ".state" / "journal").write_text("", encoding="utf-8")
    with pytest.raises(LedgerUnwritable):
        recording.begin(call(1))


def test_what_could_not_be_recorded_is_recorded_later_in_order(bench: LedgerBench):
    recording = bench.recording()
    recording.note(change("t-1", 0, tool_use_id="first"))
    bench.active.chmod(0o400)
    recording.begin(call(1))
    with pytest.raises(LedgerUnwritable):
        recording.end(call(1), entry(call(1)))
    with pytest.raises(LedgerUnwritable):
        recording.retry()
    assert (recording.behind, len(recording.journal)) == (1, 1)
    bench.active.chmod(0o600)
    recording.note(change("t-1", 0, tool_use_id="last"))
    assert (recording.behind, len(recording.journal)) == (0, 0)
    assert [record.tool_use_id for record in records(bench)] == ["first", "toolu_1", "last"]
    assert exit_code(bench.report()) == 0


POINTS = ["call_journal.begun", "ledger.written", "ledger.appended", "call_journal.ended"]
ONE_CALL = """
import sys
from pathlib import Path
from support.sample_ledgers import LedgerBench, change
from rookery.governance.ledger.call_journal import BegunCall, Target
from rookery.governance.ledger.ledger_file import Flush
root = Path(sys.argv[1])
recording = LedgerBench(root).recording(flush=Flush.ALWAYS)
call = BegunCall(task_id="t", tool_use_id="c", tool_name="w", targets=(Target(path="a.txt"),))
recording.begin(call)
(root / "a.txt").write_text("changed")
recording.end(call, change("t", 1, tool_use_id="c"))
"""


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_instant_leaves_one_record(bench: LedgerBench, point: str):
    killed = run_program(ONE_CALL, str(bench.root), ROOKERY_KILLPOINT=point)
    assert killed.returncode == -9, killed
    recording = bench.recording()
    recording.recover(bench.root)
    assert [record.tool_use_id for record in records(bench)] == ["c"]
    assert len(recording.journal) == 0
    assert exit_code(bench.report()) == 0


def test_a_token_in_a_command_is_not_recorded(bench: LedgerBench):
    token = "ghp_" + "a1B2" * 9
    text = f"curl -H 'Authorization: Bearer {token}' https://x"
    bench.recording().note(Entry(kind="command", task_id="t", command={"text": text}))
    [record] = [record for record in oldest(bench.folder) if record.command]
    assert record.command == "curl -H 'Authorization: Bearer [redacted:github-token]' https://x"
    assert record.raw["metadata"]["orchestration"]["redactions"] == 1
    assert token.encode() not in bench.active.read_bytes()
    assert exit_code(bench.report()) == 0


def test_no_part_of_a_record_keeps_a_secret(bench: LedgerBench):
    told = Entry(
        kind="command",
        task_id="t",
        command={"text": "true", "cwd": "/src/password=hunter22"},
        more={"targets": ["src/password=hunter22", "src/a.py"], "count": 3},
    )
    bench.recording().note(told)
    [record] = [record for record in oldest(bench.folder) if record.command]
    own = record.raw["metadata"]["orchestration"]
    assert b"hunter22" not in bench.active.read_bytes()
    assert own["targets"] == ["src/password=[redacted:password]", "src/a.py"]
    assert (own["count"], own["redactions"]) == (3, 2)


def test_a_very_long_command_is_shortened(bench: LedgerBench):
    text = "echo " + "word " * 100_000
    bench.recording().note(Entry(kind="command", task_id="t", command={"text": text}))
    assert max(map(len, bench.lines)) < 20_000
