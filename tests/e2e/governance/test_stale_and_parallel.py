"""Stale writes, parallel tasks and sub-tasks."""

import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, gate, say
from rookery.core.facts import Asked
from support.answering_user import Family
from support.governed_session import (
    FILE,
    UNKNOWN,
    Alone,
    Followed,
    Governed,
    choose,
    intents,
    new_task,
    patch,
    read,
    run,
    wait,
    write,
)
from support.ledger_lines import own_records

pytestmark = pytest.mark.usefixtures("unconfined")

JWT = "src/auth/jwt.py"
UNTIL_GO = "touch src/auth/up; until test -e src/auth/go; do sleep 0.02; done"
SECOND = """\
  - id: INT-002
    name: Sign in
    status: IN_PROGRESS
    owned_scope: ["{scope}"]
"""


def edit(path: str, old: str, new: str) -> Any:
    return call("edit", file_path=path, old_string=old, new_string=new)


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_file_is_stale_by_its_content_not_its_time(governed: Governed):
    governed.put(JWT, "one\n")
    governed.put("src/auth/unread.py", "mine\n")

    def user_edits(_: Asked) -> str:
        governed.put(JWT, "two\n")
        return "message Go on"

    def user_saves_again(_: Asked) -> str:
        file = governed.put(JWT, "three\n")
        os.utime(file, (1, 1))
        return "message Go on"

    reported = governed.play(
        [choose()],
        [read(JWT)],
        [wait()],
        [write(JWT, "three\n")],
        [read(JWT)],
        [write(JWT, "three\n")],
        [wait()],
        [write(JWT, "four\n")],
        [write("src/auth/unread.py", "theirs\n")],
        book=[user_edits, user_saves_again],
    )
    changed = reported.refusal(3)
    assert (changed["code"], changed["reason"]) == ("REQ-007", "changed")
    assert (changed["expected_hash"], changed["actual_hash"]) == (sha("one\n"), sha("two\n"))
    assert reported.codes == ["", "", "", "REQ-007", "", "", "", "", "REQ-007"]
    assert reported.refusal(8)["reason"] == "not_read"
    assert governed.text(JWT) == "four\n"
    assert governed.text("src/auth/unread.py") == "mine\n"
    assert [each["error"]["code"] for each in own_records(governed.root, "blocked")] == [
        "REQ-007",
        "REQ-007",
    ]
    assert [
        each["files"][0]["before"]["sha256"] for each in own_records(governed.root, "mutation")
    ] == [
        sha("two\n"),
        sha("three\n"),
    ]


LINES = tuple(f"line {number}\n" for number in range(1, 301))
QUOTED, NEW = "line 10\nline 11\n", "ten\neleven\n"
BLOCK = "<<<<<<< SEARCH\n  line 20\n=======\n  twenty\n>>>>>>> REPLACE"


def after_a_change(
    governed: Governed, *attempts: Any, policy: str, line: int, **more: Any
) -> Followed:
    """The model reads the file, the user changes a line, and the model continues."""
    governed.put(FILE, intents(policy=policy))
    governed.put(JWT, "".join(LINES))

    def user_edits(_: Asked) -> str:
        governed.put(JWT, "".join(changed(line)))
        return "message Go on"

    more["book"] = [user_edits, *more.get("book", ())]
    return governed.play(
        [choose()], [read(JWT)], [wait()], *([attempt] for attempt in attempts), **more
    )


def changed(line: int) -> list[str]:
    return [*LINES[: line - 1], "somebody's 10\n", *LINES[line:]]


def test_an_exact_edit_of_a_file_changed_elsewhere_is_applied(governed: Governed):
    reported = after_a_change(
        governed,
        edit(JWT, QUOTED, NEW),
        write(JWT, "all new\n"),
        policy="stale: context",
        line=8,
        flags=(),
        book=["yes"],
    )
    assert reported.codes == ["", "", "", "", "REQ-007"]
    assert governed.text(JWT) == "".join(changed(8)).replace(QUOTED, NEW)
    [question] = [asked for asked in reported.questions if asked.diff]
    assert " somebody's 10\n line 9\n-line 10" in question.diff
    assert f"{JWT} changed since the model read it" in " ".join(question.notes)
    assert "had changed since you read it" in reported.results[3]
    assert "-line 8\n+somebody's 10\n" in reported.results[3]
    assert "no need to read" not in reported.results[3]
    assert reported.refusal(4)["reason"] == "partly_read"
    [made] = own_records(governed.root, "mutation")
    assert made["files"][0]["before"]["sha256"] == sha("".join(changed(8)))


def test_any_other_change_of_a_stale_file_is_refused(governed: Governed):
    loosely = {"old_string": "line  20\nline 21\n", "new_string": NEW}
    reported = after_a_change(
        governed,
        edit(JWT, "10\nline 11\n", "ten\n"),
        write(JWT, "all new\n"),
        call("edit_file", file_path=JWT, **loosely),
        call("apply_diff", path=JWT, diff=BLOCK),
        patch(f"*** Update File: {JWT}", "@@", "- line 299", "+x"),
        patch(f"*** Delete File: {JWT}"),
        edit(JWT, "line 299\n", "x\n"),
        policy="deletes: allow",  # and context, by default
        line=10,
    )
    assert reported.codes == ["", "", "", *["REQ-007"] * 6, ""]
    assert {reported.refusal(number)["reason"] for number in range(3, 9)} == {"changed"}
    assert governed.text(JWT) == "".join(changed(10)).replace("line 299\n", "x\n")


def test_a_strict_policy_refuses_every_edit_of_a_stale_file(governed: Governed):
    attempts = edit(JWT, QUOTED, NEW), read(JWT), edit(JWT, QUOTED, NEW)
    reported = after_a_change(governed, *attempts, policy="stale: strict", line=200)
    assert reported.codes == ["", "", "", "REQ-007", "", ""]
    assert governed.text(JWT) == "".join(changed(200)).replace(QUOTED, NEW)


def test_one_of_two_hosts_writing_a_file_at_once_wins(governed: Governed):
    governed.put(JWT, "old\n")
    reached = [gate(), gate()]
    texts = [f"{number}\n" * 20_000 for number in (1, 2)]

    def host(number: int) -> Alone:
        return governed.alone(
            [call("select_active_intent", id=f"s{number}", intent_id="INT-001")],
            [call("read_file", id=f"r{number}", path=JWT)],
            [
                say("Now.", reached[number]),
                call("write_to_file", id=f"w{number}", path=JWT, content=texts[number]),
            ],
        )

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(host, number) for number in (0, 1)]
        for each in reached:
            each.wait_until_reached()
        for each in reached:
            each.open()
        reported = [run.result() for run in runs]
    codes = [each.code(2) for each in reported]
    assert sorted(codes) == ["", "REQ-007"], [each.results[2] for each in reported]
    assert governed.text(JWT) == texts[codes.index("")]
    [won] = [each for each in own_records(governed.root, "mutation") if each.get("files")]
    assert (won["outcome"], won["tool_use_id"]) == ("success", f"w{codes.index('')}")
    assert governed.is_whole()


@pytest.mark.parametrize("settings", ['[sandbox]\nuse = "off"\n', "[checkpoints]\nuse = false\n"])
def test_records_of_another_host_during_a_command_are_kept(governed: Governed, settings: str):
    """They are not reverted as changes of the command."""
    governed.put("src/auth/a.py")
    governed.put(".orchestration/.gitignore", ".state/\nagent_trace.jsonl\ntrace/\n")
    governed.settings(settings)

    def beside() -> Alone:
        governed.until_there("src/auth/up")
        reported = governed.alone(
            [call("select_active_intent", id="s2", intent_id="INT-001")],
            [call("write_to_file", id="w2", path="src/auth/other.py", content="x\n")],
        )
        governed.put("src/auth/go")
        return reported

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(beside)
        reported = governed.play([choose()], [run(UNTIL_GO)], book=["yes"])
        assert running.result().codes == reported.codes == ["", ""]
    assert "w2" in [each["tool_use_id"] for each in own_records(governed.root, "mutation")]
    assert governed.is_whole()


def test_user_changes_to_an_intent_during_a_command_are_kept(governed: Governed):
    """Although the command needed no approval."""
    governed.put("src/auth/a.py")

    def pause() -> None:
        governed.until_there("src/auth/up")
        governed.cli("intents", "pause", "INT-001")
        governed.put("src/auth/go")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(pause)
        reported = governed.alone(
            [choose()], [run(UNTIL_GO)], [write("src/auth/b.py")], flags=UNKNOWN
        )
        running.result()
    assert reported.codes[2] in ("REQ-003", "REQ-012")
    assert "status: PAUSED" in governed.text(FILE)
    assert governed.is_whole()


def with_second(scope: str, policy: str = "") -> str:
    return intents(policy=policy) + SECOND.format(scope=scope)


def test_tasks_with_overlapping_scopes_are_warned(governed: Governed):
    governed.put(FILE, with_second("src/auth/login/**"))
    there = gate()

    def second() -> Alone:
        return governed.alone(
            [call("select_active_intent", id="s2", intent_id="INT-002")],
            [say("Working.", there), call("list_files", id="l2", path=".", recursive=False)],
        )

    with ThreadPoolExecutor(1) as pool:

        def a_second_task_begins(_: Asked) -> str:
            running.append(pool.submit(second))
            there.wait_until_reached()
            return "message Go on"

        running: list[Any] = []
        reported = governed.play([choose()], [wait()], [choose()], book=[a_second_task_begins])
        there.open()
        other = running[0].result()
    assert "INT-002" not in reported.results[0]
    assert '<task intent="INT-002" scope="src/auth/login/**"/>' in reported.results[2]
    assert '<task intent="INT-001" scope="src/auth/**"/>' in other.results[0]


def test_policy_can_refuse_a_second_task_while_the_first_runs(
    governed: Governed,
):
    governed.put(FILE, with_second("src/auth/login/**", policy="overlap: block"))
    second = [choose("INT-002")], [write("src/auth/login/a.py")]
    held = gate()
    with LlmServer([choose()], [say("Working.", held)]) as server:
        with governed.started(server):
            held.wait_until_reached()
            assert governed.alone(*second).codes == ["REQ-018", "REQ-003"]
        held.open()
    assert not governed.there("src/auth/login/a.py")
    leases = list((governed.root / ".orchestration" / ".state" / "leases").glob("*.json"))
    assert leases, "it had a lease when it died"
    reported = governed.alone(*second)
    assert reported.codes == ["", ""]
    assert "INT-001" not in reported.results[0]


def test_a_sub_task_needs_approval_to_select_another_intent(governed: Governed):
    """In a run that is not interactive it is refused: see the test of sub-tasks after a crash."""
    governed.put(FILE, with_second("ui/**"))
    attempt = [choose("INT-002")], [write("ui/page.py")]
    scenes = [choose()], [new_task("Do something else.")], *attempt, *attempt
    ends = [call("attempt_completion", result="Tried.")], [finish()]
    with Family(governed, (*scenes, *ends), ["-y"]) as person:
        reported = person.follow_all("no", "no", "yes")
    selection, of_parent, again = reported.questions
    for each in (selection, again):
        assert each.governance
        assert each.governance.intent_id == "INT-002"
    assert of_parent.governance, "what INT-001 does not own is asked about too"
    assert of_parent.governance.intent_id == "INT-001"
    [written] = own_records(governed.root, "mutation")
    assert (written["intent_id"], governed.text("ui/page.py")) == ("INT-002", "new\n")
