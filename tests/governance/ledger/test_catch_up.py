"""Started calls are recorded exactly once, whenever the process dies."""

import json
import os
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Ending, FilesRestored, ToolFinished
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import oldest
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.recovery import RecoveredCalls, hash_of_file
from rookery.governance.ledger.state_files import LedgerUnwritable, read_or_create_key
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import exit_code
from rookery.platform.locks import open_lock, try_lock
from support.sample_ledgers import LedgerBench, change
from support.warm_programs import run_program


@pytest.fixture
def bench(tmp_path: Path) -> LedgerBench:
    return LedgerBench(tmp_path / "space")


def records(bench: LedgerBench) -> list[TracedRecord]:
    return [record for record in oldest(bench.folder) if record.tool_use_id]


def recovered(bench: LedgerBench) -> RecoveredCalls:
    return bench.recording().recover(bench.root, bench.journals)


def test_a_change_without_a_record_is_recovered(bench: LedgerBench):
    (bench.root / "old.txt").write_text("old\n", encoding="utf-8")
    (bench.root / "gone.txt").write_text("gone\n", encoding="utf-8")
    before = hash_of_file(bench.root / "old.txt")
    with bench.task() as task:
        task.begin("c1", "old.txt", "new.txt", "gone.txt", "same.txt", intent_id="INT-1")
        (bench.root / "old.txt").write_text("newer\n", encoding="utf-8")
        (bench.root / "new.txt").write_text("new\n", encoding="utf-8")
        (bench.root / "gone.txt").unlink()
        assert recovered(bench) == RecoveredCalls(), "a call of a living process is left to it"
    assert recovered(bench) == RecoveredCalls(changed=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.intent_id) == ("recovered", "interrupted", "INT-1")
    assert [(file.path, file.op) for file in record.files] == [
        ("old.txt", "modify"),
        ("new.txt", "create"),
        ("gone.txt", "delete"),
    ]
    assert record.files[0].before == before
    assert record.files[0].after == hash_of_file(bench.root / "old.txt")
    assert recovered(bench) == RecoveredCalls()
    assert len(records(bench)) == 1
    assert exit_code(bench.report()) == 0


@pytest.mark.parametrize("path", ["a", "../secret", "/etc/hostname", "link", "a" * 5000, "x\0y"])
def test_a_call_that_changed_nothing_here_was_blocked(
    bench: LedgerBench, tmp_path: Path, path: str
):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (bench.root / "link").symlink_to(tmp_path / "secret")
    with bench.task() as task:
        task.begin("c1", path)
    assert recovered(bench) == RecoveredCalls(unchanged=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.files) == ("blocked", "interrupted", ())


def test_a_call_that_came_to_its_end_is_none_and_a_command_may_have_changed_anything(
    bench: LedgerBench,
):
    with bench.task() as task:
        task.begin("c1", "a.txt")
        task.log.append(ToolFinished(call_id="c1", text="", ending=Ending.FAILED))
        task.begin("c2", unknown_targets=True)
    assert recovered(bench) == RecoveredCalls(known=1, changed=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.files) == ("recovered", "interrupted", ())
    assert record.tool_use_id == "c2"
    assert record.raw["metadata"]["orchestration"]["unknown_targets"] is True


@pytest.mark.parametrize("sealed", [False, True])
def test_recorded_calls_are_not_recorded_twice(bench: LedgerBench, sealed: bool):
    with bench.task() as task:
        recording = bench.recording(flush=Flush.BATCH)
        seq = task.begin("c1", "a.txt")
        (bench.root / "a.txt").write_text("a")
        recording.note(change("t-1", 1, tool_use_id="c1", log_seq=seq))
        if sealed:
            recording.ledger.seal("t-1")
    assert recovered(bench) == RecoveredCalls(known=1)
    assert len(records(bench)) == 1


def test_a_rewind_without_a_record_is_recovered_once(bench: LedgerBench):
    with bench.task() as task:
        seq = task.begin("c1", "a.txt", "b.txt")
        (bench.root / "a.txt").write_text("a")
        bench.recording().note(change("t-1", 1, tool_use_id="c1", log_seq=seq))
        back = FilesRestored(to=1, before="x", after="y", paths=("a.txt", "b.txt"), count=3)
        task.log.append(back)
        task.log.append(FilesRestored(to=1, before="y", after="y", paths=("a.txt",)))
    assert recovered(bench) == RecoveredCalls(changed=1, known=1)
    [record] = [record for record in oldest(bench.folder) if record.kind == "rewind"]
    assert [(file.path, file.op) for file in record.files] == [
        ("a.txt", "create"),
        ("b.txt", "delete"),
    ]
    assert record.raw["metadata"]["orchestration"]["unknown_targets"] is True
    assert recovered(bench) == RecoveredCalls()
    assert exit_code(bench.report()) == 0


def test_a_reused_call_id_is_another_call(bench: LedgerBench):
    with bench.task() as task:
        recording = bench.recording()
        recording.note(change("t-1", 1, tool_use_id="c1", log_seq=task.begin("c1", "a.txt")))
        task.begin("c1", "b.txt")
        (bench.root / "b.txt").write_text("b")
    assert recovered(bench) == RecoveredCalls(changed=1, known=1)


def test_a_question_about_the_call_is_not_its_record(bench: LedgerBench):
    with bench.task() as task:
        asked = LedgerEntry(kind="decision", task_id="t-1", tool_use_id="c1", outcome="success")
        bench.recording().note(asked)
        task.begin("c1", "a.txt")
    assert recovered(bench) == RecoveredCalls(unchanged=1)


def test_tasks_may_use_the_same_call_ids(bench: LedgerBench):
    with bench.task() as one, bench.task("t-2") as other:
        seq = one.begin("c1", "a.txt")
        other.begin("c1", "a.txt")
        bench.recording().note(change("t-1", 1, tool_use_id="c1", log_seq=seq))
    assert recovered(bench) == RecoveredCalls(known=1, unchanged=1)


def test_a_task_without_a_journal_is_recorded_with_unknown_targets(bench: LedgerBench):
    bench.heads.open_tasks.mkdir(parents=True)
    (bench.heads.open_tasks / "gone").touch()
    assert recovered(bench) == RecoveredCalls(changed=1)
    [record] = [record for record in oldest(bench.folder) if record.kind == "recovered"]
    assert (record.task_id, record.outcome) == ("gone", "interrupted")
    assert record.raw["metadata"]["orchestration"]["unknown_targets"] is True
    assert list(bench.heads.open_tasks.iterdir()) == []
    assert recovered(bench) == RecoveredCalls()
    assert exit_code(bench.report()) == 0


def test_a_running_task_is_skipped_wherever_its_journal_is(bench: LedgerBench):
    bench.recording().open_task("elsewhere")
    assert recovered(bench) == RecoveredCalls()
    assert list(bench.heads.open_tasks.iterdir()) == [bench.heads.open_tasks / "elsewhere"]


def test_a_process_that_checks_a_task_does_not_block_recovery(bench: LedgerBench):
    with bench.task() as task:
        task.begin("c1", "a.txt")
    looks = open_lock(bench.heads.open_tasks / "t-1")
    assert try_lock(looks, shared=True)
    assert recovered(bench) == RecoveredCalls(unchanged=1)
    os.close(looks)


def test_without_calls_nothing_is_written(bench: LedgerBench):
    with bench.task():
        pass
    (bench.heads.open_tasks / "t-1").unlink()
    bench.heads.open_tasks.rmdir()
    assert bench.recording().recover(bench.root, bench.journals, "t-1") == RecoveredCalls()
    assert list(bench.folder.iterdir()) == []


def test_where_open_tasks_are_not_known_a_task_catches_up_with_itself(bench: LedgerBench):
    with bench.task() as task:
        task.begin("c1", unknown_targets=True)
    (bench.heads.open_tasks / "t-1").unlink()
    bench.heads.open_tasks.rmdir()
    found = bench.recording().recover(bench.root, bench.journals, "t-1")
    assert found == RecoveredCalls(changed=1)


def test_only_calls_since_the_task_was_opened_are_looked_at(bench: LedgerBench):
    """Those before are on record, though perhaps on another branch, or of the task that this one
    was forked from."""
    with bench.task() as task:
        task.begin("c1", "a.txt")
        since = task.begin("c2", "a.txt")
        (bench.heads.open_tasks / "t-1").write_text(str(since), encoding="ascii")
        (bench.root / "a.txt").write_text("a")
        task.begin("c3", "b.txt")
    assert recovered(bench) == RecoveredCalls(unchanged=1)
    assert [record.tool_use_id for record in records(bench)] == ["c3"]


def test_a_record_without_the_key_does_not_hide_a_call(bench: LedgerBench):
    with bench.task() as task:
        bench.recording().note(change("t-1", 1, tool_use_id="c1", log_seq=task.begin("c1", "a")))
        task.begin("c2", unknown_targets=True)
        forged = bench.ledger(heads=None)  # a writer without the key
        forged.append(change("t-1", 2, tool_use_id="c9", log_seq=1_000))
    assert recovered(bench) == RecoveredCalls(changed=1, known=1)
    assert [record.tool_use_id for record in records(bench)] == ["c1", "c9", "c2"]


def test_a_task_is_over_once_all_of_it_is_recorded(bench: LedgerBench):
    recording = bench.recording()
    recording.open_task("t-1")
    recording.note(change("t-1", 1))
    bench.active.chmod(0o400)
    with pytest.raises(LedgerUnwritable):
        recording.note(change("t-1", 2))
    with pytest.raises(LedgerUnwritable):
        recording.close("t-1")
    assert list(bench.heads.open_tasks.iterdir()) == [bench.heads.open_tasks / "t-1"]
    bench.active.chmod(0o600)
    recording.retry()
    recording.close("t-1")
    assert list(bench.heads.open_tasks.iterdir()) == []


def test_the_folder_of_a_workspace_that_is_not_governed_is_never_made(bench: LedgerBench):
    recording = bench.recording()
    bench.folder.rmdir()
    with pytest.raises(LedgerUnwritable):
        recording.note(change("t", 1))
    assert recording.recover(bench.root, bench.journals) == RecoveredCalls()
    assert not bench.folder.exists()


def test_unrecorded_calls_are_recorded_later_in_order(bench: LedgerBench):
    recording = bench.recording()
    recording.note(change("t-1", 0, tool_use_id="first"))
    bench.active.chmod(0o400)
    with pytest.raises(LedgerUnwritable):
        recording.note(change("t-1", 1))
    with pytest.raises(LedgerUnwritable):
        recording.retry()
    assert recording.backlog_size == 1
    bench.active.chmod(0o600)
    recording.note(change("t-1", 0, tool_use_id="last"))
    assert recording.backlog_size == 0
    assert [record.tool_use_id for record in records(bench)] == ["first", "toolu_1", "last"]
    assert exit_code(bench.report()) == 0


ONE_CALL = """
import sys
from pathlib import Path
from support.sample_ledgers import BegunTask, LedgerBench, change
from rookery.faults import kp
from rookery.governance.ledger.ledger_file import Flush
root = Path(sys.argv[1])
bench = LedgerBench(root)
task = bench.task()
seq = task.begin("c", "a.txt")
(root / "a.txt").write_text("changed")
kp("changed")
bench.recording(flush=Flush.ALWAYS).note(change("t-1", 1, tool_use_id="c", log_seq=seq))
kp("recorded")
"""


@pytest.mark.parametrize("point", ["changed", "ledger.written", "ledger.appended", "recorded"])
def test_a_kill_at_any_instant_leaves_one_record(bench: LedgerBench, point: str):
    killed = run_program(ONE_CALL, str(bench.root), ROOKERY_KILLPOINT=point)
    assert killed.returncode == -9, killed
    recovered(bench)
    assert [record.tool_use_id for record in records(bench)] == ["c"]
    assert exit_code(bench.report()) == 0


# ── the call journal of the first version ───────────────────────────────────────────────

OLD_CALL: dict[str, Any] = {
    "task_id": "t-9",
    "tool_use_id": "x",
    "tool_name": "write_to_file",
    "input_digest": "",
    "parent_task_id": "",
    "intent_id": "INT-001",
    "intent_rev": 1,
    "intent_digest": "",
    "scope": "in_scope",
    "targets": [{"path": "a.txt", "before": None}],
    "unknown_targets": False,
    "owner": {"pid": 999_999_999, "born": "x", "where": "here"},
}


def old_journal(bench: LedgerBench, text: str) -> Path:
    folder = bench.folder / ".state" / "journal"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text(text, encoding="latin-1")
    return folder


def marked(bench: LedgerBench, said: dict[str, Any]) -> str:
    key = read_or_create_key(bench.heads.journal_key)
    mark = digest(key, json.dumps(said, sort_keys=True).encode(), sha256).hex()
    return json.dumps({**said, "mark": mark})


def test_a_call_that_the_first_version_left_is_recorded_once(bench: LedgerBench):
    folder = old_journal(bench, marked(bench, OLD_CALL))
    assert recovered(bench) == RecoveredCalls(changed=1)
    [record] = records(bench)
    assert (record.kind, record.outcome, record.intent_id) == (
        "recovered",
        "interrupted",
        "INT-001",
    )
    assert record.raw["metadata"]["orchestration"]["targets"] == ["a.txt"]
    assert not folder.exists()
    assert recovered(bench) == RecoveredCalls()
    assert exit_code(bench.report()) == 0


def test_a_first_version_that_still_runs_records_its_calls_itself(bench: LedgerBench):
    said = {**OLD_CALL, "owner": {**OLD_CALL["owner"], "pid": os.getpid()}}
    folder = old_journal(bench, marked(bench, said))
    assert recovered(bench) == RecoveredCalls()
    assert (folder / "x.json").exists()


FOREIGN = {
    "not marked": json.dumps(OLD_CALL),
    "mark is guessed": json.dumps({**OLD_CALL, "mark": "0" * 64}),
    "mark is a list": json.dumps({**OLD_CALL, "mark": []}),
    "deep": "[" * 100_000,
    "no object": "7",
    "no text": "\xff",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_call_from_elsewhere_is_quarantined(bench: LedgerBench, text: str):
    folder = old_journal(bench, text)
    read_or_create_key(bench.heads.journal_key)
    assert recovered(bench) == RecoveredCalls(put_away=1)
    assert not folder.exists()
    assert len(list((bench.folder / ".state" / "quarantine").glob("*/x.json"))) == 1
    assert not bench.active.exists()


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
        recovered(bench)
    assert (elsewhere / "package.json").exists()
    assert (elsewhere / "journal" / "package.json").exists()


# ── recorded fields ─────────────────────────────────────────────────────────────────────


def test_a_token_in_a_command_is_not_recorded(bench: LedgerBench):
    token = "ghp_" + "a1B2" * 9
    text = f"curl -H 'Authorization: Bearer {token}' https://x"
    bench.recording().note(LedgerEntry(kind="command", task_id="t", command={"text": text}))
    [record] = [record for record in oldest(bench.folder) if record.command]
    assert record.command == "curl -H 'Authorization: Bearer [redacted:github-token]' https://x"
    assert record.raw["metadata"]["orchestration"]["redactions"] == 1
    assert token.encode() not in bench.active.read_bytes()
    assert exit_code(bench.report()) == 0


def test_no_part_of_a_record_keeps_a_secret(bench: LedgerBench):
    reported = LedgerEntry(
        kind="command",
        task_id="t",
        command={"text": "true", "cwd": "/src/password=hunter22"},
        more={"targets": ["src/password=hunter22", "src/a.py"], "count": 3},
    )
    bench.recording().note(reported)
    [record] = [record for record in oldest(bench.folder) if record.command]
    own = record.raw["metadata"]["orchestration"]
    assert b"hunter22" not in bench.active.read_bytes()
    assert own["targets"] == ["src/password=[redacted:password]", "src/a.py"]
    assert (own["count"], own["redactions"]) == (3, 2)


def test_a_very_long_command_is_shortened(bench: LedgerBench):
    text = "echo " + "word " * 100_000
    bench.recording().note(LedgerEntry(kind="command", task_id="t", command={"text": text}))
    assert max(map(len, bench.lines)) < 20_000
