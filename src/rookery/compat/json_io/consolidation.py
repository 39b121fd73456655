"""Messages put together for reading, and what they say was used.

Requests and commands tell in several messages what a reader wants to see in one. Nothing is
changed in place: what is put together is a message of its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rookery.compat.json_io.message_rows import Wire, fields_in

USUAL_WINDOW = 200_000
"""Tokens that the context of a model holds of which nothing is known."""
OUTPUT = "\nOutput:\n"


def consolidated(messages: Iterable[Wire]) -> list[Wire]:
    """Requests, commands and calls of MCP servers, each with what became of them."""
    return with_command_outputs(with_finished_requests(messages))


def with_finished_requests(messages: Iterable[Wire]) -> list[Wire]:
    """Each end of a request in the newest one that has none yet; where both say something, the
    end is right."""
    merged: list[Wire] = []
    unfinished: list[int] = []
    for message in messages:
        if message.get("say") == "api_req_finished" and unfinished:
            place = unfinished.pop()
            begun = merged[place]
            both = {**fields_in(begun.get("text")), **fields_in(message.get("text"))}
            merged[place] = {**begun, "text": _json(both)}
            continue
        if message.get("say") == "api_req_started":
            unfinished.append(len(merged))
        merged.append(message)
    return merged


def with_command_outputs(messages: Iterable[Wire]) -> list[Wire]:
    """Each command with its output up to the next command, each call of a server with what that
    answered."""
    kept: list[Wire] = []
    outputs: dict[int, list[Wire]] = {}
    responses: dict[int, list[str]] = {}
    command = server = -1
    for message in messages:
        if command >= 0 and "command_output" in (message.get("ask"), message.get("say")):
            outputs.setdefault(command, []).append(message)
            continue
        if server >= 0 and message.get("say") == "mcp_server_response":
            responses.setdefault(server, []).append(str(message.get("text") or ""))
            continue
        if message.get("ask") == "command":
            command = len(kept)
        elif message.get("ask") == "use_mcp_server":
            server = len(kept)
        kept.append(message)
    for place, told in outputs.items():
        kept[place] = _with_output(kept[place], told)
    for place, answers in responses.items():
        asked = {**fields_in(kept[place].get("text")), "response": "\n".join(answers)}
        kept[place] = {**kept[place], "text": _json(asked)}
    return kept


class Metrics(Struct, frozen=True, kw_only=True):
    """What a task has used. What nobody told about a cache is None."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_writes: int | None = None
    cache_reads: int | None = None
    cost: float = 0.0
    context_tokens: int = 0


def metrics(messages: Sequence[Wire]) -> Metrics:
    """The sums over all messages but the first, which is the task."""
    rest = messages[1:]
    used = [_used(message) for message in rest]
    return Metrics(
        tokens_in=int(sum(_number(each, "tokensIn") for each in used)),
        tokens_out=int(sum(_number(each, "tokensOut") for each in used)),
        cache_writes=_sum_if_seen(used, "cacheWrites"),
        cache_reads=_sum_if_seen(used, "cacheReads"),
        cost=sum(_number(each, "cost") for each in used),
        context_tokens=_context_tokens(rest),
    )


def context_window(
    tables: Mapping[str, Mapping[str, Wire]], provider: str | None, model: str | None
) -> int:
    """Tokens that the model's context holds, from the tables of `routerModels`."""
    known = tables.get(provider or "", {}).get(model or "", {})
    return int(_number(known, "contextWindow")) or USUAL_WINDOW


def _with_output(command: Wire, outputs: Sequence[Wire]) -> Wire:
    """An offer and the output that it was made with tell the same, so that counts once."""
    texts: list[str] = []
    before: Wire = {}
    for message in outputs:
        text = str(message.get("text") or "")
        pair = before.get("type") != message.get("type") and before.get("text") == text
        if text and not (before and pair):
            texts.append(text)
        before = {} if pair else {**message, "text": text}
    line = str(command.get("text") or "")
    return {**command, "text": f"{line}{OUTPUT}" + "\n".join(texts)}


def _used(message: Wire) -> Wire:
    if message.get("say") == "api_req_started":
        return fields_in(message.get("text"))
    if message.get("say") == "condense_context" and not message.get("partial"):
        return {"cost": _number(_condensed(message), "cost")}
    return {}


def _condensed(message: Wire) -> Wire:
    told = message.get("contextCondense")
    return told if isinstance(told, dict) else {}


def _context_tokens(messages: Sequence[Wire]) -> int:
    """How full the context was when that was told last."""
    for message in reversed(messages):
        tokens = 0.0
        if message.get("say") == "api_req_started":
            used = fields_in(message.get("text"))
            tokens = _number(used, "tokensIn") + _number(used, "tokensOut")
        elif message.get("say") == "condense_context":
            tokens = _number(_condensed(message), "newContextTokens")
        if tokens:
            return int(tokens)
    return 0


def _sum_if_seen(used: Iterable[Wire], name: str) -> int | None:
    seen = [_number(each, name) for each in used if name in each]
    return int(sum(seen)) if seen else None


def _number(fields: Mapping[str, Any], name: str) -> float:
    given = fields.get(name)
    known = isinstance(given, int | float) and not isinstance(given, bool)
    return given if known and given is not None else 0


def _json(fields: Wire) -> str:
    return json.dumps(fields, ensure_ascii=False)
