"""What attacks on governance once came through with, and no longer do."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, gate, say
from rookery.core.facts import Asked, Effect, FileVersion, IntentCleared, Noted
from rookery.permissions.protected_changes import (
    protected_paths,
    protected_paths_under_mount_sandbox,
)
from support.governed_session import FILE, Alone, Governed, at, choose, intents, run, wait, write
from support.ledger_lines import told_of
from support.terminal_session import PATIENCE, a_pause

from . import test_commands
from .test_commands import codes, new_task, paths, program, until_there

heard = test_commands.heard
USER = "src/api/user.py"
LEDGER = ".orchestration/agent_trace.jsonl"
UNKNOWN = ("--governance-allow", "unknown")
NO_SANDBOX = '[sandbox]\nuse = "off"\n'
UNTIL_GO = "until test -e src/auth/go; do sleep 0.02; done"
LONG = f"exec sleep {a_pause()}"
WIDER = intents(scope=["**"])


# ── copies of the ledger ────────────────────────────────────────────────────────────────


def test_copies_of_governance_that_a_person_makes_meanwhile_are_kept(governed: Governed):
    governed.put("src/auth/a.py")

    def copy_and_move() -> None:
        until_there(governed, "src/auth/up")
        copytree(governed.root / ".orchestration", governed.root / "backup")
        (governed.root / ".orchestration").rename(governed.root / "orch.bak")
        governed.put("src/auth/go")

    with ThreadPoolExecutor(1) as pool:
        running: list[Any] = []

        def a_person_tidies_up(_: Asked) -> str:
            running.append(pool.submit(copy_and_move))
            return "yes"

        line = f"touch src/auth/up; {UNTIL_GO}"
        governed.play([choose()], [run(line)], book=[a_person_tidies_up])
        running[0].result()
    for folder in ("backup", "orch.bak"):
        assert "INT-001" in governed.text(f"{folder}/active_intents.yaml")
        assert "INT-001" in governed.text(f"{folder}/agent_trace.jsonl")


ONE, OTHER = FileVersion("aa", 0o100644), FileVersion("bb", 0o100644)
MOVES = {
    "a protected file moved away is kept where it is": (
        [Effect("AGENTS.md", ONE, None), Effect("old/AGENTS.md", None, ONE)],
        ["AGENTS.md"],
    ),
    "an ordinary file that takes a protected name": (
        [Effect("notes.md", ONE, None), Effect("AGENTS.md", None, ONE)],
        ["AGENTS.md"],
    ),
    "another file beside one that was moved away": (
        [Effect("AGENTS.md", ONE, None), Effect("old/AGENTS.md", None, OTHER)],
        ["AGENTS.md", "old/AGENTS.md"],
    ),
    "what was moved over a protected file that was there": (
        [Effect(".envrc", ONE, None), Effect("AGENTS.md", OTHER, ONE)],
        [".envrc", "AGENTS.md"],
    ),
    "a copy of the ledger": ([Effect("backup/agent_trace.jsonl", None, ONE)], []),
    "a ledger below a folder of governance": (
        [Effect("sub/.orchestration/active_intents.yaml", None, ONE)],
        ["sub/.orchestration/active_intents.yaml"],
    ),
}


@pytest.mark.parametrize(("effects", "back"), MOVES.values(), ids=MOVES.keys())
def test_what_of_a_move_is_put_back(effects: list[Effect], back: list[str]):
    assert protected_paths(effects, ()) == back
    assert set(protected_paths_under_mount_sandbox(effects, ())) <= set(back)


# ── commands that turn on governance itself ─────────────────────────────────────────────


TAKEN = {
    "emptied": f": > {LEDGER}",
    "its last line": f"sed -i '$d' {LEDGER}",
    "a folder": f"rm {LEDGER}; mkdir {LEDGER}",
    "nowhere to lock it": "rm -rf .orchestration/.state; touch .orchestration/.state",
}


@pytest.mark.parametrize("deed", TAKEN.values(), ids=TAKEN.keys())
def test_a_command_that_takes_the_ledger_loses_the_intent(governed: Governed, deed: str):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    program(governed, "gen.sh", deed)
    told = governed.alone(
        [choose()], [run("./gen.sh")], [write("src/auth/b.py")], [choose()], flags=UNKNOWN
    )
    assert told.codes[2] in ("REQ-003", "TRC-001")
    assert told.codes[3] == "REQ-012"
    assert "The ledger was changed while a command ran" in told.requests[2]
    assert told.exit_code == 20
    assert told.governance
    assert told.governance["out_of_scope"] == [LEDGER]
    assert not governed.there("src/auth/b.py")


def test_so_does_one_that_puts_a_file_where_governance_was(governed: Governed):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    program(governed, "gen.sh", "rm -rf .orchestration; touch .orchestration")
    told = governed.alone([choose()], [run("./gen.sh")], [write("src/auth/b.py")], flags=UNKNOWN)
    assert told.codes[2] == "REQ-003"
    assert told.exit_code == 20
    assert "INT-001" in governed.text(FILE), "it is put back"


def test_the_user_is_told_that_the_ledger_was_emptied(governed: Governed):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    program(governed, "gen.sh", f": > {LEDGER}")
    told = governed.play([choose()], [run("./gen.sh")], book=["yes"])
    assert [each.own_doing for each in told.of(IntentCleared)] == [True]
    assert any("The ledger was changed" in each.text for each in told.of(Noted))


def runs_on(governed: Governed, deed: str) -> Any:
    """A command that goes on behind its call, and does something once it is let."""
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    governed.put("src/auth/wider.yaml", WIDER)
    program(governed, "gen.sh", f"{UNTIL_GO}; {deed}; touch src/auth/done; {LONG}")
    return call("execute_command", command="./gen.sh", cwd=None, timeout=1)


def let(governed: Governed) -> None:
    governed.put("src/auth/go")
    until_there(governed, "src/auth/done")


def test_what_a_command_that_runs_on_makes_of_the_intents_a_person_must_see(
    governed: Governed,
):
    def meanwhile(_: Asked) -> str:
        let(governed)
        return "message Go on"

    command = runs_on(governed, f"cp src/auth/wider.yaml {FILE}")
    told = governed.play(
        [choose()], [command], [wait()], [choose()], [write(USER)], book=["yes", meanwhile, "no"]
    )
    assert codes(told.questions[-1]) == ["REQ-012"]
    assert told.codes[3:] == ["REQ-012", "REQ-003"]
    assert not governed.there(USER)


@pytest.mark.parametrize("deed", [f"cp src/auth/wider.yaml {FILE}", f": > {LEDGER}"])
def test_with_nobody_there_nothing_is_selected_after_that(governed: Governed, deed: str):
    command, later = runs_on(governed, deed), gate()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            governed.alone,
            [choose()],
            [command],
            [say("Now.", later), choose()],
            [write("src/auth/b.py")],
            flags=UNKNOWN,
        )
        later.wait_until_reached()
        let(governed)
        later.open()
        told = running.result()
    assert told.codes[2:] == ["REQ-012", "REQ-003"]
    assert not governed.there("src/auth/b.py")


# ── commands that never came to their end ───────────────────────────────────────────────


def test_what_an_interrupted_command_did_is_recorded(governed: Governed):
    governed.put(USER)
    program(governed, "gen.sh", f"echo made > {USER}; touch src/up; {LONG}")
    with LlmServer([choose()], [run("./gen.sh")]) as server:
        process = governed.rookery.piped("-p", *at(server), *UNKNOWN, "go")
        try:
            until_there(governed, "src/up")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 128 + signal.SIGINT
        finally:
            process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream
                stream.close()
    [command] = told_of(governed.root, "command")
    assert set(paths(command)) == {USER, "src/up"}
    assert (command["scope"], command["outcome"]) == ("out_of_scope_detected", "cancelled")
    assert command["error"]["code"] == "CMD-002"
    assert governed.is_whole()


def killed_after(governed: Governed, command: str) -> None:
    """Killed when the command is over and nobody has looked at what it did."""
    with LlmServer([choose()], [run(command)]) as server:
        given = ["-p", *at(server), *UNKNOWN, "go"]
        done = governed.rookery.run(*given, ROOKERY_KILLPOINT="command.ended")
    assert done.returncode == -signal.SIGKILL


def gone_on(governed: Governed, *answers: Any) -> Alone:
    with LlmServer(*answers, [finish()]) as server:
        given = ["-p", "--output-format", "json", *at(server), *UNKNOWN, "-c"]
        return Alone(server, governed.rookery.run(*given))


def test_what_a_killed_command_did_is_recorded_on_resuming(governed: Governed):
    governed.put(USER)
    program(governed, "gen.sh", f"echo made > {USER}")
    killed_after(governed, "./gen.sh")
    told = gone_on(governed)
    assert told.exit_code == 20
    assert told.governance
    assert told.governance["out_of_scope"] == [USER]
    assert "CMD-002" in told.requests[0]
    records = [each for each in told_of(governed.root) if USER in paths(each)]
    assert records
    assert records[-1]["scope"] == "out_of_scope_detected"
    assert records[-1]["outcome"] == "interrupted"
    assert records[-1]["error"]["code"] == "CMD-002"
    assert governed.is_whole()


def test_the_record_of_a_killed_command_names_the_files_that_it_named(governed: Governed):
    governed.put("src/auth/a.py")
    killed_after(governed, "echo made > src/auth/a.py")
    governed.alone()
    [recovered] = told_of(governed.root, "recovered")
    assert paths(recovered) == ["src/auth/a.py"]
    assert governed.is_whole()


# ── selecting ───────────────────────────────────────────────────────────────────────────

FAMILY = """\
  - id: INT-002
    name: Part of it
    status: IN_PROGRESS
    parent: INT-001
    owned_scope: ["src/auth/d/**"]
  - id: INT-009
    name: Something else
    status: IN_PROGRESS
    owned_scope: ["src/api/**"]
"""


def test_a_sub_task_still_knows_after_a_crash_what_it_was_begun_for(governed: Governed):
    governed.put(FILE, intents() + FAMILY)
    later = gate()
    scenes = ([choose()], [new_task("one")], [choose("INT-002")], [say("Now.", later)])
    with LlmServer(*scenes) as server:
        process = governed.rookery.piped("-p", *at(server), "go")
        later.wait_until_reached()
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            stream.close()
        later.open()
    told = gone_on(
        governed,
        [choose("INT-009")],
        [write(USER)],
        [call("attempt_completion", result="Tried.")],
    )
    assert "REQ-004" in told.codes
    assert not governed.there(USER)
    assert told.exit_code == 20


def test_an_intent_selected_twice_in_one_answer_is_still_unread(governed: Governed):
    told = governed.play([choose(), choose(), write("src/auth/a.py")], [write("src/auth/b.py")])
    assert told.codes == ["", "", "REQ-003", ""]
    assert told.refusal(2)["reason"] == "context_not_seen"
    assert not governed.there("src/auth/a.py")
    assert governed.there("src/auth/b.py")


# ── what a yes is for ───────────────────────────────────────────────────────────────────


def test_a_yes_for_the_task_is_for_the_very_line(governed: Governed):
    governed.put("src/auth/a.py")
    program(governed, "gen.sh", "true")
    line = "./gen.sh build"
    others = [f"{line} all", f"X=1 {line}", f"{line} --eval=x", "./gen.sh"]
    told = governed.play(
        [choose()],
        [run(line)],
        [run(line)],
        *([run(each)] for each in others),
        book=["task", *["no"] * len(others)],
    )
    assert [each.text for each in told.questions] == [line, *others]
    assert told.questions[0].governance
    assert told.questions[0].governance.grant == line
    assert told.codes == ["", "", "", *["REQ-002"] * len(others)]


def test_a_rule_for_a_program_is_for_no_line_with_more_to_it(governed: Governed):
    governed.put(
        ".orchestration/command_policy.yaml", "rules:\n  - {prefix: [make], decision: allow}\n"
    )
    governed.put("src/auth/a.py")
    lines = ["PATH=src/auth:$PATH make build", "make build > $X"]
    told = governed.play(
        [choose()], [run("make build")], *([run(each)] for each in lines), book=["no", "no"]
    )
    assert [each.text for each in told.questions] == lines
    assert [codes(each) for each in told.questions] == [["REQ-002"]] * 2
    assert told.codes[1:] == ["", "REQ-002", "REQ-002"]


# ── paths that servers are given ────────────────────────────────────────────────────────

INSIDE = [f"src/auth/{number}.py" for number in range(300)]
HARMLESS: list[Any] = [
    {"path": "src/auth/a.py"},
    {"files": [{"path": "src/auth/a.py", "content": "one\ntwo\n"}]},
    {"files": {"src/auth/a.py": "one\ntwo\n"}},
]
ARGUMENTS: dict[str, Any] = {
    "a list of objects": {"edits": [{"path": USER}]},
    "another spelling": {"filePath": USER},
    "deep": {"a": {"b": [{"c": {"file_path": USER}}]}},
    "an object for a path": {"file": {"x": USER}},
    "a path for a name": {"files": {USER: "new"}},
    "many": {"paths": [*INSIDE, USER]},
}


def test_wherever_a_server_is_given_a_path_it_is_judged(governed: Governed, heard: Path):
    governed.put(FILE, intents(more='permissions: {allow: ["mcp--files--*"]}'))
    calls = [
        call("use_mcp_tool", server="files", tool="write_file", arguments=each)
        for each in (*HARMLESS, *ARGUMENTS.values())
    ]
    told = governed.alone([choose()], *([each] for each in calls), flags=["-y"])
    refused = dict(zip(ARGUMENTS, told.codes[1 + len(HARMLESS) :], strict=True))
    assert refused == dict.fromkeys(ARGUMENTS, "REQ-001")
    assert [json.loads(line) for line in heard.read_text().splitlines()] == HARMLESS


# ── a folder that leads elsewhere ───────────────────────────────────────────────────────


@pytest.mark.parametrize("linked", ["the folder", "its ledger"])
def test_nothing_is_written_through_a_link(governed: Governed, linked: str):
    elsewhere = governed.root.parent / "elsewhere"
    folder = governed.root / ".orchestration"
    if linked == "the folder":
        folder.rename(elsewhere)
        folder.symlink_to(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "ledger").write_text("theirs\n")
        (folder / "agent_trace.jsonl").symlink_to(elsewhere / "ledger")
    before = files_in(elsewhere)
    governed.alone([choose()], [write("src/auth/a.py")], [run("touch src/auth/b")])
    assert files_in(elsewhere) == before


def files_in(folder: Path) -> dict[str, str]:
    files = [each for each in folder.rglob("*") if each.is_file()]
    return {str(each): each.read_text(encoding="utf-8") for each in files}
