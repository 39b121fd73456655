"""Every request of a task begins with the bytes of the one before it, so that what a provider
has cached of a conversation is never paid for twice. What changes is said at the end.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from llm_server import Recorded
from rookery.tools.registry import all_tools, offered
from support.recorded_task import (
    PLAYED_BEFORE_THE_RESTART,
    ROUNDS,
    TURNS_OF_A_ROUND,
    first_request,
    record,
)

OPENING, CLOSING = b"<environment_details>", b"</environment_details>"
TIME = re.compile(rb"# Current time\\n(\d{4}-\d\d-\d\dT\d\d:\d\dZ)")
BRANCH = re.compile(rb"# Git\\n(branch [a-z0-9-]+)")
COST = re.compile(rb"# Cost so far\\n(\$\d+\.\d\d)")
TODOS = re.compile(rb"# Todo list\\n(.*?)\\n\\n")
CHANGED = re.compile(rb"# Changed by others[^\\]*\\n([^#]*)")
VOLATILE = (TIME, BRANCH, COST, TODOS, CHANGED, re.compile(rb"branch round-|\d\d:\d\dZ|\$\d"))

CHARACTERS_PER_TOKEN = 4
BUILT_IN = {spec.name for spec in offered(all_tools())}
MOST_TOKENS = {"": 3_000, '[context]\nprompt = "compact"\n': 2_000}


class Wire(Struct, frozen=True):
    """How one family of providers spells a conversation."""

    conversation: str
    before_the_tail: Sequence[bytes]
    """What may stand between the history and what is said after it."""


WIRES = {
    "anthropic": Wire("messages", [b',{"type":"text","text":"']),
    "openai": Wire(
        "messages",
        [b"\\n\\n", b',{"type":"text","text":"', b',{"role":"user","content":"'],
    ),
    "responses": Wire(
        "input",
        [b',{"type":"message","role":"user","content":[{"type":"input_text","text":"'],
    ),
}


class Request(Struct, frozen=True):
    """A request as it was sent, but for the marks that tell a provider what to keep."""

    sent: bytes
    tail_at: int
    history_ends: int
    fixed: bytes
    """Tools, system prompt and whatever else is no part of the conversation."""

    @property
    def tail(self) -> bytes:
        return self.sent[self.tail_at : self.sent.rindex(CLOSING)]

    @property
    def all_but_tail(self) -> bytes:
        return self.sent[: self.tail_at] + self.sent[self.sent.rindex(CLOSING) :]


def read(raw: bytes, wire: Wire) -> Request:
    body = json.loads(raw)
    assert _spelled(body) == raw, "The test no longer spells JSON as it is sent."
    sent = _spelled(_unmarked(body))
    assert sent.count(CLOSING) == 1, "How things stood is told again, or not at all."
    tail_at = sent.rindex(OPENING, 0, sent.index(CLOSING))
    [between] = [text for text in wire.before_the_tail if sent.endswith(text, 0, tail_at)]
    fixed = {name: part for name, part in body.items() if name != wire.conversation}
    return Request(sent, tail_at, tail_at - len(between), _spelled(_unmarked(fixed)))


def check_prefix(requests: Sequence[Request]) -> None:
    for number, (before, after) in enumerate(pairwise(requests), start=1):
        assert after.sent.startswith(before.sent[: before.history_ends]), (
            f"Request {number + 1} differs from the history of the one before it, "
            f"which ends at byte {before.history_ends}: {_difference(before, after)}"
        )
        assert after.fixed == before.fixed, f"Request {number + 1} has other tools or prompts."


def check_tails(requests: Sequence[Request]) -> None:
    for request in requests:
        for pattern in VOLATILE:
            found = pattern.search(request.all_but_tail)
            assert found is None, f"{found!r} stands outside the tail."


@pytest.fixture(scope="module", params=WIRES)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Wire, Sequence[Recorded]]:
    name: str = request.param
    return WIRES[name], record(name, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def requests(recorded: tuple[Wire, Sequence[Recorded]]) -> Sequence[Request]:
    wire, came = recorded
    return [read(one.raw, wire) for one in came]


def test_no_byte_changes_before_the_end_of_the_last_history(requests: Sequence[Request]):
    # all turns, one refused and sent again, and the completion
    assert len(requests) == ROUNDS * TURNS_OF_A_ROUND + 2
    check_prefix(requests)
    assert all(after.history_ends > before.history_ends for before, after in pairwise(requests[1:]))


def test_what_changes_stands_in_the_tail_only_and_did_change(requests: Sequence[Request]):
    check_tails(requests)

    def told(pattern: re.Pattern[bytes]) -> set[bytes]:
        return {found[1] for request in requests if (found := pattern.search(request.tail))}

    assert len(told(TIME)) > TURNS_OF_A_ROUND * PLAYED_BEFORE_THE_RESTART
    assert len(told(BRANCH)) == PLAYED_BEFORE_THE_RESTART + 2
    assert len(told(COST)) >= ROUNDS * TURNS_OF_A_ROUND
    assert len(told(TODOS)) == ROUNDS
    assert told(CHANGED)


def test_the_files_of_the_workspace_are_told_first_and_not_again(requests: Sequence[Request]):
    told = [b"# Files in the workspace" in request.tail for request in requests]
    tries = told.index(False)  # of the first request
    assert tries > 0
    assert not any(told[tries:])


def test_another_process_goes_on_with_the_same_bytes(requests: Sequence[Request]):
    after = next(n for n, one in enumerate(requests) if b"after-the-restart" in one.tail)
    assert 1 < after < len(requests) - 1
    check_prefix(requests[after - 1 : after + 1])
    assert b"Where were we?" in requests[after].sent


def _a_new_time(raw: bytes) -> bytes:
    return raw.replace(b"You are rookery", b"At 10:39 you are rookery", 1)


def _another_result(raw: bytes) -> bytes:
    return raw.replace(b"1 | count = 0", b"1 | count = O", 1)


def _a_tail_that_was_kept(raw: bytes) -> bytes:
    return raw.replace(b"1 | Nothing yet.", b"%s10:39%s" % (OPENING, CLOSING), 1)


def _tools_in_another_order(raw: bytes) -> bytes:
    body = json.loads(raw)
    return _spelled(body | {"tools": body["tools"][::-1]})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (_a_new_time, r"differs from the history|other tools or prompts"),
        (_another_result, r"differs from the history .* count = O"),
        (_a_tail_that_was_kept, r"told again"),
        (_tools_in_another_order, r"other tools or prompts"),
    ],
)
def test_a_volatile_byte_in_the_prefix_is_found(
    recorded: tuple[Wire, Sequence[Recorded]], changed: Callable[[bytes], bytes], complaint: str
):
    wire, came = recorded
    middle = len(came) // 2
    bodies = [one.raw for one in came[middle - 1 : middle + 2]]
    bodies[1] = changed(bodies[1])
    assert bodies[1] != came[middle].raw
    with pytest.raises(AssertionError, match=complaint):
        check_prefix([read(raw, wire) for raw in bodies])


@pytest.mark.parametrize("settings", MOST_TOKENS, ids=["usual", "compact"])
@pytest.mark.parametrize("wire", WIRES)
def test_what_a_model_is_told_beforehand_leaves_room_for_work(
    tmp_path: Path, wire: str, settings: str
):
    request = first_request(wire, tmp_path, settings)
    tools = {_tool(each)["name"]: _tokens(_tool(each)) for each in request.body["tools"]}
    assert set(tools) >= BUILT_IN
    parts = {
        "system": _tokens(_system(request.body)),
        "tools": sum(tools.values()),
        "tail": _tokens(read(request.raw, WIRES[wire]).tail.decode()),
    }
    longest = sorted(tools.items(), key=lambda row: -row[1])
    assert sum(parts.values()) <= MOST_TOKENS[settings], f"{parts}; longest first: {longest}"


def _system(body: Mapping[str, Any]) -> Any:
    return body.get("system") or body.get("instructions") or body["messages"][0]


def _tool(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a model reads of a tool: no wire's own options beside it."""
    said = spec.get("function", spec)
    schema = said.get("input_schema") or said["parameters"]
    return {"name": said["name"], "description": said["description"], "parameters": schema}


def _difference(before: Request, after: Request) -> str:
    pairs = enumerate(zip(before.sent, after.sent, strict=False))
    at = next((at for at, (old, new) in pairs if old != new), len(after.sent))
    return f"at byte {at}, {after.sent[max(at - 60, 0) : at + 60]!r}"


def _tokens(part: object) -> int:
    return len(_spelled(part).decode()) // CHARACTERS_PER_TOKEN


def _spelled(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {name: _unmarked(part) for name, part in value.items() if name != MARK}
        case list():
            return [_unmarked(part) for part in value]
        case _:
            return value


MARK = "cache_control"
