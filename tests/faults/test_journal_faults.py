"""Kills, full and read-only disks, second writers: what was acknowledged is there afterwards."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.core.facts import (
    Event,
    Noted,
    TaskOpened,
    TaskReopened,
    TodosChanged,
    ToolFinished,
    UserSpoke,
)
from rookery.errors import StorageError
from rookery.storage.journal import Journal, read_events
from rookery.storage.verify import verify
from support import journal_writer
from support.command_server import CommandServer, Ended
from support.journal_writer import LARGE, numbered, sample_facts, store, write_all
from support.log_fillings import Filling

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
JOURNAL = "journal.jsonl"
AROUND_A_WRITE = ["journal.before_write", "journal.written", "journal.synced"]
KILLS = [
    *[("files", point) for point in (*AROUND_A_WRITE, "disk.before_rename")],
    *[("postgresql", point) for point in AROUND_A_WRITE],
]


Run = Callable[..., Ended]


@pytest.fixture
def run(server: CommandServer, tmp_path: Path) -> Run:
    def run(what: str, folder: Path, killpoint: str = "", place: str = "") -> Ended:
        arguments = [what, place or str(folder.parent), folder.name]
        return server.run(
            arguments, environment(killpoint), tmp_path, program="support.journal_writer"
        )

    return run


def environment(killpoint: str = "") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ROOKERY_KILLPOINT": killpoint}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


# ── kills ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("log_place", "point"), KILLS, indirect=["log_place"])
def test_acknowledged_events_survive_a_kill(
    point: str, log_place: str, logs: Filling, run: Run, tmp_path: Path
):
    in_files = log_place == str(tmp_path)
    written = numbered(sample_facts())
    times = times_reached(point, in_files)
    for nth in instants(point, times, in_files):
        folder = tmp_path / str(nth)
        child = run("create", folder, f"{point}:{nth}", log_place)
        assert child.code == -signal.SIGKILL, child.err
        acknowledged = len(child.out.split())

        found = events_in(logs, folder.name)
        assert found == written[: len(found)]
        kept = acknowledged if in_files else last_durable(written[:acknowledged])
        assert kept <= len(found) <= acknowledged + 1
        if found:
            assert run("resume", folder, place=log_place).code == 0
            assert events_in(logs, folder.name)[: len(found)] == found
            assert list(folder.rglob("*.unfinished")) == []
        if found and in_files:
            assert verify(folder) == []
    assert run("create", tmp_path / "whole", f"{point}:{times + 1}", log_place).code == 0
    assert events_in(logs, "whole") == written


def instants(point: str, times: int, in_files: bool) -> range:
    """All of them in torture mode, else two, which are others for each point and place."""
    if TORTURE:
        return range(1, times + 1)
    number = KILLS.index(("files" if in_files else "postgresql", point))
    return range(1 + number % times, times + 1, 8)


def times_reached(point: str, in_files: bool) -> int:
    if point == "disk.before_rename":
        return 1
    facts = sample_facts()
    sent_later = 0 if in_files or point != "journal.written" else 1
    return len(facts) - sent_later


def last_durable(events: list[Event]) -> int:
    """The database gets a fact that may wait with the next one that may not."""
    return max((event.seq for event in events if type(event.fact) not in Journal.waits), default=0)


def events_in(logs: Filling, name: str) -> list[Event]:
    """None of them if it never started."""
    try:
        return logs.read(name)
    except StorageError as error:
        if "No such session" not in str(error):
            raise
        return []


@pytest.mark.parametrize("point", ["disk.before_rename", "recovery.copied", "recovery.cut"])
def test_a_kill_during_recovery_loses_nothing(point: str, run: Run, tmp_path: Path):
    for name in ("once", "twice"):
        store(tmp_path / name, sample_facts())
        with (tmp_path / name / JOURNAL).open("ab") as file:
            file.write(b'{"seq":16,"sub":0,"ts":17')
    assert run("resume", tmp_path / "twice", f"{point}:1").code == -signal.SIGKILL
    for name in ("once", "twice"):
        assert run("resume", tmp_path / name).code == 0
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")
    assert verify(tmp_path / "twice") == []
    *_, note, _reopened = read_events(tmp_path / "twice")
    assert isinstance(note.fact, Noted)
    assert "25 bytes" in note.fact.text


# ── damage ──────────────────────────────────────────────────────────────────────────────

SHORT = [
    TaskOpened(text="Go", workspace="/w"),
    UserSpoke(message_id="m1", text="one\ttwo\nthree"),
    TaskReopened(),
    ToolFinished(call_id="c", text=LARGE),
    UserSpoke(message_id="m2", text="\x00ü\u2028"),
]


@st.composite
def mutations(draw: st.DrawFn, whole: bytes) -> bytes:
    """One to three damages: a flip, a cut, a hole, zeros, a copy or a swap of ranges."""
    data = whole
    for _ in range(draw(st.integers(1, 3))):
        place = st.integers(0, len(data))
        a, b, c, d = sorted((draw(place), draw(place), draw(place), draw(place)))
        lines = data.splitlines(keepends=True)
        match draw(st.sampled_from(["flip", "cut", "hole", "zero", "copy", "swap", "lines"])):
            case "flip" if a < len(data):
                data = data[:a] + bytes([data[a] ^ draw(st.integers(1, 255))]) + data[a + 1 :]
            case "cut":
                data = data[:a]
            case "hole":
                data = data[:a] + data[b:]
            case "zero":
                data = data[:a] + bytes(b - a) + data[b:]
            case "copy":
                data = data[:b] + data[a:b] + data[b:]
            case "swap":
                data = data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]
            case "lines":
                data = b"".join(draw(st.permutations(lines)))
    return data


@pytest.fixture(scope="module")
def stored() -> Iterator[tuple[Path, list[Event]]]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "t", store(Path(folder) / "t", SHORT)


@settings(max_examples=200 if TORTURE else 30, deadline=None)
@given(data=st.data())
def test_a_damaged_journal_invents_no_event_and_loses_no_byte(
    stored: tuple[Path, list[Event]], data: st.DataObject
):
    original, events = stored
    mutated = data.draw(mutations((original / JOURNAL).read_bytes()))
    with tempfile.TemporaryDirectory() as parent:
        folder = shutil.copytree(original, Path(parent) / "t")
        (folder / JOURNAL).write_bytes(mutated)
        verify(folder)
        seen = list(read_events(folder))
        assert seen == events[: len(seen)]
        try:
            journal = Journal.open(folder)
        except StorageError:
            assert seen == []
            assert (folder / JOURNAL).read_bytes() == mutated
            return
        assert journal.read().events == seen
        aside = b"".join(path.read_bytes() for path in folder.glob("journal.torn-*"))
        assert (folder / JOURNAL).read_bytes() + aside == mutated
        assert bool(journal.recovered) == bool(aside)
        write_all(journal, [TaskReopened()], seen[-1])
        journal.close()
        assert list(read_events(folder))[:-1] == seen


# ── disks that are full, broken or read-only ────────────────────────────────────────────


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Writes past `size` fail, as on a full disk: first short, then not at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_short_write_is_undone_and_the_journal_continues(tmp_path: Path):
    journal = Journal.create(tmp_path / "t")
    events = write_all(journal, [TaskOpened(text="Go")])
    whole = (tmp_path / "t" / JOURNAL).read_bytes()
    for room in (0, 1, 20):
        with file_size_limit(len(whole) + room), pytest.raises(StorageError) as reported:
            write_all(journal, [UserSpoke(message_id="m", text="hello")], events[-1])
        assert "everything up to here is kept" in str(reported.value)
        assert os.strerror(errno.EFBIG) in str(reported.value)
        assert "--continue" in str(reported.value)
        assert (tmp_path / "t" / JOURNAL).read_bytes() == whole
    events += write_all(journal, [UserSpoke(message_id="m", text="hello")], events[-1])
    journal.close()
    assert list(read_events(tmp_path / "t")) == events


def test_a_large_output_that_does_not_fit_leaves_nothing_behind(tmp_path: Path):
    journal = Journal.create(tmp_path / "t")
    events = write_all(journal, [TaskOpened(text="Go")])
    with file_size_limit(65536), pytest.raises(StorageError, match="Free some space"):
        write_all(journal, [ToolFinished(call_id="c", text=LARGE)], events[-1])
    assert list((tmp_path / "t" / "blobs").iterdir()) == []
    events += write_all(journal, [ToolFinished(call_id="c", text=LARGE)], events[-1])
    journal.close()
    assert list(read_events(tmp_path / "t")) == events


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted only by root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def write_for_ever(journal: Journal, events: list[Event]) -> None:
    while True:
        words = UserSpoke(message_id="m", text="hello " * 100)
        events += write_all(journal, [words], events[-1])


def test_a_full_disk_is_reported_and_loses_nothing(small_disk: Path):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(30_000))
    journal = Journal.create(small_disk / "t")
    events = write_all(journal, [TaskOpened(text="Go")])
    with pytest.raises(StorageError, match=os.strerror(errno.ENOSPC)):
        write_for_ever(journal, events)
    assert len(events) > 10
    assert list(read_events(small_disk / "t")) == events
    ballast.unlink()
    events += write_all(journal, [TaskReopened()], events[-1])
    journal.close()
    assert list(read_events(small_disk / "t")) == events


def test_a_torn_tail_is_kept_if_it_cannot_be_saved_elsewhere(small_disk: Path):
    store(small_disk / "t", [TaskOpened(text="Go")])
    with (small_disk / "t" / JOURNAL).open("ab") as file:
        file.write(b"torn" * 100)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (small_disk / "ballast").write_bytes(bytes(64 * 1024))
    before = contents(small_disk / "t")
    with pytest.raises(StorageError, match="could not be saved"):
        Journal.open(small_disk / "t")
    assert contents(small_disk / "t") == before


def test_a_read_only_disk_is_reported_and_can_be_read(small_disk: Path):
    events = store(small_disk / "t", [TaskOpened(text="Go")])
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match=os.strerror(errno.EROFS)):
        Journal.open(small_disk / "t")
    for name in ("t", "new"):
        with pytest.raises(StorageError, match="--ephemeral"):
            Journal.create(small_disk / name)
    assert list(read_events(small_disk / "t")) == events


def test_a_folder_without_access_is_reported(tmp_path: Path):
    store(tmp_path / "t", [TaskOpened(text="Go")])
    (tmp_path / "t").chmod(0o000)
    try:
        with pytest.raises(StorageError, match=os.strerror(errno.EACCES)):
            Journal.open(tmp_path / "t")
        with pytest.raises(StorageError, match=os.strerror(errno.EACCES)):
            list(read_events(tmp_path / "t"))
    finally:
        (tmp_path / "t").chmod(0o700)


def traced(
    folder: Path, *options: str, what: str = "create"
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Write the sample task under strace: how that ended, and the calls made on the journal."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace to watch system calls with")
    calls = folder.with_name("calls")
    trace = ["strace", "-f", "-o", str(calls), "-P", str(folder / JOURNAL), *options]
    command = [
        *trace,
        sys.executable,
        journal_writer.__file__,
        what,
        str(folder.parent),
        folder.name,
    ]
    child = subprocess.run(command, env=environment(), text=True, capture_output=True)
    if "ptrace" in child.stderr:
        pytest.skip("this machine does not allow tracing")
    return child, [line.split()[1].partition("(")[0] for line in calls.read_text().splitlines()]


def test_durable_events_are_synced_before_they_are_acknowledged(tmp_path: Path):
    _, calls = traced(tmp_path / "t", "-e", "trace=write,fdatasync")
    expected: list[str] = []
    for fact in sample_facts():
        repeatable = getattr(fact, "call_id", "") == "c2"  # it changes nothing
        waits = repeatable or isinstance(fact, TodosChanged)
        expected += ["write"] if waits else ["write", "fdatasync"]
    assert [call for call in calls if call in {"write", "fdatasync"}] == expected


NOT_ON_DISK = [("fdatasync", 1), ("write", 9)]
if TORTURE:
    NOT_ON_DISK = [(call, nth) for call in ("fdatasync", "write") for nth in (1, 3, 9)]


@pytest.mark.parametrize(("call", "nth"), NOT_ON_DISK)
def test_an_event_that_did_not_reach_the_disk_is_not_acknowledged(
    call: str, nth: int, tmp_path: Path
):
    child, _ = traced(tmp_path / "t", "-e", f"inject={call}:error=EIO:when={nth}")
    assert "could not be written (Input/output error); everything up to here" in child.stderr
    acknowledged = len(child.stdout.split())
    assert list(read_events(tmp_path / "t")) == numbered(sample_facts())[:acknowledged]


def test_a_failed_write_can_be_retried(tmp_path: Path):
    child, _ = traced(tmp_path / "t", "-e", "inject=write:error=ENOSPC:when=3", what="insist")
    assert child.returncode == 0, child.stderr
    assert list(read_events(tmp_path / "t")) == numbered(sample_facts())


def test_a_failed_sync_blocks_writes_until_the_journal_is_reopened(run: Run, tmp_path: Path):
    child, _ = traced(tmp_path / "t", "-e", "inject=fdatasync:error=EIO:when=3", what="insist")
    assert "is uncertain (Input/output error)" in child.stderr
    assert child.stdout.split() == ["1", "2"]
    assert run("resume", tmp_path / "t").code == 0
    assert list(read_events(tmp_path / "t"))[:2] == numbered(sample_facts())[:2]


# ── one writer ──────────────────────────────────────────────────────────────────────────


def test_a_second_writer_is_refused_and_the_first_is_named(log_place: str, logs: Filling):
    journal = logs.create("t")
    events = write_all(journal, sample_facts())
    journal.close()
    command = [sys.executable, journal_writer.__file__, "hold", log_place, "t"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment()) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"open\n"
        for attempt in (logs.open, logs.create):
            with pytest.raises(StorageError, match=rf"process {holder.pid} .*Close it there"):
                attempt("t")
        assert logs.read("t") == events
        holder.kill()
        holder.wait()
        logs.take_over("t").close()


def test_a_task_has_one_writer_within_a_process_too(logs: Filling):
    journal = logs.create("t")
    with pytest.raises(StorageError, match=f"process {os.getpid()}"):
        logs.create("t")
    write_all(journal, [TaskOpened(text="Go")])
    with pytest.raises(StorageError, match=f"process {os.getpid()}"):
        logs.open("t")
    journal.close()


def test_a_failed_open_releases_the_lock(tmp_path: Path):
    store(tmp_path / "t", [TaskOpened(text="Go")])
    whole = (tmp_path / "t" / JOURNAL).read_bytes()
    (tmp_path / "t" / JOURNAL).write_bytes(b"x\n")
    with pytest.raises(StorageError, match="first line"):
        Journal.open(tmp_path / "t")
    (tmp_path / "t" / JOURNAL).write_bytes(whole)
    Journal.open(tmp_path / "t").close()
