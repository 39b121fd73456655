"""`rookery trace verify`: whole or not, here and with the auditor's script alone."""

import fcntl
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from rookery.errors import SettingsError, StorageError
from rookery.governance.cli.common import TraceExit
from rookery.governance.ledger import verify_ledger
from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.records import LedgerEntry, Writer
from rookery.governance.ledger.verify_ledger import canonical, leaf_hash
from support.traced_workspace import TASK, TracedWorkspace, trace

Captured = pytest.CaptureFixture[str]
Harm = Callable[[TracedWorkspace], None]


@pytest.fixture
def work(home: Path) -> TracedWorkspace:
    work = TracedWorkspace(Path.cwd())
    for number in range(6):
        work.agent_writes(f"src/auth/m{number}.py", f"NUMBER_{number} = {number}\n")
    work.recording.ledger.seal(TASK)
    for number in range(6):
        work.agent_writes(f"src/auth/n{number}.py", f"NUMBER_{number} = {number}\n")
    return work


def test_an_intact_ledger_is_reported_as_intact(work: TracedWorkspace, capsys: Captured):
    assert trace("verify") == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "2 segments, 15 records, 2 streams"
    assert rows[1:5] == [
        "  chain      ok",
        "  anchors    ok (1 tip)",
        "  known head ok (15 records)",
        "  seals      1 ok",
    ]
    assert rows[-1].startswith("Shows that records were not altered")


def edit_sealed(work: TracedWorkspace) -> None:
    (path,) = (work.folder / "trace").iterdir()
    path.write_bytes(path.read_bytes().replace(b"m3.py", b"mX.py"))


def cut_off(work: TracedWorkspace) -> None:
    work.active.write_bytes(b"".join(work.lines[:-3]))


def remove_all(work: TracedWorkspace) -> None:
    work.active.unlink()


def remove_sealed(work: TracedWorkspace) -> None:
    shutil.rmtree(work.folder / "trace")


HARM: dict[str, tuple[Harm, str]] = {
    "edited in a sealed file": (edit_sealed, "content does not match its hash"),
    "the end cut off": (cut_off, "known head missing"),
    "an older stream gone": (remove_sealed, "named here, is absent"),
}


@pytest.mark.parametrize(("harm", "said"), HARM.values(), ids=HARM)
def test_damage_is_found_and_sets_the_exit_code(
    work: TracedWorkspace, capsys: Captured, harm: Harm, said: str
):
    harm(work)
    assert trace("verify") == TraceExit.FINDINGS
    assert said in capsys.readouterr().out
    assert trace("verify", "-q") == TraceExit.FINDINGS
    assert capsys.readouterr().out == ""
    assert trace("verify", "--json") == TraceExit.FINDINGS
    reported = json.loads(capsys.readouterr().out)
    assert reported["whole"] is False
    assert any(said.rpartition(": ")[2] in each["text"] for each in reported["findings"])


def test_the_auditors_script_is_written(tmp_path: Path, work: TracedWorkspace, capsys: Captured):
    script = tmp_path / "check.py"
    assert trace("verify", "--script", str(script)) == 0
    assert f"python3 -I -S {script} --head" in capsys.readouterr().err
    assert script.read_bytes() == Path(verify_ledger.__file__).read_bytes()
    assert os.access(script, os.X_OK)


def test_an_expected_state_must_have_been_reached(work: TracedWorkspace, capsys: Captured):
    assert trace("verify", "--json") == 0
    state = json.loads(capsys.readouterr().out)["state"]
    assert trace("verify", "--expect", state) == 0
    assert trace("verify", "--expect", state[:30]) == 0
    assert trace("verify", "--expect", "0" * 64) == TraceExit.FINDINGS
    assert "FAIL" in capsys.readouterr().out


def test_a_head_or_a_state_kept_elsewhere_is_compared(
    work: TracedWorkspace, tmp_path: Path, capsys: Captured
):
    assert trace("verify", "--json") == 0
    state = json.loads(capsys.readouterr().out)["state"]
    kept_state, kept_heads = tmp_path / "state.txt", tmp_path / "heads.json"
    kept_state.write_text(f"Trace-State: {state}\n", encoding="utf-8")
    shutil.copy(work.heads.path, kept_heads)
    for kept in (kept_state, kept_heads):
        assert trace("verify", "--checkpoint", str(kept)) == 0
    cut_off(work)
    work.heads.path.unlink()
    assert trace("verify") == 0, "this cannot be detected without a known head"
    for kept in (kept_state, kept_heads):
        assert trace("verify", "--checkpoint", str(kept)) == TraceExit.FINDINGS
    kept_state.write_text("nothing of the kind", encoding="utf-8")
    with pytest.raises(SettingsError, match="neither heads nor a state"):
        trace("verify", "--checkpoint", str(kept_state))


def test_an_unusable_head_is_reported(work: TracedWorkspace):
    work.heads.path.write_text("{}", encoding="utf-8")
    with pytest.raises(StorageError, match="a cut-off end would not be noticed"):
        trace("verify")


FOREIGN = b'{"version":"1.0","id":"x","timestamp":"t","files":[],"tool":{"name":"cursor"}}\n'


def test_records_of_others_are_a_warning(work: TracedWorkspace, capsys: Captured):
    work.active.write_bytes(work.active.read_bytes() + FOREIGN)
    assert trace("verify") == 0
    assert '1 unchained record by "cursor"' in capsys.readouterr().out
    assert trace("verify", "--strict") == TraceExit.WARNINGS
    assert "Shows that" not in capsys.readouterr().out, "where warnings count nothing is claimed"
    assert trace("verify", "--require-chain") == TraceExit.FINDINGS


def test_a_torn_end_is_repaired_and_reported(work: TracedWorkspace, capsys: Captured):
    with open(work.active, "ab") as file:
        file.write(b'{"files":[],"id":"half')
    assert trace("verify") == TraceExit.FINDINGS
    assert trace("verify", "--fix-tail") == 0
    assert "1 repaired tail" in capsys.readouterr().out
    (kept,) = (work.folder / ".state" / "quarantine").iterdir()
    assert kept.read_bytes() == b'{"files":[],"id":"half'
    before = work.active.read_bytes()
    assert trace("verify", "--fix-tail") == 0
    assert work.active.read_bytes() == before


def test_sealed_files_that_end_before_are_passed_over(work: TracedWorkspace, capsys: Captured):
    edit_sealed(work)
    (sealed,) = (work.folder / "trace").iterdir()
    seal = json.loads(sealed.read_bytes().splitlines()[-1])["metadata"]["orchestration"]
    after = datetime.fromisoformat(seal["last_time"]) + timedelta(milliseconds=1)
    assert trace("verify", "-q") == TraceExit.FINDINGS
    assert trace("verify", "--since", seal["last_time"], "-q") == TraceExit.FINDINGS
    assert trace("verify", "--since", after.isoformat()) == 0
    assert capsys.readouterr().out.startswith("1 segment, 7 records")


def test_sealing_a_locked_ledger_fails_after_a_short_wait(
    work: TracedWorkspace, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "lock_wait", 0.05)
    with open(work.folder / ".state" / "locks" / "trace", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert trace("seal") == TraceExit.BUSY
    assert "in use by another process" in capsys.readouterr().err
    assert trace("seal") == 0


@pytest.mark.parametrize(("harm", "lost"), [(cut_off, 3), (remove_all, 7)])
def test_missing_records_are_reported_with_a_fix(
    work: TracedWorkspace, capsys: Captured, harm: Harm, lost: int
):
    day = json.loads(work.lines[-1])["timestamp"][:10]
    harm(work)
    with pytest.raises(SettingsError, match="only a person at a terminal"):
        trace("verify", "--accept")
    assert trace("verify") == TraceExit.FINDINGS
    said = capsys.readouterr().out
    assert said.splitlines()[0] == (
        f"FAIL  {lost} records known on {day} are missing. "
        "Restore the file, or accept the loss: rookery trace verify --accept"
    )
    assert not any(word in said for word in ("chain ", "anchors", "Shows that"))


def test_how_many_are_missing_is_not_guessed(work: TracedWorkspace, capsys: Captured):
    cut_off(work)
    (sealed,) = (work.folder / "trace").iterdir()
    seal = json.loads(sealed.read_bytes().splitlines()[-1])["metadata"]["orchestration"]
    after = datetime.fromisoformat(seal["last_time"]) + timedelta(milliseconds=1)
    assert trace("verify", "--since", after.isoformat()) == TraceExit.FINDINGS
    assert capsys.readouterr().out.startswith("FAIL  Records known on ")


def accepted_by_a_person(answer: str) -> int:
    fingers, terminal = pty.openpty()
    try:
        os.write(fingers, f"{answer}\n".encode())
        words = [sys.executable, "-m", "rookery", "trace", "verify", "--accept"]
        return subprocess.run(words, stdin=terminal, capture_output=True, check=False).returncode
    finally:
        os.close(fingers)
        os.close(terminal)


def test_a_damaged_ledger_can_be_left_behind(
    work: TracedWorkspace, capsys: Captured, tmp_path: Path
):
    """By the way that its failure names."""
    edit_sealed(work)
    assert trace("verify", "--accept") == TraceExit.FINDINGS
    assert "move agent_trace.jsonl and trace out of .orchestration" in capsys.readouterr().out
    work.active.rename(tmp_path / "agent_trace.jsonl")
    (work.folder / "trace").rename(tmp_path / "trace")
    assert accepted_by_a_person("n") == TraceExit.FINDINGS
    assert trace("verify") == TraceExit.FINDINGS
    assert accepted_by_a_person("y") == 0
    assert trace("verify") == 0


def forge(work: TracedWorkspace) -> None:
    """Correctly chained records by a writer without the key."""
    ledger = Ledger(work.folder, writer=Writer(name="rookery", version="0.1.0"))
    ledger.append(LedgerEntry(kind="decision", task_id="forged"))
    ledger.close()


def test_records_that_were_added_without_the_key_stay_a_warning(
    work: TracedWorkspace, capsys: Captured
):
    assert trace("verify", "--strict") == 0
    assert "  signed     15 here" in capsys.readouterr().out
    forge(work)
    assert trace("verify", "--strict") == TraceExit.WARNINGS
    assert "WARN  2 records are not signed here" in capsys.readouterr().out
    work.agent_writes("src/auth/later.py", "LATER = 1\n")
    assert trace("verify", "--strict") == TraceExit.WARNINGS, (
        "it stays, though a record builds on it"
    )
    assert trace("verify") == 0


def test_a_signed_record_that_was_changed_and_chained_anew_fails(
    work: TracedWorkspace, capsys: Captured
):
    *before, last = work.lines
    record = json.loads(last)
    own = record["metadata"]["orchestration"]
    own["intent_id"] = "INT-999"
    own["hash"] = leaf_hash(record)
    work.active.write_bytes(b"".join([*before, canonical(record) + b"\n"]))
    assert trace("verify") == TraceExit.FINDINGS
    assert "does not match its signature" in capsys.readouterr().out
