"""Scope and paths: what an intent owns, and how exceptions are approved.

INT-001 owns `src/auth/**` unless a test changes it. The rules for paths and operations are tested
in tests/governance/scope; these tests run the whole product.
"""

import json
import os
from typing import Any

from llm_server import call, finish
from rookery.core.facts import Asked
from support.governed_session import (
    FILE,
    Governed,
    Row,
    choose,
    intents,
    patch,
    read,
    reasons,
    run,
    wait,
    write,
)

USER, JWT = "src/api/user.py", "src/auth/jwt.py"
LEDGER = ".orchestration/agent_trace.jsonl"
OTHER = """\
  - id: INT-002
    name: Everything else
    status: IN_PROGRESS
    owned_scope: ["ui/**"]
"""


def rework(path: str, old: str = "old") -> Any:
    """Change a file that is there."""
    return call("edit", file_path=path, old_string=old, new_string="new")


def verdicts(asked: Asked) -> dict[str, str]:
    assert asked.governance
    return {each.path: each.verdict for each in asked.governance.targets}


def choices(asked: Asked) -> tuple[str, ...]:
    assert asked.governance
    return tuple(asked.governance.choices)


def test_out_of_scope_writes_ask_and_follow_the_answer(governed: Governed):
    outside = governed.root.parent / "private"
    outside.mkdir()
    for path in (USER, "src/auth/c.py", "src/auth/e.py", "src/auth/f.py", "src/auth/move.py"):
        governed.put(path)
    os.link(governed.put("src/api/twin.py"), governed.put("src/auth/b.py").parent / "a.py")
    both = patch("*** Update File: src/auth/c.py", "@@", "-old", "+new", f"*** Delete File: {USER}")
    move = patch(
        "*** Update File: src/auth/move.py", "*** Move to: src/api/moved.py", "@@", "-old", "+new"
    )
    reported, asked = governed.play_rows(
        {
            "in scope": Row(write(JWT)),
            "out of scope": Row(rework(USER), "no because it is mine", "REQ-001"),
            "yes": Row(write("src/api/once.py", "one\n"), "yes"),
            "the same again": Row(write("src/api/once.py", "two\n"), "no", "REQ-001"),
            "outside": Row(write(str(outside / "no.txt")), "no", "REQ-001"),
            "yes outside": Row(write(str(outside / "yes.txt"), "one\n"), "yes"),
            "outside again": Row(write(str(outside / "yes.txt"), "two\n"), "no", "REQ-001"),
            "a second name": Row(rework("src/auth/a.py"), "no", "REQ-001"),
            "one name": Row(rework("src/auth/b.py")),
            "two files, one out of scope": Row(both, "no", "REQ-001"),
            "a move out": Row(move, "no", "REQ-001"),
            "a deletion": Row(patch("*** Delete File: src/auth/e.py"), "no", "REQ-008"),
            "yes to a deletion": Row(patch("*** Delete File: src/auth/f.py"), "yes"),
            "a deleting command": Row(run("rm src/auth/e.py"), "no", "REQ-008"),
            "the rules themselves": Row(write(".orchestration/hooks.json"), "no", "REQ-014"),
            "only the case differs": Row(write("SRC/AUTH/jwt.py")),
        }
    )
    refusal = reported.refusal(2)
    assert (refusal["error_type"], refusal["feedback"]) == ("scope_violation", "because it is mine")
    assert (refusal["filename"], refusal["intent_id"]) == (USER, "INT-001")
    assert refusal["targets"] == [{"path": USER, "op": "modify", "verdict": "out_of_scope"}]
    assert str(outside) not in reported.results[5], "its location is not repeated"
    assert "no.txt" in reported.results[5]
    assert reported.refusal(8)["reason"] == "shared content"
    assert "src/api/moved.py" in json.dumps(reported.refusal(11)["targets"])
    assert "Did you mean src?" in reported.results[16], (
        "refused by the tool, whatever governance says"
    )
    assert choices(asked["outside"]) == choices(asked["the rules themselves"]) == ("halt",)
    assert {name for name, each in asked.items() if reasons(each) == ["REQ-008"]} == {
        *("a deletion", "yes to a deletion", "a deleting command")
    }
    assert verdicts(asked["two files, one out of scope"]) == {
        "src/auth/c.py": "in_scope",
        USER: "out_of_scope",
    }
    assert {each.rule for each in asked.values()} == {""}, "nothing of it is allowed for ever"

    unchanged = (USER, "src/auth/c.py", "src/auth/e.py", "src/auth/move.py", "src/api/twin.py")
    assert {governed.text(path) for path in unchanged} == {"old\n"}
    assert (governed.text(JWT), governed.text("src/auth/b.py")) == ("new\n", "new\n")
    assert governed.text("src/api/once.py") == (outside / "yes.txt").read_text() == "one\n"
    for path in ("src/auth/f.py", "src/api/moved.py", ".orchestration/hooks.json", "SRC"):
        assert not governed.there(path), path
    assert not (outside / "no.txt").exists()

    written = {each.files[0].path: each for each in governed.of("mutation")}
    once = written["src/api/once.py"]
    assert (written[JWT].scope, written[JWT].intent_id) == ("in_scope", "INT-001")
    assert (once.scope, once.approval) == ("approved_once", "once")
    deleted = written["src/auth/f.py"].files
    assert [(each.op, each.after) for each in deleted] == [("delete", None)]
    decision, blocked = governed.records[2:4]
    assert (decision.kind, decision.approval, decision.approved_by) == ("decision", "no", "human")
    assert (blocked.kind, blocked.outcome, blocked.error_code) == ("blocked", "denied", "REQ-001")
    assert governed.is_whole()


def test_a_link_swapped_during_the_question_is_not_followed(
    governed: Governed,
):
    elsewhere = governed.root.parent / "elsewhere"
    elsewhere.mkdir()
    folder = governed.put("src/auth/d/a.py").parent

    def swaps(asked: Asked) -> str:
        folder.rename(governed.root / "src/auth/e")
        folder.symlink_to(elsewhere)
        return "yes"

    reported = governed.play(
        [choose()], [write(USER)], [write("src/auth/d/x.py")], book=["no", swaps], flags=("-a",)
    )
    asked = reported.questions[0]
    question = asked.governance
    assert question
    assert (question.intent_id, question.scope) == ("INT-001", ("src/auth/**",))
    assert (reasons(asked), verdicts(asked)) == (["REQ-001"], {USER: "out_of_scope"})
    assert (question.pattern, question.choices) == (USER, ("task", "expand", "halt"))
    assert "+new" in asked.diff
    assert asked.rule == ""
    refusal = reported.refusal(2)
    assert (refusal["code"], refusal["reason"]) == ("REQ-015", "path_changed")
    assert not list(elsewhere.iterdir())
    assert governed.kinds() == ["intent_selected", *["decision", "blocked"] * 2]


def test_a_task_approval_lasts_until_the_task_or_the_intent_changes(governed: Governed):
    with governed.attended(
        [choose()],
        [write(USER, "one\n")],
        [write(USER, "two\n")],
        [write("src/api/other.py")],
        [finish()],
        [choose()],
        [rework(USER, "two")],
        [finish()],
    ) as person:
        first = person.follow("task", "no")
        assert governed.text(USER) == "two\n"
        assert len(person.follow("no").questions) == 1
    assert governed.text(USER) == "two\n"
    assert not governed.there("src/api/other.py")
    assert [each.scope for each in governed.of("mutation")] == ["approved_task"] * 2

    def narrows(asked: Asked) -> str:
        governed.put(FILE, governed.text(FILE).replace("src/auth/**", "src/auth/a/**"))
        return "message It is narrower."

    more = [[rework(USER, "two")], [wait()], [write(USER, "three\n")], [finish()]]
    with governed.attended(*more) as later:
        reported = later.follow("message Go on.", narrows, "no", again=first)
    assert governed.text(USER) == "new\n"
    assert reported.codes[-1] == "REQ-001"


def test_a_widened_scope_is_saved_and_applies(governed: Governed):
    reported = governed.play(
        [choose()], [write(USER, "one\n")], [write(USER, "two\n")], book=["expand"]
    )
    assert reported.codes == ["", "", ""]
    assert governed.text(USER) == "two\n"
    assert f'- "src/auth/**"  # all of it\n      - "{USER}"\n' in governed.text(FILE)
    [change] = governed.of("intent_change")
    own = change.raw["metadata"]["orchestration"]
    assert own["pattern"] == USER
    assert own["digest_before"] != own["digest_after"] == governed.of("mutation")[-1].intent_digest
    assert governed.is_whole()


UNJUDGED = {
    "../../out-of-scope.txt": "traversal",
    "src/auth/link": "symlink_escape",
    "src/auth/d/x": None,
    "src/auth/d/../x": None,
    "src/auth/\u202egnp.py": "control_char",
    "src/auth/a\0.py": "nul",
}


def test_paths_that_cannot_be_checked_are_refused_without_a_question(governed: Governed):
    elsewhere = governed.root.parent / "elsewhere"
    elsewhere.mkdir()
    governed.put(USER)
    governed.put("src/auth/a.py")
    (governed.root / "src/auth/link").symlink_to("../api/user.py")
    (governed.root / "src/auth/d").symlink_to(elsewhere)
    reported, _ = governed.play_rows({path: Row(write(path), "", "REQ-015") for path in UNJUDGED})
    for number, (path, reason) in enumerate(UNJUDGED.items(), start=1):
        refusal = reported.refusal(number)
        assert refusal["error_type"] == "path_rejected", path
        assert refusal["reason"] == (reason or refusal["reason"]), path
        assert "elsewhere" not in json.dumps(refusal), path
    assert USER in " ".join(reported.refusal(2)["recovery"]), "the real path is named"
    assert governed.text(USER) == "old\n"
    assert not list(elsewhere.iterdir())
    for path in (governed.root.parent / "x", governed.root.parent.parent / "out-of-scope.txt"):
        assert not path.exists(), path
    assert not governed.there("src/auth/x")
    assert governed.kinds() == ["intent_selected", *["blocked"] * len(UNJUDGED)]


def test_no_scope_covers_rule_files_the_ledger_or_git_metadata(governed: Governed):
    governed.put(FILE, intents(scope=["**", ".orchestration/**"]))
    (governed.root / ".git/hooks").mkdir(parents=True)
    before = governed.text(FILE)
    reported = governed.alone(
        [choose()],
        [read(FILE)],
        [write(FILE, intents(scope=["**"]))],
        [write(".git/hooks/pre-commit", "#!/bin/sh\n")],
        [run(f"echo forged >> {LEDGER}")],
        [run(f"rm {LEDGER}")],
        flags=["-y", "--governance-allow", "scope", "--governance-allow", "delete"],
    )
    assert reported.codes[2:] == ["REQ-014"] * 4
    assert governed.text(FILE) == before
    assert governed.is_whole()
    assert not governed.there(".git/hooks/pre-commit")


def test_exemptions_and_auto_approval_do_not_widen_the_scope(governed: Governed):
    governed.put(FILE, intents() + OTHER)
    ignored = "docs/**\n!docs/private/**\n# for now\nINT-002\n"
    governed.put(".orchestration/.intentignore", ignored)
    outside = governed.root.parent / "out-of-scope.txt"
    reported = governed.alone(
        [write(USER)],
        [choose()],
        [write(USER)],
        [write("docs/a.md")],
        [write("docs/private/a.md")],
        [choose("INT-002")],
        [write(USER)],
        [write(".orchestration/hooks.json", "{}")],
        [write("../out-of-scope.txt")],
        [write(str(outside))],
        flags=["-y"],
    )
    in_turn = ["REQ-003", "", "REQ-001", "", "REQ-001", "", "", "REQ-014", "REQ-015", "REQ-001"]
    assert reported.codes == in_turn
    assert reported.refusal(2)["reason"] == "non_interactive"
    written = [(each.scope, each.files[0].path) for each in governed.of("mutation")]
    assert written == [("ignored", "docs/a.md"), ("ignored", USER)]
    matched = [each.raw["metadata"]["orchestration"]["matched"] for each in governed.of("mutation")]
    assert matched == ["docs/**", "INT-002"]
    assert not governed.there(".orchestration/hooks.json")
    assert not outside.exists()
    assert reported.exit_code == 20
    assert reported.governance
    assert (reported.governance["blocked"], reported.governance["mutations"]) == (6, 2)
