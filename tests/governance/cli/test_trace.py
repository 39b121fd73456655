"""`rookery trace`: log, show and stats, as people and programs read them."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import click
import pytest

from rookery.cli import main
from rookery.errors import SettingsError
from rookery.governance.cli.common import TraceExit
from support.sample_ledgers import GOLDEN_LINES
from support.traced_workspace import TASK, TracedWorkspace, trace

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def work(home: Path) -> TracedWorkspace:
    """A refused call, its question, a command, and a change."""
    work = TracedWorkspace(Path.cwd())
    work.note(
        kind="command",
        tool_name="execute_command",
        tool_use_id="toolu_a",
        outcome="failure",
        command={"text": "pytest -q tests/auth", "exit_code": 1},
    )
    work.note(
        kind="decision",
        tool_name="write_to_file",
        tool_use_id="toolu_b",
        outcome="denied",
        approval={"answer": "no", "by": "human", "text": "use the middleware"},
        more={"targets": ["src/api/user.py"]},
    )
    work.note(
        kind="blocked",
        tool_name="write_to_file",
        tool_use_id="toolu_b",
        outcome="denied",
        error={"code": "REQ-001", "type": "scope_violation"},
        more={"targets": [{"path": "src/api/user.py"}]},
    )
    work.agent_writes("src/auth/jwt.py", "def verify(token):\n    return True\n")
    return work


def test_the_log_is_newest_first_and_shows_each_outcome(work: TracedWorkspace, capsys: Captured):
    assert trace("log", "--intent", "INT-001", "-n", "4", "--no-color") == 0
    begun = [row.split(maxsplit=2) for row in capsys.readouterr().out.splitlines()]
    assert [id for id, _, _ in begun] == [json.loads(line)["id"][:8] for line in work.lines[:0:-1]]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", time) for _, time, _ in begun)
    assert [rest for _, _, rest in begun] == [
        "mutation  INT-001   apply_diff       src/auth/jwt.py       +2 -0  in scope",
        "blocked   INT-001   write_to_file    src/api/user.py       "
        "REQ-001 scope violation: denied",
        "decision  INT-001   write_to_file    src/api/user.py       "
        'denied by human: "use the middleware"',
        "command   INT-001   execute_command  pytest -q tests/auth  exit 1, 0 files changed",
    ]


def test_housekeeping_records_are_listed_only_on_request(work: TracedWorkspace, capsys: Captured):
    work.recording.ledger.checkpoint(TASK)
    for options, reported in (
        ([], 0),
        (["-n", "50"], 0),
        (["--all"], 2),
        (["--kind", "stream_start"], 1),
        (["--json"], 2),
    ):
        assert trace("log", *options) == 0
        said = capsys.readouterr().out
        assert ("stream_start" in said) + ("checkpoint" in said) == reported


FILTERS = {
    "kind": (["--kind", "blocked"], ["blocked"]),
    "outcome": (["--outcome", "failure"], ["command"]),
    "file": (["--file", "src/auth/*"], ["mutation"]),
    "a file that a refused call was aimed at": (
        ["--file", "src/api/*"],
        ["blocked", "decision"],
    ),
    "task": (["--task", TASK, "--kind", "decision"], ["decision"]),
    "another task": (["--task", "t-none"], []),
    "since": (["--since", "1h", "--kind", "mutation"], ["mutation"]),
    "until": (["--until", "1h"], []),
    "grep": (["--grep", "pytest -q"], ["command"]),
    "how many": (["-n", "2"], ["mutation", "blocked"]),
    "reverse": (["--intent", "INT-001", "-n", "2", "--reverse"], ["blocked", "mutation"]),
    "all": (["--all"], ["mutation", "blocked", "decision", "command", "stream_start"]),
}


def test_the_log_is_filtered(work: TracedWorkspace, capsys: Captured):
    for name, (options, kinds) in FILTERS.items():
        assert trace("log", "--json", *options) == 0
        found = json.loads(capsys.readouterr().out)["records"]
        assert [each["metadata"]["orchestration"]["kind"] for each in found] == kinds, name


def test_a_file_is_found_in_what_changed_it_and_what_was_refused(
    work: TracedWorkspace, capsys: Captured
):
    work.agent_writes("src/api/user.py", "x = 1\n")
    of_file = ["--file", "src/api/*"]
    for options, kinds in (
        (of_file, ["mutation", "blocked", "decision"]),
        ([*of_file, "-n", "2"], ["mutation", "blocked"]),
        ([*of_file, "--kind", "blocked"], ["blocked"]),
        ([*of_file, "--kind", "mutation"], ["mutation"]),
    ):
        assert trace("log", "--json", *options) == 0
        found = json.loads(capsys.readouterr().out)["records"]
        assert [each["metadata"]["orchestration"]["kind"] for each in found] == kinds


def test_a_record_of_another_day_says_which(home: Path, capsys: Captured):
    work = TracedWorkspace(Path.cwd())
    work.active.write_bytes(b"".join(GOLDEN_LINES))
    assert trace("log", "-n", "1") == 0
    assert capsys.readouterr().out.startswith("00000000  2026-02-20 13:54:31  mutation")


def test_file_names_cannot_control_the_terminal(work: TracedWorkspace, capsys: Captured):
    work.agent_writes("src/auth/a\x1b[2Jb.py", "x = 1\n")
    assert trace("log", "-n", "1") == 0
    assert trace("show", json.loads(work.lines[-1])["id"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_one_record_on_a_page(work: TracedWorkspace, capsys: Captured):
    record = json.loads(work.lines[-1])
    assert trace("show", record["id"][:8]) == 0
    own = record["metadata"]["orchestration"]
    page = capsys.readouterr().out.splitlines()
    time = record["timestamp"].replace("T", " ")
    bare = [own[name].removeprefix("sha256:") for name in ("prev", "hash")]
    prev, mark = (f"{each[:4]}…{each[-4:]}" for each in bare)
    after = own["files"][0]["after"]["sha256"][:8]
    assert page == [
        f"record   {record['id']}   {time}",
        f"stream   {own['stream'][:8]}… #4  prev {prev}  hash {mark}  chain ok",
        "kind     mutation success",
        "intent   INT-001 rev 3",
        f"call     apply_diff (toolu_1) by example/model-1 in task {TASK}, turn 12",
        f"file     src/auth/jwt.py  create  nothing -> {after}…   lines 1-2 written",
        "scope    in scope",
    ]


def test_a_record_that_was_altered_says_so_on_its_page(work: TracedWorkspace, capsys: Captured):
    altered = work.active.read_bytes().replace(b"src/auth/jwt.py", b"src/auth/jwx.py")
    work.active.write_bytes(altered)
    assert trace("show", json.loads(work.lines[-1])["id"]) == TraceExit.FINDINGS
    assert "chain broken: hash differs" in capsys.readouterr().out


def test_a_missing_record_is_not_found(work: TracedWorkspace, capsys: Captured):
    for unknown in ("ffffffff-0000", "f"):
        assert trace("show", unknown) == TraceExit.NOT_FOUND
        assert unknown in capsys.readouterr().err


def test_the_figures(work: TracedWorkspace, capsys: Captured):
    assert trace("stats", "--since", "7d") == 0
    assert capsys.readouterr().out.startswith("calls       3     mutations 1   commands 1 ")
    assert trace("stats", "--json") == 0
    assert json.loads(capsys.readouterr().out)["refusals"] == {"REQ-001": 1}


def test_without_records_there_are_no_figures(home: Path, capsys: Captured):
    TracedWorkspace(Path.cwd())
    assert trace("stats") == 0
    assert capsys.readouterr().out == "No records yet.\n"
    assert trace("stats", "--since", "1h") == 0
    assert capsys.readouterr().out == "No records since then.\n"
    assert trace("stats", "--json") == 0
    assert json.loads(capsys.readouterr().out)["records"] == 0


def test_an_unknown_intent_is_not_found(work: TracedWorkspace, capsys: Captured):
    assert trace("log", "--intent", "INT-099") == TraceExit.NOT_FOUND
    assert "No record matches: no such intent INT-099" in capsys.readouterr().err
    work.note(kind="lesson", intent_id="INT-099")
    assert trace("log", "--intent", "INT-099") == 0
    assert trace("log", "--intent", "INT-099", "--kind", "blocked") == 0, "it was worked for"
    assert trace("log", "--intent", "INT-003") == 0, "it is among the intents"
    assert capsys.readouterr().out.endswith("No record matches.\n")
    for text in ("nonsense: [", None):
        work.layout.intent_file.unlink()
        if text:
            work.layout.intent_file.write_text(text)
        assert trace("log", "--intent", "INT-003") == TraceExit.NOT_FOUND


def test_options_that_make_no_sense_are_refused_with_those_that_do(work: TracedWorkspace):
    for option, one in (("--kind", "rewind"), ("--outcome", "denied")):
        with pytest.raises(click.UsageError, match=f"'nonsense' is not one of .*'{one}'"):
            trace("log", option, "nonsense")
    for when in ("yesterday", "7", "2026-13-01"):
        with pytest.raises(SettingsError, match="not a time"):
            trace("log", "--since", when)


def test_trace_creates_nothing_in_an_ungoverned_folder(home: Path, capsys: Captured):
    for command in ("log", "verify", "stats", "recover", "seal"):
        assert trace(command) == TraceExit.NOT_INITIALISED
        assert "rookery intents init" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []
    assert not home.exists()


def test_a_folder_inside_finds_the_ledger_of_its_repository(
    work: TracedWorkspace, monkeypatch: pytest.MonkeyPatch, capsys: Captured
):
    work.commit()
    monkeypatch.chdir(work.root / "src" / "auth")
    assert trace("log", "-n", "1") == 0
    assert "src/auth/jwt.py" in capsys.readouterr().out


COMMANDS = {
    "the log": (["log", "-n", "1"], TraceExit.FINE, "src/auth/jwt.py"),
    "whole": (["verify"], TraceExit.FINE, "chain      ok"),
    "no such record": (["show", "ffffffff"], TraceExit.NOT_FOUND, "No such record: ffffffff"),
    "no time": (["log", "--since", "x"], 2, "not a time"),
    "no such command": (["nonsense"], 2, "nonsense"),
    "not governed": (["log", "--root", "/"], TraceExit.NOT_INITIALISED, "rookery intents init"),
}


def test_the_command_ends_as_it_should(work: TracedWorkspace, capsys: Captured):
    for name, (words, code, said) in COMMANDS.items():
        assert main.run(["trace", *words]) == code, name
        printed = capsys.readouterr()
        assert said in printed.out + printed.err, name


def test_the_end_of_a_ledger_of_a_gibibyte_comes_at_once(work: TracedWorkspace, capsys: Captured):
    """The file ends in a huge hole, so reading on into it would take very long."""
    lines = b"".join(work.lines)
    with open(work.active, "wb") as file:
        file.seek(2**30)
        file.write(b"\n" + lines * 30)
    begun = time.process_time()
    assert trace("log", "-n", "20") == 0
    assert trace("log", "-n", "20", "--intent", "INT-001", "--file", "src/auth/*") == 0
    assert trace("show", json.loads(lines.splitlines()[-1])["id"]) == 0
    assert time.process_time() - begun < 2
    assert len(capsys.readouterr().out.splitlines()) == 47


def test_the_log_is_followed_through_a_seal(work: TracedWorkspace):
    script = "import sys; from support.traced_workspace import trace; trace(*sys.argv[1:])"
    folders = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", script, "log", "--follow", "-n", "1", "--json"],
        cwd=work.root,
        env={**os.environ, "PYTHONPATH": folders},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        giving_up = Timer(60, process.kill)
        giving_up.start()
        try:
            assert process.stdout
            assert "jwt.py" in process.stdout.readline()
            work.note(kind="lesson", tool_name="before")
            assert '"before"' in process.stdout.readline()
            work.recording.ledger.seal(TASK)
            work.note(kind="lesson", tool_name="after")
            kinds = [json.loads(process.stdout.readline()) for _ in range(3)]
            assert [each["metadata"]["orchestration"]["kind"] for each in kinds] == [
                "seal",
                "stream_start",
                "lesson",
            ]
        finally:
            giving_up.cancel()
            process.kill()
