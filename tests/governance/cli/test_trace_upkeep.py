"""`rookery trace export`, `recover`, `seal` and `prune`."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rookery.errors import SettingsError
from rookery.governance.cli.common import TraceExit
from rookery.governance.ledger.ledger_file import Flush, Ledger
from rookery.governance.ledger.ledger_reader import format_time, newest
from rookery.governance.ledger.record_text import entry_of
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.verify_ledger import Tip
from rookery.platform.user_folders import find_places
from support.agent_trace_format import shape_problems
from support.sample_ledgers import BegunTask, compress, damage_line
from support.traced_workspace import TASK, WRITER, TracedWorkspace, trace

Captured = pytest.CaptureFixture[str]
LATER = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"


@pytest.fixture
def work(home: Path) -> TracedWorkspace:
    work = TracedWorkspace(Path.cwd())
    for number in range(3):
        work.agent_writes(f"src/auth/m{number}.py", f"number_of_module = {number}\n")
    return work


def reported(capsys: Captured, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert trace(*arguments, "--json") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_agent_trace_with_and_without_our_part(
    work: TracedWorkspace, tmp_path: Path, capsys: Captured
):
    target = tmp_path / "out.jsonl"
    assert trace("export", "--format", "agent-trace", "-o", str(target)) == 0
    assert target.read_bytes() == work.active.read_bytes()
    assert trace("export", "--format", "agent-trace", "--strip", "-o", str(target)) == 0
    records = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert all("metadata" not in each and shape_problems(each) == () for each in records)


def test_calls_that_a_crash_cut_off_are_recorded(work: TracedWorkspace, capsys: Captured):
    tasks = find_places(os.environ).tasks
    with BegunTask(work.root, tasks, work.heads.open_tasks, "t-dead") as task:
        task.begin("toolu_91", "src/auth/m0.py")
        work.person_writes("src/auth/m0.py", "changed_by_the_call = 1\n")
        task.begin("toolu_92", "src/auth/m1.py")
    assert trace("verify", "--strict") == TraceExit.WARNINGS
    assert "2 calls were started and not recorded yet" in capsys.readouterr().out
    assert reported(capsys, "recover") == {
        "changed": 1,
        "unchanged": 1,
        "known": 0,
        "put_away": 0,
        "damaged": [],
    }
    assert trace("verify", "--strict") == 0
    found = {record.kind: record for record in newest(work.folder)}
    assert found["recovered"].files[0].path == "src/auth/m0.py"
    assert found["blocked"].outcome == "interrupted"
    assert not any(reported(capsys, "recover").values())


def test_a_damaged_session_journal_is_reported_and_recorded(
    work: TracedWorkspace, capsys: Captured
):
    tasks = find_places(os.environ).tasks
    with BegunTask(work.root, tasks, work.heads.open_tasks, "t-dead") as task:
        task.begin("toolu_91", "src/auth/m0.py")
        work.person_writes("src/auth/m0.py", "changed_by_the_call = 1\n")
        task.begin("toolu_92", "src/auth/m1.py")
        task.begin("toolu_93", "src/auth/m2.py")
    damage_line(tasks / "t-dead", 3)
    what = (
        "Part of the journal of session t-dead cannot be read, so some of its actions are unknown."
    )
    assert trace("verify", "--strict") == TraceExit.WARNINGS
    assert f"{what} To record that: rookery trace recover" in capsys.readouterr().out
    assert trace("recover") == 0
    assert f"{what} The ledger says so." in capsys.readouterr().out
    assert trace("verify", "--strict") == 0
    known, unknown = [each for each in newest(work.folder) if each.kind == "recovered"][::-1]
    assert known.files[0].path == "src/auth/m0.py"
    assert entry_of(unknown)["reason"] == "journal_damaged"
    assert unknown.task_id == "t-dead"
    assert not any(reported(capsys, "recover").values())


def test_journal_entries_from_elsewhere_are_reported(work: TracedWorkspace, capsys: Captured):
    journal = work.folder / ".state" / "journal"
    journal.mkdir(parents=True, exist_ok=True)
    (journal / "x.json").write_text("{}", encoding="utf-8")
    assert trace("recover") == 0
    assert capsys.readouterr().out.splitlines() == [
        "Moved 1 entry of the journal not written on this machine to "
        ".orchestration/.state/quarantine.",
        "No call was interrupted.",
    ]


def test_a_file_is_sealed_and_the_ledger_continues(work: TracedWorkspace, capsys: Captured):
    (name,) = reported(capsys, "seal")["sealed"]
    assert (work.root / name).exists()
    assert trace("seal") == 0
    assert "Nothing to seal" in capsys.readouterr().out
    work.agent_writes("src/auth/more.py", "more = 1\n")
    assert trace("verify") == 0


def sealed_twice(work: TracedWorkspace) -> list[Path]:
    """Two sealed files, and a present one."""
    work.recording.ledger.seal(TASK)
    sealed_at = format_time(datetime.now(UTC))
    while format_time(datetime.now(UTC)) == sealed_at:
        pass
    work.agent_writes("src/auth/more.py", "more_of_it = 1\n")
    work.recording.ledger.seal(TASK)
    work.agent_writes("src/auth/most.py", "most_of_it = 1\n")
    return sorted((work.folder / "trace").iterdir())


def test_pruned_files_differ_from_lost_files(work: TracedWorkspace, capsys: Captured):
    first, second = sealed_twice(work)
    assert trace("prune", "--before", LATER, "--dry-run") == 0
    assert first.exists()
    assert reported(capsys, "prune", "--before", LATER, "-y")["records"] == 8
    assert not first.exists()
    assert not second.exists()
    assert trace("verify") == 0
    said = capsys.readouterr().out
    assert f"{first.name} was pruned (5 records, " in said
    assert f"{second.name} was pruned (3 records, " in said
    work.agent_writes("src/auth/after.py", "after_that = 1\n")
    assert trace("verify", "-q") == 0
    (work.folder / ".state" / "head.json").unlink()
    work.active.write_bytes(b"".join(work.lines[:-2]))
    assert trace("verify", "-q") == TraceExit.FINDINGS


def test_tombstones_are_pruned_in_their_turn(work: TracedWorkspace, capsys: Captured):
    """Compressed files too; only the newest tombstone remains."""
    for number in range(3):
        work.recording.ledger.seal(TASK)
        (sealed,) = (work.folder / "trace").iterdir()
        if number:
            sealed = compress(sealed)
        (name,) = reported(capsys, "prune", "--before", LATER, "-y")["files"]
        assert work.root / name == sealed
        assert trace("verify") == 0
        assert capsys.readouterr().out.count("was pruned") == 1
        work.agent_writes(f"src/auth/again{number}.py", f"once_again = {number}\n")
        assert trace("verify", "-q") == 0


def test_without_a_file_it_is_printed(work: TracedWorkspace, capsysbinary: Any):
    assert trace("export", "--format", "agent-trace") == 0
    assert capsysbinary.readouterr().out == work.active.read_bytes()


def test_a_file_that_is_lost_after_a_pruning_is_a_loss(work: TracedWorkspace, capsys: Captured):
    first, second = sealed_twice(work)
    end = json.loads(first.read_bytes().splitlines()[-1])["metadata"]["orchestration"]["last_time"]
    after = datetime.fromisoformat(end) + timedelta(milliseconds=1)
    assert len(reported(capsys, "prune", "--before", after.isoformat(), "-y")["files"]) == 1
    assert trace("verify", "-q") == 0
    second.unlink()
    assert trace("verify") == TraceExit.FINDINGS
    assert "is absent" in capsys.readouterr().out


def tips_of(path: Path) -> list[Tip]:
    own = json.loads(path.read_bytes().splitlines()[-1])["metadata"]["orchestration"]
    others = [(tip["stream"], tip["seq"], tip["hash"]) for tip in own["tips"]]
    return [tip for tip in others if tip[0] != own["stream"]] + [
        (own["stream"], own["seq"], own["hash"])
    ]


def test_a_forged_tombstone_excuses_nothing_where_the_head_is_known(
    work: TracedWorkspace, capsys: Captured
):
    """An attacker with access to the workspace appends one with correct hashes.

    The state that this machine remembers is out of reach.
    """
    first, second = sealed_twice(work)
    forger = Ledger(work.folder, writer=WRITER, flush=Flush.NEVER)
    pruned = [
        {
            "file": path.name,
            "tips": [{"stream": a, "seq": b, "hash": c} for a, b, c in tips_of(path)],
        }
        for path in (first, second)
    ]
    forger.append(LedgerEntry(kind="checkpoint", task_id="t-x", more={"pruned": pruned}))
    assert trace("verify", "-q") == 0
    first.unlink()
    second.unlink()
    assert trace("verify") == TraceExit.FINDINGS
    assert "was pruned, and the known head does not cover that" in capsys.readouterr().out


def test_a_broken_ledger_is_not_pruned(work: TracedWorkspace, capsys: Captured):
    sealed = sealed_twice(work)
    work.active.write_bytes(work.active.read_bytes().replace(b"most.py", b"mosX.py"))
    assert trace("prune", "--before", LATER, "-y") == TraceExit.FINDINGS
    assert all(path.exists() for path in sealed)
    assert "Nothing was removed" in capsys.readouterr().err


def test_prune_needs_y_when_not_interactive(work: TracedWorkspace):
    sealed = sealed_twice(work)
    with pytest.raises(SettingsError, match="use -y"):
        trace("prune", "--before", LATER)
    assert all(path.exists() for path in sealed)
