"""A program drives the real command. What each command and event means is in tests/compat."""

import json
import os
import random
import signal
import subprocess
import time
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, hang, reset, say, status
from llm_server.parts import Answer
from support.control_stream_client import Driver
from support.model_words import FINISHES, LOOK, last_turn, question, shell
from support.terminal_session import Installed, a_pause, at, processes_with

pytestmark = pytest.mark.usefixtures("unconfined")

ONE_ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"
SEEDS = range(20) if os.environ.get("ROOKERY_TORTURE") else range(1)


def line(command: str, request_id: str, **fields: object) -> str:
    return json.dumps({"command": command, "requestId": request_id, **fields}) + "\n"


def waiting(driver: Driver, code: str) -> dict[str, Any]:
    return driver.wait(type="system", subtype="waiting", code=code)


def test_a_start_is_acknowledged_streamed_and_completed(rookery: Installed):
    """Tools go by the names that drivers of the Roo CLI know."""
    rookery.environ["ROOKERY_SANDBOX_NETWORK"] = "on"  # no note where there is no namespace
    (rookery.workspace / "a.txt").write_text("one\n")
    read = call("read_file", path="a.txt")
    write = call("write_to_file", path="b.txt", content="two\n")
    edit = call("apply_diff", path="a.txt", diff="<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE")
    with (
        LlmServer(
            [say("I will."), read, write, edit, LOOK, shell("touch c")], [finish()]
        ) as server,
        Driver(rookery, *at(server), "-d") as driver,
    ):
        driver.write(line("ping", "p1").replace("\n", "\r\n\n") + "nonsense\n")
        assert "stdin command line 3" in driver.wait(type="control", subtype="error")["content"]
        driver.send("start", "s1", prompt="make it", taskId=ONE_ID.upper(), images=[])
        result = driver.wait(type="result")
        done = driver.wait(type="control", subtype="done")
        driver.write(b'{"command":"ping","requestId":"p2"}')  # the last line need not end
        assert driver.end() == 0
    init = driver.events[0]
    assert (init["schemaVersion"], init["protocol"]) == (1, "roo-cli-stream")
    assert "stdin:start" in init["capabilities"]
    for ping in ("p1", "p2"):
        assert driver.replies(ping) == [("ack", "accepted"), ("done", "pong")]
    assert driver.replies("s1") == [("ack", "accepted"), ("done", "task_completed")]
    assert (result["content"], result["success"], result["requestId"]) == ("Done.", True, "s1")
    assert done["taskId"] == driver.of(subtype="ack", command="start")[0]["taskId"] == ONE_ID
    reported = [event for event in driver.events if event["type"] not in ("control", "system")]
    assert {event["requestId"] for event in reported} == {"s1"}
    assert reported[0]["content"] == "make it"
    names = ["readFile", "newFileCreated", "appliedDiff", "listFilesTopLevel", "execute_command"]
    for kind in ("tool_use", "tool_result"):
        closed = [event[kind]["name"] for event in driver.of(type=kind) if event.get("done")]
        assert closed == names
    assert (rookery.workspace / "c").exists()
    assert driver.complaints == ""
    [log] = rookery.home.rglob("*debug*.log")
    assert log.read_text(encoding="utf-8").count("[Facts] TaskOpened") == 1


def test_the_driver_approves_rejects_answers_and_sends_messages(rookery: Installed):
    commands = [[shell(f"touch {name}")] for name in ("one", "two", "three", "four")]
    with (
        LlmServer(*commands, [question()], [question("Which host?")], [finish()]) as server,
        Driver(rookery, *at(server), "-a") as driver,
    ):
        driver.send("approve", "early")
        assert driver.error("early")["code"] == "no_pending_ask"
        driver.send("start", "s1", prompt="go")
        asked = waiting(driver, "command")
        assert asked["content"] == "approve"
        [shown] = driver.of(type="tool_use", id=asked["id"], done=True)
        assert shown["tool_use"]["input"] == {"command": "touch one"}
        driver.send("approve", "a1", text="but quietly")
        waiting(driver, "command")
        driver.send("reject", "a2", text="not that one")
        driver.send("answer", "a3", id=waiting(driver, "command")["id"], choice="yes")
        waiting(driver, "command")
        driver.send("message", "m1", prompt="touch five instead")
        first = waiting(driver, "followup")
        driver.send("message", "m2", prompt="8080")
        second = waiting(driver, "followup")
        driver.send("answer", "late", id=first["id"], text="late")
        assert driver.error("late")["code"] == "no_pending_ask"
        driver.send("approve", "wrong")
        assert driver.error("wrong")["code"] == "client_error"
        driver.send("answer", "a4", id=second["id"], text="localhost")
        driver.done("s1")
        assert driver.end() == 0
    assert sorted(path.name for path in rookery.workspace.glob("*")) == ["one", "three"]
    for each in ("a1", "a2", "a3", "m1", "m2", "a4"):
        assert driver.done(each)["code"] == "responded", each
    received = [last_turn(server.requests[number]) for number in range(7)]
    assert "but quietly" in received[1]
    assert "not that one" in received[2]
    # text in place of an approval is a rejection with a reason
    assert "touch five instead" in received[4]
    assert "denied" in received[4]
    assert "8080" in received[5]
    assert "localhost" in received[6]
    assert driver.of(type="result")[0]["requestId"] == "a4"
    assert driver.of(type="queue") == []


def test_a_cancel_ends_the_task_once_and_the_stream_continues(rookery: Installed):
    pause = a_pause()
    with (
        LlmServer(
            [say("Hm"), hang()],
            [finish("Then so.")],
            [question()],
            [finish("Never mind.")],
            [shell(f"echo here; sleep {pause}")],
        ) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        # between the ack and the first request
        driver.write(line("start", "s1", prompt="go") + line("cancel", "c1"))
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.done("c1")["code"] == "cancel_requested"
        assert server.requests == []
        driver.send("cancel", "c2")
        assert (driver.done("c2")["code"], driver.done("c2")["success"]) == ("no_active_task", True)
        # twice, with messages in between
        driver.send("start", "s2", prompt="go")
        driver.wait(type="assistant", content="Hm")
        driver.write(
            line("cancel", "c3")
            + line("cancel", "c4")
            + line("message", "m1", prompt="another way")
            + line("start", "s3", prompt="too soon")
            + line("ping", "p1")
        )
        assert driver.wait(type="result", requestId="m1")["content"] == "Then so."
        assert driver.done("s2")["code"] == "task_aborted"
        assert driver.done("c3")["code"] == driver.done("c4")["code"] == "cancel_requested"
        assert driver.error("s3")["code"] == "task_busy"
        assert driver.replies("p1") == [("ack", "accepted"), ("done", "pong")]
        # while a question is open
        driver.send("start", "s4", prompt="go")
        asked = waiting(driver, "followup")
        driver.write(line("cancel", "c5") + line("answer", "a1", id=asked["id"], text="80"))
        assert driver.error("a1")["code"] == "no_pending_ask"
        waiting(driver, "resume_task")
        driver.send("message", "m2", prompt="choose yourself")
        again = waiting(driver, "followup")
        assert again["id"] != asked["id"]  # the call had begun, so it is brought to an end
        driver.send("answer", "a2", id=again["id"], text="any")
        driver.wait(type="result", requestId="a2")
        # while a command runs
        driver.send("start", "s5", prompt="go")
        driver.wait(type="tool_result", subtype="command")
        driver.send("cancel", "c6")
        assert driver.done("s5")["code"] == "task_aborted"
        driver.send("shutdown", "q1")
        assert driver.exit_code() == 0
    assert processes_with(pause) == []
    assert "another way" in last_turn(server.requests[1])
    assert "choose yourself" in json.dumps(server.requests[3].body["messages"])
    resumes = driver.of(type="system", subtype="waiting", code="resume_task")
    assert len(resumes) == 4


def test_a_configuration_applies_and_a_refused_start_changes_nothing(rookery: Installed):
    configuration = {
        "mode": "debug",
        "apiModelId": "claude-y",
        "autoApprovalEnabled": False,
        "terminalShell": "zsh",
    }
    with (
        LlmServer(status(401), [shell("touch made")], [finish()], status(401)) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        elsewhere = rookery.workspace.with_name("elsewhere")
        rookery.workspace.rename(elsewhere)
        driver.send("start", "s0", prompt="go")
        assert "(No such file or directory)" in driver.error("s0")["content"]
        elsewhere.rename(rookery.workspace)
        driver.send("start", "s1", prompt="go", configuration=configuration)
        assert waiting(driver, "api_req_failed")["content"] == "retry_or_new_task"
        driver.send("message", "m1", prompt="with the other key")
        assert driver.done("m1")["code"] == "queued"
        driver.send("approve", "a1")
        waiting(driver, "command")
        driver.send("approve", "a2")
        driver.done("s1")
        driver.send("start", "s2", prompt="go")  # fails, and gives way to the next start
        waiting(driver, "api_req_failed")
        driver.send("start", "s3", prompt="go", configuration={"mode": "nosuch"})
        assert driver.error("s3")["code"] == "task_error"
        driver.send("start", "s4", prompt="go", configuration={"apiProvider": "openai"})
        assert "No key for openai" in driver.error("s4")["content"]
        driver.send("clear", "x1")
        assert driver.done("s2")["code"] == "task_aborted"
        assert driver.end() == 3
    assert driver.replies("s3") == [("ack", "accepted"), ("error", "task_error")]
    [note] = driver.of(type="system", subtype="note")
    assert note["content"].endswith("terminalShell.")
    assert "with the other key" in last_turn(server.requests[1])
    assert [request.body["model"] for request in server.requests[:3]] == ["claude-y"] * 3
    assert sorted(session["mode"] for session in rookery.sessions()) == ["code", "debug"]


def test_a_stored_task_continues_with_a_message_or_an_approval(rookery: Installed):
    with LlmServer([say("Hm."), hang()], [finish("One.")], [finish("Two.")]) as server:
        with Driver(rookery, *at(server)) as driver:
            driver.send("start", "s1", prompt="go", taskId=ONE_ID)
            driver.wait(type="assistant")
            driver.write(line("shutdown", "q1") + line("ping", "p1"))
            assert driver.exit_code() == 0
        assert driver.replies("q1") == [("ack", "accepted"), ("done", "shutdown_requested")]
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.replies("p1") == []  # nothing is read any more
        assert driver.of(type="error") == []
        assert rookery.sessions()[0]["status"] == "open"
        with Driver(rookery, *at(server), "--continue") as driver:
            driver.send("ping", "p1")
            assert driver.end() == 6  # a task that is only resumed needs a human
        assert driver.of(type="result") == []
        with Driver(rookery, *at(server), "--continue") as driver:
            waiting(driver, "resume_task")
            driver.send("approve", "a1")
            assert driver.wait(type="result", requestId="a1")["content"] == "One."
            assert driver.end() == 0
        with Driver(rookery, *at(server), "--session-id", ONE_ID) as driver:
            assert driver.events[0]["taskId"] == ONE_ID
            waiting(driver, "resume_completed_task")
            driver.send("message", "m1", prompt="and the docs")
            assert driver.wait(type="result", requestId="m1")["content"] == "Two."
            assert driver.end() == 0
        assert driver.of(type="user") == driver.of(type="user", requestId="m1")
        assert "and the docs" in last_turn(server.requests[2])


@pytest.mark.parametrize(
    ("answer", "code", "number"),
    [
        (status(401), "auth_failed", 3),
        (status(429), "rate_limited", 8),
        (status(500), "task_failed", 1),
        ([say("Half a sen"), reset()], "stalled", 7),
    ],
)
def test_exit_on_error_ends_the_run_with_the_first_failed_request(
    rookery: Installed, answer: Answer, code: str, number: int
):
    with LlmServer(answer) as server, Driver(rookery, *at(server), "--exit-on-error") as driver:
        driver.send("start", "s1", prompt="go")
        assert driver.exit_code() == number
    assert driver.replies("s1") == [("ack", "accepted"), ("error", "task_error")]
    assert driver.events[-1]["type"] == "result"
    assert driver.events[-1]["code"] == code
    assert driver.complaints.startswith("Error: ")


@pytest.mark.parametrize(("given", "requests"), [("", 10), ("mistake_limit = 2\n", 2)])
def test_a_driven_run_asks_for_a_hint_after_ten_mistakes(
    rookery: Installed, given: str, requests: int
):
    (rookery.home / "config" / "settings.toml").write_text(given)
    wrong = [[call("read_file", number=number)] for number in range(12)]
    with LlmServer(*wrong) as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="go")
        waiting(driver, "mistake_limit_reached")
        assert len(server.requests) == requests
        driver.send("shutdown", "x")
        assert driver.end() == 0


class TestEndOfInput:
    """With the exit codes that the product has everywhere."""

    def test_no_command_at_all_is_wrong_usage(self, rookery: Installed):
        with Driver(rookery, *rookery.script("- say: x\n")) as driver:
            driver.write("\nnonsense\n")
            assert driver.end() == 2
        assert driver.events[-1]["code"] == "usage"
        assert driver.complaints.startswith("Error: No command was sent.")

    def test_the_run_waits_for_a_running_task_and_all_its_messages(self, rookery: Installed):
        with (
            LlmServer([finish("One.")], [finish("Two.")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.write(line("start", "s1", prompt="go") + line("message", "m1", prompt="more"))
            assert driver.end() == 0
        assert driver.done("m1")["code"] == "queued"
        received = [json.dumps(request.body["messages"]) for request in server.requests]
        assert "more" in received[-1]
        assert driver.of(type="user", requestId="m1")

    def test_an_approval_left_open_needs_a_human(self, rookery: Installed):
        with (
            LlmServer([shell("touch made")]) as server,
            Driver(rookery, *at(server), "-a") as driver,
        ):
            driver.send("start", "s1", prompt="go")
            assert driver.end() == 6
        *_, error, result, done = (e for e in driver.events if e["type"] != "tool_result")
        assert (error["type"], error["code"]) == ("error", "needs_human")
        assert "command" in error["content"]
        assert (result["type"], result["success"]) == ("result", False)
        assert result["code"] == "needs_human"
        assert (done["requestId"], done["code"]) == ("s1", "task_aborted")
        assert not (rookery.workspace / "made").exists()


class TestSignals:
    def test_open_requests_are_closed_before_the_process_ends(self, rookery: Installed):
        pause = a_pause()
        with (
            LlmServer([shell(f"echo here; sleep {pause}")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            driver.wait(type="tool_result", subtype="command")
            driver.signal(signal.SIGTERM)
            assert driver.exit_code() == 143
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.of(type="tool_result", done=True)
        assert driver.of(type="result")[0]["success"] is False
        assert processes_with(pause) == []

    @pytest.mark.parametrize("said", [False, True], ids=["no input", "end of input"])
    def test_with_signal_only_exit_the_process_stays(self, rookery: Installed, said: bool):
        with Driver(rookery, *rookery.script(FINISHES), "--signal-only-exit") as driver:
            if said:
                driver.send("start", "s1", prompt="go")
                driver.done("s1")
            driver._in.close()
            if not said:
                driver.wait(type="error", code="usage")
            with pytest.raises(subprocess.TimeoutExpired):
                driver.process.wait(0.5)
            driver.signal(signal.SIGTERM)
            assert driver.exit_code() == 143
        assert len(driver.of(type="result")) == int(said)


def test_a_reader_that_has_left_ends_the_run_quietly(rookery: Installed):
    pause = a_pause()
    with (
        LlmServer([shell(f"while sleep 0.05; do echo here; done; sleep {pause}")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.wait(type="tool_result", subtype="command")
        driver.stop_reading()
        assert driver.process.wait(60) == 0
        assert driver.process.stderr
        assert driver.process.stderr.read() == b""
    deadline = time.monotonic() + 60
    while processes_with(pause):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_or_delivered_twice(rookery: Installed, seed: int):
    chance = random.Random(seed)
    with (
        LlmServer(*[[say("Hm"), finish(f"{number}.")] for number in range(200)]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s", prompt="go")
        names = [f"m{number}" for number in range(40)]
        for name in names:
            driver.send("message", name, prompt=f"words of {name}.")
            match chance.randrange(4):
                case 0:
                    driver.done(name)
                case 1:
                    driver.wait(type="user", requestId=name)
                case _:
                    pass
        assert driver.end() == 0
    said = [event for event in driver.of(type="user") if event["requestId"] != "s"]
    assert [event["requestId"] for event in said] == names
    assert [event["content"] for event in said] == [f"words of {name}." for name in names]
    conversation = json.dumps(server.requests[-1].body["messages"])
    assert [conversation.count(f"words of {name}.") for name in names] == [1] * 40
    results = [event["requestId"] for event in driver.of(type="result")]
    assert results == sorted(results, key=["s", *names].index)
    assert results[-1] == names[-1]
    assert {code for name in names for _, code in driver.replies(name)} <= {
        *("accepted", "responded", "queued")
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_is_closed_whatever_a_driver_does(rookery: Installed, seed: int):
    chance = random.Random(seed)
    answers = [
        chance.choice([[finish()], [say("Hm"), LOOK], [question()], [say("Hm")]])
        for _ in range(400)
    ]
    commands = [
        "start",
        "message",
        "message",
        "cancel",
        "approve",
        "reject",
        "answer",
        "clear",
        "ping",
    ]
    with LlmServer(*answers) as server, Driver(rookery, *at(server)) as driver:
        names = []
        for number in range(120):
            command = chance.choice(commands)
            name = f"{command}{number}"
            names.append(name)
            fields = {
                "start": {"prompt": "go"},
                "message": {"prompt": "on"},
                "answer": {"text": "x"},
            }
            driver.send(command, name, **fields.get(command, {}))
            if chance.random() < 0.3:
                driver.wait(type="control", requestId=name)
        driver.send("shutdown", "end")
        assert driver.exit_code() == 0
    for name in [*names, "end"]:
        kinds = [subtype for subtype, _ in driver.replies(name)]
        assert kinds in (["ack", "done"], ["error"]), (name, driver.replies(name))
    assert [event for event in driver.of(type="error") if "id" not in event] == []
    starts = [name for name in names if name.startswith("start")]
    begun = [name for name in starts if ("ack", "accepted") in driver.replies(name)]
    results = driver.of(type="result")
    assert len(begun) >= 1
    assert {name for name, event in zip(begun, results, strict=False)} <= set(begun)
    assert len(results) >= len(begun)
