"""What a person reads at a narrow terminal, and what a program is given."""

import json
import re

from llm_server import LlmServer, call, finish, say
from support.model_words import DONE
from support.terminal_session import Installed, at

WORDS = "The quick brown fox jumps over the lazy dog while everybody else looks on. "
ANSWER = (WORDS * 4).strip()


def settled(written: str) -> list[str]:
    """The lines as a terminal shows them, with erased words and statuses applied."""
    lines = []
    for line in (each.rpartition("\r")[2] for each in written.split("\n")):
        while "\b" in line:
            line = re.sub(r"[^\b]\b", "", line, count=1)
        lines.append(line.rstrip())
    return lines


def test_words_of_an_answer_are_not_split_at_80_columns(rookery: Installed):
    pieces = re.findall(r"..?", ANSWER)
    with (
        LlmServer([say(*pieces), call("list_files", path=".")], [finish(ANSWER)]) as server,
        rookery.terminal("-y", *at(server), "go", columns=80) as terminal,
    ):
        streamed = settled(terminal.wait_for("● List"))
        result = settled(terminal.wait_for(DONE))
        terminal.type("")
        assert terminal.exit_code() == 0
    for lines in (streamed, result):
        said = [line for line in lines if "●" not in line and "rookery" not in line]
        assert all(len(line) < 80 for line in said)
        assert ANSWER in " ".join(" ".join(said).split())


def test_piped_output_is_not_wrapped(rookery: Installed):
    with LlmServer([say(ANSWER), finish(ANSWER)]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, ANSWER + "\n")
    assert ANSWER + "\n" in done.stderr


QUESTION = call(
    "ask_followup_question", question="Which colour?", follow_up=[{"text": "blue"}, {"text": "red"}]
)


def test_an_automatic_answer_is_reported_with_its_question(rookery: Installed):
    with LlmServer([QUESTION], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    reported = "The model asked: Which colour? Answered automatically: blue\n"
    assert done.stderr.count(reported) == 1
    assert done.stdout == "Done.\n"


def test_stream_json_has_the_question_and_the_automatic_answer(rookery: Installed):
    with LlmServer([QUESTION], [finish()]) as server:
        done = rookery.run("-p", *at(server), "--output-format", "stream-json", "go")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (asked,) = [e["tool_use"]["input"] for e in events if "tool_use" in e]
    (reported,) = [e["tool_result"]["output"] for e in events if "tool_result" in e]
    assert (asked["question"], "blue" in reported) == ("Which colour?", True)
