"""A turn ends when the model has answered, in any form."""

import json
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

from llm_server import LlmServer, call, gate, say
from support.terminal_session import PATIENCE, Installed, at

ANSWER = "The answer is 4."


def wait_until_received(pid: int, server: LlmServer) -> None:
    """Until the process has read all that the server sent, and sleeps."""
    peer = f":{urlsplit(server.url).port:04X}"
    deadline = time.monotonic() + PATIENCE
    while _unread_bytes(peer) or _state(pid) != "S":
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _unread_bytes(peer: str) -> int:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[2].endswith(peer))


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_text_answer_takes_one_request_and_is_printed(
    rookery: Installed,
):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "What is 2 + 2?")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert len(server.requests) == 1
    assert ANSWER not in done.stderr


def test_json_output_holds_the_text_answer_once(rookery: Installed):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", "--output-format", "json", *at(server), "What is 2 + 2?")
    result = json.loads(done.stdout)
    assert (done.returncode, result["success"], result["content"]) == (0, True, ANSWER)
    assert [e["content"] for e in result["events"] if e["type"] == "assistant"] == [ANSWER]


def test_the_stream_json_result_names_the_row_of_the_answer(rookery: Installed):
    with LlmServer([say(ANSWER)]) as server:
        done = rookery.run("-p", "--output-format", "stream-json", *at(server), "What is 2 + 2?")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (row,) = [e for e in events if e["type"] == "assistant" and e.get("done")]
    assert (events[-1]["content"], events[-1]["id"]) == (ANSWER, row["id"])


def test_a_sub_task_returns_its_text_to_its_parent(rookery: Installed):
    begin = call("new_task", mode="code", message="Count the files.")
    with LlmServer([begin], [say("There are 3.")], [say("Three files.")]) as server:
        done = rookery.run("-p", *at(server), "How many files?")
    assert (done.returncode, done.stdout) == (0, "Three files.\n")
    assert "There are 3." in json.dumps(server.requests[2].body["messages"][-1])
    assert done.stderr.count("There are 3.") == 1


def test_text_is_reminded_where_a_completion_is_required(rookery: Installed):
    with LlmServer([say("Done.")], [call("attempt_completion", result=ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "What is 2 + 2?", ROOKERY_TURN_END="completion")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert "called no tool" in json.dumps(server.requests[1].body["messages"][-1])


def test_an_incomplete_run_prints_the_last_text(rookery: Installed):
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([say("I look first."), listing]) as server:
        done = rookery.run("-p", *at(server), "Look", ROOKERY_MAX_REQUESTS="1")
    assert (done.returncode, done.stdout) == (4, "I look first.\n")


def test_a_run_that_ends_in_a_sub_task_prints_the_text_of_the_sub_task(rookery: Installed):
    begin = call("new_task", mode="code", message="Count.")
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([say("I delegate."), begin], [say("I count."), listing]) as server:
        flags = ["-p", "--output-format", "json", *at(server)]
        done = rookery.run(*flags, "Count", ROOKERY_MAX_REQUESTS="2")
    assert (done.returncode, json.loads(done.stdout)["content"]) == (4, "I count.")


def test_a_terminated_run_prints_the_text_so_far(rookery: Installed):
    waiting = gate()
    with (
        LlmServer([say("I think that ", waiting)]) as server,
        rookery.piped("-p", *at(server), "go") as process,
    ):
        process.stdin.close()
        waiting.wait_until_reached()
        wait_until_received(process.pid, server)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"I think that\n"
        assert process.wait(PATIENCE) == 143


def test_a_noninteractive_sub_task_that_only_announces_work_is_reminded(
    rookery: Installed,
):
    begin = call("new_task", mode="code", message="Count.", todos="[ ] count")
    script = [[begin], [say("I will count.")], [say("There are 3.")], [say("Three.")]]
    with LlmServer(*script) as server:
        done = rookery.run("-p", *at(server), "Count")
    assert (done.returncode, done.stdout) == (0, "Three.\n")
    assert "To-do items are open" in json.dumps(server.requests[2].body["messages"][-1])
    assert "There are 3." in json.dumps(server.requests[3].body["messages"][-1])


def test_the_configured_pause_separates_requests(rookery: Installed):
    look = call("list_files", path=".", recursive=False)
    with LlmServer([look], [say(ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "Look", ROOKERY_REQUEST_PAUSE="0.7")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    first, second = server.requests
    assert second.at - first.at >= 500
    assert "  next request in 0." in done.stderr


def test_a_terminal_shows_a_text_answer_once_and_takes_more_messages(rookery: Installed):
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


def test_print_at_a_terminal_shows_the_answer_once(rookery: Installed):
    with (
        LlmServer([say(ANSWER)]) as server,
        rookery.terminal("-p", *at(server), "What is 2 + 2?") as terminal,
    ):
        assert terminal.exit_code() == 0
        assert terminal.screen.count(ANSWER) == 1
