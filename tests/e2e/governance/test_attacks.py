"""What attacks on governance once came through with, and no longer do."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, gate, say
from rookery.core.facts import Asked, IntentCleared, Noted
from support.governed_session import (
    FILE,
    UNKNOWN,
    Alone,
    Governed,
    at,
    choose,
    intents,
    new_task,
    reasons,
    run,
    wait,
    write,
)
from support.ledger_lines import own_records, paths
from support.terminal_session import PATIENCE, a_pause

USER = "src/api/user.py"
LEDGER = ".orchestration/agent_trace.jsonl"
NO_SANDBOX = '[sandbox]\nuse = "off"\n'
UNTIL_GO = "until test -e src/auth/go; do sleep 0.02; done"
LONG = f"exec sleep {a_pause()}"
WIDER = intents(scope=["**"])


# ── copies of the ledger ────────────────────────────────────────────────────────────────


def test_governance_copies_made_by_the_user_during_a_command_are_kept(governed: Governed):
    governed.put("src/auth/a.py")

    def copy_and_move() -> None:
        governed.until_there("src/auth/up")
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


# ── commands that turn on governance itself ─────────────────────────────────────────────


def test_shortening_the_ledger_drops_the_intent_and_warns_the_user(
    governed: Governed,
):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    governed.program("empty.sh", f": > {LEDGER}")
    governed.program("cut.sh", f"sed -i '$d' {LEDGER}")
    reported = governed.play(
        [choose()],
        [run("./empty.sh")],
        [write("src/auth/b.py")],
        [choose()],
        [run("./cut.sh")],
        [write("src/auth/b.py")],
        book=["yes", "yes", "yes"],
    )
    assert reported.codes == ["", "", "REQ-003", "", "", "REQ-003"]
    assert [each.own_doing for each in reported.of(IntentCleared)] == [True, True]
    notes = [each for each in reported.of(Noted) if "The ledger was changed" in each.text]
    assert len(notes) == 2
    assert not governed.there("src/auth/b.py")


def test_noninteractive_selection_is_refused_after_a_ledger_change(governed: Governed):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    governed.program("gen.sh", f"rm {LEDGER}; mkdir {LEDGER}")
    reported = governed.alone(
        [choose()], [run("./gen.sh")], [write("src/auth/b.py")], [choose()], flags=UNKNOWN
    )
    assert reported.codes[2] in ("REQ-003", "TRC-001")
    assert reported.codes[3] == "REQ-012"
    assert "The ledger was changed while a command ran" in reported.requests[2]
    assert reported.exit_code == 20
    assert reported.governance
    assert reported.governance["out_of_scope"] == [LEDGER]
    assert not governed.there("src/auth/b.py")


def test_replacing_the_governance_folder_by_a_file_blocks_changes(governed: Governed):
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    governed.program("gen.sh", "rm -rf .orchestration; touch .orchestration")
    reported = governed.alone(
        [choose()], [run("./gen.sh")], [write("src/auth/b.py")], flags=UNKNOWN
    )
    assert reported.codes[2] == "REQ-003"
    assert reported.exit_code == 20
    assert "INT-001" in governed.text(FILE), "it is reverted"


def runs_on(governed: Governed, deed: str) -> Any:
    """A background command that acts once it is released."""
    governed.settings(NO_SANDBOX)
    governed.put("src/auth/a.py")
    governed.put("src/auth/wider.yaml", WIDER)
    governed.program("gen.sh", f"{UNTIL_GO}; {deed}; touch src/auth/done; {LONG}")
    return call("execute_command", command="./gen.sh", cwd=None, timeout=1)


def let(governed: Governed) -> None:
    governed.put("src/auth/go")
    governed.until_there("src/auth/done")


def test_intent_changes_by_a_background_command_need_approval(
    governed: Governed,
):
    def meanwhile(_: Asked) -> str:
        let(governed)
        return "message Go on"

    command = runs_on(governed, f"cp src/auth/wider.yaml {FILE}")
    reported = governed.play(
        [choose()], [command], [wait()], [choose()], [write(USER)], book=["yes", meanwhile, "no"]
    )
    assert reasons(reported.questions[-1]) == ["REQ-012"]
    assert reported.codes[3:] == ["REQ-012", "REQ-003"]
    assert not governed.there(USER)


def test_noninteractive_selection_is_refused_after_background_changes(governed: Governed):
    command, later = runs_on(governed, f": > {LEDGER}"), gate()
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
        reported = running.result()
    assert reported.codes[2:] == ["REQ-012", "REQ-003"]
    assert not governed.there("src/auth/b.py")


# ── commands that never came to their end ───────────────────────────────────────────────


def test_changes_of_an_interrupted_command_are_recorded(governed: Governed):
    governed.put(USER)
    governed.program("gen.sh", f"echo made > {USER}; touch src/up; {LONG}")
    with (
        LlmServer([choose()], [run("./gen.sh")]) as server,
        governed.started(server, *UNKNOWN) as process,
    ):
        governed.until_there("src/up")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
    [command] = own_records(governed.root, "command")
    assert set(paths(command)) == {USER, "src/up"}
    assert (command["scope"], command["outcome"]) == ("out_of_scope_detected", "cancelled")
    assert command["error"]["code"] == "CMD-002"
    assert governed.is_whole()


def killed_after(governed: Governed, command: str) -> None:
    """Killed after the command ended and before its changes were checked."""
    with LlmServer([choose()], [run(command)]) as server:
        given = ["-p", *at(server), *UNKNOWN, "go"]
        done = governed.rookery.run(*given, ROOKERY_KILLPOINT="command.ended")
    assert done.returncode == -signal.SIGKILL


def gone_on(governed: Governed, *answers: Any) -> Alone:
    with LlmServer(*answers, [finish()]) as server:
        given = ["-p", "--output-format", "json", *at(server), *UNKNOWN, "-c"]
        return Alone(server, governed.rookery.run(*given))


def test_changes_of_a_killed_command_are_recorded_on_resume(governed: Governed):
    governed.put(USER)
    governed.program("gen.sh", f"echo made > {USER}")
    killed_after(governed, "./gen.sh")
    reported = gone_on(governed)
    assert reported.exit_code == 20
    assert reported.governance
    assert reported.governance["out_of_scope"] == [USER]
    assert "CMD-002" in reported.requests[0]
    records = [each for each in own_records(governed.root) if USER in paths(each)]
    assert records
    assert records[-1]["scope"] == "out_of_scope_detected"
    assert records[-1]["outcome"] == "interrupted"
    assert records[-1]["error"]["code"] == "CMD-002"
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


def test_a_sub_task_keeps_its_intent_after_a_crash(governed: Governed):
    governed.put(FILE, intents() + FAMILY)
    later = gate()
    scenes = ([choose()], [new_task("one")], [choose("INT-002")], [say("Now.", later)])
    with LlmServer(*scenes) as server:
        with governed.started(server):
            later.wait_until_reached()
        later.open()
    reported = gone_on(
        governed,
        [choose("INT-009")],
        [write(USER)],
        [call("attempt_completion", result="Tried.")],
    )
    assert "REQ-004" in reported.codes
    assert not governed.there(USER)
    assert reported.exit_code == 20


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
