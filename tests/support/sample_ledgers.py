"""Ledgers for tests, and processes that write them and can be killed anywhere."""

import gzip
import random
import sys
from pathlib import Path
from typing import Any

from rookery.core.facts import CallPermitted, FileBefore, TaskOpened
from rookery.engine.event_log import EventLog
from rookery.governance.ledger.ledger_file import Flush, Ledger
from rookery.governance.ledger.ledger_recording import JournalsWithOwn, Recording
from rookery.governance.ledger.records import FileHash, LedgerEntry, TracedFile, Writer, line_change
from rookery.governance.ledger.recovery import hash_of_file
from rookery.governance.ledger.state_files import KnownHeads
from rookery.governance.ledger.verification import audit
from rookery.governance.ledger.verify_ledger import Report
from rookery.storage.journal import Journal
from rookery.storage.sessions import Journals

WRITER = Writer(name="rookery", version="1.0.0")
GOLDEN = """
{"files":[],"id":"00000000-0000-4000-8000-000000000000","metadata":{"orchestration":{"anchors":[],"hash":"sha256:10a827680667335554e93e2373d617fc2bbfb5aa471768225cb593ed06c036b4","kind":"stream_start","prev":null,"schema":1,"seq":0,"stream":"01JMZ3V9K6T2Q8R4W0XYABCDEF","task_id":"t-1"}},"timestamp":"2026-02-20T13:54:18.000Z","tool":{"name":"app","version":"1.0.0"},"version":"0.1.0"}
{"files":[],"id":"00000000-0000-4000-8000-000000000001","metadata":{"orchestration":{"hash":"sha256:485755211db07bb4244df7a0a6cf282d8328f29fab96ce244860fb35e185ef8e","intent_id":"INT-001","kind":"intent_selected","prev":"sha256:10a827680667335554e93e2373d617fc2bbfb5aa471768225cb593ed06c036b4","schema":1,"seq":1,"stream":"01JMZ3V9K6T2Q8R4W0XYABCDEF","task_id":"t-1"}},"timestamp":"2026-02-20T13:54:20.500Z","tool":{"name":"app","version":"1.0.0"},"version":"0.1.0"}
{"files":[{"conversations":[{"contributor":{"model_id":"example/model-1","type":"ai"},"ranges":[{"content_hash":"sha256:e8a5f8b51c01ecf7fcbed421db30b8fe45745f789f322de23ede7e80db2063c4","end_line":2,"start_line":1}],"related":[{"type":"intent","url":"urn:intent:INT-001"}],"url":"urn:task:t-1"}],"path":"src/auth/café.py"}],"id":"00000000-0000-4000-8000-000000000002","metadata":{"orchestration":{"files":[{"after":{"sha256":"e8a5f8b51c01ecf7fcbed421db30b8fe45745f789f322de23ede7e80db2063c4","size":25},"before":null,"op":"create","path":"src/auth/café.py"}],"hash":"sha256:fe474ebbec5e79903ec52c420ebb2bfb4140240a64e9c344d13555a2b09f4136","intent_id":"INT-001","kind":"mutation","outcome":"success","prev":"sha256:485755211db07bb4244df7a0a6cf282d8328f29fab96ce244860fb35e185ef8e","schema":1,"scope":"in_scope","seq":2,"stream":"01JMZ3V9K6T2Q8R4W0XYABCDEF","task_id":"t-1","tool_name":"write_to_file"}},"timestamp":"2026-02-20T13:54:31.250Z","tool":{"name":"app","version":"1.0.0"},"version":"0.1.0"}
"""
GOLDEN_LINES = [f"{line}\n".encode() for line in GOLDEN.strip().splitlines()]


def change(task: str, number: int, **more: Any) -> LedgerEntry:
    """A record of a call that changed a file."""
    text = f"line {number}\nand another\n"
    written = line_change("", text)
    file = TracedFile(
        path=f"src/auth/café_{number % 7}.py",
        op="create",
        after=FileHash(sha256=f"{number:064x}", size=len(text)),
        ranges=written.written,
        lines_added=written.added,
        line_marks=written.marks,
    )
    reported: dict[str, Any] = {
        "kind": "mutation",
        "task_id": task,
        "intent_id": "INT-001",
        "intent_rev": 3,
        "tool_name": "write_to_file",
        "tool_use_id": f"toolu_{number}",
        "outcome": "success",
        "scope": "in_scope",
        "model_id": "example/model-1",
        "files": (file,),
    }
    return LedgerEntry(**{**reported, **more})


class LedgerBench:
    """A workspace with a ledger, and the machine's own records of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".orchestration"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.active = self.folder / "agent_trace.jsonl"
        self.home = root.parent / f"{root.name}-home"
        self.heads = KnownHeads(self.home / "heads.json")

    def ledger(self, **options: Any) -> Ledger:
        return Ledger(
            self.folder, **{"writer": WRITER, "heads": self.heads, "flush": Flush.NEVER, **options}
        )

    def recording(self, **options: Any) -> Recording:
        return Recording(
            self.folder, **{"writer": WRITER, "heads": self.heads, "flush": Flush.NEVER, **options}
        )

    def task(self, task_id: str = "t-1") -> "BegunTask":
        return BegunTask(self.root, self.home / "tasks", self.heads.open_tasks, task_id)

    @property
    def journals(self) -> Journals:
        return Journals((self.home / "tasks").joinpath)

    @property
    def lines(self) -> list[bytes]:
        return self.active.read_bytes().splitlines(keepends=True)

    def report(self, **options: Any) -> Report:
        return audit(self.folder, **{"known": self.heads.read(), **options})


class BegunTask:
    """A task whose journal records its calls before they run."""

    def __init__(self, root: Path, tasks: Path, open_tasks: Path, task_id: str) -> None:
        self._root = root
        folder = tasks / task_id
        is_new = not (folder / "journal.jsonl").exists()
        self.log = EventLog(Journal.create(folder) if is_new else Journal.open(folder), lambda: 0)
        if is_new:
            self.log.append(TaskOpened(text="go"))
        open_tasks.mkdir(parents=True, exist_ok=True)
        (open_tasks / task_id).touch()

    def begin(self, call_id: str, *paths: str, **more: Any) -> int:
        """Record a permitted call, and return the event's number."""
        files = tuple(map(self._before, paths))
        fact = CallPermitted(call_id=call_id, tool="write_to_file", files=files, **more)
        return self.log.append(fact).seq

    def _before(self, path: str) -> FileBefore:
        try:
            held = hash_of_file(self._root / path)
        except (OSError, ValueError):
            held = None
        return (
            FileBefore(path=path, sha256=held.sha256, size=held.size)
            if held
            else FileBefore(path=path)
        )

    def __enter__(self) -> "BegunTask":
        return self

    def __exit__(self, *error: object) -> None:
        self.log.close()


def some_tasks(bench: LedgerBench, *, tasks: int = 4, records: int = 48, seed: int = 1) -> None:
    """Records of tasks that run concurrently and one after the other, so that streams are
    anchored in every way."""
    chance = random.Random(seed)
    ledger = bench.ledger()
    for number in range(records):
        ledger.append(change(f"t-{chance.randrange(1 + tasks * number // records)}", number))
    ledger.checkpoint("t-0")
    ledger.close()


def keep_changing(root: Path, name: str, seed: str) -> None:
    """Change files forever as a governed call does, and print every change made."""
    bench = LedgerBench(root)
    recording = bench.recording(flush=Flush.BATCH)
    task = bench.task(name)
    held = tuple(task.log.events)
    recording.recover(root, JournalsWithOwn(bench.journals, name, held), name)
    recording.open_task(name, len(held))
    chance = random.Random(seed)
    print("ready", flush=True)
    for number in range(10**9):
        path = root / "work" / name / f"{number % 5}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        reported = path.relative_to(root).as_posix()
        call_id, before = f"{name}-{chance.getrandbits(60):x}", hash_of_file(path)
        seq = task.begin(call_id, reported)
        path.write_text(f"{call_id}\n" * chance.randrange(1, 20), encoding="utf-8")
        file = TracedFile(path=reported, op="modify", before=before, after=hash_of_file(path))
        recording.note(
            LedgerEntry(
                kind="mutation",
                task_id=name,
                tool_use_id=call_id,
                tool_name="write_to_file",
                outcome="success",
                files=(file,),
                log_seq=seq,
            )
        )


def append_many(root: Path, name: str, count: int) -> None:
    ledger = LedgerBench(root).ledger()
    for number in range(count):
        ledger.append(change(name, number))
    ledger.close()


def main() -> int:
    """change ROOT NAME SEED: change files until killed. append ROOT NAME COUNT: add COUNT
    records."""
    what, root, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if what == "change":
        keep_changing(root, name, sys.argv[4])
    else:
        append_many(root, name, int(sys.argv[4]))
    return 0


if __name__ == "__main__":
    sys.exit(main())


def compress(path: Path) -> Path:
    """Replace a sealed file by a compressed one with the same content."""
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def damage_line(task: Path, number: int) -> None:
    """Change a byte in a line of a session's journal."""
    lines = (task / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"', b"'", 1)
    (task / "journal.jsonl").write_bytes(b"".join(lines))
