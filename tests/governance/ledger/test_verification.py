"""Problems that verification finds, and their messages."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.governance.ledger import verify_ledger
from rookery.governance.ledger.active_file import LedgerTail
from rookery.governance.ledger.verification import owner_report
from rookery.governance.ledger.verify_ledger import (
    ADVICE,
    CLAIM,
    MISSING,
    LedgerFinding,
    Report,
    Verifier,
    canonical,
    exit_code,
    format_report,
    leaf_hash,
)
from support.each_row import each_row
from support.sample_ledgers import GOLDEN_LINES, LedgerBench, change, some_tasks

SCRIPT = Path(verify_ledger.__file__)


def report_of(lines: list[bytes], **options: Any) -> Report:
    verifier = Verifier(**options)
    verifier.read("agent_trace.jsonl", lines)
    return verifier.report()


def codes(report: Report) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in report.findings]


@pytest.fixture
def bench(tmp_path: Path) -> LedgerBench:
    bench = LedgerBench(tmp_path / "space")
    some_tasks(bench)
    return bench


def test_a_changed_byte_is_reported_with_line_stream_and_number():
    changed = GOLDEN_LINES[1].replace(b"INT-001", b"INT-002")
    report = report_of([GOLDEN_LINES[0], changed, GOLDEN_LINES[2]])
    assert format_report(report).splitlines() == [
        "FAIL  agent_trace.jsonl line 2: content does not match its hash",
        "      stream 01JMZ3V9… #1, 2026-02-20 13:54:20Z, intent_selected",
        "FAIL  agent_trace.jsonl line 3: prev does not match record #1",
        "2 failures in 1 stream; 0 streams are intact",
        "Ask for an undamaged copy of the file.",
    ]
    assert exit_code(report) == 1


def test_swapped_lines_are_only_noted_without_a_known_head():
    report = report_of([GOLDEN_LINES[0], GOLDEN_LINES[2], GOLDEN_LINES[1]])
    assert codes(report) == [("INFO", "early")]
    assert exit_code(report) == 0


def test_swapped_lines_are_a_warning_and_no_failure(bench: LedgerBench):
    lines = bench.lines
    bench.active.write_bytes(b"".join([*lines[:-2], lines[-1], lines[-2]]))
    report = bench.report()
    assert ("WARN", "not-as-left") in codes(report)
    assert (exit_code(report), exit_code(report, strict=True)) == (0, 1)


@pytest.mark.parametrize("more", ["repeated", "empty"])
def test_lines_that_add_no_record_are_noted(bench: LedgerBench, more: str):
    added = bench.lines[-1] if more == "repeated" else b"\n"
    bench.active.write_bytes(bench.active.read_bytes() + added)
    assert ("WARN", "not-as-left") in codes(bench.report())
    assert exit_code(bench.report()) == 0


def test_another_writer_may_add_to_the_end(bench: LedgerBench):
    line = b'{"version":"1.0","files":[],"tool":{"name":"cursor"}}\n'
    bench.active.write_bytes(bench.active.read_bytes() + line)
    assert codes(bench.report()) == [("WARN", "unchained")]
    assert exit_code(bench.report()) == 0
    bench.ledger().append(change("later", 1))
    assert codes(bench.report()) == [("WARN", "unchained")]
    assert exit_code(bench.report()) == 0


def test_a_cut_off_end_is_found_by_the_known_head(bench: LedgerBench):
    state = bench.report().state
    bench.active.write_bytes(b"".join(bench.lines[:-3]))
    assert codes(bench.report(known=None)) == []
    warned = bench.report()
    assert codes(warned)[0] == ("WARN", "known-head")
    assert "known head missing: cut off, branch switched, or restored" in format_report(warned)
    assert exit_code(warned) == 1
    expected = bench.report(expected=state)
    assert ("FAIL", "expected") in codes(expected)


def test_a_removed_stream_leaves_its_anchor_unresolved(bench: LedgerBench):
    first = json.loads(bench.lines[0])["metadata"]["orchestration"]["stream"]
    kept = [line for line in bench.lines if f'"stream":"{first}","task_id"'.encode() not in line]
    report = report_of(kept)
    assert ("FAIL", "anchor") in codes(report)


def test_two_objects_on_one_line_are_both_read():
    plain = b'{"version":"1.0","id":"x","timestamp":"y","files":[],"tool":{"name":"cursor"}}'
    report = report_of([*GOLDEN_LINES, plain + plain + b"\n"])
    assert codes(report) == [("WARN", "unchained")]
    assert report.unchained == {"cursor": 2}
    assert exit_code(report) == 0
    assert exit_code(report_of([*GOLDEN_LINES, plain + b"\n"], require_chain=True)) == 1


def test_lines_of_other_writers_may_break_our_rules():
    line = b'{"version":"1.0","files":[],"tool":{"name":"cursor"},"cost":0.5,"cost":1e3}\n'
    assert codes(report_of([line])) == [("WARN", "unchained")]


def test_a_record_verifies_however_it_is_written():
    loose = [json.dumps(json.loads(line), indent=None).encode() + b"\n" for line in GOLDEN_LINES]
    report = report_of(loose)
    assert codes(report) == [("WARN", "rewritten")]
    assert exit_code(report) == 0
    assert exit_code(report, strict=True) == 1


def test_a_record_with_a_duplicate_key_is_invalid():
    doubled = GOLDEN_LINES[1].replace(b'"intent_id"', b'"intent_id":"INT-666","intent_id"')
    assert ("FAIL", "unreadable") in codes(report_of([GOLDEN_LINES[0], doubled]))


def test_two_records_of_one_place_are_a_fork():
    record = json.loads(GOLDEN_LINES[2])
    record["id"] = "00000000-0000-4000-8000-000000000009"
    record["metadata"]["orchestration"]["hash"] = leaf_hash(record)
    report = report_of([*GOLDEN_LINES, canonical(record) + b"\n"])
    assert codes(report) == [("FAIL", "fork")]


@each_row("cut", [1, 2, 100, 400])
def test_a_torn_last_line_is_reported_and_can_be_repaired(cut: int):
    torn = GOLDEN_LINES[2][:-cut]
    report = report_of([*GOLDEN_LINES[:2], torn])
    assert codes(report) == [("WARN", "torn-tail")]
    assert report.records == (3 if cut == 1 else 2)
    assert exit_code(report) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b'"text"\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b"9" * 5000 + b"\n",
    ],
    ids=["words", "list", "text", "bytes", "deep", "long number"],
)
def test_a_line_that_is_not_a_record_fails(line: bytes):
    assert ("FAIL", "unreadable") in codes(report_of([GOLDEN_LINES[0], line, *GOLDEN_LINES[1:]]))


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(own: dict[str, Any]) -> None:
        del own[name]

    return change


@pytest.mark.parametrize(
    "damage",
    [
        *map(without, ["stream", "seq", "prev", "hash"]),
        lambda own: own.update(seq="1"),
        lambda own: own.update(seq=True),
        lambda own: own.update(seq=-1),
        lambda own: own.update(stream=None),
        lambda own: own.update(prev=7),
        lambda own: own.update(hash=[]),
    ],
    ids=[
        *("no stream", "no seq", "no prev", "no hash", "seq text", "seq bool", "seq negative"),
        *("stream null", "prev number", "hash list"),
    ],
)
def test_a_record_that_lost_its_chain_fails(damage: Callable[[dict[str, Any]], None]):
    record = json.loads(GOLDEN_LINES[1])
    damage(record["metadata"]["orchestration"])
    line = canonical(record) + b"\n"
    assert "FAIL" in {level for level, _ in codes(report_of([GOLDEN_LINES[0], line]))}


def test_time_may_not_run_backwards_for_long():
    def stream(*times: str) -> list[bytes]:
        lines, prev = list[bytes](), None
        for seq, time in enumerate(times):
            record = json.loads(GOLDEN_LINES[0])
            own = record["metadata"]["orchestration"]
            record["timestamp"] = f"2026-02-20T{time}.000Z"
            own["seq"], own["prev"] = seq, prev
            prev = own["hash"] = leaf_hash(record)
            lines.append(canonical(record) + b"\n")
        return lines

    assert codes(report_of(stream("10:00:00", "09:55:01"))) == []
    assert codes(report_of(stream("10:00:00", "09:54:59"))) == [("WARN", "clock")]


def test_a_seal_must_match_the_records_before_it(tmp_path: Path):
    bench = LedgerBench(tmp_path / "space")
    some_tasks(bench, records=12)
    bench.ledger().seal("t-9")
    [sealed] = (bench.folder / "trace").iterdir()
    assert bench.report().seals == 1
    assert exit_code(bench.report()) == 0
    lines = sealed.read_bytes().splitlines(keepends=True)
    sealed.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    assert ("FAIL", "seal") in codes(bench.report())
    sealed.write_bytes(b"".join(lines[:-1]))
    assert ("FAIL", "seal") in codes(bench.report())


def test_the_state_of_a_checkpoint_was_reached(bench: LedgerBench):
    checkpoint = json.loads(bench.lines[-1])["metadata"]["orchestration"]
    assert checkpoint["kind"] == "checkpoint"
    bench.ledger().append(change("later", 1))
    assert exit_code(bench.report(expected=checkpoint["state"])) == 0
    assert exit_code(bench.report(expected=checkpoint["state"][:23])) == 0
    assert exit_code(bench.report(expected=checkpoint["state"][:15])) == 1
    assert exit_code(bench.report(expected="sha256:" + "0" * 64)) == 1


@pytest.mark.parametrize("tips", ["none", "present", "absent"])
def test_no_forged_checkpoint_hides_a_cut(bench: LedgerBench, tips: str):
    """An attacker who cut the end may add a checkpoint that claims the expected state."""
    real = bench.report()
    lines = bench.lines[:-3]
    last = json.loads(lines[-1])
    own = last["metadata"]["orchestration"]
    named = {
        "none": [],
        "present": [{"stream": own["stream"], "seq": own["seq"], "hash": own["hash"]}],
        "absent": [{"stream": a, "seq": b, "hash": c} for a, b, c in real.tips],
    }
    forged = {"kind": "checkpoint", "tips": named[tips], "state": real.state}
    own |= {**forged, "seq": own["seq"] + 1, "prev": own["hash"]}
    own["hash"] = leaf_hash(last)
    bench.active.write_bytes(b"".join([*lines, canonical(last) + b"\n"]))
    assert exit_code(bench.report(known=None, expected=real.state)) == 1


def test_a_writer_knows_the_tips_that_verifying_finds(bench: LedgerBench):
    chance = random.Random(1)
    for _ in range(20):
        tail, lines = LedgerTail(), chance.sample(bench.lines, len(bench.lines))
        for line in lines:
            tail.add(line)
        assert tail.tips == bench.report().tips
        assert LedgerTail.decode(tail.encode()).tips == tail.tips


def test_thousands_of_failures_are_counted_and_some_listed():
    report = report_of([b"nonsense\n"] * 5000)
    assert (report.failures, len(report.findings)) == (5000, 1000)
    assert "and 4,000 more" in format_report(report)


def test_every_failure_suggests_a_fix():
    failing = set(re.findall(r'_fail\(\s*"([\w-]+)"', SCRIPT.read_text(encoding="utf-8")))
    assert len(failing) > 5
    assert failing | verify_ledger._BREAKING | {"unchained"} == {"known-head", *ADVICE}
    for code, way in ADVICE.items():
        report = report_of([])._replace(findings=(LedgerFinding("FAIL", code, "text"),))
        assert format_report(report).splitlines()[-1] == way
        ours = owner_report(report, lost=0, noted="", strict=False).splitlines()[-1]
        assert "rookery trace verify" in ours or code in {"expected", "unchained"}


LOST = {
    "many": (1200, "2026-11-15", "1,200 records known on 2026-11-15 are missing."),
    "one": (1, "2026-11-15", "1 record known on 2026-11-15 is missing."),
    "unknown number": (0, "", "Records known earlier are missing."),
}


@pytest.mark.parametrize(("lost", "noted", "said"), LOST.values(), ids=LOST)
def test_a_cut_off_end_is_reported_as_a_failure(
    bench: LedgerBench, lost: int, noted: str, said: str
):
    bench.active.write_bytes(b"".join(bench.lines[:-3]))
    rows = owner_report(bench.report(), lost=lost, noted=noted, strict=False).splitlines()
    way = "Restore the file, or accept the loss: rookery trace verify --accept"
    assert rows[0] == f"FAIL  {said} {way}"
    assert rows[-1] == "1 segment, 50 records, 4 streams left"


def test_nothing_is_claimed_unless_the_exit_code_is_0(bench: LedgerBench):
    assert format_report(bench.report(), strict=True).endswith(CLAIM)
    with open(bench.active, "ab") as file:
        file.write(b'{"version":"1.0","files":[],"tool":{"name":"cursor"}}\n')
    warned = bench.report()
    assert exit_code(warned) == 0
    assert format_report(warned).endswith(CLAIM)
    assert exit_code(warned, strict=True) == 1
    assert CLAIM not in format_report(warned, strict=True)
    bench.active.unlink()
    for text in (
        format_report(bench.report()),
        owner_report(bench.report(), lost=0, noted="", strict=False),
    ):
        assert not any(word in text for word in (CLAIM, "chain ", "anchors", " ok"))


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A copy of the script elsewhere, run by a Python without rookery."""
    script = folder / "verify_ledger.py"
    script.write_bytes(SCRIPT.read_bytes())
    return subprocess.run(
        [sys.executable, "-I", "-S", str(script), *arguments], capture_output=True, text=True
    )


def test_the_auditor_script_runs_standalone(bench: LedgerBench, tmp_path: Path):
    head = str(bench.heads.path)
    whole = run_script(tmp_path, "--head", head, str(bench.folder))
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout == format_report(bench.report()) + "\n"
    assert run_script(tmp_path, str(bench.active)).returncode == 0
    bench.active.write_bytes(b"".join(bench.lines[:-3]))
    cut = run_script(tmp_path, "--head", head, str(bench.folder))
    assert (cut.returncode, cut.stderr) == (1, "")
    rows = cut.stdout.splitlines()
    assert rows[0] == f"FAIL  {MISSING}"
    assert rows[1].startswith("      known head missing")
    assert rows[-1] == "1 segment, 50 records, 4 streams left"


def test_the_script_is_called_wrongly(bench: LedgerBench, capsys: pytest.CaptureFixture[str]):
    folder, no_head = str(bench.folder), str(bench.heads.path)
    bench.heads.path.write_text("{}", encoding="utf-8")
    no_heads = (("--head", "nowhere", folder), ("--head", no_head, folder))
    for arguments in ((), ("nowhere",), ("--what", folder), *no_heads):
        with pytest.raises(SystemExit, match="2"):
            verify_ledger.main([*arguments])
    assert "Traceback" not in capsys.readouterr().err
