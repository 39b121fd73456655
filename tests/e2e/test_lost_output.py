"""What becomes of a run whose output cannot be written: nobody reads it any more, or the disk is
full."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, Installed

WRITES = "- calls: [{tool: write_to_file, arguments: {path: a.txt, content: hi}}]\n"
FINISHES = "- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
STORAGE = 9
FULL = "Error: Cannot write the output (No space left on device). "


def through_a_shell(rookery: Installed, line: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of a shell in which the command and its flags are `"$@"`."""
    script = rookery.script(WRITES + FINISHES)
    return subprocess.run(
        ["bash", "-c", line, COMMAND, COMMAND, "-p", "-y", *script, "go"],
        cwd=rookery.workspace,
        env=rookery.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "stderr",
    [
        pytest.param("2> >(head -c1 >/dev/null)", id="its-reader-left"),
        pytest.param("2>/dev/full", id="its-disk-is-full"),
        pytest.param("2>&-", id="it-is-closed"),
    ],
)
def test_losing_standard_error_ends_nothing(rookery: Installed, stderr: str):
    done = through_a_shell(rookery, f'"$@" {stderr}')
    assert (done.returncode, done.stdout) == (0, "One.\n")
    assert (rookery.workspace / "a.txt").read_text() == "hi"


def test_standard_error_may_be_lost_before_anything_is_said(rookery: Installed):
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [COMMAND, "-p", "-y", "--output-format", "json", *rookery.script("[]"), "go"],
            cwd=rookery.workspace,
            env=rookery.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writes,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writes)
    assert done.returncode == 1
    assert json.loads(done.stdout)["success"] is False


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_full_disk_is_said_in_one_sentence(rookery: Installed, form: str):
    done = through_a_shell(rookery, f'"$@" --output-format {form} >/dev/full')
    assert done.returncode == STORAGE
    assert done.stderr.splitlines()[-1].startswith(FULL)
    assert done.stderr.count("Error: ") == 1
    assert [row["status"] for row in rookery.sessions()]


def test_a_full_disk_is_said_by_other_commands_too(rookery: Installed):
    for arguments in ("--help", "list"):
        done = subprocess.run(
            ["bash", "-c", f'"$0" {arguments} >/dev/full', COMMAND],
            cwd=rookery.workspace,
            env=rookery.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr.startswith(FULL)) == (STORAGE, True)
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "flags", [["-p", "--stdin-prompt-stream", "--output-format", "stream-json"], ["--json-io"]]
)
def test_a_full_disk_is_said_to_whoever_drives_it(
    rookery: Installed, flags: list[str], tmp_path: Path
):
    crashes = tmp_path / "crashes"
    crashes.mkdir()
    done = subprocess.run(
        ["bash", "-c", '"$@" >/dev/full', COMMAND, COMMAND, *flags, *rookery.script(FINISHES)],
        cwd=rookery.workspace,
        env=rookery.environ | {"TMPDIR": str(crashes)},
        input='{"command":"ping","requestId":"1"}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == STORAGE
    assert done.stderr.startswith(FULL)
    assert done.stderr.count("\n") == 1
    assert not list(crashes.iterdir())


def test_whoever_reads_the_output_may_leave(rookery: Installed):
    done = through_a_shell(rookery, '"$@" --output-format stream-json | head -1; echo $PIPESTATUS')
    first, code = done.stdout.splitlines()
    assert (json.loads(first)["subtype"], code) == ("init", "0")
