"""The intent file: what is wrong with it is told, and what changes in it holds at once.

Each test is a row of the acceptance table and carries its number.
"""

import json
import os
import threading
from typing import Any

import pytest

from llm_server import gate, say
from rookery.core.facts import (
    Asked,
    Fact,
    IntentCleared,
    IntentSelected,
    Noted,
    TextStreamed,
    ToolStarted,
)
from support.file_watch import FileWatch
from support.governed_session import FILE, Alone, Governed, choose, intents, read, run, wait, write
from support.terminal_session import Installed

USER, JWT = "src/api/user.py", "src/auth/jwt.py"
UNUSABLE = {
    "22_48_syntax": (intents() + "  - id: [\n", "E103"),
    "22_50_tag": (intents(more='x-run: !!python/object/apply:os.system ["touch ran"]'), "E105"),
}


def problems(governed: Governed) -> list[dict[str, object]]:
    """What `validate` says is wrong with the file."""
    found: list[dict[str, object]] = json.loads(
        governed.cli("intents", "validate", "--json").stdout
    )["problems"]
    return [each for each in found if each["severity"] == "error"]


@pytest.mark.parametrize(("text", "code"), UNUSABLE.values(), ids=list(UNUSABLE))
def test_an_unusable_file_stops_what_changes_and_nothing_else(
    governed: Governed, text: str, code: str
):
    governed.put(FILE, text)
    governed.put("README.md", "Read me.\n")
    found = problems(governed)
    assert {each["code"] for each in found} == {code}
    assert {each["file"] for each in found} == {FILE}
    told = governed.alone([choose()], [write(JWT)], [read("README.md")])
    assert told.codes == ["REQ-013", "REQ-013", ""]
    assert {each["code"] for each in told.refusal(0)["problems"]} == {code}
    assert "Read me." in told.results[2]
    assert not governed.there(JWT)
    assert not governed.there("ran")
    assert told.exit_code == 20


def test_the_place_of_a_fault_is_told_to_a_person(governed: Governed):
    governed.put(FILE, "active_intents:\n  - id: INT-001\n\t  name: n\n")
    done = governed.cli("intents", "validate")
    assert done.returncode == 1
    assert f"{FILE}:3:1  error E103" in done.stdout


def test_no_is_a_text(governed: Governed):
    governed.put(FILE, intents(more="owner: no\ncreated_at: 2026-02-20T12:00:00Z"))
    assert problems(governed) == []
    told = governed.alone([choose()], [write(JWT)])
    assert told.codes == ["", ""]
    assert "owner: no\n" in governed.text(FILE)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Governed, Alone]:
    """Three intents, of which one has an error."""
    governed = Governed(Installed(tmp_path_factory.mktemp("three")), None)
    listed = "\n".join(
        f'  - {{id: INT-00{number}, name: n, status: IN_PROGRESS, owned_scope: ["{scope}", d]}}'
        for number, scope in enumerate(("a/**", "../b/**", "c/**"), start=1)
    )
    governed.put(FILE, f"active_intents:\n{listed}\n")
    answers = [choose("INT-002")], [choose("INT-001")], [write("a/x")], [choose("INT-003")]
    return governed, governed.alone(*answers, [write("c/x")])


def test_one_bad_intent_leaves_the_others(three: tuple[Governed, Alone]):
    governed, told = three
    assert told.codes == ["REQ-013", "", "", "", ""]
    assert [each["code"] for each in told.refusal(0)["problems"]] == ["E206"]
    assert [each["intent_id"] for each in problems(governed)] == ["INT-002"]
    assert governed.there("a/x")
    assert governed.there("c/x")


def test_to_switch_is_recorded(three: tuple[Governed, Alone]):
    governed, _ = three
    assert [each.kind for each in governed.records] == [
        *("blocked", "intent_selected", "mutation"),
        *("intent_cleared", "intent_selected", "mutation"),
    ]
    assert [each.intent_id for each in governed.of("mutation")] == ["INT-001", "INT-003"]


def test_a_cycle_is_named(governed: Governed):
    listed = "\n".join(
        f"  - {{id: INT-00{one}, name: n, status: IN_PROGRESS, owned_scope: [a], "
        f"depends_on: [INT-00{other}]}}"
        for one, other in ((1, 2), (2, 3), (3, 1))
    )
    governed.put(FILE, f"active_intents:\n{listed}\n")
    found = problems(governed)
    assert {each["code"] for each in found} == {"E210"}
    assert "INT-001 -> INT-002 -> INT-003 -> INT-001" in str(found[0]["message"])
    assert governed.alone([choose()]).code(0) == "REQ-013"


def test_a_paused_intent_is_lost_with_the_next_call(governed: Governed):
    def pauses(asked: Asked) -> str:
        assert governed.cli("intents", "pause", "INT-001").returncode == 0
        return "message It is paused."

    told = governed.play(
        [choose()],
        [write(JWT)],
        [wait()],
        [write("src/auth/b.py")],
        [write("src/auth/b.py")],
        [choose()],
        book=[pauses],
    )
    assert told.codes == ["", "", "", "REQ-012", "REQ-003", "REQ-010"]
    assert "status" in told.refusal(3)["change"]
    assert told.of(IntentCleared)
    assert not governed.there("src/auth/b.py")
    assert [each.kind for each in governed.records] == [
        *("intent_selected", "mutation", "intent_change", "intent_invalidated"),
        *("blocked", "blocked", "blocked"),
    ]
    assert governed.is_whole()


def test_a_narrower_scope_holds_at_once(governed: Governed):
    def narrows(asked: Asked) -> str:
        governed.put(FILE, governed.text(FILE).replace("src/auth/**", "src/auth/new/**"))
        return "message It is narrower."

    told = governed.play(
        [choose()], [wait()], [write(JWT)], [write("src/auth/new/a.py")], book=[narrows, "no"]
    )
    assert told.codes == ["", "", "REQ-001", ""]
    assert not governed.there(JWT)
    assert governed.there("src/auth/new/a.py")
    assert "The scope of INT-001 was reduced" in told.requests[-1]


def test_a_wider_scope_must_be_selected_again(governed: Governed):
    def widens(asked: Asked) -> str:
        assert governed.cli("intents", "expand", "INT-001", "src/api/**").returncode == 0
        return "message It is wider."

    told = governed.play(
        [choose()], [wait()], [write(USER)], [choose()], [write(USER)], book=[widens]
    )
    assert told.codes == ["", "", "REQ-012", "", ""]
    assert told.refusal(2)["change"] == ["owned_scope"]
    assert "INT-001" in told.refusal(2)["message"]
    assert governed.there(USER)


def widening(governed: Governed) -> Any:
    """A command that gives INT-001 the whole workspace, which nobody can tell by its looks."""
    governed.settings('[sandbox]\nuse = "off"\n')
    script = governed.put("widen.sh", f"#!/bin/sh\nsed -i 's:src/auth/\\*\\*:**:' {FILE}\n")
    script.chmod(0o755)
    return run("./widen.sh")


@pytest.mark.parametrize("yes", [False, True])
def test_what_a_command_makes_of_the_intents_needs_a_persons_yes(governed: Governed, yes: bool):
    told = governed.play(
        [choose()],
        [widening(governed)],
        [write(USER)],
        [choose()],
        [write(USER)],
        book=["yes", "yes" if yes else "no"],
        flags=("-y", "--allow-protected"),
    )
    assert '- "**"  # all of it' in governed.text(FILE)
    assert "CMD-002" in told.requests[2]
    [cleared] = told.of(IntentCleared)
    assert cleared.own_doing
    assert told.code(2) == "REQ-003"
    _, selection = told.questions
    assert selection.governance
    assert {"- scope: src/auth/**", "+ scope: **"} <= set(selection.notes)
    assert told.codes[3:] == (["", ""] if yes else ["REQ-012", "REQ-003"])
    assert governed.there(USER) is yes
    assert "intent_invalidated" in governed.kinds()
    assert governed.is_whole()


def test_no_id_is_no_way_around_the_question(governed: Governed):
    command = widening(governed)
    file = governed.rookery.home / "config" / "settings.toml"
    file.write_text(file.read_text() + "[governance]\nauto_select_single = true\n")
    told = governed.play(
        [choose("")],
        [command],
        [choose("")],
        book=["yes", "no"],
        flags=("-y", "--allow-protected"),
    )
    assert told.codes == ["", "", "REQ-012"]


def test_what_changes_after_the_person_has_looked_is_not_what_they_agreed_to(
    governed: Governed,
):
    def sneaks(asked: Asked) -> str:
        governed.put(FILE, intents(scope=["**", "!x"]))
        return "yes"

    told = governed.play(
        [choose()],
        [widening(governed)],
        [choose()],
        [choose()],
        book=["yes", sneaks, "no"],
        flags=("-y", "--allow-protected"),
    )
    assert told.codes == ["", "", "REQ-012", "REQ-012"]
    assert len(told.of(IntentSelected)) == 1


def test_what_an_approved_command_made_of_the_file_stands_and_is_named(governed: Governed):
    told = governed.play([choose()], [widening(governed)], [choose()], book=["yes", "yes"])
    assert '- "**"  # all of it' in governed.text(FILE)
    assert told.codes == ["", "", ""]
    [named] = [noted.text for noted in told.of(Noted) if FILE in noted.text]
    assert "you approved" in named
    assert {"- scope: src/auth/**", "+ scope: **"} <= set(told.questions[1].notes)
    assert governed.is_whole()


def test_what_changes_during_a_command_that_nobody_approved_is_put_back(governed: Governed):
    """Without a sandbox nobody can tell whether the command did it."""
    governed.settings('[sandbox]\nuse = "off"\n')
    before = governed.text(FILE)
    fifo = governed.root.parent / "fifo"
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)

    def watch(fact: Fact) -> None:
        if isinstance(fact, ToolStarted) and fact.command:
            governed.put(FILE, intents(scope=["**"]))
            os.write(pipe, b"done\n")

    (governed.root / "src/auth").mkdir(parents=True)
    waiting = run(f"head -n 1 {fifo} > {JWT}")
    told = governed.play([choose()], [waiting], [choose()], book=["yes"], watch=watch)
    os.close(pipe)
    assert governed.text(FILE) == before
    assert told.codes == ["", "", ""]
    assert "Its wording did not change." in told.questions[0].notes
    assert "intent_invalidated" in governed.kinds()
    assert governed.is_whole()


def test_what_others_record_while_a_command_runs_stays_on_record(governed: Governed):
    """The ledger and the leases are the host's own; no command has changed them."""
    governed.settings('[sandbox]\nuse = "off"\n')
    fifo = governed.root.parent / "fifo"
    os.mkfifo(fifo)
    pipe = os.open(fifo, os.O_RDWR)
    (governed.root / "src/auth").mkdir(parents=True)

    def watch(fact: Fact) -> None:
        if isinstance(fact, ToolStarted) and fact.command:
            assert governed.alone([choose()], [write("src/auth/other.py")]).exit_code == 0
            os.write(pipe, b"done\n")

    waiting = run(f"head -n 1 {fifo} > {JWT}")
    told = governed.play([choose()], [waiting], watch=watch)
    os.close(pipe)
    assert told.codes == ["", ""]
    assert governed.text(JWT) == "done\n"
    assert [each.files[0].path for each in governed.of("mutation")] == ["src/auth/other.py"]
    assert governed.is_whole()


def test_half_a_file_is_looked_at_again(governed: Governed):
    """An editor that has written half of the file when the call comes, and the rest as soon as
    somebody has read that half."""
    held = gate()
    whole = governed.text(FILE)
    half = whole[: whole.index("owned_scope")]
    started: list[threading.Thread] = []

    def saves() -> None:
        with FileWatch(governed.root / FILE) as watched:
            half_written.set()
            watched.wait_until_read()
            governed.put(FILE, whole)

    half_written = threading.Event()

    def watch(fact: Fact) -> None:
        if isinstance(fact, TextStreamed) and not started:
            governed.put(FILE, half)
            started.append(threading.Thread(target=saves))
            started[0].start()
            assert half_written.wait(60)
            held.open()

    told = governed.play([choose()], [say("Now I write.", held), write(JWT)], watch=watch)
    started[0].join()
    assert told.codes == ["", ""]
    assert governed.there(JWT)
    assert len(told.of(IntentSelected)) == 1


def test_to_close_while_somebody_edits_is_refused_and_loses_nothing(governed: Governed):
    """The check itself is who edits the file, so that it happens at the right moment."""
    governed.settings('[sandbox]\nuse = "off"\n')
    check = f"verify: {{ command: \"echo '# mine' >> {FILE}\" }}"
    governed.put(FILE, intents(more=f"acceptance_criteria:\n  - text: Done.\n    {check}"))
    done = governed.cli("intents", "close", "INT-001")
    assert done.returncode == 1
    assert "changed while INT-001 was being closed" in done.stderr
    assert "status: IN_PROGRESS" in governed.text(FILE)
    assert governed.text(FILE).endswith("# mine\n")
    assert governed.of("intent_change") == []
