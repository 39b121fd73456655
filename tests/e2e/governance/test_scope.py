"""Scope and paths: what an intent owns, what it does not, and who may say otherwise.

Each test is a row of the acceptance table and carries its number. In all of them INT-001 is
active, owns `src/auth/**` unless a test says otherwise, and somebody is there to be asked.
"""

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from llm_server import call, finish
from rookery.core.facts import Asked
from support.governed_session import (
    FILE,
    Followed,
    Governed,
    choose,
    intents,
    patch,
    read,
    run,
    wait,
    write,
)
from support.terminal_session import Installed

USER, JWT = "src/api/user.py", "src/auth/jwt.py"


def rework(path: str, old: str = "old") -> Any:
    """Change a file that is there."""
    return call("edit", file_path=path, old_string=old, new_string="new")


def reasons(asked: Asked) -> list[str]:
    assert asked.governance
    return [each.code for each in asked.governance.reasons]


def test_a_file_in_scope_is_written_unasked(governed: Governed):
    told = governed.play([choose()], [write(JWT)])
    assert (told.codes, told.questions) == (["", ""], [])
    assert governed.text(JWT) == "new\n"
    assert [(each.scope, each.intent_id) for each in governed.of("mutation")] == [
        ("in_scope", "INT-001")
    ]
    assert governed.is_whole()


def test_a_no_is_a_refusal_and_two_records(governed: Governed):
    governed.put(USER)
    told = governed.play([choose()], [rework(USER)], book=["no because it is mine"])
    refusal = told.refusal(1)
    assert (refusal["code"], refusal["error_type"]) == ("REQ-001", "scope_violation")
    assert (refusal["filename"], refusal["intent_id"]) == (USER, "INT-001")
    assert refusal["targets"] == [{"path": USER, "op": "modify", "verdict": "out_of_scope"}]
    assert refusal["feedback"] == "because it is mine"
    assert governed.text(USER) == "old\n"
    decision, blocked = governed.records[-2:]
    assert (decision.kind, decision.approval, decision.approved_by) == ("decision", "no", "human")
    assert (blocked.kind, blocked.outcome, blocked.error_code) == ("blocked", "denied", "REQ-001")


def test_one_question_says_all_there_is_to_know(governed: Governed):
    told = governed.play([choose()], [write(USER)], book=["no"], flags=("-a",))
    [asked] = told.questions
    question = asked.governance
    assert question
    assert (question.intent_id, question.scope) == ("INT-001", ("src/auth/**",))
    assert reasons(asked) == ["REQ-001"]
    assert [(each.path, each.verdict) for each in question.targets] == [(USER, "out_of_scope")]
    assert (question.pattern, question.choices) == (USER, ("task", "expand", "halt"))
    assert "+new" in asked.diff
    assert asked.rule == ""


def test_once_is_once(governed: Governed):
    told = governed.play(
        [choose()], [write(USER, "one\n")], [write(USER, "two\n")], book=["yes", "no"]
    )
    assert told.codes == ["", "", "REQ-001"]
    assert governed.text(USER) == "one\n"
    assert [(each.scope, each.approval) for each in governed.of("mutation")] == [
        ("approved_once", "once")
    ]


def test_for_this_task_is_for_no_other(governed: Governed):
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
        person.follow("task", "no")
        assert governed.text(USER) == "two\n"
        other = person.follow("no")
    assert len(other.questions) == 1
    assert governed.text(USER) == "two\n"
    assert not governed.there("src/api/other.py")
    assert [each.scope for each in governed.of("mutation")] == ["approved_task"] * 2


def test_for_this_task_outlives_the_process_but_not_the_wording(governed: Governed):
    with governed.attended([choose()], [write(USER, "one\n")], [finish()]) as person:
        first = person.follow("task")

    def narrows(asked: Asked) -> str:
        governed.put(FILE, governed.text(FILE).replace("src/auth/**", "src/auth/a/**"))
        return "message It is narrower."

    more = [[rework(USER, "one")], [wait()], [write(USER, "three\n")], [finish()]]
    with governed.attended(*more) as later:
        told = later.follow("message Go on.", narrows, "no", again=first)
    assert governed.text(USER) == "new\n"
    assert told.codes[-1] == "REQ-001"


def test_a_wider_scope_is_written_down_and_holds(governed: Governed):
    told = governed.play(
        [choose()], [write(USER, "one\n")], [write(USER, "two\n")], book=["expand"]
    )
    assert told.codes == ["", "", ""]
    assert governed.text(USER) == "two\n"
    kept = governed.text(FILE)
    assert '- "src/auth/**"  # all of it\n' in kept
    assert USER in kept
    shown = json.loads(governed.cli("intents", "show", "INT-001", "--json").stdout)
    assert shown["scope"] == ["src/auth/**", USER]
    [change] = governed.of("intent_change")
    own = change.raw["metadata"]["orchestration"]
    assert own["pattern"] == USER
    assert own["digest_before"] != own["digest_after"] == governed.of("mutation")[-1].intent_digest
    assert governed.is_whole()


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Governed, Followed]:
    """Calls that are refused although nobody was asked."""
    folder = tmp_path_factory.mktemp("refused")
    governed = Governed(Installed(folder))
    governed.put(USER)
    governed.put("src/auth/a.py")
    (folder / "elsewhere").mkdir()
    (governed.root / "src/auth/link").symlink_to("../api/user.py")
    (governed.root / "src/auth/d").symlink_to(folder / "elsewhere")
    return governed, governed.play([choose()], *([each] for each in REFUSED.values()))


REFUSED = {
    "23": write("../../outside.txt"),
    "26": write("src/auth/link"),
    "27": write("src/auth/d/x"),
    "28": write("src/auth/d/../x"),
    "34": write("src/auth/\u202egnp.py"),
    "35": write("src/auth/a\0.py"),
}


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        pytest.param("23", "traversal", id="traversal"),
        pytest.param("26", "symlink_escape", id="link_out_of_the_scope"),
        pytest.param("27", None, id="below_a_link_out_of_the_workspace"),
        pytest.param("28", None, id="back_from_below_such_a_link"),
        pytest.param("34", "control_char", id="right_to_left"),
        pytest.param("35", "nul", id="nul"),
    ],
)
def test_paths_that_cannot_be_judged_are_refused_unasked(
    refused: tuple[Governed, Followed], number: str, reason: str | None
):
    told = refused[1]
    refusal = told.refusal(1 + list(REFUSED).index(number))
    assert (refusal["code"], refusal["error_type"]) == ("REQ-015", "path_rejected")
    if reason:
        assert refusal["reason"] == reason
    assert "elsewhere" not in json.dumps(refusal)
    assert told.questions == []


def test_the_refusal_names_the_real_path(refused: tuple[Governed, Followed]):
    assert USER in " ".join(refused[1].refusal(2)["recovery"])


def test_nothing_of_it_was_written(refused: tuple[Governed, Followed]):
    governed, _ = refused
    outside = governed.root.parent
    assert governed.text(USER) == "old\n"
    assert not list((outside / "elsewhere").iterdir())
    assert not (outside / "x").exists()
    assert not (outside.parent / "outside.txt").exists()
    assert not governed.there("src/auth/x")
    assert [each.error_code for each in governed.of("blocked")] == ["REQ-015"] * len(REFUSED)
    assert governed.of("mutation") == []


def test_what_is_outside_can_be_allowed_once_and_is_not_repeated(governed: Governed):
    outside = governed.root.parent / "private" / "notes.txt"
    outside.parent.mkdir()
    told = governed.play([choose()], [write(str(outside))], book=["no"])
    [asked] = told.questions
    assert asked.governance
    assert asked.governance.choices == ("halt",)
    assert reasons(asked) == ["REQ-001"]
    assert told.code(1) == "REQ-001"
    assert str(outside.parent) not in told.results[1]
    assert "notes.txt" in told.results[1]
    assert not outside.exists()


def test_once_outside_is_once(governed: Governed):
    outside = governed.root.parent / "notes.txt"
    answers = [[choose()], [write(str(outside), "one\n")], [write(str(outside), "two\n")]]
    told = governed.play(*answers, book=["yes", "no"])
    assert told.code(2) == "REQ-001"
    assert outside.read_text(encoding="utf-8") == "one\n"
    assert [each.scope for each in governed.of("mutation")] == ["approved_once"]


def test_content_that_another_name_shares_is_asked_about(governed: Governed):
    os.link(governed.put("src/api/twin.py"), governed.put("src/auth/b.py").parent / "a.py")
    told = governed.play(
        [choose()], [rework("src/auth/a.py")], [rework("src/auth/b.py")], book=["no"]
    )
    assert told.refusal(1)["reason"] == "shared content"
    assert told.codes == ["", "REQ-001", ""]
    assert governed.text("src/api/twin.py") == "old\n"
    assert governed.text("src/auth/b.py") == "new\n"


def test_a_link_that_was_swapped_after_the_question_leads_nowhere(governed: Governed):
    elsewhere = governed.root.parent / "elsewhere"
    elsewhere.mkdir()
    folder = governed.put("src/auth/d/a.py").parent

    def swaps(asked: Asked) -> str:
        folder.rename(governed.root / "src/auth/e")
        folder.symlink_to(elsewhere)
        return "yes"

    told = governed.play([choose()], [write("src/auth/d/x.py")], book=[swaps], flags=("-a",))
    refusal = told.refusal(1)
    assert (refusal["code"], refusal["reason"]) == ("REQ-015", "path_changed")
    assert not list(elsewhere.iterdir())
    assert governed.kinds() == ["intent_selected", "decision", "blocked"]


def test_a_name_that_differs_by_case_only_is_never_made(governed: Governed):
    """The tool refuses it beside the other one, whatever governance would say."""
    governed.put(JWT)
    told = governed.play([choose()], [write("SRC/AUTH/jwt.py")])
    assert "Did you mean src?" in told.results[1]
    assert not governed.there("SRC")


def test_one_bad_file_refuses_the_whole_patch(governed: Governed):
    governed.put(JWT)
    governed.put(USER)
    both = patch(f"*** Update File: {JWT}", "@@", "-old", "+new", f"*** Delete File: {USER}")
    told = governed.play([choose()], [both], book=["no"])
    [asked] = told.questions
    assert asked.governance
    assert {each.path: each.verdict for each in asked.governance.targets} == {
        JWT: "in_scope",
        USER: "out_of_scope",
    }
    assert told.code(1) == "REQ-001"
    assert (governed.text(JWT), governed.text(USER)) == ("old\n", "old\n")


def test_a_move_out_of_the_scope_is_out_of_scope(governed: Governed):
    governed.put("src/auth/a")
    move = patch("*** Update File: src/auth/a", "*** Move to: src/api/a", "@@", "-old", "+new")
    told = governed.play([choose()], [move], book=["no"])
    refusal = told.refusal(1)
    assert refusal["code"] == "REQ-001"
    assert "src/api/a" in json.dumps(refusal["targets"])
    assert governed.text("src/auth/a") == "old\n"
    assert not governed.there("src/api/a")


def test_a_deletion_in_scope_is_asked_about(governed: Governed):
    governed.put(JWT)
    governed.put("src/auth/b.py")
    told = governed.play(
        [choose()],
        [patch(f"*** Delete File: {JWT}")],
        [patch("*** Delete File: src/auth/b.py")],
        [run(f"rm {JWT}")],
        book=["no", "yes", "no"],
    )
    assert told.codes[1:] == ["REQ-008", "", "REQ-008"]
    assert [reasons(each) for each in told.questions] == [["REQ-008"]] * 3
    assert governed.there(JWT)
    assert not governed.there("src/auth/b.py")
    [deleted] = governed.of("mutation")
    assert [(each.op, each.after) for each in deleted.files] == [("delete", None)]


def test_an_intent_cannot_own_its_own_limits(governed: Governed):
    governed.put(FILE, intents(scope=["src/auth/**", ".orchestration/**"]))
    before = governed.text(FILE)
    widened = write(FILE, intents(scope=["**"]))
    told = governed.play([choose()], [read(FILE)], [widened], book=["no"])
    assert told.code(2) == "REQ-014"
    [asked] = told.questions
    assert asked.governance
    assert asked.governance.choices == ("halt",)
    assert governed.alone([choose()], [read(FILE)], [widened]).code(2) == "REQ-014"
    assert governed.text(FILE) == before
    assert "W312" in governed.cli("intents", "validate").stdout


def test_nor_can_it_own_the_metadata_of_git(governed: Governed):
    governed.put(FILE, intents(scope=["**"]))
    (governed.root / ".git/hooks").mkdir(parents=True)
    told = governed.alone([choose()], [write(".git/hooks/pre-commit", "#!/bin/sh\n")])
    assert told.code(1) == "REQ-014"
    assert not governed.there(".git/hooks/pre-commit")


def test_an_intent_that_is_ignored_is_bound_by_the_rest(governed: Governed):
    governed.put(".orchestration/.intentignore", "# for now\nINT-001\n")
    outside = governed.root.parent / "outside.txt"
    told = governed.alone(
        [write(USER)],
        [choose()],
        [write(USER)],
        [write(".orchestration/hooks.json", "{}")],
        [write("../outside.txt")],
        [write(str(outside))],
    )
    assert told.codes == ["REQ-003", "", "", "REQ-014", "REQ-015", "REQ-001"]
    [written] = governed.of("mutation")
    assert (written.scope, written.files[0].path) == ("ignored", USER)
    assert not governed.there(".orchestration/hooks.json")
    assert not outside.exists()


def test_an_exemption_ends_on_its_day(governed: Governed):
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    governed.put(".orchestration/.intentignore", f"INT-001 until={yesterday}\n")
    told = governed.alone([choose()], [write(USER)])
    assert told.code(1) == "REQ-001"
    assert not governed.there(USER)
    said = governed.cli("intents", "validate").stdout
    assert f"W310  the exemption of INT-001 ended on {yesterday}" in said
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).date()
    governed.put(".orchestration/.intentignore", f"INT-001 until={tomorrow}\n")
    assert governed.alone([choose()], [write(USER)]).code(1) == ""


def test_a_path_that_is_ignored_is_everybodys(governed: Governed):
    governed.put(".orchestration/.intentignore", "docs/**\n!docs/private/**\n")
    told = governed.alone([choose()], [write("docs/a.md")], [write("docs/private/a.md")])
    assert told.codes == ["", "", "REQ-001"]
    [written] = governed.of("mutation")
    assert written.scope == "ignored"
    assert written.raw["metadata"]["orchestration"]["matched"] == "docs/**"
