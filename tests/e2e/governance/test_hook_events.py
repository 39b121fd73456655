"""Hook events around the calls of a task: messages, questions, ends."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from llm_server import Gate, LlmServer, call, finish, say
from rookery.core.asks import AskKind
from rookery.core.facts import Asked, Condensed, Noted
from support.control_stream_client import Driver
from support.governed_session import Governed, at, choose, read, write
from support.json_io_client import JsonIo
from support.terminal_session import PATIENCE

from .test_hooks import hooked, script

RECORDS_EVENTS = """\
told=$(cat)
printf '%s\\n' "$told" >> heard.jsonl
case "$told" in *"$1"*) test -z "$1" || exit 2;; esac
"""


def record_event(governed: Governed, event: str, refused: str = "") -> None:
    hooked(
        governed, f"{script(governed, 'record_event.sh', RECORDS_EVENTS)} {refused}", event=event
    )


def received(governed: Governed) -> list[dict[str, Any]]:
    return [json.loads(line) for line in governed.text("heard.jsonl").splitlines()]


def wait_for(governed: Governed, lines: int, answer: str) -> Callable[[Asked], str]:
    """Answer once hooks have received this many events."""

    def said(asked: Asked) -> str:
        deadline = time.monotonic() + PATIENCE
        while not governed.there("heard.jsonl") or len(received(governed)) < lines:
            assert time.monotonic() < deadline, "No hook received an event."
            time.sleep(0.02)
        return answer

    return said


def test_a_refused_prompt_ends_the_run_with_the_reason(ungoverned: Governed):
    record_event(ungoverned, "UserPromptSubmit", "forbidden")
    with LlmServer([finish()]) as server:
        given = ["-p", "--output-format", "json", *at(server)]
        run = ungoverned.rookery.run(*given, "forbidden words")
        assert server.requests == []
        assert run.returncode == 20
        assert "A hook refused the message: The hook UserPromptSubmit-1" in run.stderr
        assert json.loads(run.stdout)["code"] == "governance_refused"
        again = ungoverned.rookery.run("-c", *given, "fine words")
        assert again.returncode == 0, again.stderr
        assert "forbidden" not in str([each.body["messages"] for each in server.requests])


def test_a_driver_gets_an_event_for_a_refused_prompt(ungoverned: Governed):
    record_event(ungoverned, "UserPromptSubmit", "forbidden")
    with LlmServer([finish()]) as server, Driver(ungoverned.rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="forbidden words")
        driver.done("s1")
        [result] = driver.of(type="result")
        assert (result["success"], result["code"]) == (False, "governance_refused")
        driver.send("message", "m1", prompt="fine words")
        driver.wait(type="result", success=True)
        driver.send("message", "m2", prompt="forbidden again")
        driver.wait(type="result", code="governance_refused", requestId="m2")
        driver.check()
        assert driver.end() == 20
    assert [each["prompt"] for each in received(ungoverned)] == [
        "forbidden words",
        "fine words",
        "forbidden again",
    ]


def test_a_driver_learns_whether_each_queued_message_was_refused(ungoverned: Governed):
    record_event(ungoverned, "UserPromptSubmit", "forbidden")
    gate = Gate()
    look = call("list_files", path=".")
    with (
        LlmServer([gate, look], [finish()]) as server,
        Driver(ungoverned.rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="begin")
        gate.wait_until_reached()
        for request_id, words in (("m1", "forbidden words"), ("m2", "fine words")):
            driver.send("message", request_id, prompt=words)
            driver.done(request_id)
        gate.open()
        driver.wait(type="result", requestId="m2")
        driver.check()
        results = [(each["requestId"], each["success"]) for each in driver.of(type="result")]
        assert results == [("s1", True), ("m1", False), ("m2", True)]
        [note] = driver.of(subtype="note")
        assert (note["requestId"], "A hook refused" in note["content"]) == ("m1", True)
        assert driver.end() == 0


def test_a_refused_prompt_can_be_reworded_at_a_terminal(ungoverned: Governed):
    record_event(ungoverned, "UserPromptSubmit", "forbidden")
    with (
        LlmServer([finish()]) as server,
        ungoverned.rookery.terminal(*at(server), "forbidden words") as terminal,
    ):
        terminal.wait_for("A hook refused your message, so it was not sent")
        terminal.wait_for("say what to do instead")
        terminal.type("fine words")
        terminal.wait_for("Enter accepts")
        terminal.type("")
    assert "forbidden" not in str([each.body["messages"] for each in server.requests])


def test_a_webview_is_asked_again_when_a_prompt_was_refused(ungoverned: Governed):
    record_event(ungoverned, "UserPromptSubmit", "forbidden")
    with LlmServer([finish()]) as server, JsonIo(ungoverned.rookery, *at(server)) as driver:
        driver.send("newTask", text="forbidden words")
        driver.wait_row(ask="resume_task")
        assert driver.end() == 20


def test_hooks_see_questions_and_can_refuse_the_call(ungoverned: Governed):
    record_event(ungoverned, "PermissionRequest", "second.txt")
    reported = ungoverned.play([write("first.txt")], [write("second.txt")], book=["yes"], flags=())
    assert reported.codes == ["", "HOOK-001"]
    assert [question.title for question in reported.questions] == ["Create first.txt"]
    first, second = received(ungoverned)
    assert (first["tool_name"], first["ask"]) == ("Write", "Create first.txt")
    assert second["tool_input"]["file_path"].endswith("/second.txt")


def test_hooks_are_notified_when_the_user_is_asked(ungoverned: Governed):
    record_event(ungoverned, "Notification")
    asks = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
    answers = [wait_for(ungoverned, 1, "message This"), wait_for(ungoverned, 2, "yes")]
    ungoverned.play([asks], [write("first.txt")], book=answers, flags=())
    reported = {(each["type"], each["message"]) for each in received(ungoverned)}
    assert ("elicitation_dialog", "rookery asks: Which?") in reported
    assert ("permission_prompt", "rookery needs your permission: Create first.txt") in reported


def test_a_hook_can_prevent_condensing(ungoverned: Governed):
    record_event(ungoverned, "PreCompact", "manual")
    asks = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
    with ungoverned.attended([asks], [finish()]) as person:

        def refuse(asked: Any) -> str:
            person.condense_soon()
            return ""

        reported = person.follow(refuse, "message This")
    assert not reported.of(Condensed)
    assert any("Nothing was condensed" in note.text for note in reported.of(Noted))
    assert received(ungoverned)[0]["trigger"] == "manual"


def test_hooks_see_the_end_of_a_sub_task_and_can_reject_it(ungoverned: Governed):
    record_event(ungoverned, "SubagentStop", "Half")
    child = call("new_task", mode="code", message="Do a part.", todos=None)
    ends = [finish("Half done.")], [say("Half of the rest.")], [finish("All done.")]
    reported = ungoverned.play([child], *ends)
    said = [each["last_assistant_message"] for each in received(ungoverned)]
    assert said == ["Half done.", "Half of the rest.", "All done."]
    assert [each["stop_hook_active"] for each in received(ungoverned)] == [False, True, True]
    assert received(ungoverned)[0]["agent_type"] == "code"
    assert "All done." in str(reported.results)


def test_the_transcript_is_readable_and_ends_with_the_last_event(governed: Governed):
    copy = 'cp "$(sed -E \'s/.*"transcript_path": *"([^"]*)".*/\\1/\')" transcript.jsonl'
    hooked(governed, copy, event="PostToolUse", matcher="Write")
    governed.alone([choose()], [write("src/auth/a.py")])
    transcript = [json.loads(line) for line in governed.text("transcript.jsonl").splitlines()]
    assert transcript[0]["type"] == "user"
    assert transcript[0]["message"]["content"] == "go"
    call_of = transcript[-1]["message"]["content"][-1]
    assert (call_of["type"], call_of["name"]) == ("tool_use", "write_to_file")
    [session] = {line["sessionId"] for line in transcript}
    assert session == governed.of("mutation")[0].task_id


def test_hooks_know_how_long_a_call_took_and_which_message_it_serves(ungoverned: Governed):
    record_event(ungoverned, "PostToolUse")
    slow, quick = (call("execute_command", command=each) for each in ("sleep 0.2", "true"))
    asks = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
    ungoverned.play([slow], [asks], [quick], [finish()], book=["message other"])
    first, _, last, *_ = received(ungoverned)
    assert first["duration_ms"] >= 200
    assert first["turn_id"] == "1" != last["turn_id"]


STOPS = {"continue": False, "stopReason": "That is enough."}


def says(governed: Governed, answer: dict[str, Any], event: str, matcher: str = "") -> None:
    """A hook that records its runs in `ran` and always gives the same answer."""
    governed.put("tools/answer.json", json.dumps(answer))
    line = 'echo x >> ran; cat "$CLAUDE_PROJECT_DIR"/tools/answer.json'
    hooked(governed, line, event=event, matcher=matcher)


@pytest.mark.parametrize("event", ["Stop", "SubagentStop"])
def test_a_hook_that_stops_everything_does_not_keep_the_turn_going(
    ungoverned: Governed, event: str
):
    says(ungoverned, {**STOPS, "decision": "block", "reason": "more"}, event)
    child = call("new_task", mode="code", message="Do a part.", todos=None)
    reported = ungoverned.play(
        *([child],) if event == "SubagentStop" else (), [finish("Part done.")]
    )
    assert ungoverned.text("ran") == "x\n"
    assert len(reported.requests) == (3 if event == "SubagentStop" else 1)


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_can_stop_a_run_before_or_after_a_call(ungoverned: Governed, event: str):
    says(ungoverned, STOPS, event, "Write")
    reported = ungoverned.alone([write("a.txt")], [write("b.txt")])
    assert ungoverned.there("a.txt") is (event == "PostToolUse")
    assert not ungoverned.there("b.txt")
    assert len(reported.requests) == 1
    assert (reported.exit_code, reported.stderr) == (
        20,
        "Error: A hook stopped the task: That is enough.\n",
    )


def test_a_hook_can_stop_the_task_instead_of_condensing(ungoverned: Governed):
    says(ungoverned, STOPS, "PreCompact")
    asks = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
    with ungoverned.attended([asks], [finish()]) as person:

        def condense(asked: Any) -> str:
            person.condense_soon()
            return ""

        reported = person.follow(condense, "yes", "message This")
    assert AskKind.RESUME_TASK in [asked.ask for asked in reported.of(Asked)]
    assert not reported.of(Condensed)


@pytest.mark.parametrize("holds", [1, 100])
def test_a_run_succeeds_once_the_hook_lets_the_turn_end(ungoverned: Governed, holds: int):
    line = f'echo x >> ran; test "$(wc -l < ran)" -gt {holds} || {{ echo untested >&2; exit 2; }}'
    hooked(ungoverned, line, event="Stop")
    reported = ungoverned.alone(*([finish(f"Done {at}.")] for at in range(9)))
    if holds == 1:
        assert (reported.exit_code, reported.stderr) == (0, "")
        return
    assert reported.exit_code == 20, reported.stderr
    assert reported.output["error"] == "A hook still did not let the turn end: untested"


def test_a_user_message_resets_stop_hook_active(ungoverned: Governed):
    record_event(ungoverned, "Stop", "Nearly")
    asks = call("ask_followup_question", question="Which?", follow_up=[{"text": "This"}])
    ungoverned.play([finish("Nearly.")], [asks], [finish("Done.")], book=["message other"])
    assert [each["stop_hook_active"] for each in received(ungoverned)] == [False, False]


def test_hook_output_about_a_failed_call_reaches_the_model(ungoverned: Governed):
    ungoverned.put("a.txt", "old\n")
    events = {
        "PermissionRequest": "cat; echo other > a.txt",
        "PostToolUseFailure": "echo 'run the generator' >&2; exit 2",
    }
    hooked(ungoverned, "true")
    config = {event: [{"hooks": [{"command": line}]}] for event, line in events.items()}
    file = ungoverned.rookery.home / "config" / "hooks.json"
    file.write_text(json.dumps({"hooks": config}), encoding="utf-8")
    reported = ungoverned.play([read("a.txt")], [write("a.txt")], book=["yes"], flags=())
    assert ungoverned.text("a.txt") == "other\n"
    assert "run the generator" in reported.results[-1]
