"""A conversation condensed during a question continues with its answer."""

import json
import re

import pytest

from llm_server import LlmServer, call, finish, say
from support.terminal_session import Installed, at

ANSWER = "ONLY-THE-STAGING-ONE"
QUESTION = call(
    "ask_followup_question", question="Which database may I drop?", follow_up=[{"text": "none"}]
)


def test_a_server_that_repeats_its_call_ids_can_continue_after_condensing(rookery: Installed):
    """Some servers call the first call of every answer `call_0`."""
    edits = [
        call("write_to_file", id="call_0", path=name, content="hi\n") for name in ("a", "b", "c")
    ]
    first, second, third = ([edit] for edit in edits)
    answers = [first, second, [say("SUMMARY")], third, [finish()]]
    with LlmServer(*answers) as server, rookery.terminal(*at(server), "do it") as terminal:
        terminal.wait_for("Approve?")
        terminal.type("y")
        terminal.wait_for("Approve?")
        terminal.wait_until_it_listens()
        terminal.type("/condense")
        terminal.wait_for("Approve?")
        terminal.type("y")
        terminal.wait_for("Approve?")
        terminal.type("y")
        terminal.wait_for("accepts")
    assert [(rookery.workspace / name).read_text() for name in "abc"] == ["hi\n"] * 3
    (journal,) = rookery.home.rglob("journal.jsonl")
    started = re.findall(r'"kind":"tool_started","call_id":"(\w+)"', journal.read_text())
    assert started[:3] == ["call_0", "call_0_2", "call_0_3"]


@pytest.mark.parametrize("steps", [0, 3])
def test_an_answer_after_condensing_reaches_the_model(rookery: Installed, steps: int):
    (rookery.workspace / "f.txt").write_text("line\n" * 200)
    reads = [[call("read_file", path="f.txt", offset=number + 1)] for number in range(steps)]
    answers = [*reads, [QUESTION], [say("SUMMARY")], [finish()], [finish()]]
    with LlmServer(*answers) as server, rookery.terminal(*at(server), "do it") as terminal:
        terminal.wait_for("Which database")
        terminal.wait_until_it_listens()
        terminal.type("/condense")
        terminal.wait_for("condensed" if steps else "shortened")
        terminal.wait_until_it_listens()
        terminal.type(ANSWER)
        terminal.wait_for("accepts")
    assert ANSWER in json.dumps(server.requests[-1].body["messages"])
