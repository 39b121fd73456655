"""A turn ends when the model has answered, however it says so."""

import json
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from llm_server import LlmServer, call, gate, say
from support.control_stream_client import Driver
from support.terminal_session import PATIENCE, Installed, at

ANSWER = "The answer is 4."


def wait_until_received(process: subprocess.Popen[bytes], server: LlmServer) -> None:
    """Until the process has read all that the server sent, and sleeps."""
    peer = f":{urlsplit(server.url).port:04X}"
    deadline = time.monotonic() + PATIENCE
    while _unread_bytes(peer) or _state(process) != "S":
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _unread_bytes(peer: str) -> int:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[2].endswith(peer))


def _state(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_question_answered_in_words_takes_one_request_and_the_words_go_to_stdout(
    rookery: Installed,
):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "What is 2 + 2?")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert len(server.requests) == 1
    assert ANSWER not in done.stderr


def test_in_json_the_words_are_the_content_and_told_once(rookery: Installed):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", "--output-format", "json", *at(server), "What is 2 + 2?")
    result = json.loads(done.stdout)
    assert (done.returncode, result["success"], result["content"]) == (0, True, ANSWER)
    assert [e["content"] for e in result["events"] if e["type"] == "assistant"] == [ANSWER]


def test_in_stream_json_the_result_names_the_row_with_the_words(rookery: Installed):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", "--output-format", "stream-json", *at(server), "What is 2 + 2?")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (row,) = [e for e in events if e["type"] == "assistant" and e.get("done")]
    assert (events[-1]["content"], events[-1]["id"]) == (ANSWER, row["id"])


def test_a_sub_task_gives_its_words_to_its_parent(rookery: Installed):
    begin = call("new_task", mode="code", message="Count the files.")
    with LlmServer([begin], [say("There are 3.")], [say("Three files.")]) as server:
        done = rookery.run("-p", *at(server), "How many files?")
    assert (done.returncode, done.stdout) == (0, "Three files.\n")
    assert "There are 3." in json.dumps(server.requests[2].body["messages"][-1])
    assert done.stderr.count("There are 3.") == 1


def test_a_call_written_as_text_is_nudged_once_and_then_words_end_the_turn(rookery: Installed):
    written = "<read_file><path>a.txt</path></read_file>"
    with LlmServer([say(written)], [say(written)]) as server:
        done = rookery.run("-p", *at(server), "Read it")
    assert (done.returncode, done.stdout) == (0, f"{written}\n")
    assert len(server.requests) == 2
    assert "call as text" in json.dumps(server.requests[1].body["messages"][-1])


def test_where_only_a_completion_ends_a_turn_words_are_reminded_as_before(rookery: Installed):
    with LlmServer([say("Done.")], [call("attempt_completion", result=ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "What is 2 + 2?", ROOKERY_TURN_END="completion")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert "called no tool" in json.dumps(server.requests[1].body["messages"][-1])


def test_a_run_that_is_not_completed_prints_the_last_words(rookery: Installed):
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([say("I look first."), listing]) as server:
        done = rookery.run("-p", *at(server), "Look", ROOKERY_MAX_REQUESTS="1")
    assert (done.returncode, done.stdout) == (4, "I look first.\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_words_of_a_sub_task_are_the_last_ones_if_the_run_ends_in_it(rookery: Installed, form: str):
    begin = call("new_task", mode="code", message="Count.")
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([say("I delegate."), begin], [say("I count."), listing]) as server:
        flags = ["-p", "--output-format", form, *at(server)]
        done = rookery.run(*flags, "Count", ROOKERY_MAX_REQUESTS="2")
    words = json.loads(done.stdout)["content"] if form == "json" else done.stdout.strip()
    assert (done.returncode, words) == (4, "I count.")


def test_a_run_that_is_terminated_prints_the_words_so_far(rookery: Installed):
    waiting = gate()
    with LlmServer([say("I think that ", waiting)]) as server:
        process = rookery.start("-p", *at(server), "go")
        waiting.wait_until_reached()
        wait_until_received(process, server)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (143, b"I think that\n")


def test_a_sub_task_that_only_announces_its_work_is_nudged_where_nobody_can_reply(
    rookery: Installed,
):
    begin = call("new_task", mode="code", message="Count.", todos="[ ] count")
    script = [[begin], [say("I will count.")], [say("There are 3.")], [say("Three.")]]
    with LlmServer(*script) as server:
        done = rookery.run("-p", *at(server), "Count")
    assert (done.returncode, done.stdout) == (0, "Three.\n")
    assert "To-do items are open" in json.dumps(server.requests[2].body["messages"][-1])
    assert "There are 3." in json.dumps(server.requests[3].body["messages"][-1])


def test_a_driver_gets_one_result_for_each_answer_in_words(rookery: Installed):
    with (
        LlmServer([say(ANSWER)], [say("And 9.")]) as server,
        Driver(rookery, *at(server)) as driver,
    ):
        driver.send("start", "s1", prompt="What is 2 + 2?")
        driver.wait(type="result")
        driver.send("message", "m1", prompt="And 3 + 6?")
        driver.wait(type="result", requestId="m1")
        assert driver.end() == 0
    results = [(each["content"], each["requestId"]) for each in driver.of(type="result")]
    assert results == [(ANSWER, "s1"), ("And 9.", "m1")]
    told = [each["content"] for each in driver.of(type="assistant") if each.get("done")]
    assert told == [ANSWER, "And 9."]


def test_requests_are_apart_as_the_user_wants(rookery: Installed):
    look = call("list_files", path=".", recursive=False)
    with LlmServer([look], [say(ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "Look", ROOKERY_REQUEST_PAUSE="0.7")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    first, second = server.requests
    assert second.at - first.at >= 500
    assert "  next request in 0." in done.stderr


def test_at_a_terminal_an_answer_in_words_is_shown_once_and_more_can_be_asked(rookery: Installed):
    done = "Done. [Enter accepts, or say what else to do] "
    with (
        LlmServer([say(ANSWER)], [say("And 9.")]) as server,
        rookery.terminal(*at(server), "What is 2 + 2?") as terminal,
    ):
        assert terminal.wait_for(done).count(ANSWER) == 1
        terminal.type("And 3 + 6?")
        assert terminal.wait_for(done).count("And 9.") == 1
        terminal.type("")
        assert terminal.exit_code() == 0
    assert len(server.requests) == 2


def test_print_at_a_terminal_shows_the_words_once(rookery: Installed):
    with (
        LlmServer([say(ANSWER)]) as server,
        rookery.terminal("-p", *at(server), "What is 2 + 2?") as terminal,
    ):
        assert terminal.exit_code() == 0
        assert terminal.screen.count(ANSWER) == 1
