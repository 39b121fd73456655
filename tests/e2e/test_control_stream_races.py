"""A program drives the real command and does what programs do: it is early, late, wrong or gone."""

import json
import os
import signal
import subprocess
import time

import pytest

from llm_server import LlmServer, call, finish, gate, hang, say
from support.control_stream_client import FLAGS, Driver
from support.terminal_session import COMMAND, Installed, a_pause, at, processes_with

LOOK = call("list_files", path=".", recursive=False)


def run(command: str) -> object:
    return call("execute_command", command=command, cwd=None, timeout=None)


def question() -> object:
    return call(
        "ask_followup_question", question="Which port?", follow_up=[{"text": "8080", "mode": None}]
    )


def line(command: str, request_id: str, **fields: object) -> str:
    return json.dumps({"command": command, "requestId": request_id, **fields}) + "\n"


class TestCancel:
    def test_right_after_the_ack_the_start_is_aborted_once(self, rookery: Installed):
        with LlmServer([hang()]) as server, Driver(rookery, *at(server)) as driver:
            driver.send("start", "s1", prompt="go")
            driver.wait(type="control", subtype="ack", requestId="s1")
            driver.send("cancel", "c1")
            done = driver.done("s1")
            assert (done["code"], done["success"]) == ("task_aborted", False)
            driver.wait(type="system", subtype="waiting", code="resume_task")
            driver.send("clear", "x1")
            driver.done("x1")
            assert driver.end() == 0
        assert driver.replies("c1") == [("ack", "accepted"), ("done", "cancel_requested")]
        [result] = driver.of(type="result")
        assert (result["success"], result["code"], result["requestId"]) == (
            *(False, "task_aborted"),
            "s1",
        )

    def test_in_one_write_with_the_start(self, rookery: Installed):
        """Between the ack and the first request."""
        with LlmServer([finish("Never.")]) as server, Driver(rookery, *at(server)) as driver:
            driver.write(line("start", "s1", prompt="go") + line("cancel", "c1"))
            assert driver.done("s1")["code"] == "task_aborted"
            assert driver.done("c1")["code"] == "cancel_requested"
            driver.send("cancel", "c2")
            assert driver.done("c2")["code"] == "no_active_task"
            assert driver.done("c2")["success"] is True
            assert driver.end() == 6
        assert server.requests == []
        assert "resume_task" in driver.complaints

    def test_a_message_during_a_cancel_reaches_the_task_that_comes_after(self, rookery: Installed):
        with (
            LlmServer([say("Hm"), hang()], [finish("Then so.")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            driver.wait(type="assistant")
            driver.write(
                line("cancel", "c1")
                + line("message", "m1", prompt="another way")
                + line("start", "s2", prompt="too soon")
                + line("ping", "p1")
            )
            result = driver.wait(type="result", requestId="m1")
            assert driver.end() == 0
        assert (result["content"], result["success"]) == ("Then so.", True)
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.done("m1")["code"] == "responded"
        assert driver.error("s2")["code"] == "task_busy"
        assert driver.replies("p1") == [("ack", "accepted"), ("done", "pong")]
        assert "another way" in json.dumps(server.requests[1].body["messages"][-1])
        order = [e["requestId"] for e in driver.of(type="control") if e["subtype"] != "ack"]
        assert order.index("c1") < order.index("m1") < order.index("s2")

    def test_while_a_question_is_open(self, rookery: Installed):
        with (
            LlmServer([question()], [finish("Never mind.")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            asked = driver.wait(type="system", subtype="waiting", code="followup")
            driver.write(line("cancel", "c1") + line("answer", "a1", id=asked["id"], text="80"))
            assert driver.error("a1")["code"] == "no_pending_ask"
            driver.wait(type="system", subtype="waiting", code="resume_task")
            driver.send("message", "m1", prompt="choose yourself")
            again = driver.wait(type="system", subtype="waiting", code="followup")
            assert again["id"] != asked["id"]  # the call had begun, so it is brought to an end
            driver.send("answer", "a2", id=again["id"], text="any")
            driver.wait(type="result", requestId="a2")
            assert driver.end() == 0
        assert "choose yourself" in json.dumps(server.requests[1].body["messages"])

    def test_a_command_that_runs_is_ended(self, rookery: Installed):
        pause = a_pause()
        with (
            LlmServer([run(f"echo here; sleep {pause}")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            driver.wait(type="tool_result", subtype="command")
            driver.send("cancel", "c1")
            assert driver.done("s1")["code"] == "task_aborted"
            driver.send("shutdown", "q1")
            assert driver.exit_code() == 0
        assert processes_with(pause) == []

    def test_twice_is_once(self, rookery: Installed):
        with LlmServer([hang()]) as server, Driver(rookery, *at(server)) as driver:
            driver.send("start", "s1", prompt="go")
            server.wait_for_request()
            driver.write(line("cancel", "c1") + line("cancel", "c2"))
            driver.done("s1")
            assert driver.end() == 6
        assert driver.done("c1")["code"] == driver.done("c2")["code"] == "cancel_requested"
        assert len(driver.of(type="system", subtype="waiting", code="resume_task")) == 1


class TestShutdown:
    def test_while_running_the_task_is_stopped_and_kept(self, rookery: Installed):
        with LlmServer([say("Hm"), hang()]) as server, Driver(rookery, *at(server)) as driver:
            driver.send("start", "s1", prompt="go")
            driver.wait(type="assistant")
            driver.write(line("shutdown", "q1") + line("ping", "p1"))
            assert driver.exit_code() == 0
        assert driver.replies("q1") == [("ack", "accepted"), ("done", "shutdown_requested")]
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.replies("p1") == []  # nothing is read any more
        assert driver.of(type="error") == []
        assert rookery.sessions()[0]["status"] == "open"

    def test_without_a_task(self, rookery: Installed):
        with Driver(rookery, *rookery.script("- say: x\n")) as driver:
            driver.send("shutdown", "q1")
            assert driver.exit_code() == 0
        assert driver.complaints == ""


BAD_LINES = [
    b"{",
    b'"start"',
    b'{"requestId":"b3"}',
    b'{"command":"stat","requestId":"b4"}',
    b'{"command":"start","prompt":"x"}',
    b'{"command":"start","requestId":"b6","prompt":" "}',
    b'{"command":"message","requestId":"b7","prompt":"x","images":[1]}',
    b'{"command":"start","requestId":"b8","prompt":"x","taskId":""}',
    b'{"command":"start","requestId":"b9","prompt":"x","taskId":"t1"}',
    b'{"command":"p\xffng","requestId":"b10"}',
]


def test_bad_lines_are_answered_and_the_stream_goes_on(rookery: Installed):
    """All of the reasons, beside a task that does not notice; blank lines count, CRLF ends one."""
    held = gate()
    with (
        LlmServer([say("Hm", held), finish("Done.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.write(line("start", "s1", prompt="go").replace("\n", "\r\n") + "\n \r\n\t\n")
        held.wait_until_reached()
        driver.write(b"".join(each + b"\n" for each in BAD_LINES))
        driver.write(line("ping", "p1").rstrip() + "\r\n")
        driver.done("p1")
        held.open()
        driver.done("s1")
        driver.write(b'{"command":"ping","requestId":"p2"}')  # the last line need not end
        assert driver.end() == 0
    errors = driver.of(type="control", subtype="error")
    assert {error["code"] for error in errors} == {"invalid_command"}
    numbers = [error["content"].split(":")[0] for error in errors]
    assert numbers == [f"stdin command line {number}" for number in range(5, 15)]
    ids = [error["requestId"] for error in errors]
    assert ids == ["", "", "b3", "b4", "", "b6", "b7", "b8", "b9", ""]
    assert driver.done("p2")["code"] == "pong"


def test_a_thousand_pings_while_the_model_speaks_and_a_prompt_of_five_megabytes(rookery: Installed):
    held, words = gate(), [f"word{number} " for number in range(200)]
    prompt = "Grüße " * 900_000
    with (
        LlmServer([say(*words[:100], held, *words[100:]), LOOK], [finish()]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.write(line("start", "s1", prompt=prompt))
        held.wait_until_reached()
        for number in range(1000):
            driver.send("ping", f"p{number}")
            if number == 500:
                held.open()
        driver.done("s1")
        driver.done("p999")
        assert driver.end() == 0
    pongs = [event["requestId"] for event in driver.of(type="control", code="pong")]
    assert pongs == [f"p{number}" for number in range(1000)]
    assert driver.of(type="user")[0]["content"] == prompt
    [said] = driver.of(type="assistant", subtype=None, done=True)
    assert said["content"] == "".join(words)


class TestEndOfInput:
    """With the exit codes that the product has everywhere."""

    def test_no_command_at_all_is_wrong_usage(self, rookery: Installed):
        with Driver(rookery, *rookery.script("- say: x\n")) as driver:
            driver.write("\nnonsense\n")
            assert driver.end() == 2
        assert driver.events[-1]["code"] == "usage"
        assert driver.complaints.startswith("Error: No command was sent.")

    def test_a_file_or_nothing_is_an_input_too(self, rookery: Installed):
        commands = rookery.workspace.parent / "commands"
        commands.write_text(line("ping", "p1"))
        script = rookery.script("- say: x\n")
        for file, code in ((commands, 0), (os.devnull, 2)):
            with open(file, "rb") as given:
                done = subprocess.run(
                    [COMMAND, *FLAGS, *script],
                    stdin=given,
                    env=rookery.environ,
                    cwd=rookery.workspace,
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
            assert done.returncode == code, done.stderr

    def test_a_task_at_work_is_waited_for_also_with_words_in_its_queue(self, rookery: Installed):
        held = gate()
        with (
            LlmServer([say("Hm", held), finish("One.")], [finish("Two.")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            held.wait_until_reached()
            driver.send("message", "m1", prompt="more")
            driver.done("m1")
            driver._in.close()
            held.open()
            assert driver.exit_code() == 0
        assert [event["content"] for event in driver.of(type="result")] == ["One.", "Two."]

    def test_a_message_that_is_sent_with_the_last_breath_is_heard(self, rookery: Installed):
        with (
            LlmServer([finish("One.")], [finish("Two.")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.write(line("start", "s1", prompt="go") + line("message", "m1", prompt="more"))
            assert driver.end() == 0
        assert driver.done("m1")["code"] == "queued"
        heard = [json.dumps(request.body["messages"]) for request in server.requests]
        assert "more" in heard[-1]
        assert driver.of(type="user", requestId="m1")

    @pytest.mark.parametrize(
        ("answer", "ask"),
        [(question(), "followup"), (run("touch made"), "command")],
        ids=["followup", "command"],
    )
    def test_a_question_that_is_left_open_needs_a_human(
        self, rookery: Installed, answer: object, ask: str
    ):
        with LlmServer([answer]) as server, Driver(rookery, *at(server), "-a") as driver:
            driver.send("start", "s1", prompt="go")
            assert driver.end() == 6
        *_, error, result, done = (e for e in driver.events if e["type"] != "tool_result")
        assert (error["type"], error["code"]) == ("error", "needs_human")
        assert ask in error["content"]
        assert (result["type"], result["success"], result["code"]) == (
            *("result", False),
            "needs_human",
        )
        assert (done["requestId"], done["code"]) == ("s1", "task_aborted")
        assert not (rookery.workspace / "made").exists()

    def test_a_task_that_is_only_resumed_needs_a_human(self, rookery: Installed):
        with LlmServer([hang()]) as server:
            assert rookery.run("-p", "--timeout", "0.5", *at(server), "go").returncode == 124
        with LlmServer() as server, Driver(rookery, *at(server), "-c") as driver:
            driver.send("ping", "p1")
            assert driver.end() == 6
        assert driver.of(type="result") == []


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_what_is_open_is_closed_before_the_process_ends(
        self, rookery: Installed, number: signal.Signals, code: int
    ):
        pause = a_pause()
        with (
            LlmServer([run(f"echo here; sleep {pause}")]) as server,
            Driver(rookery, *at(server)) as driver,
        ):
            driver.send("start", "s1", prompt="go")
            driver.wait(type="tool_result", subtype="command")
            driver.signal(number)
            assert driver.exit_code() == code
        assert driver.done("s1")["code"] == "task_aborted"
        assert driver.of(type="tool_result", done=True)
        assert driver.of(type="result")[0]["success"] is False
        assert processes_with(pause) == []

    @pytest.mark.parametrize("how", ["end of input", "shutdown", "nothing said"])
    def test_with_signal_only_exit_the_process_stays(self, rookery: Installed, how: str):
        script = rookery.script(
            "- calls: [{tool: attempt_completion, arguments: {result: One.}}]\n"
        )
        with Driver(rookery, *script, "--signal-only-exit") as driver:
            if how != "nothing said":
                driver.send("start", "s1", prompt="go")
                driver.done("s1")
            if how == "shutdown":
                driver.send("shutdown", "q1")
                driver.done("q1")
            else:
                driver._in.close()
            if how == "nothing said":
                driver.wait(type="error", code="usage")
            with pytest.raises(subprocess.TimeoutExpired):
                driver.process.wait(0.5)
            driver.signal(signal.SIGTERM)
            assert driver.exit_code() == 143
        assert len(driver.of(type="result")) == (0 if how == "nothing said" else 1)

    def test_a_timeout_ends_the_run(self, rookery: Installed):
        with (
            LlmServer([hang()]) as server,
            Driver(rookery, *at(server), "--timeout", "3") as driver,
        ):
            driver.send("start", "s1", prompt="go")
            assert driver.exit_code() == 124
        assert driver.of(type="result")[0]["code"] == "timeout"
        assert driver.done("s1")["code"] == "task_aborted"


def test_a_reader_that_has_left_ends_the_run_quietly(rookery: Installed):
    pause = a_pause()
    with (
        LlmServer([run(f"while sleep 0.05; do echo here; done; sleep {pause}")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="go")
        driver.wait(type="tool_result", subtype="command")
        driver.stop_reading()
        assert driver.process.wait(60) == 0
        assert driver.process.stderr
        assert driver.process.stderr.read() == b""
    deadline = time.monotonic() + 20
    while processes_with(pause):
        assert time.monotonic() < deadline
