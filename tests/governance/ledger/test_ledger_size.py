"""A ledger may grow: memory does not grow with its content, nor an append with its length.

ROOKERY_TORTURE=1 verifies a million records as well, which are more than a gibibyte.
"""

import os
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rookery.governance.ledger.verify_ledger import Verifier
from support.sample_ledgers import LedgerBench, change

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("ledger")


def test_verifying_keeps_a_few_bytes_of_each_record(benchmark: Any):
    lines = list(benchmark.ledger_lines(1_000))
    assert sum(map(len, lines)) > 1_000_000
    tracemalloc.start()
    try:
        verifier = Verifier()
        verifier.read("ledger", iter(lines))
        report = verifier.report()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.whole
    assert report.records == 1_000
    assert peak < 200_000


def bytes_read() -> int:
    for row in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if row.startswith("rchar:"):
            return int(row.split()[1])
    raise AssertionError("the system does not tell")


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not tell")
def test_an_append_reads_no_more_of_a_long_ledger_than_of_a_short_one(tmp_path: Path):
    bench = LedgerBench(tmp_path / "space")
    ledger = bench.ledger()
    read: list[int] = []
    for number in range(300):
        before = bytes_read()
        ledger.append(change("one", number))
        read.append(bytes_read() - before)
    assert bench.active.stat().st_size > 250_000
    assert max(read[-100:]) < 20_000
    assert max(read[-100:]) < 2 * max(read[1:100])


if TORTURE:

    def test_a_million_records_verify_fast_in_little_memory(benchmark: Any, tmp_path: Path):
        bench = LedgerBench(tmp_path / "space")
        assert benchmark.write(bench.active, 1_000_000) > 2**30
        _, _, speed, memory = benchmark.verify_times(bench.folder, 1_000_000)
        assert int(speed.split()[0].replace(",", "")) >= 20_000
        assert int(memory.split()[0]) < 100
