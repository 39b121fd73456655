"""A snapshot never changes what the journal says."""

import hashlib
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.test_event_list import logs
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    Noted,
    Rewound,
    TaskOpened,
    ToolFinished,
    Unrecognised,
    UserSpoke,
)
from rookery.core.folds.task_record import TaskRecord
from rookery.engine.event_log import EventLog
from rookery.storage.journal import Journal, read_events
from rookery.storage.journal_contents import SNAPSHOT, JournalContents, _maker
from rookery.storage.journal_lines import JOURNAL
from support.journal_writer import sample_facts

SPOKEN = [UserSpoke(message_id="m", text="go on")]
LARGE = "a line\n" * 20_000


class SmallContents(JournalContents):
    kept = 2
    interval = 5
    interval_at_end = 1


class LongJournal(Journal):
    """A journal that counts as long after five events."""

    reads = SmallContents


def described(record: TaskRecord) -> object:
    return list(record.events), record.state, record.call_ids, record.agents, record.files


def keep(folder: Path, facts: Sequence[Fact]) -> EventLog:
    open_log = LongJournal.open if (folder / JOURNAL).exists() else LongJournal.create
    log = EventLog(open_log(folder), lambda: 7)
    for fact in facts:
        log.append(fact)
    return log


def opened(folder: Path) -> object:
    journal = LongJournal.open(folder)
    try:
        return described(journal.read())
    finally:
        journal.close()


def whole(folder: Path) -> object:
    """What the journal says without a snapshot."""
    return described(TaskRecord.of(read_events(folder)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session whose snapshot is right before its last event."""
    keep(tmp_path / "t", sample_facts()).close()
    assert (tmp_path / "t" / SNAPSHOT).exists()
    return tmp_path / "t"


# ── snapshot and tail together ──────────────────────────────────────────────────────────


@given(logs(), st.integers(0, 45))
def test_snapshot_and_tail_say_what_the_whole_journal_says(events: list[Event], closed: int):
    facts = [event.fact for event in events if not isinstance(event.fact, Unrecognised)]
    assume(facts)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "t")
        keep(folder, facts[:closed] or facts[:1]).close()
        log = keep(folder, facts[closed or 1 :])
        assert list(log.events) == list(read_events(folder))
        log.close()
        assert opened(folder) == whole(folder)


class CountingContents(SmallContents):
    lines_read = 0

    def add(self, event: Event, line: bytes) -> None:
        super().add(event, line)
        self.lines_read += 1


def test_lines_before_the_snapshot_are_not_read(tmp_path: Path):
    keep(tmp_path / "t", [TaskOpened(text="Go"), *SPOKEN * 9]).close()
    (tmp_path / "t" / SNAPSHOT).rename(tmp_path / "kept")
    keep(tmp_path / "t", SPOKEN * 3).close()
    (tmp_path / "kept").replace(tmp_path / "t" / SNAPSHOT)
    contents = CountingContents.read(tmp_path / "t")
    assert (contents.end.seq, contents.lines_read) == (13, 3)


def test_old_events_leave_memory_and_are_read_again(folder: Path):
    log = keep(folder, [Noted(text=f"note {number}") for number in range(20)])
    assert log._record.events.in_memory <= 2 * SmallContents.kept + 1
    assert list(log.events) == list(read_events(folder))
    log.close()
    assert len(log.events) == len(sample_facts()) + 20
    assert [event.fact for event in log.events][-1] == Noted(text="note 19")


def test_a_large_output_beside_the_journal_counts_as_it_is_now(tmp_path: Path):
    folder = tmp_path / "t"
    keep(folder, [TaskOpened(text="Go"), ToolFinished(call_id="c", text=LARGE)]).close()
    keep(folder, SPOKEN * 10).close()
    (blob,) = (folder / "blobs").iterdir()
    blob.write_bytes(b"something else")
    assert opened(folder) == whole(folder)


# ── damage ──────────────────────────────────────────────────────────────────────────────


def test_a_damaged_snapshot_is_ignored_and_replaced(folder: Path):
    raw, expected = (folder / SNAPSHOT).read_bytes(), whole(folder)
    chance = random.Random(7)
    places = [0, 31, 32, 33, len(raw) - 1, *(chance.randrange(len(raw)) for _ in range(40))]
    damaged = [
        raw[:at] + bytes([raw[at] ^ 1 << chance.randrange(8)]) + raw[at + 1 :] for at in places
    ]
    for each in [*damaged, b"", raw[:40], raw[:-1], raw + b"\0"]:
        (folder / SNAPSHOT).write_bytes(each)
        assert opened(folder) == expected
        assert (folder / SNAPSHOT).read_bytes() != each


def test_a_snapshot_that_cannot_be_read_or_written_is_none(folder: Path):
    expected = whole(folder)
    (folder / SNAPSHOT).unlink()
    (folder / SNAPSHOT).mkdir()
    assert opened(folder) == expected
    keep(folder, SPOKEN * 6).close()
    assert opened(folder) == whole(folder)


def test_a_snapshot_of_other_code_is_ignored(folder: Path):
    raw = (folder / SNAPSHOT).read_bytes()
    maker, other = _maker(), hashlib.sha256(b"another version").digest()
    body = raw[32:].replace(maker, other)
    assert body != raw[32:]
    (folder / SNAPSHOT).write_bytes(hashlib.sha256(body).digest() + body)
    assert opened(folder) == whole(folder)


def test_a_journal_that_was_changed_since_counts_itself(folder: Path):
    """One line was rewritten with a checksum that is right."""
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    json = lines[6][:-10].replace(b"mind the gap", b"MIND THE GAP")
    lines[6] = b"%b\t%08x\n" % (json, crc32(json))
    (folder / JOURNAL).write_bytes(b"".join(lines))
    assert opened(folder) == whole(folder)
    spoken = [event.fact for event in read_events(folder) if isinstance(event.fact, UserSpoke)]
    assert [fact.text for fact in spoken] == ["MIND THE GAP"]


def test_a_journal_that_lost_its_end_counts_itself(folder: Path):
    raw = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(raw[: len(raw) // 3])
    journal = LongJournal.open(folder)
    assert "damaged" in journal.recovered
    assert described(journal.read()) == whole(folder)
    journal.close()


def test_damage_in_the_middle_is_found_despite_the_snapshot(folder: Path):
    raw = bytearray((folder / JOURNAL).read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / JOURNAL).write_bytes(raw)
    journal = LongJournal.open(folder)
    assert "damaged" in journal.recovered
    assert described(journal.read()) == whole(folder)
    journal.close()


def test_the_snapshot_of_another_session_is_ignored(folder: Path, tmp_path: Path):
    keep(tmp_path / "other", [TaskOpened(text="Else"), *SPOKEN * 9]).close()
    (tmp_path / "other" / SNAPSHOT).replace(folder / SNAPSHOT)
    assert opened(folder) == whole(folder)


def test_a_rewind_after_the_snapshot_also_rewinds_its_content(folder: Path):
    log = keep(folder, [Rewound(to=2)])
    assert log.state.pending == ()
    assert described(log._record) == whole(folder)
    log.close()
    assert opened(folder) == whole(folder)


def test_a_value_that_cannot_be_stored_leaves_the_journal_as_it_is(tmp_path: Path):
    call = ToolCall(id="c", name="read_file", arguments={"limit": 1 << 70})
    said = AssistantSpoke(request_id="r", blocks=(call,))
    keep(tmp_path / "t", [TaskOpened(text="Go"), *[Noted(text="n")] * 9, said]).close()
    assert opened(tmp_path / "t") == whole(tmp_path / "t")


# ── kills ───────────────────────────────────────────────────────────────────────────────

WRITER = """
import sys
from pathlib import Path
from storage.test_snapshots import keep
from support.journal_writer import sample_facts

keep(Path(sys.argv[1]), sample_facts()).close()
"""


@pytest.mark.parametrize("point", ["snapshot.before_write", "snapshot.written"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_kill_while_a_snapshot_is_written_loses_nothing(point: str, nth: int, tmp_path: Path):
    folder = tmp_path / "t"
    killed = subprocess.run(
        [sys.executable, "-c", WRITER, str(folder)],
        env={"PYTHONPATH": ":".join(sys.path), "ROOKERY_KILLPOINT": f"{point}:{nth}"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    found = list(read_events(folder))
    assert [event.fact for event in found] == sample_facts()[: len(found)]
    assert opened(folder) == whole(folder)
    keep(folder, sample_facts()[len(found) :]).close()
    assert [event.fact for event in read_events(folder)] == sample_facts()
    assert opened(folder) == whole(folder)
    assert list(folder.glob("*.unfinished")) == []
