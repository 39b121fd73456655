"""The intent file: problems are reported, and changes apply at once."""

import os
import threading

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
from support.governed_session import (
    FILE,
    Governed,
    choose,
    intents,
    read,
    run,
    wait,
    write,
)

USER, JWT = "src/api/user.py", "src/auth/jwt.py"
NO_SANDBOX = '[sandbox]\nuse = "off"\n'


def test_an_invalid_intent_file_blocks_only_changes(governed: Governed):
    governed.put(FILE, intents(more='x-run: !!python/object/apply:os.system ["touch ran"]'))
    governed.put("README.md", "Read me.\n")
    reported = governed.alone([choose()], [write(JWT)], [read("README.md")])
    assert reported.codes == ["REQ-013", "REQ-013", ""]
    assert {each["code"] for each in reported.refusal(0)["problems"]} == {"E105"}
    assert "Read me." in reported.results[2]
    assert not governed.there(JWT)
    assert not governed.there("ran")
    assert reported.exit_code == 20


def test_a_bad_intent_leaves_the_others_usable_and_switches_recorded(governed: Governed):
    listed = "\n".join(
        f'  - {{id: INT-00{number}, name: n, status: IN_PROGRESS, owned_scope: ["{scope}", d]}}'
        for number, scope in enumerate(("a/**", "../b/**", "c/**"), start=1)
    )
    governed.put(FILE, f"active_intents:\n{listed}\n")
    answers = [choose("INT-002")], [choose("INT-001")], [write("a/x")], [choose("INT-003")]
    reported = governed.alone(*answers, [write("c/x")])
    assert reported.codes == ["REQ-013", "", "", "", ""]
    assert [each["code"] for each in reported.refusal(0)["problems"]] == ["E206"]
    assert governed.there("a/x")
    assert governed.there("c/x")
    assert governed.kinds() == [
        *("blocked", "intent_selected", "mutation"),
        *("intent_cleared", "intent_selected", "mutation"),
    ]
    assert [each.intent_id for each in governed.of("mutation")] == ["INT-001", "INT-003"]


def test_user_edits_of_the_intent_file_apply_to_the_next_call(governed: Governed):
    """A narrower scope at once, a wider one once it is selected again, and a pause for good."""

    def narrows(asked: Asked) -> str:
        governed.put(FILE, governed.text(FILE).replace("src/auth/**", "src/auth/new/**"))
        return "message It is narrower."

    def widens(asked: Asked) -> str:
        assert governed.cli("intents", "expand", "INT-001", "src/api/**").returncode == 0
        return "message It is wider."

    def pauses(asked: Asked) -> str:
        assert governed.cli("intents", "pause", "INT-001").returncode == 0
        return "message It is paused."

    reported = governed.play(
        [choose()],
        [wait()],
        [write(JWT)],
        [write("src/auth/new/a.py")],
        [wait()],
        [write(USER)],
        [choose()],
        [write(USER)],
        [wait()],
        [write("src/auth/new/b.py")],
        [write("src/auth/new/b.py")],
        [choose()],
        book=[narrows, "no", widens, pauses],
    )
    narrowed, widened = ["REQ-001", ""], ["REQ-012", "", ""]
    paused = ["REQ-012", "REQ-003", "REQ-010"]
    assert reported.codes == ["", "", *narrowed, "", *widened, "", *paused]
    assert "The scope of INT-001 was reduced" in reported.requests[3]
    assert reported.refusal(5)["change"] == ["owned_scope"]
    assert "INT-001" in reported.refusal(5)["message"]
    assert "status" in reported.refusal(9)["change"]
    written = [governed.there(path) for path in (JWT, "src/auth/new/a.py", USER)]
    assert written == [False, True, True]
    assert not governed.there("src/auth/new/b.py")
    assert reported.of(IntentCleared)
    assert governed.kinds()[-5:] == ["intent_change", "intent_invalidated", *["blocked"] * 3]
    assert governed.is_whole()


def widening(governed: Governed) -> str:
    """A command that gives INT-001 the whole workspace without looking like it."""
    governed.program("widen.sh", f"sed -i 's:src/auth/\\*\\*:**:' {FILE}")
    return "./widen.sh"


def test_intent_changes_made_by_a_command_need_approval(governed: Governed):
    """Neither a missing id nor a file that changes while the user reads bypasses the check."""
    governed.settings(NO_SANDBOX + "[governance]\nauto_select_single = true\n")

    def sneaks(asked: Asked) -> str:
        governed.put(FILE, governed.text(FILE).replace('"**"', '"**"\n      - "!x"'))
        return "yes"

    reported = governed.play(
        [choose()],
        [run(widening(governed))],
        [write(USER)],
        [choose()],
        [choose("")],
        [choose()],
        [write(USER)],
        [choose()],
        [write(USER)],
        book=["yes", "no", "no", sneaks, "yes"],
        flags=("-y", "--allow-protected"),
    )
    refused = ["REQ-012", "REQ-012", "REQ-012", "REQ-003"]
    assert reported.codes == ["", "", "REQ-003", *refused, "", ""]
    assert '- "**"' in governed.text(FILE)
    assert "CMD-002" in reported.requests[2]
    assert [each.own_doing for each in reported.of(IntentCleared)] == [True]
    assert len(reported.of(IntentSelected)) == 2
    selection = reported.questions[1]
    assert selection.governance
    assert {"- scope: src/auth/**", "+ scope: **"} <= set(selection.notes)
    assert governed.there(USER)
    assert "intent_invalidated" in governed.kinds()
    assert governed.is_whole()


def test_intent_changes_of_an_approved_command_are_kept_and_named(governed: Governed):
    governed.settings(NO_SANDBOX)
    command = run(widening(governed))
    reported = governed.play([choose()], [command], [choose()], book=["yes", "yes"])
    assert '- "**"  # all of it' in governed.text(FILE)
    assert reported.codes == ["", "", ""]
    [named] = [noted.text for noted in reported.of(Noted) if FILE in noted.text]
    assert "you approved" in named
    assert {"- scope: src/auth/**", "+ scope: **"} <= set(reported.questions[1].notes)
    assert governed.is_whole()


def test_intent_changes_during_an_unapproved_command_are_reverted(governed: Governed):
    """Without a sandbox it is unknown whether the command did it."""
    governed.settings(NO_SANDBOX)
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
    reported = governed.play([choose()], [waiting], [choose()], book=["yes"], watch=watch)
    os.close(pipe)
    assert governed.text(FILE) == before
    assert reported.codes == ["", "", ""]
    assert "Its wording did not change." in reported.questions[0].notes
    assert "intent_invalidated" in governed.kinds()
    assert governed.is_whole()


def test_a_half_written_intent_file_is_read_again(governed: Governed):
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

    reported = governed.play([choose()], [say("Now I write.", held), write(JWT)], watch=watch)
    started[0].join()
    assert reported.codes == ["", ""]
    assert governed.there(JWT)
    assert len(reported.of(IntentSelected)) == 1
