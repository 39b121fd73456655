"""Models without native calls, and wire formats that tests/e2e/test_over_the_wire.py leaves out.

Named providers are tested in tests/providers/test_wires.py, what a request with a schema looks like
in tests/providers/test_request_bodies.py and test_bedrock.py."""

import json
from typing import Any

import pytest

from llm_server import LlmServer, say
from rookery.providers.registry import PROVIDERS
from support.terminal_session import Installed

pytestmark = pytest.mark.usefixtures("unconfined")

BASES = {"anthropic": "", "vertex": "/publishers/google"}
"""What follows the server's address, if not `/v1`."""
MODELS = {"claude on vertex": "claude-sonnet-4-5@20250929"}
CALL = "<write_to_file>\n<path>a.txt</path>\n<content>\nx\n</content>\n</write_to_file>"
OBJECT = {"tool": "write_to_file", "args": {"path": "a.txt", "content": "x\n"}}
PRINTED = {"text": CALL, "schema": json.dumps(OBJECT)}


def run(rookery: Installed, server: LlmServer, wire: str, calls: str = "") -> Any:
    provider, model = wire.rpartition(" ")[2], MODELS.get(wire, "some-model")
    if calls:
        settings = rookery.home / "config" / "settings.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'[models."{model}"]\ncalls = "{calls}"\n', encoding="utf-8")
    base = server.url + BASES.get(provider, "/v1")
    key = [] if PROVIDERS[provider].local else ["--api-key", "k-1"]
    flags = ["--provider", provider, "-m", model, "--base-url", base, *key]
    return rookery.run("-p", "-y", *flags, "Why is the sky blue?")


@pytest.mark.parametrize("wire", [*MODELS, "ollama"])
def test_a_question_answered_with_text_is_one_request(rookery: Installed, wire: str):
    with LlmServer([say("It ", "scatters.")]) as server:
        done = run(rookery, server, wire)
    assert (done.returncode, done.stdout) == (0, "It scatters.\n")
    # a local server is asked for its context window
    assert (len(server.requests), bool(server.lookups)) == (1, wire == "ollama")


@pytest.mark.parametrize(
    ("wire", "calls"),
    [("anthropic", "schema"), ("gemini", "schema"), ("openai", "text")],
)
def test_a_model_without_native_calls_can_work(rookery: Installed, wire: str, calls: str):
    last = "Done." if calls == "text" else '{"answer": "Done."}'
    with LlmServer([say(PRINTED[calls])], [say(last)]) as server:
        done = run(rookery, server, wire, calls)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (rookery.workspace / "a.txt").read_text(encoding="utf-8") == "x\n"
    assert not any({"tools", "toolConfig"} & each.body.keys() for each in server.requests)
    first, second = (json.dumps(each.body) for each in server.requests)
    assert "- write_to_file: " in first
    assert "Result of write_to_file" in second
    assert ('"anyOf"' in first or '\\"anyOf\\"' in first) is (calls == "schema")
