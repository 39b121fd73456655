"""A task continues with another model on another server, even after it was killed."""

import json
from collections.abc import Iterator

import pytest

from llm_server import LlmServer, finish, gate, say, status, usage
from support.model_words import LOOK
from support.terminal_session import Installed

BUSY = status(429, headers={"retry-after": "120"})
PRICES = """
[models."model-a"]
input_price = 1000.0
output_price = 1000.0
[models."model-b"]
input_price = 10.0
output_price = 100.0
"""
NOTE = "Continuing with model-b until your next message."


@pytest.fixture
def busy() -> Iterator[LlmServer]:
    """The first server, whose model is busy for two minutes."""
    with LlmServer(BUSY, [finish("Here I am again.")]) as server:
        yield server


def flags(first: LlmServer) -> list[str]:
    at_first = ["--provider", "openai", "-m", "model-a", "--base-url", f"{first.url}/v1"]
    return [*at_first, "--fallback", "openrouter:model-x", "--fallback", "roo:model-b"]


def second_is(rookery: Installed, second: LlmServer) -> None:
    rookery.environ |= {"ROO_CODE_PROVIDER_URL": second.url, "ROO_API_KEY": "sk-second"}
    config = rookery.home / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "settings.toml").write_text(PRICES, encoding="utf-8")


def test_a_killed_task_continues_with_its_fallback_at_its_price(
    rookery: Installed, busy: LlmServer
):
    first = [LOOK, usage(tokens_in=1000, tokens_out=100)]
    rest = [finish("Done by the second."), usage(tokens_in=2000, tokens_out=100)]
    with LlmServer(first, [gate()], rest) as second:
        second_is(rookery, second)
        with rookery.piped("-p", *flags(busy), "look") as run:
            run.stdin.close()
            second.wait_for_request(2)
            run.kill()
            shown = run.stderr.read().decode()
        resumed = rookery.run("-p", "-c")
    assert "note: Skipped the fallback model-x. No key for openrouter." in shown
    assert shown.count("openai is busy or overloaded (429)") == 1
    assert "note: model-a cannot answer. Continuing with " in shown
    assert NOTE in " ".join(shown.split())
    assert (resumed.returncode, resumed.stdout) == (0, "Done by the second.\n"), resumed.stderr
    assert [each.body["model"] for each in busy.requests] == ["model-a"]
    assert [each.body["model"] for each in second.requests] == ["model-b"] * 3
    assert second.requests[0].headers["authorization"] == "Bearer sk-second"
    # at $10 for a million tokens in and $100 for a million out
    assert "2,000 tokens in, 100 out, $0.0300" in resumed.stderr
    assert rookery.sessions()[0]["cost"] == pytest.approx(0.05)
    again = rookery.run("-p", "-c", "and now?")
    assert again.stdout == "Here I am again.\n", again.stderr
    assert busy.requests[1].body["model"] == "model-a"


def test_programs_read_the_switch_in_the_transcript(rookery: Installed, busy: LlmServer):
    with LlmServer([say("Hello.")]) as second:
        second_is(rookery, second)
        done = rookery.run("-p", "--output-format", "stream-json", *flags(busy), "look")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    notes = [row["content"] for row in said if row.get("subtype") == "note"]
    assert notes[-1].endswith(NOTE), said
