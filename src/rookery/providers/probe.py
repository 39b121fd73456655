"""Tests what a model and its server can do, with a few short requests.

Runs only when the user asks for it. Only the shape of an answer counts, because answers are not
trusted.
"""

import json
from collections.abc import Callable

import anyio
from msgspec import Struct

from rookery.core.blocks import Text
from rookery.core.folds.history import Turn
from rookery.core.limits import FailureKind
from rookery.core.text.written_calls import read_calls
from rookery.engine.ports.model import (
    CallChunk,
    ModelRequest,
    Provider,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)
from rookery.errors import ProviderError

SECONDS = 120.0
TOKENS_IN, TOKENS_OUT = 400, 800
"""What all questions together may cost."""
MOST_OUTPUT = 200
MOST_TEXT = 16 * 1024
ABILITIES = ("streaming", "native calls", "JSON schema", "continuation")
_REFUSALS = (FailureKind.REJECTED, FailureKind.BROKEN_HISTORY, FailureKind.EMPTY)
"""Failures that show a missing ability; all others end the probe."""
_TOOL = ToolSpec(
    "report_city",
    "Report a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_SCHEMA = {
    "type": "object",
    "properties": {"teal_field": {"type": "string", "enum": ["north", "south"]}},
    "required": ["teal_field"],
    "additionalProperties": False,
}


class Ability(Struct, frozen=True):
    """One result. `able` is None if it is not known."""

    name: str
    able: bool | None
    detail: str = ""


class _ProbeReply(Struct):
    text: str = ""
    pieces: int = 0
    called: str = ""


async def probe(
    provider: Provider, *, seconds: float = SECONDS, begin: Callable[[str], None]
) -> list[Ability]:
    """The model's abilities, as far as it answers; `begin` is called before each question.

    Raises `ProviderError` if the model cannot be reached at all.
    """
    found: list[Ability] = []
    for name in ABILITIES:
        begin(name)
        reply = _ProbeReply()
        try:
            with anyio.fail_after(seconds):
                await _listen(provider, _request(name), reply)
            found.append(_judged(name, reply))
        except TimeoutError:
            found.append(Ability(name, None, f"no complete answer within {seconds:g} seconds"))
            break
        except ProviderError as error:
            if error.kind not in _REFUSALS or name == ABILITIES[0]:
                raise
            found.append(Ability(name, False, str(error)))
    asked = {each.name for each in found}
    return [*found, *(Ability(name, None, "not tested") for name in ABILITIES if name not in asked)]


def way_to_call(abilities: list[Ability]) -> str | None:
    """How the model calls tools, as `ModelInfo.calls` has it; None if it is not known."""
    known = {each.name: each for each in abilities}
    native = known["native calls"]
    if native.able is None:
        return None
    if native.able:
        return "native"
    return "schema" if known["JSON schema"].able and native.detail != PRINTED else "text"


PRINTED = "it prints calls as text"


def _request(name: str) -> ModelRequest:
    match name:
        case "streaming":
            return _question("Count from 1 to 9, separated by commas.")
        case "native calls":
            return _question("Call the tool report_city with the city Paris.", tools=(_TOOL,))
        case "JSON schema":
            return _question("Which way is the sea? Choose one.", schema=True)
        case _:
            begun = Turn("assistant", (Text(text="1, 2, 3, 4,"),))
            return _question("Count from 1 to 9, separated by commas.", begun)


def _question(
    text: str, *more: Turn, tools: tuple[ToolSpec, ...] = (), schema: bool = False
) -> ModelRequest:
    return ModelRequest(
        system="",
        turns=(Turn("user", (Text(text=text),)), *more),
        tools=tools,
        max_output=MOST_OUTPUT,
        answer_schema=_SCHEMA if schema else None,
    )


async def _listen(provider: Provider, request: ModelRequest, reply: _ProbeReply) -> None:
    async with provider.stream(request) as chunks:
        async for chunk in chunks:
            match chunk:
                case TextChunk(text):
                    reply.pieces += 1
                    reply.text = (reply.text + text)[:MOST_TEXT]
                case ThinkingChunk():
                    reply.pieces += 1
                case CallChunk(name=name):
                    reply.called = reply.called or name


def _judged(name: str, reply: _ProbeReply) -> Ability:
    match name:
        case "streaming":
            # a fast server may send all its events at once
            many = reply.pieces > 1
            return Ability(name, many or None, "" if many else "the answer came in one piece")
        case "native calls":
            if reply.called:
                return Ability(name, reply.called == _TOOL.name)
            printed = read_calls(reply.text, {_TOOL.name: _TOOL.schema}).calls
            return Ability(name, False, PRINTED if printed else "")
        case "JSON schema":
            return Ability(name, _keeps_to_schema(reply.text))
        case _:
            return Ability(name, reply.text.lstrip().startswith("5"))


def _keeps_to_schema(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("teal_field") in ("north", "south")
