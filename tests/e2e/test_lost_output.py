"""Runs whose output cannot be written: the reader is gone, it is closed, or the disk is full."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, PATIENCE, Installed

WRITES = "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]\n"
FINISHES = "- say: Hello.\n  calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
STORAGE = 9
FULL = "Error: Cannot write the output (No space left on device). "


class Streams:
    """Run the command with streams that accept output or fail."""

    def __init__(self, rookery: Installed, folder: Path, stack: ExitStack) -> None:
        self._rookery = rookery
        self._stack = stack
        self._files = {name: folder / name for name in ("out", "err")}
        self._given = folder / "given"
        self._given.touch()

    def run(self, *arguments: str, given: str = "", **lost: str) -> tuple[int, str, str]:
        """Exit code, output and errors. `lost` names how `out` and `err` are lost."""
        self._given.write_text(given)
        files = {name: self._opened(file, lost.get(name)) for name, file in self._files.items()}
        stdin = self._stack.enter_context(self._given.open("rb")).fileno()
        code = self._rookery.run_onto(
            *arguments, stdin=stdin, stdout=files["out"], stderr=files["err"]
        )
        said = [file.read_text() if file.exists() else "" for file in self._files.values()]
        return code, *said

    def _opened(self, file: Path, lost: str | None) -> int:
        file.unlink(missing_ok=True)
        if lost != "its reader left":
            path = "/dev/full" if lost else file
            return self._stack.enter_context(open(path, "wb")).fileno()
        reads, writes = os.pipe()
        os.close(reads)
        self._stack.callback(os.close, writes)
        return writes


@pytest.fixture
def streams(rookery: Installed, tmp_path: Path) -> Iterator[Streams]:
    with ExitStack() as stack:
        yield Streams(rookery, tmp_path, stack)


def test_losing_standard_error_does_not_end_the_run(rookery: Installed, streams: Streams):
    script = rookery.script(WRITES + FINISHES)
    for how in ("its reader left", "its disk is full"):
        code, out, _ = streams.run("-p", "-y", *script, "go", err=how)
        assert (code, out) == (0, "One.\n"), how
        assert (rookery.workspace / "a.txt").read_text() == "hi", how
        (rookery.workspace / "a.txt").unlink()
    code, out, _ = streams.run(
        *("-p", "-y", "--output-format", "json", *rookery.script("[]"), "go"), err="its reader left"
    )
    assert (code, json.loads(out)["success"]) == (1, False)


def test_a_full_disk_is_reported_in_one_sentence(rookery: Installed, streams: Streams):
    script = rookery.script(WRITES + FINISHES)
    for form in ("text", "json", "stream-json"):
        flags = ["-p", "-y", "--output-format", form, *script]
        code, _, err = streams.run(*flags, "go", out="its disk is full")
        assert code == STORAGE, form
        assert err.splitlines()[-1].startswith(FULL), form
        assert err.count("Error: ") == 1, form
    assert len(rookery.sessions()) == 3
    for command in ("--help", "list"):
        code, _, err = streams.run(command, out="its disk is full")
        assert (code, err.startswith(FULL), err.count("\n")) == (STORAGE, True, 1), command


def test_a_full_disk_is_reported_to_the_driver(
    rookery: Installed, streams: Streams, tmp_path: Path
):
    crashes = tmp_path / "crashes"
    crashes.mkdir()
    rookery.environ["TMPDIR"] = str(crashes)
    ping = '{"command":"ping","requestId":"1"}\n'
    stream = ["-p", "--stdin-prompt-stream", "--output-format", "stream-json"]
    for flags in (stream, ["--json-io"]):
        script = rookery.script(FINISHES)
        code, _, err = streams.run(*flags, *script, given=ping, out="its disk is full")
        assert (code, err.startswith(FULL), err.count("\n")) == (STORAGE, True, 1), flags
        assert not list(crashes.iterdir()), flags


def test_a_reader_that_leaves_is_not_an_error(rookery: Installed, streams: Streams):
    script = rookery.script(FINISHES)
    for form in ("text", "json", "stream-json"):
        flags = ["-p", "--output-format", form, *script, "go"]
        code, _, err = streams.run(*flags, out="its reader left")
        assert code == 0, form
        assert "Error" not in err, form
        assert "Broken pipe" not in err, form
    left = "its reader left"
    assert streams.run("-p", *script, "go", out=left, err=left)[0] == 0


def test_a_reader_may_leave_after_the_first_line(rookery: Installed):
    flags = ["-p", "--output-format", "stream-json", *rookery.script(FINISHES)]
    with rookery.piped(*flags, "go") as process:
        process.stdin.close()
        assert json.loads(process.stdout.readline())["subtype"] == "init"
        process.stdout.close()
        assert process.wait(PATIENCE) == 0


def test_closed_streams_are_not_an_error(rookery: Installed):
    closed = '"$0" "$@" <&- >&- 2>&-'
    done = subprocess.run(
        ["sh", "-c", closed, COMMAND, "-p", *rookery.script(FINISHES), "go"],
        cwd=rookery.workspace,
        env=rookery.environ,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
