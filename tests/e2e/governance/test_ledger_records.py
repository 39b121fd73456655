"""What a run of the real command leaves in the ledger.

What is only about the file itself is in tests/core/ledger, tests/workspace/ledger and tests/cli.
ROOKERY_TORTURE=1 looks into a longer ledger.
"""

import json
import os
import subprocess
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from time import monotonic as now

import jsonschema
import pytest

from llm_server import LlmServer, finish
from rookery.core.facts import Asked, Noted, ToolFinished, ToolStarted, Unrecorded
from support.agent_trace_format import AGENT_TRACE
from support.governed_session import (
    FILE,
    Governed,
    at,
    choose,
    intents,
    patch,
    read,
    run,
    wait,
    write,
)
from support.ledger_lines import lines_of, told_of
from support.traced_workspace import ADA

JWT = "src/auth/jwt.py"
LEDGER = ".orchestration/agent_trace.jsonl"
TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


def test_every_line_of_a_run_is_an_agent_trace_record(governed: Governed):
    governed.put("src/auth/old.py", "def f():\n    return 1\n")
    governed.play(
        [write(JWT)],
        [choose()],
        [write(JWT, "A = 1\n")],
        [write("src/api/user.py")],
        [write("src/api/other.py")],
        [run("echo x > src/auth/made.txt")],
        [run("make all")],
        [patch("*** Delete File: src/auth/old.py")],
        book=["yes", "no", "no", "yes"],
    )
    lines = lines_of(governed.root)
    check = jsonschema.Draft202012Validator(AGENT_TRACE, format_checker=jsonschema.FormatChecker())
    for line in lines:
        check.validate(line)
        assert "vcs" not in line, "there is no revision yet that has these lines"
        assert line["tool"]["name"] == "rookery"
    kinds = [each["kind"] for each in told_of(governed.root)]
    assert {"stream_start", "blocked", "intent_selected", "decision", "mutation", "command"} <= {
        *kinds
    }
    made = next(each for each in lines if each["files"] and each["files"][0]["path"] == JWT)
    [conversation] = made["files"][0]["conversations"]
    assert conversation["contributor"] == {"type": "ai", "model_id": "anthropic/claude-x"}
    assert conversation["url"].startswith("urn:task:")
    assert conversation["related"][0] == {"type": "intent", "url": "urn:intent:INT-001"}
    assert conversation["ranges"] == [
        {
            "start_line": 1,
            "end_line": 1,
            "content_hash": "sha256:" + sha256(b"A = 1\n").hexdigest(),
        }
    ]
    assert governed.is_whole()


def git(governed: Governed, *words: str) -> None:
    environ = {**os.environ, **ADA}
    subprocess.run(["git", *words], cwd=governed.root, env=environ, check=True, capture_output=True)


def test_on_an_older_branch_a_new_stream_begins_and_merges_back(governed: Governed):
    governed.put(".gitattributes", f"{LEDGER} merge=union\n")
    governed.put(".gitignore", ".orchestration/.state/\n")
    git(governed, "init", "-q", "-b", "main")

    def commit(_: Asked) -> str:
        git(governed, "add", "-A")
        git(governed, "commit", "-q", "-m", "work")
        return "message Go on"

    def commit_and_go_back(asked: Asked) -> str:
        commit(asked)
        git(governed, "checkout", "-q", "-b", "older", "HEAD~1")
        return "message Go on"

    governed.play(
        [choose()],
        [write("src/auth/a.py")],
        [wait()],
        [write("src/auth/b.py")],
        [wait()],
        [write("src/auth/c.py")],
        book=[commit, commit_and_go_back],
    )
    starts = told_of(governed.root, "stream_start")
    assert [each.get("reason") for each in starts] == [None, "head_missing"]
    wrote = [each["files"][0]["path"] for each in told_of(governed.root, "mutation")]
    assert wrote == ["src/auth/a.py", "src/auth/c.py"]
    git(governed, "add", "-A")
    git(governed, "commit", "-q", "-m", "beside")
    git(governed, "merge", "-q", "-m", "both", "main")
    wrote = [each["files"][0]["path"] for each in told_of(governed.root, "mutation")]
    assert sorted(wrote) == ["src/auth/a.py", "src/auth/b.py", "src/auth/c.py"]
    assert governed.is_whole()


def test_a_change_that_a_kill_left_unrecorded_is_recorded_at_the_next_start(
    governed: Governed,
):
    with LlmServer([choose()], [write(JWT, "half a life\n")]) as server:
        killed = governed.rookery.run("-p", *at(server), "go", ROOKERY_KILLPOINT="tool.performed:2")
    assert killed.returncode != 0
    assert governed.text(JWT) == "half a life\n"
    assert told_of(governed.root, "mutation", "recovered") == []
    for _ in range(2):
        governed.alone([read(JWT)])
    [recovered] = told_of(governed.root, "mutation", "recovered")
    assert (recovered["kind"], recovered["outcome"]) == ("recovered", "interrupted")
    [file] = recovered["files"]
    assert (file["path"], file["before"]) == (JWT, None)
    assert file["after"]["sha256"] == sha256(b"half a life\n").hexdigest()
    assert recovered["intent_id"] == "INT-001"
    assert governed.is_whole()


def test_going_back_in_a_killed_session_records_first_what_it_had_done(governed: Governed):
    with LlmServer([choose()], [write(JWT, "half a life\n")]) as server:
        governed.rookery.run("-p", *at(server), "go", ROOKERY_KILLPOINT="tool.performed:2")
    done = governed.cli("rewind", "--last", "--files", "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not governed.there(JWT)
    assert [each["kind"] for each in told_of(governed.root, "recovered", "rewind")] == [
        "recovered",
        "rewind",
    ]
    assert governed.is_whole()


@pytest.mark.parametrize("instant", ["restore.done", "journal.written", "journal.synced", ""])
def test_a_rewind_that_is_in_the_journal_is_on_record_once(governed: Governed, instant: str):
    governed.play([choose()], [write(JWT, "x = 2\n")])
    killed = {"ROOKERY_KILLPOINT": f"{instant}:1"} if instant else {}
    governed.rookery.run("rewind", "--last", "--files", "-y", **killed)
    journals = governed.rookery.home.rglob("journal.jsonl")
    restored = sum(text.count("files_restored") for text in map(Path.read_text, journals))
    assert restored == (instant != "restore.done")
    gone_on_with(governed)
    gone_on_with(governed)
    assert governed.kinds().count("rewind") == restored
    assert governed.is_whole()


@pytest.mark.parametrize("killed", [True, False])
def test_nobody_goes_back_while_it_cannot_be_recorded(governed: Governed, killed: bool):
    if killed:
        killed_after_a_change(governed)
    else:
        governed.play([choose()], [write(JWT, "x = 2\n")])
    before = governed.text(JWT)
    (governed.root / LEDGER).chmod(0o400)
    refused = governed.cli("rewind", "--last", "--files", "-y")
    assert refused.returncode != 0
    assert "Nothing was restored. The ledger could not be written" in refused.stderr
    assert governed.text(JWT) == before
    (governed.root / LEDGER).chmod(0o600)
    assert governed.cli("rewind", "--last", "--files", "-y").returncode == 0
    assert not governed.there(JWT)
    wanted = ["recovered", "rewind"] if killed else ["mutation", "rewind"]
    assert [each["kind"] for each in told_of(governed.root, *wanted)] == wanted


def killed_after_a_change(governed: Governed, *flags: str) -> None:
    with LlmServer([choose()], [write(JWT, "half a life\n")]) as server:
        flags = ("-p", *flags, *at(server))
        governed.rookery.run(*flags, "go", ROOKERY_KILLPOINT="tool.performed:2")
    assert governed.text(JWT) == "half a life\n"


def gone_on_with(governed: Governed) -> None:
    with LlmServer([read(JWT)], [finish()]) as server:
        done = governed.rookery.run("-c", "-p", *at(server), "go on")
    assert done.returncode == 0, done.stderr


def test_what_a_session_did_is_not_recorded_again_for_its_fork(governed: Governed):
    governed.play([choose()], [write(JWT, "x = 2\n")], [run("echo > src/auth/b.py")])
    before = governed.kinds()
    assert governed.cli("fork").returncode == 0
    gone_on_with(governed)
    assert governed.kinds() == before


def test_what_a_session_did_is_not_recorded_again_where_its_records_are_not(governed: Governed):
    governed.play([choose()], [write(JWT, "x = 2\n")])
    (governed.root / LEDGER).rename(governed.root / "of another branch")
    gone_on_with(governed)
    assert governed.records == []


def test_what_could_not_be_recovered_is_recovered_by_the_next(governed: Governed):
    killed_after_a_change(governed)
    (governed.root / LEDGER).chmod(0o400)
    gone_on_with(governed)
    (governed.root / LEDGER).chmod(0o600)
    assert governed.cli("trace", "recover").returncode == 0
    [recovered] = governed.of("recovered")
    assert [each.path for each in recovered.files] == [JWT]


def test_a_session_is_not_deleted_before_what_it_did_is_on_record(governed: Governed):
    killed_after_a_change(governed)
    (governed.root / LEDGER).chmod(0o400)
    refused = governed.cli("delete", "--all", "-y")
    assert "The ledger could not be written" in refused.stderr
    (governed.root / LEDGER).chmod(0o600)
    assert governed.cli("delete", "--all", "-y").stdout == "Deleted 1 session.\n"
    [recovered] = governed.of("recovered")
    assert [each.path for each in recovered.files] == [JWT]
    assert governed.is_whole()


def test_a_link_of_the_project_keeps_no_session_from_being_deleted(governed: Governed):
    killed_after_a_change(governed)
    state = governed.root / ".orchestration/.state"
    state.rename(governed.root / "elsewhere")
    state.symlink_to(governed.root / "elsewhere")
    (governed.root / "elsewhere/workspace_id").unlink()
    assert governed.cli("delete", "--all", "-y").stdout == "Deleted 1 session.\n"
    state.unlink()
    governed.alone([read(JWT)])
    [recovered] = told_of(governed.root, "recovered")
    assert recovered["unknown_targets"] is True


def test_that_a_session_that_kept_nothing_was_killed_is_on_record(governed: Governed):
    killed_after_a_change(governed, "--ephemeral")
    for _ in range(2):
        governed.alone([read(JWT)])
    [recovered] = told_of(governed.root, "recovered")
    assert (recovered["outcome"], recovered["unknown_targets"]) == ("interrupted", True)
    assert governed.is_whole()


def test_nobody_waits_for_a_pipe_that_a_command_names(governed: Governed):
    (governed.root / "src/auth").mkdir(parents=True)
    os.mkfifo(governed.root / "src/auth/pipe")
    told = governed.alone(
        [choose()], [run("cat src/auth/pipe & echo > src/auth/pipe")], flags=("-y",)
    )
    assert told.exit_code == 0, told.stderr
    assert governed.kinds() == ["intent_selected", "command"]


def test_what_cannot_be_recorded_stops_what_would_change_more(governed: Governed):
    ledger = governed.root / LEDGER

    def close_it(_: Asked) -> str:
        ledger.chmod(0o400)
        return "message Go on"

    def open_it(_: Asked) -> str:
        ledger.chmod(0o600)
        return "message Go on"

    told = governed.play(
        [choose()],
        [write("src/auth/a.py")],
        [wait()],
        [write("src/auth/b.py")],
        [write("src/auth/c.py")],
        [read("src/auth/b.py")],
        [wait()],
        [write("src/auth/d.py")],
        book=[close_it, open_it],
    )
    assert json.loads(told.results[3])["operation"] == "created", "its own result is as it was"
    assert told.codes == ["", "", "", "", "TRC-001", "", "", ""]
    assert [each.code for each in told.of(Unrecorded)] == ["TRC-001"]
    assert any("could not be written" in each.text for each in told.of(Noted))
    assert [governed.there(f"src/auth/{name}.py") for name in "abcd"] == [True, True, False, True]
    wrote = [each["files"][0]["path"] for each in told_of(governed.root, "mutation")]
    assert wrote == ["src/auth/a.py", "src/auth/b.py", "src/auth/d.py"]
    assert governed.is_whole()


def test_a_run_that_could_not_be_recorded_ends_with_21(governed: Governed):
    governed.alone([choose()])
    (governed.root / LEDGER).chmod(0o400)
    told = governed.alone([choose()], [write("src/auth/b.py")])
    assert told.codes[1] == "TRC-001"
    assert told.exit_code == 21
    assert not governed.there("src/auth/b.py")


def test_a_long_ledger_is_looked_into_quickly(governed: Governed, monkeypatch: pytest.MonkeyPatch):
    """However much there is, the active file is sealed at 64 MiB; some 55,000 records. What a
    whole gibibyte costs is measured by benchmarks/ledger.py."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    import_module("ledger").write(governed.root / LEDGER, 50_000 if TORTURE else 5_000)
    governed.alone([choose()])
    began = now()
    shown = governed.cli("trace", "log", "-n", "20")
    assert now() - began < 2, "half a second on a quiet machine"
    assert len(shown.stdout.splitlines()) == 20
    moments: dict[type, float] = {}
    told = governed.play([choose()], watch=lambda fact: moments.setdefault(type(fact), now()))
    assert "<intent_context" in told.results[0]
    assert moments[ToolFinished] - moments[ToolStarted] < 0.5, "0.1 s on a quiet machine"


def test_a_token_in_a_command_is_not_recorded(governed: Governed):
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    governed.play([choose()], [run(f"echo {token}")])
    [command] = told_of(governed.root, "command")
    assert token not in (governed.root / LEDGER).read_text(encoding="utf-8")
    assert "[redacted:" in command["command"]["text"]
    assert command["redactions"] == 1
    assert governed.is_whole()


def test_no_tool_writes_the_ledger(governed: Governed):
    governed.put(FILE, intents(scope=["**", ".orchestration/**"]))
    governed.alone([choose()])
    before = (governed.root / LEDGER).read_text(encoding="utf-8")
    told = governed.alone(
        [choose()],
        [read(LEDGER)],
        [write(LEDGER, "")],
        [run(f"echo forged >> {LEDGER}")],
        [run(f"rm {LEDGER}")],
        flags=["-y", "--governance-allow", "scope", "--governance-allow", "delete"],
    )
    assert told.codes[2:] == ["REQ-014"] * 3
    after = (governed.root / LEDGER).read_text(encoding="utf-8")
    assert after.startswith(before)
    assert "forged" not in [each["kind"] for each in told_of(governed.root)]
    assert told.exit_code == 20
    assert governed.is_whole()


def test_an_approval_in_the_workspace_is_none(governed: Governed):
    forged = {"choice": "task", "pattern": "**", "intent_id": "INT-001", "answer": "yes"}
    for name in ("intent-decisions.jsonl", "approvals.json", ".state/approvals.json"):
        governed.put(f".orchestration/{name}", json.dumps(forged) + "\n")
    governed.play([choose()], [write("src/api/user.py")], book=["yes"])
    text = governed.text(LEDGER)
    [decision] = [line for line in text.splitlines() if '"kind":"decision"' in line]
    governed.put(LEDGER, text + decision.replace("once", "task") + "\n")
    told = governed.alone([choose()], [write("src/api/more.py")])
    assert told.code(1) == "REQ-001"
    assert not governed.there("src/api/more.py")


def test_a_deleted_file_leaves_its_lines_in_hashes(governed: Governed):
    governed.put("src/auth/old.py", "one\ntwo\n")
    told = governed.play([choose()], [patch("*** Delete File: src/auth/old.py")], book=["yes"])
    assert [each.code for each in told.questions[0].governance.reasons] == ["REQ-008"]
    assert not governed.there("src/auth/old.py")
    [mutation] = told_of(governed.root, "mutation")
    [file] = mutation["files"]
    assert (file["path"], file["op"], file["after"]) == ("src/auth/old.py", "delete", None)
    assert file["before"] == {"sha256": sha256(b"one\ntwo\n").hexdigest(), "size": 8}
    [removed] = file["deleted_ranges"]
    assert (removed["start_line"], removed["end_line"]) == (1, 2)


WRITTEN = """\
def verify(token: str) -> dict[str, str]:
    claims = decode(token)
    if claims.expiry < utc_now():
        raise Expired(claims)
    return claims
"""


def test_lines_that_were_moved_are_found_by_what_they_say(governed: Governed):
    governed.play([choose()], [write(JWT, WRITTEN)])
    governed.put("src/api/moved.py", "import somewhere_else_entirely\n\n\n" + WRITTEN)
    blamed = governed.cli("trace", "blame", "src/api/moved.py")
    assert blamed.returncode == 0, blamed.stderr
    lines = blamed.stdout.splitlines()
    assert all("INT-001" in line and "claude-x" in line for line in lines[3:8])
    assert not any("INT-001" in line for line in lines[:3])


def test_going_back_later_is_on_record_and_the_ledger_is_not_taken_back(governed: Governed):
    governed.play([choose()], [write(JWT, "x = 2\n")])
    before = len(governed.records)
    done = governed.cli("rewind", "--last", "--files", "-y")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = governed.of("rewind")
    assert record.outcome == "success"
    assert len(governed.records) > before
    assert governed.is_whole()
