"""Every request of a task starts with the bytes of the previous one.

So the provider's cache always hits. Changes are appended at the end.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from llm_server import Gate, LlmServer, Recorded, call, finish, say
from rookery.engine.ports.model import ToolSpec
from rookery.tools.registry import all_tools, essential_specs, offered
from support.recorded_task import (
    PLAYED_BEFORE_THE_RESTART,
    ROUNDS,
    TURNS_OF_A_ROUND,
    first_request,
    flags_for,
    furnish,
    record,
)
from support.terminal_session import Installed

DETAILS = re.compile(r"<environment_details>\n(.*?)\n</environment_details>", re.DOTALL)
SECTION = re.compile(r"^# (.*)\n((?:(?!# ).*\n?)*)", re.MULTILINE)
MARK = "cache_control"
CACHE_POINT = {"cachePoint": {"type": "default"}}
WIRES = {
    "anthropic": "messages",
    "openai": "messages",
    "openrouter": "messages",
    "responses": "input",
    "gemini": "contents",
    "bedrock": "messages",
}
"""What each wire calls the conversation."""

CHARACTERS_PER_TOKEN = 4
SPECS = offered(all_tools())


class Request(Struct, frozen=True):
    """A sent request without its cache marks."""

    sent: bytes
    ends: int
    """Where its last message ends, without quotes and brackets that close it."""
    fixed: bytes
    """Tools, system prompt and everything else outside the conversation."""
    reported: Sequence[Mapping[str, str]]
    """The environment details in it, by title."""


def read(raw: bytes, conversation: str) -> Request:
    body = json.loads(raw)
    assert _spelled(body) == raw, "The test no longer spells JSON as it is sent."
    body = _unmarked(body)
    sent, said = _spelled(body), _spelled(body[conversation])
    ends = sent.index(said) + len(said.rstrip(b'"]}'))
    fixed = {name: part for name, part in body.items() if name != conversation}
    texts = DETAILS.findall("\n".join(_texts(body[conversation])))
    reported = [{title: text.strip() for title, text in SECTION.findall(text)} for text in texts]
    return Request(sent, ends, _spelled(fixed), reported)


def check_prefix(requests: Sequence[Request]) -> None:
    for number, (before, after) in enumerate(pairwise(requests), start=1):
        assert after.sent.startswith(before.sent[: before.ends]), (
            f"Request {number + 1} does not begin with the one before it, "
            f"which ends at byte {before.ends}: {_difference(before, after)}"
        )
        assert after.fixed == before.fixed, f"Request {number + 1} has other tools or prompts."


@pytest.fixture(scope="module", params=WIRES)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Sequence[Recorded]]:
    wire: str = request.param
    return WIRES[wire], record(wire, tmp_path_factory.mktemp(wire))


@pytest.fixture(scope="module")
def requests(recorded: tuple[str, Sequence[Recorded]]) -> Sequence[Request]:
    conversation, came = recorded
    return [read(one.raw, conversation) for one in came]


def test_every_request_begins_with_the_bytes_of_the_one_before(requests: Sequence[Request]):
    # all turns, one refused and sent again, and the completion
    assert len(requests) == ROUNDS * TURNS_OF_A_ROUND + 2
    check_prefix(requests)
    assert requests[0].sent == requests[1].sent
    assert all(after.ends > before.ends for before, after in pairwise(requests[1:]))


def test_only_changed_details_are_sent(requests: Sequence[Request]):
    reported = requests[-1].reported

    def of(title: str) -> list[str]:
        return [section[title] for section in reported if title in section]

    questions = PLAYED_BEFORE_THE_RESTART
    # with the task, with each answer to a question, and with the message after the restart
    assert len(of("Current time")) == len(set(of("Current time"))) == questions + 2
    assert of("Git") == [
        "branch round-none",
        *(f"branch round-{number}" for number in range(questions)),
        "branch after-the-restart",
    ]
    assert of("Changed by others since you saw them (read again before editing)")[0] == "a.py"
    assert [len(row.splitlines()) for row in of("Running commands")] == [
        *range(1, questions + 2),  # one more each round
        1,  # none after the restart
        *range(1, ROUNDS - questions),
    ]
    assert len(of("Todo list")) == questions + 2
    assert len(of("Current mode")) == len(of("Files in the workspace")) == 1
    assert not of("Cost so far")


def test_a_resumed_session_repeats_the_last_request(requests: Sequence[Request]):
    after = next(n for n, one in enumerate(requests) if b"after-the-restart" in one.sent)
    assert 1 < after < len(requests) - 1
    check_prefix(requests[after - 1 : after + 1])
    assert b"Where were we?" in requests[after].sent


def test_a_session_that_was_killed_repeats_the_request_in_flight(tmp_path: Path):
    installed, gate, wire = Installed(tmp_path), Gate(), "anthropic"
    furnish(installed.workspace)
    reading = [say("Let me see."), call("read_file", path="a.py")]
    with LlmServer(reading, [gate, say("Lost.")], [finish("Done.")]) as server:
        flags = flags_for(wire, server)
        with installed.piped("-p", "-y", *flags, "Look at it.") as process:
            gate.wait_until_reached()
            process.kill()
        gate.open()
        done = installed.run("-p", "-y", *flags, "-c", "Go on.")
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        came = [read(one.raw, WIRES[wire]) for one in server.requests]
    assert len(came) == 3
    check_prefix(came)
    assert b"Lost." not in came[-1].sent


def test_the_system_prompt_leaves_room_for_work(recorded: tuple[str, Sequence[Recorded]]):
    conversation, came = recorded
    _check_room(came[0], conversation, SPECS, most_tokens=3_000)


def test_the_compact_prompt_leaves_room_in_a_small_window(tmp_path: Path):
    request = first_request("openai", tmp_path, '[context]\nprompt = "compact"\n')
    _check_room(request, "messages", essential_specs(SPECS, also=""), most_tokens=800)


def _check_room(
    request: Recorded, conversation: str, specs: Sequence[ToolSpec], most_tokens: int
) -> None:
    listed = [_tool(each) for each in _listed(request.body) if each != CACHE_POINT]
    tools = {each["name"]: _tokens(each) for each in listed}
    assert set(tools) >= {spec.name for spec in specs}
    parts = {
        "system": _tokens(_system(request.body)),
        "tools": sum(tools.values()),
        "details": _tokens(read(request.raw, conversation).reported),
    }
    longest = sorted(tools.items(), key=lambda row: -row[1])
    assert sum(parts.values()) <= most_tokens, f"{parts}; longest first: {longest}"


def test_all_tasks_of_a_project_begin_with_the_same_bytes(tmp_path: Path):
    """In processes with another hash seed."""
    installed, wire = Installed(tmp_path), "openai"
    furnish(installed.workspace)
    with LlmServer([finish()], [finish()]) as server:
        for seed in ("1", "4711"):
            done = installed.run("-p", *flags_for(wire, server), f"go {seed}", PYTHONHASHSEED=seed)
            assert done.returncode == 0, done.stderr
        first, second = (read(one.raw, WIRES[wire]) for one in server.requests)
    assert first.fixed == second.fixed
    assert first.sent.partition(b"go 1")[0] == second.sent.partition(b"go 4711")[0]


def _listed(body: Mapping[str, Any]) -> list[Any]:
    tools: list[Any] = body.get("tools") or body["toolConfig"]["tools"]
    return tools[0].get("functionDeclarations") or tools


def _system(body: Mapping[str, Any]) -> Any:
    named = [body.get(name) for name in ("system", "instructions", "systemInstruction")]
    return next(filter(None, named), None) or body["messages"][0]


def _tool(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a model reads of a tool: no wire's own options beside it."""
    said = spec.get("function") or spec.get("toolSpec") or spec
    names = ("input_schema", "inputSchema", "parametersJsonSchema", "parameters")
    schema = next(said[name] for name in names if name in said)
    return {"name": said["name"], "description": said["description"], "parameters": schema}


def _difference(before: Request, after: Request) -> str:
    pairs = enumerate(zip(before.sent, after.sent, strict=False))
    at = next((at for at, (old, new) in pairs if old != new), len(after.sent))
    return f"at byte {at}, {after.sent[max(at - 60, 0) : at + 60]!r}"


def _tokens(part: object) -> int:
    return len(_spelled(part).decode()) // CHARACTERS_PER_TOKEN


def _spelled(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for part in value.values() for text in _texts(part)]
        case list():
            return [text for part in value for text in _texts(part)]
        case _:
            return []


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {name: _unmarked(part) for name, part in value.items() if name != MARK}
        case list():
            return [_unmarked(part) for part in value if part != CACHE_POINT]
        case _:
            return value
