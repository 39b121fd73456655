"""A program drives the real command: starts, messages, answers, and what it is told of them."""

import json
import signal
import subprocess
import uuid

import pytest

from llm_server import LlmServer, call, finish, gate, hang, say, status
from support.control_stream_client import FLAGS, Driver
from support.control_stream_schemas import problem_with
from support.terminal_session import COMMAND, Installed, at

ONE_ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"
COMMANDS = (
    *("start", "message", "cancel", "ping", "shutdown"),
    *("approve", "reject", "answer", "clear"),
)
LOOK = call("list_files", path=".", recursive=False)


def touch(name: str) -> object:
    return call("execute_command", command=f"touch {name}", cwd=None, timeout=None)


def question(text: str = "Which port?") -> object:
    return call("ask_followup_question", question=text, follow_up=[{"text": "8080", "mode": None}])


def heard_by(server: LlmServer, number: int) -> str:
    """What was new in a request."""
    return json.dumps(server.requests[number].body["messages"][-1], ensure_ascii=False)


def test_a_start_is_acknowledged_told_and_done(rookery: Installed):
    rookery.environ["ROOKERY_SANDBOX_NETWORK"] = "on"  # no note where there is no namespace
    with (
        LlmServer([say("I will."), touch("made")], [finish("It is made.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("ping", "p1")
        driver.send("start", "s1", prompt="make it", taskId=ONE_ID.upper(), images=[])
        result = driver.wait(type="result")
        done = driver.wait(type="control", subtype="done")
        assert driver.end() == 0
    init = driver.events[0]
    assert (init["schemaVersion"], init["protocol"]) == (1, "roo-cli-stream")
    assert init["capabilities"] == [f"stdin:{name}" for name in COMMANDS]
    assert driver.replies("p1") == [("ack", "accepted"), ("done", "pong")]
    assert driver.replies("s1") == [("ack", "accepted"), ("done", "task_completed")]
    assert (result["content"], result["success"], result["requestId"]) == (
        "It is made.",
        True,
        "s1",
    )
    assert done["taskId"] == driver.of(subtype="ack", command="start")[0]["taskId"] == ONE_ID
    told = [event for event in driver.events if event["type"] not in ("control", "system")]
    assert {event["requestId"] for event in told} == {"s1"}
    assert told[0]["content"] == "make it"
    assert [event["type"] for event in told if event.get("done")] == [
        *("user", "assistant", "tool_use", "tool_result", "result")
    ]
    assert (rookery.workspace / "made").exists()
    assert driver.complaints == ""


def test_two_starts_after_each_other_are_two_tasks_in_the_history(rookery: Installed):
    with (
        LlmServer([finish("One.")], [finish("Two.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="first")
        driver.done("s1")
        driver.send("start", "s2", prompt="second")
        driver.done("s2")
        driver.send("start", "s3", prompt="third", taskId=driver.done("s1")["taskId"])
        assert driver.error("s3")["code"] == "task_error"
        assert driver.end() == 0
    assert [event["content"] for event in driver.of(type="result")] == ["One.", "Two."]
    assert "first" not in heard_by(server, 1)
    rows = {session["task"]: session["status"] for session in rookery.sessions()}
    assert rows.keys() == {"first", "second"}
    assert rows["first"] in ("closed", "completed")


def test_start_while_busy_is_refused_and_changes_nothing(rookery: Installed):
    held = gate()
    with (
        LlmServer([say("Hm", held)], [finish("Done.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.send("start", "s2", prompt="other")
        assert driver.error("s2")["code"] == "task_busy"
        driver.send("clear", "x1")
        assert driver.error("x1")["code"] == "task_busy"
        held.open()
        driver.done("s1")
        driver.send("clear", "x2")
        assert driver.done("x2")["code"] == "cleared"
        driver.send("message", "m1", prompt="more")
        assert driver.error("m1")["code"] == "no_active_task"
        assert driver.end() == 0
    assert driver.replies("s2") == [("error", "task_busy")]
    assert driver.replies("x2") == [("ack", "accepted"), ("done", "cleared")]
    assert [session["task"] for session in rookery.sessions()] == ["go"]
    assert rookery.sessions()[0]["status"] in ("closed", "completed")


def test_a_message_to_a_completed_task_goes_on_with_it(rookery: Installed):
    with (
        LlmServer([finish("One.")], [finish("Two.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("message", "m0", prompt="too early")
        assert driver.error("m0")["code"] == "no_active_task"
        driver.send("start", "s1", prompt="go")
        driver.done("s1")
        driver.send("message", "m1", prompt="and the docs")
        assert driver.done("m1")["code"] == "responded"
        assert driver.wait(type="result", requestId="m1")["content"] == "Two."
        assert driver.end() == 0
    assert driver.of(type="user", requestId="m1")[0]["content"] == "and the docs"
    assert driver.of(type="queue") == []
    assert "and the docs" in heard_by(server, 1)


def test_a_message_answers_a_followup_and_the_next_ask_is_another(rookery: Installed):
    with (
        LlmServer([question("Which port?")], [question("Which host?")], [finish()]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        first = driver.wait(type="system", subtype="waiting", code="followup")
        assert first["content"] == "answer"
        driver.send("message", "m1", prompt="8080")
        second = driver.wait(type="system", subtype="waiting", code="followup")
        assert second["id"] != first["id"]
        driver.send("answer", "a0", id=first["id"], text="late")
        assert driver.error("a0")["code"] == "no_pending_ask"
        driver.send("approve", "a1")
        assert driver.error("a1")["code"] == "client_error"
        driver.send("answer", "a2", id=second["id"], text="localhost")
        driver.done("s1")
        assert driver.end() == 0
    asked = driver.of(type="assistant", subtype="followup")
    assert [json.loads(event["content"])["question"] for event in asked] == [
        "Which port?",
        "Which host?",
    ]
    assert [event["id"] for event in asked] == [first["id"], second["id"]]
    assert driver.done("m1")["code"] == driver.done("a2")["code"] == "responded"
    assert driver.of(type="user", requestId="a2")[0]["content"] == "localhost"
    assert driver.of(type="result")[0]["requestId"] == "a2"
    assert "8080" in heard_by(server, 1)
    assert "localhost" in heard_by(server, 2)
    assert driver.of(type="queue") == []


def test_actions_are_approved_rejected_and_answered_by_the_driver(rookery: Installed):
    with (
        LlmServer(
            [touch("one")], [touch("two")], [touch("three")], [touch("four")], [finish()]
        ) as server,
        Driver(rookery, *at(server), "-a") as driver,
    ):
        driver.send("approve", "early")
        assert driver.error("early")["code"] == "no_pending_ask"
        driver.send("start", "s1", prompt="go")
        waiting = driver.wait(type="system", subtype="waiting", code="command")
        assert waiting["content"] == "approve"
        assert driver.of(type="tool_use", id=waiting["id"], done=True)[0]["tool_use"]["input"] == {
            "command": "touch one"
        }
        driver.send("approve", "a1", text="but quietly")
        driver.wait(type="system", subtype="waiting", code="command")
        driver.send("reject", "a2", text="not that one")
        third = driver.wait(type="system", subtype="waiting", code="command")
        driver.send("answer", "a3", id=third["id"], choice="yes")
        driver.wait(type="system", subtype="waiting", code="command")
        driver.send("message", "m1", prompt="touch five instead")
        driver.done("s1")
        assert driver.end() == 0
    assert sorted(path.name for path in rookery.workspace.glob("*")) == ["one", "three"]
    assert [driver.done(each)["code"] for each in ("a1", "a2", "a3", "m1")] == ["responded"] * 4
    assert "but quietly" in heard_by(server, 1)
    assert "not that one" in heard_by(server, 2)
    # words in place of a yes are a no that says why
    assert "touch five instead" in heard_by(server, 4)
    assert "denied" in heard_by(server, 4)
    assert driver.of(type="result")[0]["requestId"] == "m1"


def test_three_queued_messages_take_over_in_order(rookery: Installed):
    held = gate()
    with (
        LlmServer([say("Hm", held), LOOK], [finish("All.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        held.wait_until_reached()
        for number in "123":
            driver.send("message", f"m{number}", prompt=f"more {number}")
            assert driver.done(f"m{number}")["code"] == "queued"
        driver.wait(type="queue", queueDepth=3)
        held.open()
        driver.done("s1")
        assert driver.end() == 0
    queue = [(e["subtype"], e["queueDepth"], e["requestId"]) for e in driver.of(type="queue")]
    assert queue == [
        ("enqueued", 1, "s1"),
        ("enqueued", 2, "s1"),
        ("enqueued", 3, "s1"),
        ("dequeued", 2, "m1"),
        ("dequeued", 1, "m2"),
        ("drained", 0, "m3"),
    ]
    said = [(event["requestId"], event["content"]) for event in driver.of(type="user")]
    assert said == [("s1", "go"), ("m1", "more 1"), ("m2", "more 2"), ("m3", "more 3")]
    results = [event["requestId"] for event in driver.of(type="result")]
    assert results == ["s1", "m1", "m2", "m3"]
    assert [f"more {n}" in heard_by(server, 1) for n in "123"] == [True] * 3


def test_a_turn_that_completes_with_words_waiting_has_its_own_result(rookery: Installed):
    held = gate()
    with (
        LlmServer([say("Hm", held), finish("One.")], [finish("Two.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        held.wait_until_reached()
        driver.send("message", "m1", prompt="more")
        driver.done("m1")
        held.open()
        driver.wait(type="result", requestId="m1")
        assert driver.end() == 0
    last = [
        (event["type"], event.get("subtype"), event.get("requestId"))
        for event in driver.events
        if event["type"] in ("result", "user", "queue") or event.get("command") == "start"
    ]
    assert last[-5:] == [
        ("result", None, "s1"),
        ("control", "done", "s1"),
        ("queue", "drained", "m1"),
        ("user", None, "m1"),
        ("result", None, "m1"),
    ]


def test_a_configuration_counts_where_it_has_a_meaning(rookery: Installed):
    with (
        LlmServer([touch("made")], [finish()]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s0", prompt="go", configuration={"mode": "nobody"})
        assert driver.error("s0")["code"] == "task_error"
        configuration = {
            "mode": "debug",
            "apiModelId": "claude-y",
            "autoApprovalEnabled": False,
            "terminalShell": "zsh",
        }
        driver.send("start", "s1", prompt="go", configuration=configuration)
        driver.wait(type="system", subtype="waiting", code="command")
        driver.send("approve", "a1")
        driver.done("s1")
        assert driver.end() == 0
    assert driver.replies("s0") == [("ack", "accepted"), ("error", "task_error")]
    [note] = driver.of(type="system", subtype="note")
    assert note["content"].endswith("terminalShell.")
    assert server.requests[0].body["model"] == "claude-y"
    assert [session["mode"] for session in rookery.sessions()] == ["debug"]


CHILD = """
part one:
  - calls:
      - tool: ask_followup_question
        arguments: {question: "Which port?", follow_up: [{text: "8080"}]}
  - calls: [{tool: execute_command, arguments: {command: touch made}}]
  - calls: [{tool: attempt_completion, arguments: {result: Part one is done.}}]
"":
  - calls: [{tool: new_task, arguments: {mode: code, message: Do part one.}}]
  - calls: [{tool: attempt_completion, arguments: {result: All is done.}}]
"""


def test_a_childs_questions_reach_the_driver_and_are_answered(rookery: Installed):
    with Driver(rookery, *rookery.script(CHILD), "-a") as driver:
        driver.send("start", "s1", prompt="go")
        whole = driver.wait(type="system", subtype="waiting")
        if whole["code"] == "tool":  # whether there is to be a child at all
            driver.send("approve", "a0")
            whole = driver.wait(type="system", subtype="waiting")
        assert whole["code"] == "followup"
        child = whole["taskId"]
        driver.send("message", "m1", prompt="8080")
        command = driver.wait(type="system", subtype="waiting", code="command")
        assert command["taskId"] == child
        driver.send("answer", "a1", id=command["id"], choice="yes", text="")
        result = driver.wait(type="result")
        assert driver.end() == 0
    assert (result["content"], result["taskId"]) == ("All is done.", driver.done("s1")["taskId"])
    assert child != result["taskId"]
    told = driver.of(taskId=child)
    assert [event["type"] for event in told] == [
        *("assistant", "system", "user", "tool_use", "system", "tool_result")
    ]
    assert (rookery.workspace / "made").exists()


def test_a_childs_question_that_is_left_open_needs_a_human(rookery: Installed):
    with Driver(rookery, *rookery.script(CHILD)) as driver:
        driver.send("start", "s1", prompt="go")
        driver.wait(type="system", subtype="waiting", code="followup")
        assert driver.end() == 6
    assert driver.done("s1")["code"] == "task_aborted"


class TestResuming:
    def test_a_stored_task_is_opened_first_and_the_first_message_goes_on_with_it(
        self, rookery: Installed
    ):
        with LlmServer([finish("One.")]) as server:
            rookery.run("-p", "--create-with-session-id", ONE_ID, *at(server), "go")
        with (
            LlmServer([finish("Two.")]) as server,
            Driver(rookery, *at(server), "--session-id", ONE_ID) as driver,
        ):
            assert driver.events[0]["taskId"] == ONE_ID
            driver.wait(type="system", subtype="waiting", code="resume_completed_task")
            driver.send("message", "m1", prompt="and the docs")
            assert driver.done("m1") | {"code": "responded", "taskId": ONE_ID} == driver.done("m1")
            assert driver.wait(type="result", requestId="m1")["content"] == "Two."
            assert driver.end() == 0
        assert driver.of(type="user") == driver.of(type="user", requestId="m1")
        assert "and the docs" in heard_by(server, 0)

    def test_with_continue_an_unfinished_task_goes_on_by_approval(self, rookery: Installed):
        with LlmServer([hang()]) as server:
            assert rookery.run("-p", "--timeout", "0.5", *at(server), "go").returncode == 124
        with (
            LlmServer([finish("At last.")]) as server,
            Driver(rookery, *at(server), "--continue") as driver,
        ):
            driver.wait(type="system", subtype="waiting", code="resume_task")
            driver.send("cancel", "c1")
            assert driver.done("c1")["code"] == "no_active_task"
            driver.send("approve", "a1")
            assert driver.wait(type="result", requestId="a1")["content"] == "At last."
            assert driver.end() == 0

    def test_another_task_may_be_started_instead(self, rookery: Installed):
        with LlmServer([finish("One.")]) as server:
            rookery.run("-p", "--create-with-session-id", ONE_ID, *at(server), "go")
        with (
            LlmServer([finish("Other.")]) as server,
            Driver(rookery, *at(server), "--session-id", ONE_ID) as driver,
        ):
            driver.send("start", "s1", prompt="something else")
            assert driver.wait(type="result")["content"] == "Other."
            assert driver.end() == 0
        assert len(rookery.sessions()) == 2


def test_exit_on_error_ends_the_run_with_the_first_failed_request(rookery: Installed):
    with (
        LlmServer(status(401)) as server,
        Driver(rookery, *at(server), "--exit-on-error") as driver,
    ):
        driver.send("start", "s1", prompt="go")
        assert driver.exit_code() == 3
    assert driver.replies("s1") == [("ack", "accepted"), ("error", "task_error")]
    assert driver.events[-1]["type"] == "result"
    assert driver.events[-1]["code"] == "auth_failed"
    assert driver.complaints.startswith("Error: ")


def test_a_failed_request_that_nobody_retries_needs_a_human(rookery: Installed):
    with (
        LlmServer(status(401), [finish("At last.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        waiting = driver.wait(type="system", subtype="waiting", code="api_req_failed")
        assert waiting["content"] == "retry_or_new_task"
        driver.send("message", "m1", prompt="with the other key")
        assert driver.done("m1")["code"] == "queued"
        driver.send("approve", "a1")
        driver.done("s1")
        assert driver.end() == 0
    assert "with the other key" in heard_by(server, 1)


def test_a_debug_log_is_kept(rookery: Installed):
    script = rookery.script("- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n")
    with Driver(rookery, *script, "-d") as driver:
        for name in ("s1", "s2"):
            driver.send("start", name, prompt="go")
            driver.done(name)
        assert driver.end() == 0
    [log] = rookery.home.rglob("*debug*.log")
    assert log.read_text(encoding="utf-8").count("[Facts] TaskOpened") == 2


def test_ids_that_the_driver_does_not_give_are_fresh_ones(rookery: Installed):
    with LlmServer([finish()]) as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go")
        assert uuid.UUID(driver.done("s1")["taskId"]).version == 4
        driver.signal(signal.SIGTERM)
        assert driver.exit_code() == 143


def test_a_task_that_cannot_be_kept_is_an_error_and_the_stream_goes_on(rookery: Installed):
    with (
        LlmServer([finish("One.")], [finish("Two.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="first")
        driver.done("s1")
        [tasks] = [path for path in rookery.home.rglob("tasks") if path.is_dir()]
        tasks.chmod(0o500)
        driver.send("start", "s2", prompt="second")
        assert driver.error("s2")["code"] == "task_error"
        tasks.chmod(0o700)
        driver.send("start", "s3", prompt="third")
        assert driver.done("s3")["code"] == "task_completed"
        assert driver.end() == 0


def test_a_run_that_nobody_drives_is_told_in_events_of_the_same_schema(rookery: Installed):
    with LlmServer([say("Hi."), touch("made")], [question()], [finish("Made.")]) as server:
        done = rookery.run("-p", "--output-format", "stream-json", *at(server), "go")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [problem for event in events if (problem := problem_with(event))] == []
    assert events[0]["capabilities"] == []


def test_the_end_of_input_after_a_start_that_was_refused_is_a_failure(rookery: Installed):
    with LlmServer() as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go", configuration={"mode": "nosuch"})
        assert driver.error("s1")["code"] == "task_error"
        assert driver.end() == 1
    assert "No such mode: 'nosuch'" in driver.complaints
    with LlmServer() as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go", configuration={"apiProvider": "openai"})
        assert "No key for openai" in driver.error("s1")["content"]
        assert driver.end() == 3


def test_a_workspace_that_was_moved_is_an_error_of_the_start(rookery: Installed):
    with LlmServer([finish("Ready.")]) as server, Driver(rookery, *at(server)) as driver:
        elsewhere = rookery.workspace.with_name("elsewhere")
        rookery.workspace.rename(elsewhere)
        driver.send("start", "s1", prompt="go")
        assert "(No such file or directory)" in driver.error("s1")["content"]
        elsewhere.rename(rookery.workspace)
        driver.send("start", "s2", prompt="go")
        assert driver.done("s2")["code"] == "task_completed"
        assert driver.end() == 0


def test_a_failed_request_gives_way_to_a_start(rookery: Installed):
    with (
        LlmServer(status(401), [finish("Ready.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        waiting = driver.wait(type="system", subtype="waiting")
        assert waiting["content"] == "retry_or_new_task"
        driver.send("start", "s2", prompt="go on")
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.done("s2")["code"] == "task_completed"
        assert driver.end() == 0
    assert [event["requestId"] for event in driver.of(type="result")] == ["s1", "s2"]


@pytest.mark.parametrize("end", ["shutdown", "end of input"])
def test_calls_that_were_interrupted_have_a_result_however_the_run_ends(
    rookery: Installed, end: str
):
    with (
        LlmServer([touch("one"), touch("two")]) as server,
        Driver(rookery, "-a", *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.wait(type="system", subtype="waiting", code="command")
        driver.send("cancel", "c1")
        driver.wait(type="system", subtype="waiting", code="resume_task")
        if end == "shutdown":
            driver.send("shutdown", "x1")
        assert driver.end() == (0 if end == "shutdown" else 6)
    told = {event["id"] for event in driver.of(type="tool_use")}
    assert len(told) == 2
    assert {event["id"] for event in driver.of(type="tool_result", done=True)} == told


def test_an_input_that_cannot_be_read_is_one_sentence(rookery: Installed):
    with open(rookery.workspace.parent / "sink", "wb") as sink:
        done = subprocess.run(
            [COMMAND, *FLAGS, *rookery.script("[]")],
            stdin=sink,
            capture_output=True,
            text=True,
            cwd=rookery.workspace,
            env=rookery.environ,
            timeout=60,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Cannot read the input (Bad file descriptor).")
    assert done.stderr.count("\n") == 1


def test_tools_go_by_the_names_that_drivers_of_the_roo_cli_know(rookery: Installed):
    (rookery.workspace / "a.txt").write_text("one\n")
    read = call("read_file", path="a.txt")
    write = call("write_to_file", path="b.txt", content="two\n")
    edit = call("apply_diff", path="a.txt", diff="<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE")
    with (
        LlmServer([read], [write], [edit], [LOOK], [touch("c")], [finish("Done.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.done("s1")
        assert driver.end() == 0
    names = ["readFile", "newFileCreated", "appliedDiff", "listFilesTopLevel", "execute_command"]
    closed = [event for event in driver.of(type="tool_use") if event.get("done")]
    assert [event["tool_use"]["name"] for event in closed] == names
    ended = [event for event in driver.of(type="tool_result") if event.get("done")]
    assert [event["tool_result"]["name"] for event in ended] == names
    parts = {event["tool_use"]["name"] for event in driver.of(type="tool_use")}
    assert parts == set(names)


@pytest.mark.parametrize(("given", "requests"), [("", 10), ("mistake_limit = 2\n", 2)])
def test_a_driven_run_asks_for_a_hint_after_ten_mistakes(
    rookery: Installed, given: str, requests: int
):
    (rookery.home / "config" / "settings.toml").write_text(given)
    wrong = [[call("read_file", number=number)] for number in range(12)]
    with LlmServer(*wrong) as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go")
        driver.wait(type="system", subtype="waiting", code="mistake_limit_reached")
        assert len(server.requests) == requests
        driver.send("shutdown", "x")
        assert driver.end() == 0


def test_the_roo_provider_has_a_default_model(rookery: Installed):
    rookery.environ["ROO_API_KEY"] = "roo-key"
    with LlmServer([finish("Done.")]) as server:
        flags = ["--provider", "roo", "--base-url", server.url]
        with Driver(rookery, *flags) as driver:
            driver.send("start", "s1", prompt="go")
            driver.done("s1")
            assert driver.end() == 0
    assert server.requests[0].body["model"] == "anthropic/claude-opus-5.5"
