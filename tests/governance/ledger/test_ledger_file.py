"""Appending: one line in constant time, despite other writers and earlier damage."""

import errno
import fcntl
import gzip
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rookery.governance.ledger import ledger_file
from rookery.governance.ledger.ledger_file import Flush
from rookery.governance.ledger.records import LedgerEntry, TracedFile
from rookery.governance.ledger.segments import newest_first, oldest_first
from rookery.governance.ledger.state_files import (
    KnownHeads,
    LedgerUnreadable,
    LedgerUnwritable,
    workspace_key,
)
from rookery.governance.ledger.verify_ledger import KnownHead, exit_code
from support.sample_ledgers import LedgerBench, change, compress
from support.warm_programs import run_program, start_program

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


@pytest.fixture
def bench(tmp_path: Path) -> LedgerBench:
    return LedgerBench(tmp_path / "space")


def own(line: bytes) -> dict[str, Any]:
    held = json.loads(line)["metadata"]["orchestration"]
    assert isinstance(held, dict)
    return held


def kinds(bench: LedgerBench) -> list[str]:
    return [own(line)["kind"] for line in bench.lines]


def codes(bench: LedgerBench) -> set[str]:
    return {finding.code for finding in bench.report().findings}


def test_a_task_has_one_stream_that_begins_with_all_tips(bench: LedgerBench):
    ledger = bench.ledger()
    one = ledger.append(change("one", 1))
    two = ledger.append(change("two", 2))
    assert kinds(bench) == ["stream_start", "mutation", "stream_start", "mutation"]
    assert own(bench.lines[2])["anchors"] == [
        {"stream": one.stream, "seq": one.seq, "hash": one.hash}
    ]
    again = ledger.append(change("one", 3))
    assert (again.stream, again.seq) == (one.stream, 2)
    assert set(bench.report().tips) == {
        (two.stream, two.seq, two.hash),
        (again.stream, again.seq, again.hash),
    }
    assert exit_code(bench.report()) == 0


def test_another_process_continues_in_its_own_stream(bench: LedgerBench):
    first = bench.ledger().append(change("one", 1))
    second = bench.ledger().append(change("one", 2))
    assert first.stream != second.stream
    assert len(bench.report().tips) == 1
    assert exit_code(bench.report()) == 0


def test_more_tips_than_one_record_names_go_into_a_checkpoint(
    bench: LedgerBench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ledger_file, "ANCHORS", 4)
    ledger = bench.ledger()
    for number in (*range(6), *range(6)):
        ledger.append(change(f"t-{number}", number))
    assert len(bench.report().tips) == 6
    ledger.append(change("last", 1))
    start, rest = [own(line) for line in bench.lines[-3:-1]]
    assert (start["kind"], len(start["anchors"])) == ("stream_start", 4)
    assert (rest["kind"], len(rest["anchors"])) == ("checkpoint", 2)
    assert len(bench.report().tips) == 1
    assert exit_code(bench.report()) == 0


def test_processes_append_at_the_same_time(bench: LedgerBench):
    count, each = 4, 5000 if TORTURE else 50
    code = "from support import sample_ledgers; sample_ledgers.main()"
    running = [
        start_program(code, "append", str(bench.root), f"p{number}", str(each))
        for number in range(count)
    ]
    assert [process.wait(300) for process in running] == [0] * count
    report = bench.report()
    assert exit_code(report) == 0
    assert report.kinds["mutation"] == count * each
    assert report.streams == count


def test_a_record_of_another_thread_is_not_taken_for_a_change(bench: LedgerBench):
    ledger = bench.ledger()
    ledger.append(change("one", 0))
    with ThreadPoolExecutor(1) as other:
        appending = other.submit(lambda: [ledger.append(change("one", n)) for n in range(1, 60)])
        while not appending.done():
            assert ledger.has_last_record("one")
    assert len(appending.result()) == 59


@pytest.mark.parametrize("cut", [1, 2, 50, 600])
def test_a_torn_line_is_repaired_or_moved_away(bench: LedgerBench, cut: int):
    bench.ledger().append(change("one", 1))
    whole = bench.active.read_bytes()
    bench.active.write_bytes(whole[:-cut])
    bench.ledger().append(change("two", 2))
    if cut == 1:
        assert kinds(bench) == ["stream_start", "mutation", "stream_start", "mutation"]
        assert exit_code(bench.report()) == 0
        return
    fragment = bench.lines[0] and whole[len(bench.lines[0]) : -cut]
    assert kinds(bench) == ["stream_start", "stream_start", "repair", "mutation"]
    reported = own(bench.lines[2])
    assert reported["bytes"] == len(fragment)
    assert (bench.folder / ".state" / "quarantine" / reported["kept"]).read_bytes() == fragment
    # a reader that knew the end detects the cut
    assert codes(bench) == {"known-head", "repair"}
    bench.heads.accept(bench.ledger().tail())
    assert codes(bench) == {"repair"}
    assert exit_code(bench.report()) == 0


@pytest.mark.parametrize("left", [b'{"files":[],"id":', bytes(4096)], ids=["killed", "no power"])
def test_an_incomplete_line_after_a_crash_is_moved_out_of_the_chain(
    bench: LedgerBench, left: bytes
):
    ledger = bench.ledger()
    ledger.append(change("one", 1))
    with open(bench.active, "ab") as file:
        file.write(left)
    ledger.append(change("one", 2))
    ledger.append(change("one", 3))
    assert kinds(bench) == ["stream_start", "mutation", "repair", "mutation", "mutation"]
    assert exit_code(bench.report()) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted only by root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_ledger_whole(small_disk: Path, tmp_path: Path):
    bench = LedgerBench(small_disk / "space")
    bench.heads = KnownHeads(tmp_path / "heads.json")
    recording = bench.recording()
    recording.note(change("one", 0))
    ballast = small_disk / "ballast"
    free = os.statvfs(small_disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize))

    def note_until_it_is_full() -> None:
        for number in range(1, 100):
            recording.note(change("one", number))

    with pytest.raises(LedgerUnwritable, match=os.strerror(errno.ENOSPC)) as failed:
        note_until_it_is_full()
    assert failed.value.code == "TRC-001"
    written = bench.report().kinds["mutation"]
    assert exit_code(bench.report()) == 0
    assert recording.backlog_size == 1
    ballast.unlink()
    recording.retry()
    assert recording.backlog_size == 0
    recording.note(change("one", 100))
    assert bench.report().kinds["mutation"] == written + 2
    assert exit_code(bench.report()) == 0


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [1, 300, 700, 1000])
def test_a_partial_write_is_undone(bench: LedgerBench, room: int):
    """At 700 bytes a new stream can be begun, and nothing can be recorded in it."""
    bench.ledger().append(change("one", 1))
    ledger, before = bench.ledger(), bench.active.read_bytes()
    with (
        files_no_longer_than(len(before) + room),
        pytest.raises(LedgerUnwritable, match=os.strerror(errno.EFBIG)),
    ):
        ledger.append(change("two", 1))
    assert bench.active.read_bytes() == before
    ledger.append(change("two", 2))
    assert kinds(bench)[-2:] == ["stream_start", "mutation"]
    assert exit_code(bench.report()) == 0


def test_a_folder_that_cannot_be_written(bench: LedgerBench):
    bench.ledger().append(change("one", 1))
    before = bench.active.read_bytes()
    bench.active.chmod(0o400)
    with pytest.raises(LedgerUnwritable, match=os.strerror(errno.EACCES)):
        bench.ledger().append(change("two", 1))
    assert bench.active.read_bytes() == before


HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_goes_with_its_holder(bench: LedgerBench):
    bench.ledger().append(change("one", 1))
    lock = bench.folder / ".state" / "locks" / "trace"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    with holder.stdout as said:
        assert said.readline() == "held\n"
        with pytest.raises(LedgerUnwritable, match="in use by another process"):
            bench.ledger(lock_wait=0.05).append(change("one", 2))
        holder.kill()
        holder.wait()
    bench.ledger(lock_wait=0.05).append(change("one", 3))
    assert exit_code(bench.report()) == 0


def test_the_lock_is_free_after_a_failure(bench: LedgerBench):
    ledger = bench.ledger()
    ledger.append(change("t", 1))
    before = bench.active.read_bytes()
    with pytest.raises(ValueError, match="float"):
        ledger.append(LedgerEntry(kind="command", task_id="t", command={"text": "x", "s": 0.5}))
    with open(bench.folder / ".state" / "locks" / "trace", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert bench.active.read_bytes() == before
    ledger.append(change("t", 2))
    assert exit_code(bench.report()) == 0


def test_invalid_unicode_is_recorded_escaped(bench: LedgerBench):
    path = os.fsdecode(b"caf\xe9.txt")
    bench.ledger().append(
        LedgerEntry(
            kind="mutation",
            task_id="t",
            files=(TracedFile(path=path, op="create"),),
            command={"text": f"cat {path}"},
        )
    )
    assert own(bench.lines[1])["command"]["text"] == "cat caf\\udce9.txt"
    assert json.loads(bench.lines[1])["files"][0]["path"] == "caf\\udce9.txt"
    assert exit_code(bench.report()) == 0


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(bench: LedgerBench) -> LedgerBench:
    git(bench.root, "init", "-q", "-b", "main")
    (bench.root / ".gitattributes").write_text(
        ".orchestration/*.jsonl merge=union\n.orchestration/trace/* merge=union\n", encoding="utf-8"
    )
    (bench.root / ".gitignore").write_text(".state/\n", encoding="utf-8")
    return bench


def commit(bench: LedgerBench) -> None:
    git(bench.root, "add", "-A")
    git(bench.root, "commit", "-q", "-m", "work")


@pytest.mark.parametrize("shared", [True, False], ids=["diverged", "added on both"])
def test_branches_merge_by_union_and_verify(repository: LedgerBench, shared: bool):
    if shared:
        repository.ledger().append(change("base", 0))
    commit(repository)
    git(repository.root, "checkout", "-q", "-b", "side")
    side = repository.ledger()
    for number in range(5):
        side.append(change("side", number))
    commit(repository)
    git(repository.root, "checkout", "-q", "main")
    main = repository.ledger()
    for number in range(4):
        main.append(change("main", number))
    commit(repository)
    git(repository.root, "merge", "-q", "side", "-m", "merged")
    report = repository.report()
    assert exit_code(report) == 0
    assert len(report.tips) == 2
    assert report.kinds["mutation"] == 9 + shared
    repository.ledger().append(change("after", 1))
    assert len(own(repository.lines[-2])["anchors"]) == 2
    assert len(repository.report().tips) == 1
    assert exit_code(repository.report()) == 0


def test_a_switched_branch_begins_a_new_stream_and_merges_back(repository: LedgerBench):
    ledger = repository.ledger()
    ledger.append(change("task", 0))
    commit(repository)
    git(repository.root, "branch", "older")
    ledger.append(change("task", 1))
    commit(repository)
    git(repository.root, "checkout", "-q", "older")
    assert exit_code(repository.report()) == 0, "checking out a branch is not a loss"
    there = ledger.append(change("task", 2))
    start = own(repository.lines[-2])
    assert (start["kind"], start["reason"], there.seq) == ("stream_start", "head_missing", 1)
    assert exit_code(repository.report(), strict=True) == 0
    assert "other-branch" in codes(repository)
    commit(repository)
    git(repository.root, "checkout", "-q", "main")
    git(repository.root, "merge", "-q", "older", "-m", "merged")
    assert exit_code(repository.report()) == 0
    assert exit_code(repository.report(known=None)) == 0
    assert repository.report().kinds["mutation"] == 3
    repository.active.write_bytes(b"".join(repository.lines[:-2]))
    assert exit_code(repository.report()) == 1, "a file that is cut is one"


def test_a_stream_is_not_continued_in_a_file_that_was_replaced(bench: LedgerBench):
    ledger = bench.ledger()
    ledger.append(change("one", 1))
    before = bench.active.read_bytes()
    ledger.append(change("one", 2))
    bench.active.write_bytes(before)
    ledger.append(change("one", 3))
    assert kinds(bench) == ["stream_start", "mutation", "stream_start", "mutation"]
    assert codes(bench) == {"known-head"}
    assert exit_code(bench.report(known=None)) == 0


def test_nor_where_its_last_record_is_in_another_place(bench: LedgerBench, tmp_path: Path):
    other = LedgerBench(tmp_path / "other")
    other.ledger().append(change("elsewhere", 1))
    ledger = bench.ledger()
    ledger.append(change("one", 1))
    bench.active.write_bytes(b"".join(other.lines + bench.lines))
    ledger.append(change("one", 2))
    assert kinds(bench)[-2:] == ["stream_start", "mutation"]
    assert len(own(bench.lines[-2])["anchors"]) == 2
    assert exit_code(bench.report()) == 0


def test_a_long_file_is_sealed_and_the_next_one_builds_upon_it(bench: LedgerBench):
    ledger, other = bench.ledger(seal_records=20), bench.ledger(seal_records=20)
    for number in range(30):
        ledger.append(change("one", number))
        other.append(change("two", number))
    sealed = sorted((bench.folder / "trace").iterdir())
    report = bench.report()
    assert exit_code(report) == 0
    assert len(sealed) == report.seals >= 3
    assert report.kinds["mutation"] == 60
    reasons = {
        own(line).get("reason") for path in sealed for line in path.read_bytes().splitlines()
    }
    assert reasons == {None, "sealed"}
    first = own(bench.lines[0])
    assert first["segment"]["file"] in {path.name for path in sealed}
    assert first["segment"]["records"] == report.records - len(bench.lines)
    assert bench.heads.read() == KnownHead(
        report.tips,
        report.records,
        size=bench.active.stat().st_size,
        digest=bench.ledger().tail().digest.hex(),
        state=report.state,
    )


def test_a_large_file_is_sealed_too(bench: LedgerBench):
    ledger = bench.ledger(seal_size=4096)
    for number in range(20):
        ledger.append(change("one", number))
    assert bench.report().seals >= 2
    assert bench.active.stat().st_size < 2 * 4096
    assert exit_code(bench.report()) == 0


def test_a_sealed_file_may_be_compressed_and_not_be_lost(bench: LedgerBench):
    ledger = bench.ledger()
    for number in range(12):
        ledger.append(change("one", number))
        if number % 4 == 3:
            ledger.seal("one")
    ledger.append(change("one", 99))
    lines = list(oldest_first(bench.folder))
    for path in sorted((bench.folder / "trace").iterdir()):
        compress(path)
    assert exit_code(bench.report()) == 0
    assert list(oldest_first(bench.folder)) == lines
    assert sorted(newest_first(bench.folder)) == sorted(lines)
    packed = sorted((bench.folder / "trace").iterdir())
    held = gzip.decompress(packed[0].read_bytes())
    packed[0].write_bytes(packed[0].read_bytes()[:-20])
    assert exit_code(bench.report()) == 1
    packed[0].write_bytes(gzip.compress(held))
    assert exit_code(bench.report()) == 0
    packed[0].unlink()
    assert "anchor" in codes(bench)


def test_a_repair_is_reported_once_even_if_the_file_is_full(bench: LedgerBench):
    ledger = bench.ledger(seal_records=4)
    for number in range(3):
        ledger.append(change("one", number))
    with open(bench.active, "ab") as file:
        file.write(b"{torn")
    ledger.append(change("one", 9))
    assert bench.report().kinds["repair"] == 1
    assert exit_code(bench.report()) == 0


@pytest.mark.parametrize("point", ["ledger.written:1", "ledger.before_move", "ledger.moved"])
def test_a_kill_while_sealing_loses_nothing(bench: LedgerBench, point: str):
    code = (
        "import sys; from pathlib import Path;"
        "from support.sample_ledgers import LedgerBench, change;"
        "ledger = LedgerBench(Path(sys.argv[1])).ledger(seal_records=6);"
        "[ledger.append(change('one', n)) for n in range(30)]"
    )
    killed = run_program(code, str(bench.root), ROOKERY_KILLPOINT=point)
    assert killed.returncode == -9, killed
    bench.ledger().append(change("two", 1))
    assert exit_code(bench.report()) == 0
    assert bench.report().kinds["mutation"] >= 1
    assert "seal" not in kinds(bench)


HOSTILE = [
    {"anchors": [1, None, {"stream": 7}]},
    {"anchors": {"stream": "x"}},
    {"segment": {"records": "many"}},
    {"segment": {}},
    {"kind": "seal"},
    {"kind": "seal", "root": "sha256:../../x", "records": 0, "first_time": "../../../escaped"},
    {"kind": "seal", "root": 7, "tips": [1]},
    {"hash": "no hash"},
]


@pytest.mark.parametrize("own", HOSTILE, ids=str)
def test_a_ledger_with_any_content_can_be_appended_to(bench: LedgerBench, own: dict[str, Any]):
    part = {
        "stream": "S",
        "seq": 0,
        "prev": None,
        "kind": "stream_start",
        "hash": "sha256:0",
        **own,
    }
    line = {"timestamp": "../../../x", "files": [], "metadata": {"orchestration": part}}
    bench.active.write_bytes(json.dumps(line).encode() + b"\n")
    bench.ledger().append(change("one", 1))
    assert len(bench.lines) == 3
    assert not (bench.folder / "trace").exists()
    assert exit_code(bench.report()) == 1


def test_a_seal_names_no_path(bench: LedgerBench):
    own = {"stream": "S", "seq": 0, "prev": None, "kind": "stream_start", "hash": "sha256:0"}
    line = {"timestamp": "../../../x", "files": [], "metadata": {"orchestration": own}}
    bench.active.write_bytes(json.dumps(line).encode() + b"\n")
    bench.ledger().seal("one")
    [sealed] = (bench.folder / "trace").iterdir()
    assert sealed.name.startswith("unknown-")


@pytest.mark.parametrize("name", [".state", "trace"])
def test_links_that_a_repository_brings_are_not_followed(
    bench: LedgerBench, tmp_path: Path, name: str
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (bench.folder / name).symlink_to(elsewhere)
    ledger = bench.ledger(seal_records=2)

    def write() -> None:
        for number in range(4):
            ledger.append(change("one", number))

    with pytest.raises(LedgerUnwritable, match="symbolic link"):
        write()
    assert list(elsewhere.iterdir()) == []


def test_a_checkpoint_comes_every_thousand_records(
    bench: LedgerBench, monkeypatch: pytest.MonkeyPatch
):
    assert ledger_file.CHECKPOINT_EVERY == 1_000
    monkeypatch.setattr(ledger_file, "CHECKPOINT_EVERY", 30)
    ledger = bench.ledger()
    for number in range(40):
        ledger.append(change("one", number))
    assert kinds(bench).count("checkpoint") == 1
    ledger.close()
    assert json.loads((bench.folder / ".state" / "head.json").read_text())["records"] == 42


def test_heads_that_cannot_be_kept_do_not_stop_the_ledger(bench: LedgerBench, tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    ledger = bench.ledger(heads=KnownHeads(tmp_path / "file" / "heads.json"))
    ledger.append(change("one", 1))
    assert len(bench.lines) == 2


def test_a_moved_workspace_gets_another_key(tmp_path: Path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    key = workspace_key(one / ".state", one, tmp_path)
    assert workspace_key(one / ".state", one, tmp_path) == key
    one.rename(other)
    assert workspace_key(other / ".state", other, tmp_path) != key


@pytest.mark.parametrize(
    "text", [None, "", "../../../x", "a/b", "\0", "0123456789abcdef", "é" * 5000]
)
def test_a_workspace_is_known_by_its_place_though_its_id_is_not_right(
    tmp_path: Path, text: str | None
):
    space, kept = tmp_path / "space", tmp_path / "kept"
    space.mkdir()
    named = space / ".state" / "workspace_id"
    old = workspace_key(space / ".state", space, kept)
    named.unlink()
    new = workspace_key(space / ".state", space, kept)
    for key, when in ((old, 1000), (new, 2000)):
        (kept / key).mkdir(parents=True)
        (kept / key / "heads.json").touch()
        os.utime(kept / key / "heads.json", (when, when))
    named.unlink()
    if text is not None:
        named.write_text(text, encoding="utf-8")
    assert workspace_key(space / ".state", space, kept) == new
    assert re.fullmatch("[0-9a-f]{16}-[0-9a-f]{16}", new), "it is not a path"
    assert named.read_text().strip() == new[:16]
    named.write_text(f"{old[:16]}\n", encoding="utf-8")
    assert workspace_key(space / ".state", space, kept) == old


def test_a_linked_state_folder_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".state").symlink_to("elsewhere")
    with pytest.raises(LedgerUnreadable, match="symbolic link"):
        workspace_key(tmp_path / ".state", tmp_path, tmp_path / "kept")


def test_processes_that_make_an_id_at_the_same_time_agree(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        keys = pool.map(
            lambda _: workspace_key(tmp_path / ".state", tmp_path, tmp_path / "kept"), range(40)
        )
        assert len(set(keys)) == 1


def test_a_new_process_reads_only_new_records(bench: LedgerBench):
    ledger = bench.ledger()
    for number in range(50):
        ledger.append(change("one", number))
    ledger.close()
    whole = bench.ledger().tail().encode()
    (bench.folder / ".state" / "head.json").unlink()
    assert bench.ledger().tail().encode() == whole
    (bench.folder / ".state" / "head.json").write_text("{not json", encoding="utf-8")
    assert bench.ledger().tail().encode() == whole


def test_a_stream_name_that_is_not_unicode_does_not_stop_writing(bench: LedgerBench):
    foreign = '{"stream":"\\ud800","seq":0,"prev":null,"hash":"sha256:0","kind":"mutation"}'
    bench.active.write_text(
        f'{{"metadata":{{"orchestration":{foreign}}}}}\n', encoding="utf-8", newline="\n"
    )
    for _ in range(2):
        ledger = bench.ledger()
        ledger.append(change("one", 1))
        ledger.close()
    assert sum(b'"task_id":"one"' in line and b'"mutation"' in line for line in bench.lines) == 2
    assert [each.code for each in bench.report().findings if each.level == "FAIL"] == ["shape"]


def test_every_way_to_flush_writes_the_same(bench: LedgerBench):
    for flush in Flush:
        ledger = bench.ledger(flush=flush)
        for number in range(3):
            ledger.append(change("one", number))
        assert ledger.flushed == (flush is not Flush.BATCH), flush
        ledger.close()
        assert ledger.flushed, flush
    assert exit_code(bench.report()) == 0


def test_threads_share_a_ledger(bench: LedgerBench):
    ledger = bench.ledger()
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda n: ledger.append(change(f"t-{n % 3}", n)), range(90)))
    assert len({(each.stream, each.seq) for each in done}) == 90
    assert bench.report().streams == 3
    assert exit_code(bench.report()) == 0
