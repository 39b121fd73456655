import os
import re
import shutil
import stat
import threading
from pathlib import Path
from zlib import crc32

import pytest
from msgspec.structs import replace

from rookery.core.facts import (
    Fact,
    Noted,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.errors import StorageError
from rookery.platform.locks import open_lock, try_lock
from rookery.storage.journal import Journal, read_events
from rookery.storage.journal_lines import SyncRule
from support.journal_writer import LARGE, numbered, sample_facts, store, write_all
from support.log_fillings import Filling

JOURNAL = "journal.jsonl"


def opened(text: str = "Go") -> TaskOpened:
    return TaskOpened(text=text)


def reopen(folder: Path) -> Journal:
    journal = Journal.open(folder)
    journal.close()
    return journal


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_written_events_are_read_back(logs: Filling):
    journal = logs.create("t")
    events = write_all(journal, sample_facts())
    journal.close()
    assert logs.read("t") == events
    journal = logs.open("t")
    assert journal.read().events == events
    assert journal.recovered == ""
    more = write_all(journal, [TaskReopened()], events[-1])
    assert journal.read().events == [*events, *more]
    journal.close()
    journal.close()


def test_a_line_is_json_a_tab_and_a_checksum(tmp_path: Path):
    store(tmp_path / "t", [opened("tab\there, line\nthere")])
    (line,) = (tmp_path / "t" / JOURNAL).read_bytes().splitlines()
    json, tab, checksum = line.partition(b"\t")
    assert tab
    assert re.fullmatch(rb'\{"seq":1,.*"kind":"task_opened".*\}', json)
    assert checksum == b"%08x" % crc32(json)


def test_files_are_private_whatever_the_umask(tmp_path: Path):
    before = os.umask(0)
    try:
        store(tmp_path / "t", sample_facts())
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "t").rglob("*")}
    modes["t"] = stat.S_IMODE((tmp_path / "t").stat().st_mode)
    assert {modes.pop("t"), modes.pop("blobs")} == {0o700}
    assert set(modes.values()) == {0o600}
    assert len(modes) == 3


# ── torn and damaged journals ───────────────────────────────────────────────────────────


def test_a_tail_torn_at_any_byte_is_cut_kept_aside_and_reported_once(tmp_path: Path):
    facts: list[Fact] = [opened(), UserSpoke(message_id="m", text="héllo"), TaskReopened()]
    events = store(tmp_path / "whole", facts)
    whole = (tmp_path / "whole" / JOURNAL).read_bytes()
    ends = [place.end() for place in re.finditer(b"\n", whole)]
    near = {end + off for end in ends for off in (-1, 0, 1)}
    every = 1 if os.environ.get("ROOKERY_TORTURE") else 7
    for cut in sorted({*range(ends[0], len(whole), every), *near} & {*range(ends[0], len(whole))}):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        (folder / JOURNAL).write_bytes(whole[:cut])
        intact = sum(end <= cut for end in ends)
        kept = ends[intact - 1]

        journal = Journal.open(folder)
        assert journal.read().events == events[:intact]
        assert (folder / JOURNAL).read_bytes() == whole[:kept]
        asides = sorted(folder.glob("journal.torn-*"))
        assert [aside.read_bytes() for aside in asides] == ([whole[kept:cut]] if kept < cut else [])
        assert all(aside.name in journal.recovered for aside in asides)
        assert bool(journal.recovered) == bool(asides)
        noted = write_all(journal, [Noted(text=journal.recovered)], events[intact - 1])
        journal.close()

        again = Journal.open(folder)
        assert again.recovered == ""
        assert again.read().events == [*events[:intact], *noted]
        again.close()


@pytest.mark.parametrize("tail", [b'{"seq":3', b"\0" * 4096])
def test_recovery_is_idempotent_and_repeats_a_report_that_was_not_recorded(
    tail: bytes, tmp_path: Path
):
    store(tmp_path / "t", sample_facts())
    with (tmp_path / "t" / JOURNAL).open("ab") as file:
        file.write(tail)
    first = reopen(tmp_path / "t").recovered
    once = contents(tmp_path / "t")
    assert first
    assert reopen(tmp_path / "t").recovered == first
    assert contents(tmp_path / "t") == once


@pytest.mark.parametrize("damage", ["flipped", "missing", "doubled", "swapped"])
def test_a_task_damaged_in_the_middle_opens_with_what_is_before(damage: str, tmp_path: Path):
    events = store(tmp_path / "t", sample_facts())
    path = tmp_path / "t" / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    match damage:
        case "flipped":
            lines[5] = lines[5].replace(b"make test", b"make tess")
        case "missing":
            del lines[5]
        case "doubled":
            lines.insert(5, lines[4])
        case _:
            lines[5:7] = lines[6], lines[5]
    path.write_bytes(b"".join(lines))

    journal = Journal.open(tmp_path / "t")
    assert journal.read().events == events[:5]
    (aside,) = (tmp_path / "t").glob("journal.torn-*")
    assert aside.read_bytes() == b"".join(lines[5:])
    assert aside.name in journal.recovered
    journal.close()


def test_a_journal_damaged_from_its_first_line_is_not_changed(tmp_path: Path):
    store(tmp_path / "t", sample_facts())
    path = tmp_path / "t" / JOURNAL
    path.write_bytes(b"x" + path.read_bytes()[1:])
    before = contents(tmp_path / "t")
    with pytest.raises(StorageError, match="from its first line"):
        Journal.open(tmp_path / "t")
    with pytest.raises(StorageError, match="Session t already exists"):
        Journal.create(tmp_path / "t")
    assert contents(tmp_path / "t") == before


def test_an_unreadable_journal_is_an_error(tmp_path: Path):
    (tmp_path / "t" / JOURNAL).mkdir(parents=True)
    for attempt in (Journal.open, Journal.create, lambda folder: list(read_events(folder))):
        with pytest.raises(StorageError, match="directory"):
            attempt(tmp_path / "t")
    assert (tmp_path / "t" / JOURNAL).is_dir()


def test_a_missing_task_is_reported_as_absent(logs: Filling, tmp_path: Path):
    for attempt in (logs.open, logs.read):
        with pytest.raises(StorageError, match=r"No such session: t\."):
            attempt("t")
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_exists_is_not_created_again(logs: Filling):
    journal = logs.create("t")
    events = write_all(journal, [opened()])
    journal.close()
    with pytest.raises(StorageError, match=r"Session t already exists\."):
        logs.create("t")
    assert logs.read("t") == events


@pytest.mark.parametrize("left", [None, b"", b'{"seq":1,"su', b"\0" * 200])
def test_a_creation_that_was_interrupted_can_be_repeated(left: bytes | None, tmp_path: Path):
    folder = tmp_path / "t"
    folder.mkdir(mode=0o700)
    if left is not None:
        (folder / JOURNAL).write_bytes(left)
        with pytest.raises(StorageError, match="never started"):
            Journal.open(folder)
    assert store(folder, [opened()]) == list(read_events(folder))
    assert [aside.read_bytes() for aside in folder.glob("journal.torn-*")] == ([left] * bool(left))


def test_an_intact_line_of_an_unknown_shape_is_not_mistaken_for_damage(tmp_path: Path):
    store(tmp_path / "t", [opened()])
    json = b'{"seq":2,"sub":0,"ts":1700000000001,"kind":"user_spoke","message_id":{}}'
    with (tmp_path / "t" / JOURNAL).open("ab") as file:
        file.write(b"%b\t%08x\n" % (json, crc32(json)))
    before = contents(tmp_path / "t")
    with pytest.raises(StorageError, match="the version that wrote it"):
        Journal.open(tmp_path / "t")
    assert contents(tmp_path / "t") == before


def test_a_newer_format_can_be_read_but_not_written(logs: Filling):
    journal = logs.create("t")
    events = write_all(journal, [TaskOpened(text="Go", format=2)])
    journal.close()
    journal = logs.open("t")
    assert journal.read().events == events
    with pytest.raises(StorageError, match="newer version"):
        write_all(journal, [TaskReopened()], events[-1])
    journal.close()
    assert logs.read("t") == events


def test_a_journal_of_a_newer_format_is_not_repaired(tmp_path: Path):
    events = store(tmp_path / "t", [TaskOpened(text="Go", format=2)])
    with (tmp_path / "t" / JOURNAL).open("ab") as file:
        file.write(b"what a newer version may know how to read")
    before = contents(tmp_path / "t")
    journal = Journal.open(tmp_path / "t")
    assert journal.read().events == events
    journal.close()
    assert contents(tmp_path / "t") == before


# ── large outputs ───────────────────────────────────────────────────────────────────────


def results(*texts: str) -> list[Fact]:
    return [opened(), *(ToolFinished(call_id="c", text=text) for text in texts)]


def blobs(folder: Path) -> list[Path]:
    return list((folder / "blobs").iterdir()) if (folder / "blobs").exists() else []


@pytest.mark.parametrize(("size", "files"), [(64 * 1024, 0), (64 * 1024 + 1, 1), (6_400_000, 1)])
def test_an_output_above_64_kib_is_stored_beside_the_journal(size: int, files: int, tmp_path: Path):
    events = store(tmp_path / "t", results("x" * size))
    assert len(blobs(tmp_path / "t")) == files
    assert ((tmp_path / "t" / JOURNAL).stat().st_size < 1000) == bool(files)
    assert list(read_events(tmp_path / "t")) == events


def test_sizes_are_counted_in_bytes(tmp_path: Path):
    events = store(tmp_path / "t", results("ü" * (33 * 1024)))
    assert len(blobs(tmp_path / "t")) == 1
    assert list(read_events(tmp_path / "t")) == events


def test_the_same_output_is_stored_once(tmp_path: Path):
    store(tmp_path / "t", results(LARGE, LARGE))
    assert len(blobs(tmp_path / "t")) == 1


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_lost_output_is_replaced_by_a_sentence(damage: str, tmp_path: Path):
    events = store(tmp_path / "t", results(LARGE, "short"))
    (blob,) = blobs(tmp_path / "t")
    blob.unlink() if damage == "missing" else blob.write_text("something else")
    _, lost, short = read_events(tmp_path / "t")
    assert isinstance(lost.fact, ToolFinished)
    assert f"{len(LARGE.encode()):,} bytes" in lost.fact.text
    assert blob.name in lost.fact.text
    assert short == events[2]


def test_a_damaged_output_is_repaired_when_it_is_stored_again(tmp_path: Path):
    events = store(tmp_path / "t", results(LARGE))
    (blob,) = blobs(tmp_path / "t")
    blob.write_text("something else")
    journal = Journal.open(tmp_path / "t")
    write_all(journal, [ToolFinished(call_id="d", text=LARGE)], events[-1])
    assert journal.read().events[1] == events[1]
    journal.close()


# ── growth ──────────────────────────────────────────────────────────────────────────────


def written_by_this_process() -> tuple[int, int]:
    """Write calls made so far, and bytes given to them."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["syscw"]), int(fields["wchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count")
def test_appending_costs_the_same_however_long_the_journal_is(tmp_path: Path):
    journal = Journal.create(tmp_path / "t")
    events = numbered([opened(), *(Noted(text="x" * 1000) for _ in range(400))])
    path = tmp_path / "t" / JOURNAL
    for event in events:
        size = path.stat().st_size
        calls, before = written_by_this_process()
        journal.write(event)
        calls_after, after = written_by_this_process()
        assert (calls_after - calls, after - before) == (1, path.stat().st_size - size)
    journal.close()


class SmallJournal(Journal):
    largest = 2000


def test_a_full_journal_is_announced_and_then_refuses_events(tmp_path: Path):
    journal = SmallJournal.create(tmp_path / "t")
    events = write_all(journal, [opened()])
    assert journal.warning == ""
    events += write_all(journal, [Noted(text="x" * 1000)], events[-1])
    assert "Continue in a new session" in journal.warning
    with pytest.raises(StorageError, match="journal is full"):
        write_all(journal, [Noted(text="x" * 1000)], events[-1])
    events += write_all(journal, [Noted(text="small")], events[-1])
    assert journal.read().events == events
    journal.close()


def test_a_journal_opens_while_another_process_checks_its_lock(tmp_path: Path):
    journal = Journal.create(tmp_path / "t")
    events = write_all(journal, [opened()])
    journal.close()
    look = open_lock(tmp_path / "t" / "lock")
    assert try_lock(look, shared=True)
    looked = threading.Timer(0.01, os.close, [look])
    looked.start()
    journal = Journal.open(tmp_path / "t")
    assert journal.read().events == events
    journal.close()
    looked.join()


class TestWhoseFolderIsDeletedMeanwhile:
    @pytest.mark.parametrize("whole", [True, False], ids=["the folder", "the file"])
    def test_a_deleted_journal_is_restored_and_reported_once(self, tmp_path: Path, whole: bool):
        folder = tmp_path / "state" / "t"
        journal = Journal.create(folder)
        events = write_all(journal, [opened(), Noted(text="one")])
        shutil.rmtree(tmp_path / "state") if whole else (folder / JOURNAL).unlink()
        events += write_all(journal, [UserSpoke(message_id="m", text="two")], events[-1])
        reported = journal.recovered
        assert reported.startswith(
            f"The folder of this session, {folder}, was deleted while it ran."
        )
        events += write_all(journal, [Noted(text=reported)], events[-1])
        assert (journal.recovered, journal.read().events) == ("", events)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with pytest.raises(StorageError, match="is open in process"):
            Journal.open(folder)
        journal.close()
        assert list(read_events(folder)) == events

    def test_a_moved_journal_continues_at_its_old_path(self, tmp_path: Path):
        journal = Journal.create(tmp_path / "t")
        events = write_all(journal, [opened()])
        (tmp_path / "t").rename(tmp_path / "elsewhere")
        events += write_all(journal, [Noted(text="one")], events[-1])
        journal.close()
        assert list(read_events(tmp_path / "t")) == events
        assert list(read_events(tmp_path / "elsewhere")) == events[:1]

    def test_a_failed_restore_is_reported_and_retried_later(self, tmp_path: Path):
        journal = Journal.create(tmp_path / "state" / "t")
        events = write_all(journal, [opened()])
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "state").write_text("in the way")
        with pytest.raises(StorageError, match="was deleted and cannot be created again"):
            write_all(journal, [Noted(text="one")], events[-1])
        (tmp_path / "state").unlink()
        events += write_all(journal, [Noted(text="one")], events[-1])
        journal.close()
        assert list(read_events(tmp_path / "state" / "t")) == events

    def test_a_file_that_replaced_the_journal_is_not_changed(self, tmp_path: Path):
        journal = Journal.create(tmp_path / "t")
        events = write_all(journal, [opened()])
        (tmp_path / "t" / JOURNAL).unlink()
        (tmp_path / "t" / JOURNAL).write_text("another")
        with pytest.raises(StorageError, match="Another file replaced the"):
            write_all(journal, [Noted(text="one")], events[-1])
        journal.close()
        assert (tmp_path / "t" / JOURNAL).read_text() == "another"


def test_the_end_of_a_command_is_synced_also_if_a_read_had_the_same_id():
    """Some models give every call the same id."""
    rule = SyncRule()
    read = ToolStarted(call_id="c", tool="read_file", title="")
    ends = ToolFinished(call_id="c", text="")
    assert (rule.may_wait(read), rule.may_wait(ends)) == (True, True)
    assert (rule.may_wait(replace(read, command="make")), rule.may_wait(ends)) == (False, False)
