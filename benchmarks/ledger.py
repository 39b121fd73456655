"""Measure the ledger: `python benchmarks/ledger.py [RECORDS]`, a million by default.

An append must take as long in a ledger of a million records as in an empty one. Verification runs
like `trace verify`, in a process of its own, with its memory. A governed call is one journal entry
and one record, measured with each way of flushing.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from run import machine, sync_seconds, table

from rookery.governance.ledger import verify_ledger
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.records import Link, Writer, build_record, encode_line
from support.sample_ledgers import LedgerBench, change

RECORDS = 1_000_000
STREAM = 5_000
"""Records per task."""
APPENDS = 300
CALLS = 300


def ledger_lines(count: int) -> Iterator[bytes]:
    """Lines of a ledger of consecutive tasks, each anchoring the one before."""
    writer, anchors, stream = Writer(name="rookery", version="1"), list[dict[str, object]](), ""
    prev: str | None = None
    for number in range(count):
        seq = number % STREAM
        entry = change(f"t-{number // STREAM}", number)
        if seq == 0:
            stream, prev = f"S{number:025}", None
            entry = change("t", number, kind="stream_start", files=(), more={"anchors": anchors})
        record = build_record(
            entry,
            id=f"00000000-0000-4000-8000-{number:012}",
            timestamp="2026-02-20T13:54:18.000Z",
            writer=writer,
            link=Link(stream=stream, seq=seq, prev=prev),
        )
        prev = record["metadata"]["orchestration"]["hash"]
        anchors = [{"stream": stream, "seq": seq, "hash": prev}]
        yield encode_line(record)


def write(path: Path, count: int) -> int:
    with open(path, "wb") as file:
        file.writelines(ledger_lines(count))
        return file.tell()


def verify_times(folder: Path, count: int) -> Sequence[str]:
    """Verify in a process of its own, whose peak memory the system reports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-I", "-S", verify_ledger.__file__, str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size = (folder / "agent_trace.jsonl").stat().st_size
    return (
        f"{count:,}",
        f"{size / 2**20:,.0f} MiB",
        f"{count / seconds:,.0f} records/s",
        f"{after.ru_maxrss / 1024:.0f} MiB",
    )


def append_times(bench: LedgerBench) -> list[float]:
    """Seconds of each append to the existing ledger; no file is sealed meanwhile."""
    ledger = bench.ledger(seal_size=2**62, seal_records=2**62)
    ledger.append(change("warm", 0))
    times = []
    for number in range(APPENDS):
        began = time.perf_counter()
        ledger.append(change("warm", number))
        times.append(time.perf_counter() - began)
    ledger.close()
    return times


def call_times(bench: LedgerBench, flush: Flush) -> list[float]:
    """Seconds that a governed call takes for its journal entry and its record."""
    recording = bench.recording(flush=flush)
    times = []
    with bench.task(f"t-{flush.value}") as task:
        for number in range(CALLS):
            name = f"toolu_{flush.value}_{number}"
            began = time.perf_counter()
            seq = task.begin(name, "src/a.py")
            recording.note(change("t", number, tool_use_id=name, log_seq=seq))
            times.append(time.perf_counter() - began)
    recording.close("t")
    return times


def spread(times: Sequence[float]) -> str:
    return f"{1000 * median(times):.2f} ms (p95 {1000 * quantiles(times, n=20)[-1]:.2f} ms)"


def query_time(bench: LedgerBench) -> str:
    """Seconds to find the records of a task that is not in the ledger, so all of it is read."""
    began = time.perf_counter()
    assert not list(newest(bench.folder, Query(task="nowhere")))
    return f"{1000 * (time.perf_counter() - began):.0f} ms"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    with tempfile.TemporaryDirectory() as home:
        empty, full = LedgerBench(Path(home) / "empty"), LedgerBench(Path(home) / "full")
        write(full.active, count)
        print(table([("records", "size", "verified", "memory"), verify_times(full.folder, count)]))
        print()
        rows = [
            ("an append to", "takes"),
            ("an empty ledger", spread(append_times(empty))),
            (f"one of {count:,}", spread(append_times(full))),
        ]
        print(table(rows))
        print()
        print(table([("all of it searched in",), (query_time(full),)]))
        print()
        governed = [(flush.value, spread(call_times(empty, flush))) for flush in Flush]
        print(table([("flush", "a governed call pays"), *governed]))
        sync = sync_seconds(Path(home))
    print(f"\n{machine()}; one fsync takes {sync * 1000:.2f} ms.")


if __name__ == "__main__":
    main()
