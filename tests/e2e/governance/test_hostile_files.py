"""Hostile files in place of the ledger's.

Nothing hangs or fills the memory, and errors are one sentence.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.governed_session import Alone, Governed, choose, intents, run, write
from support.terminal_session import Installed

pytestmark = pytest.mark.usefixtures("unconfined")

FOLDER = ".orchestration"
STATE = f"{FOLDER}/.state"
LEDGER = f"{FOLDER}/agent_trace.jsonl"
MIB = 1024 * 1024
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
LONG_LINE = (300 if TORTURE else 20) * MIB
"""Longer than any record; readers of the ledger read all of it, in pieces."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def endless_line(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(LONG_LINE)


def deep(path: Path) -> None:
    path.write_text("[" * 100_000, encoding="utf-8")


def a_path(path: Path) -> None:
    path.write_text("../../x", encoding="utf-8")


Make = Callable[[Path], None]


def work(governed: Governed) -> Alone:
    return governed.alone([choose()], [write("src/auth/jwt.py")], flags=["-y"])


def place(governed: Governed, name: str, make: Make) -> Path:
    path = governed.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    return path


HEAD, WORKSPACE_ID, CALL = f"{STATE}/head.json", f"{STATE}/workspace_id", f"{STATE}/journal/x.json"
HARMLESS: dict[str, dict[str, Make]] = {
    "one": {HEAD: pipe, WORKSPACE_ID: zeros, CALL: deep, f"{STATE}/journal/y.json": folder},
    "two": {HEAD: zeros, WORKSPACE_ID: a_path, CALL: pipe, f"{STATE}/head.unfinished": zeros},
}


@pytest.mark.parametrize("name", HARMLESS)
def test_damaged_state_files_do_not_block_the_run(governed: Governed, name: str):
    for path, make in HARMLESS[name].items():
        place(governed, path, make)
    done = work(governed)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (governed.root / "src/auth/jwt.py").read_text() == "new\n"
    assert governed.of("mutation")
    assert governed.is_whole()


STOPPING = {
    "ledger is one line": (LEDGER, endless_line, "longer than a record can be; move it away"),
    "segment is none": (f"{FOLDER}/trace/x.jsonl.gz", deep, "cannot be unpacked; move it away"),
    "workspace_id is a folder": (WORKSPACE_ID, folder, "not a regular file; move it away"),
}


@pytest.mark.parametrize("name", STOPPING)
def test_a_file_that_is_not_a_ledger_is_reported_and_blocks_the_change(
    governed: Governed, name: str
):
    path, make, why = STOPPING[name]
    place(governed, path, make)
    verified = governed.cli("trace", "verify")
    assert verified.returncode != 0
    said = verified.stdout + verified.stderr
    assert why.partition(";")[0] in said
    for words in (["log", "--kind", "command"], ["stats"]):
        said += governed.cli("trace", *words).stderr
    done = work(governed)
    assert "Traceback" not in said + done.stderr
    assert why in json.dumps(done.output) + " ".join(done.results) + done.stderr
    assert not (governed.root / "src/auth/jwt.py").exists()


def test_an_unreadable_rule_file_does_not_block_the_run(governed: Governed):
    for name, make in {
        "hooks.json": pipe,
        ".intentignore": zeros,
        "command_policy.yaml": endless_line,
    }.items():
        place(governed, f"{FOLDER}/{name}", make)
    done = governed.alone([choose()], [write("src/auth/jwt.py")], [run("true")], flags=["-y"])
    assert "Traceback" not in done.stderr
    assert "intent_context" in done.results[0]
    assert len(done.results) == 3


def test_a_shortened_ledger_is_found_without_the_workspace_id(governed: Governed):
    """As after `git clean -fdx`, or if a command writes another id."""
    work(governed)
    assert governed.is_whole()
    ledger, known = governed.root / LEDGER, governed.root / STATE / "workspace_id"
    whole, own = ledger.read_bytes(), known.read_text()
    ledger.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
    for forget in (
        lambda: shutil.rmtree(governed.root / STATE),
        lambda: known.write_text("0123456789abcdef\n"),
    ):
        forget()
        found = governed.cli("trace", "verify")
        assert found.returncode == 1, found.stdout
        assert "FAIL" in found.stdout
        assert known.read_text() == own
    ledger.write_bytes(whole)
    assert governed.is_whole()


def test_a_budget_counts_the_files_of_earlier_runs(rookery: Installed):
    governed = Governed(rookery, intents(more="budget: {max_files: 1}"))
    assert work(governed).exit_code == 0
    done = governed.alone([choose()], [write("src/auth/b.py")], [write("src/auth/c.py")])
    assert done.codes[1:] == ["REQ-016", "REQ-016"]
