"""A turn ends when the model has answered, however it says so."""

import json

from llm_server import LlmServer, call, say
from terminal_session import Installed

ANSWER = "The answer is 4."


def at(server: LlmServer) -> list[str]:
    return ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]


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
    assert "written in its text" in json.dumps(server.requests[1].body["messages"][-1])


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
