"""Processes change files and record it; they are killed at random and started again.

Afterwards the chain verifies, nothing was recorded twice, and no change is unrecorded.
`make test` has three of them and kills six times, ROOKERY_TORTURE=1 does so for two minutes.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rookery.governance.ledger.ledger_reader import Query, oldest
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.verify_ledger import exit_code, format_report
from support import sample_ledgers
from support.chance import new_seed
from support.sample_ledgers import LedgerBench

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SECONDS = 120.0 if TORTURE else 0.0
KILLS = 12 if TORTURE else 6
"""At least; and as many more as it takes to have enough on record."""
ENOUGH = 100 if TORTURE else 50
WRITERS = 8 if TORTURE else 3


def start(root: Path, name: str, chance: random.Random) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, sample_ledgers.__file__, "change", str(root), name, str(chance.random())],
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_processes_killed_at_random_leave_a_whole_ledger(tmp_path: Path):
    bench = LedgerBench(tmp_path / "space")
    chance = random.Random(new_seed())
    names = [f"w{number}" for number in range(WRITERS)]
    running = {name: start(bench.root, name, chance) for name in names}
    kills, until = 0, time.monotonic() + SECONDS
    try:
        for process in running.values():
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        while time.monotonic() < until or kills < KILLS or recorded(bench) <= ENOUGH:
            time.sleep(chance.uniform(0, 0.15))
            name = chance.choice(names)
            assert running[name].poll() is None, "a writer failed by itself"
            kill(running[name])
            running[name] = start(bench.root, name, chance)
            kills += 1
    finally:
        for process in running.values():
            kill(process)
    last = bench.recording()
    last.recover(bench.root, bench.journals)
    last.close()
    report = bench.report()
    assert exit_code(report) == 0, format_report(report)
    assert last.unrecorded(bench.root, bench.journals) == (0, [])
    assert list(bench.heads.open_tasks.iterdir()) == []
    demand_one_record_for_each_call(bench)
    demand_every_change_recorded(bench)
    assert report.kinds["mutation"] > ENOUGH


def recorded(bench: LedgerBench) -> int:
    """How many changes, besides those that were recovered."""
    return sum(1 for record in oldest(bench.folder) if record.kind == "mutation")


def demand_one_record_for_each_call(bench: LedgerBench) -> None:
    calls = Counter(record.tool_use_id for record in oldest(bench.folder) if record.tool_use_id)
    assert [call for call, count in calls.items() if count > 1] == []


def demand_every_change_recorded(bench: LedgerBench) -> None:
    """Each file is as its last record says, and each record begins where the one before ended."""
    held: dict[str, object] = {}
    for record in oldest(bench.folder, Query()):
        for file in record.files:
            assert held.get(file.path) == file.before, file.path
            held[file.path] = file.after
    files = [path for path in (bench.root / "work").rglob("*") if path.is_file()]
    assert len(files) >= WRITERS
    for path in files:
        assert hash_of_file(path) == held[path.relative_to(bench.root).as_posix()]
