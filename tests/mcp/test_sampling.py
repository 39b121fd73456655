"""Servers that want to use the model: asked about, bounded and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.core.facts import Noted, Usage
from rookery.mcp.config import parse
from rookery.mcp.server_requests import MOST_SAMPLES
from support.asked_user import AskedBench
from support.npm_servers import npm_server
from support.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.anyio


@pytest.fixture
def asked(tmp_path: Path) -> AskedBench:
    bench = AskedBench(tmp_path)
    model = ScriptedProvider([["It is blue.", Usage(tokens_in=9, tokens_out=4, cost=0.5)]] * 20)
    bench.provider = lambda: model
    return bench


def requests_of(bench: AskedBench) -> list[Any]:
    return list(bench.provider().requests)


def counted(bench: AskedBench) -> list[Noted]:
    return [fact for fact in bench.facts if isinstance(fact, Noted) and fact.usage]


async def test_the_reference_server_gets_an_answer_after_the_user_has_seen_the_whole_request(
    asked: AskedBench,
):
    asked.configure(asking={"command": npm_server("mcp-server-everything"), "args": ["stdio"]})
    prompt = "What colour is it?\n" + "Think. " * 500
    said = await asked.call("trigger-sampling-request", "yes", prompt=prompt, maxTokens=50)
    assert "It is blue." in said
    [question] = asked.questions
    assert question["title"] == "Let the MCP server asking use your model?"
    assert any(prompt.strip() in note for note in question["notes"])
    assert question["notes"][-1] == "It gets the answer, of at most 50 tokens, and no tools."
    [request] = requests_of(asked)
    assert request.max_output == 50
    assert request.tools == ()
    assert len(counted(asked)) == 1


async def test_without_approval_nothing_is_sent(asked: AskedBench):
    asked.configure_asking()
    said = json.loads(await asked.call("sample_often", "no"))
    assert said == {
        "More than 10 requests in one call.": 990,
        "The user does not allow it.": 9,
        "The user rejected it.": 1,
    }
    assert requests_of(asked) == []
    assert len(asked.questions) == 1


async def test_always_applies_to_this_server_and_a_loop_is_stopped(asked: AskedBench):
    asked.configure_asking()
    said = json.loads(await asked.call("sample_often", "always"))
    assert said == {"More than 10 requests in one call.": 990, "answer": MOST_SAMPLES}
    [question] = asked.questions
    assert question["rule"] == (
        "every request of the MCP server 'asking' to your model, until rookery ends"
    )
    assert len(counted(asked)) == MOST_SAMPLES


async def test_a_request_that_cannot_be_shown_whole_is_refused(asked: AskedBench):
    asked.configure_asking()
    assert await asked.call("sample_huge") == "The request has more than 64 KiB."
    assert asked.questions == []


async def test_non_interactive_runs_need_the_users_file(asked: AskedBench):
    asked.attended = False
    asked.configure_asking()
    assert "Sampling not supported" in (await asked.call("sample_often"))
    assert requests_of(asked) == []
    asked.configure_asking(sampling="always")
    assert json.loads(await asked.call("sample_often"))["answer"] == MOST_SAMPLES
    asked.attended = True
    asked.configure_asking(sampling="off")
    assert "Sampling not supported" in (await asked.call("sample_often"))


def test_a_project_cannot_allow_it():
    written = json.dumps({"mcpServers": {"a": {"command": "x", "sampling": "always"}}}).encode()
    mine, theirs = parse(written, "user", {}), parse(written, "project", {})
    assert mine.servers[0].samples_freely
    assert not theirs.servers[0].samples_freely
