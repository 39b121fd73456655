"""Models that print their calls, from the request to the effect."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_server import LlmServer, say, status
from support.terminal_session import Installed

pytestmark = pytest.mark.usefixtures("unconfined")

VECTORS = yaml.safe_load(
    (Path(__file__).parents[1] / "vectors" / "printed_calls.yaml").read_text(encoding="utf-8")
)
REFUSED = {"error": {"message": "registry.ollama.ai/library/phi4 does not support tools"}}


def run(rookery: Installed, server: LlmServer, model: str, calls: str = "") -> Any:
    (rookery.workspace / "notes.txt").write_text("buy milk\n", encoding="utf-8")
    if calls:
        described = f'[models."{model}"]\ncalls = "{calls}"\n'
        (rookery.home / "config").mkdir(parents=True, exist_ok=True)
        (rookery.home / "config" / "settings.toml").write_text(described, encoding="utf-8")
    flags = ["--provider", "ollama", "-m", model, "--base-url", f"{server.url}/v1"]
    return rookery.run("-p", "-y", *flags, "do it")


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["family"] for vector in VECTORS])
def test_a_printed_call_takes_effect(rookery: Installed, vector: dict[str, Any]):
    with LlmServer(*([say(text)] for text in vector["answers"])) as server:
        done = run(rookery, server, vector["model"], vector.get("calls", ""))
    assert (done.returncode, done.stdout) == (0, f"{vector['stdout']}\n")
    expected = {"notes.txt": "buy milk\n"} | vector["files"]
    found = [path for path in rookery.workspace.rglob("*") if path.suffix in (".txt", ".py")]
    assert {path.name: path.read_text(encoding="utf-8") for path in found} == expected
    assert len(server.requests) == len(vector["answers"])
    assert all(("tools" in each.body) == ("calls" not in vector) for each in server.requests)


def test_a_call_quoted_from_a_file_is_not_run(rookery: Installed):
    call = "<write_to_file><path>b.txt</path><content>x</content></write_to_file>"
    (rookery.workspace / "a.md").write_text(f"# Title\n{call}\n", encoding="utf-8")
    reading = say("<read_file><path>a.md</path></read_file>")
    with LlmServer([reading], [say(f"The file says:\n{call}")]) as server:
        done = run(rookery, server, "phi4:14b", "text")
    assert (done.returncode, done.stdout) == (0, f"The file says:\n{call}\n")
    assert not (rookery.workspace / "b.txt").exists()


def test_a_model_that_refuses_tools_is_asked_again_in_text(rookery: Installed):
    call = say("<write_to_file>\n<path>a.txt</path>\n<content>\nx\n</content>\n</write_to_file>")
    with LlmServer(status(400, REFUSED), [call], [say("Done.")], [say("Hi.")]) as server:
        done = run(rookery, server, "phi4:14b")
        assert run(rookery, server, "phi4:14b").stdout == "Hi.\n"
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    note = "phi4:14b does not support tool calls. Describing the tools in the prompt instead."
    assert note in done.stderr
    assert (rookery.workspace / "a.txt").read_text(encoding="utf-8") == "x\n"
    first, second, third, in_the_next_run = (each.body for each in server.requests)
    assert "tools" in first
    assert not any("tools" in body for body in (second, third, in_the_next_run))
    assert "- write_to_file: " in second["messages"][0]["content"]
    assert {message["role"] for message in third["messages"]} == {"system", "user", "assistant"}
    assert "<content>\nx\n</content>" in third["messages"][-2]["content"]
    assert third["messages"][-1]["content"].startswith("Result of write_to_file:\n")


def test_a_second_refusal_is_not_answered_with_more_requests(rookery: Installed):
    with LlmServer(status(400, REFUSED), status(400, REFUSED)) as server:
        done = run(rookery, server, "phi4:14b")
    assert done.returncode != 0
    assert len(server.requests) == 2


def test_the_schema_offers_every_tool_and_an_answer(rookery: Installed):
    with LlmServer([say('{"answer": "Four."}')]) as server:
        done = run(rookery, server, "granite3:8b", "schema")
    assert done.stdout == "Four.\n"
    sent = server.requests[0].body["response_format"]["json_schema"]["schema"]["anyOf"]
    named = [choice["properties"].get("tool", {}).get("enum", [""])[0] for choice in sent]
    assert {"read_file", "write_to_file", "execute_command"} < set(named)
    assert sent[-1]["properties"] == {"answer": {"type": "string"}}
    assert json.dumps(server.requests[0].body["messages"]).count("# Tools") == 1
