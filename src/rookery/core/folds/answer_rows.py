"""The rows of one request: its own, and those of its answer while it streams.

Rows follow the order of the answer: text after a call becomes a row of its own. The complete answer
replaces what was shown while streaming.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.blocks import Text, Thinking, ToolCall
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    CallStreamed,
    CompletionOffered,
    Condensed,
    Ending,
    Fact,
    Pausing,
    RequestFailed,
    RequestStarted,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.core.folds.rows import Sheet
from rookery.core.message import CallText, Content, Message, Pieces, call_kind, call_text

Words: TypeAlias = Literal["text", "reasoning"]


class Streamed(Struct, frozen=True):
    """A row of the answer: text, or the call with this index."""

    ts: int
    kind: Words | Literal["call"]
    index: int = -1


class Request(Struct, frozen=True):
    """The current request. `blank` is whitespace that may be the start of a text."""

    id: str
    ts: int
    info: Mapping[str, Any]
    streamed: tuple[Streamed, ...] = ()
    blank: Pieces | None = None

    @property
    def last(self) -> Streamed | None:
        return self.streamed[-1] if self.streamed else None

    def with_row(self, streamed: Streamed) -> "Request":
        return replace(self, streamed=(*self.streamed, streamed), blank=None)


def begin_request(sheet: Sheet, fact: RequestStarted) -> Request:
    info, text = _begun(fact.model, fact.attempt)
    return Request(fact.request_id, sheet.say("api_req_started", text).ts, info)


@lru_cache(maxsize=8)
def _begun(model: str, attempt: int) -> tuple[Mapping[str, Any], str]:
    """The first content of a request's row. Cached: most requests of a session share it."""
    info = {"model": model, **({"attempt": attempt} if attempt > 1 else {})}
    return info, _json(info)


def stream_text(sheet: Sheet, request: Request, kind: Words, text: str) -> Request:
    last = request.last
    if not text:
        return request
    if last and last.kind == kind:
        sheet.extend(last.ts, text)
        return request
    blank = request.blank if request.blank and kind == "text" else Pieces()
    if text.isspace():
        return replace(request, blank=blank.add(text))
    _end_words(sheet, last)
    row = sheet.say(kind, blank.add(text), partial=True)
    return request.with_row(Streamed(row.ts, kind))


def stream_call(sheet: Sheet, request: Request, fact: CallStreamed) -> Request:
    known = next((row for row in reversed(request.streamed) if row.index == fact.index), None)
    if known:
        row = sheet.row(known.ts)
        assert isinstance(row.content, CallText)
        sheet.rewrite(_as_call(row, fact.name, row.content.add(fact.arguments, fact.name)))
        return request
    _end_words(sheet, request.last)
    row = replace(sheet.new("say"), partial=True)
    row = sheet.append(_as_call(row, fact.name, CallText(fact.name, fact.arguments)))
    return request.with_row(Streamed(row.ts, "call", fact.index))


def settle_answer(
    sheet: Sheet, streamed: Sequence[Streamed], fact: AssistantSpoke
) -> Message | None:
    """Replace the streamed rows with the answer. Returns the row of its first call."""
    _settle_words(sheet, [row for row in streamed if row.kind != "call"], _said(fact))
    calls = [block for block in fact.blocks if isinstance(block, ToolCall)]
    shown = [row for row in streamed if row.kind == "call"]
    return _settle_calls(sheet, shown, [] if fact.interrupted else calls)


def last_words(sheet: Sheet, fact: AssistantSpoke) -> int | None:
    """The row with the last text of a settled answer, if it has any."""
    words = [text for kind, text in _said(fact) if kind == "text"]
    if not words:
        return None
    rows = (row for row in reversed(sheet.rows) if row.say == "text" and row.text == words[-1])
    return next((row.ts for row in rows), None)


def break_off(sheet: Sheet, request: Request) -> None:
    """Keep the text of an interrupted answer and drop its calls."""
    for streamed in request.streamed:
        if streamed.kind == "call":
            sheet.remove(streamed.ts)
        else:
            sheet.close(sheet.row(streamed.ts))


def end_request(
    sheet: Sheet,
    request: Request,
    usage: Usage,
    reason: str | None = None,
    message: str | None = None,
) -> None:
    """Write the usage to the request's row, and why it ended early if it did."""
    ending = {"cancelReason": reason, "streamingFailedMessage": message}
    given = {key: value for key, value in ending.items() if value is not None}
    info = _json({**request.info, **_usage_info(usage), **given})
    sheet.rewrite(replace(sheet.row(request.ts), content=info))


def _end_words(sheet: Sheet, last: Streamed | None) -> None:
    if last and last.kind != "call":
        sheet.close(sheet.row(last.ts))


def _said(fact: AssistantSpoke) -> list[tuple[Words, str]]:
    said: list[tuple[Words, str]] = []
    for block in fact.blocks:
        match block:
            case Text(text=text) if text.strip():
                said.append(("text", text))
            case Thinking(text=text) if text.strip():
                said.append(("reasoning", text))
            case _:
                pass
    return said


def _settle_words(sheet: Sheet, shown: list[Streamed], said: list[tuple[Words, str]]) -> None:
    same = 0
    while same < min(len(said), len(shown)) and said[same][0] == shown[same].kind:
        row = sheet.row(shown[same].ts)
        if row.partial or row.text != said[same][1]:
            sheet.rewrite(replace(row, partial=False, content=said[same][1]))
        same += 1
    for streamed in shown[same:]:
        sheet.remove(streamed.ts)
    for kind, text in said[same:]:
        sheet.say(kind, text)


def _settle_calls(sheet: Sheet, shown: list[Streamed], calls: list[ToolCall]) -> Message | None:
    """Keep only the first call's row; the others are shown again in their turn.

    A row followed by text is dropped too: it will become a question, which must be the last row.
    """
    first = shown[0].ts if shown and calls else None
    for streamed in shown:
        if streamed.ts != first:
            sheet.remove(streamed.ts)
    if first is None:
        return None
    if sheet.rows[-1].ts != first:
        sheet.remove(first)
        return None
    call = calls[0]
    row = _as_call(sheet.row(first), call.name, call_text(call.name, call.arguments))
    row = replace(row, call_id=call.id)
    sheet.rewrite(row)
    return row


def _as_call(row: Message, name: str, content: Content) -> Message:
    type, kind = call_kind(name)
    say, ask = (kind, None) if type == "say" else (None, kind)
    return replace(row, type=type, say=say, ask=ask, content=content)


def _usage_info(usage: Usage) -> dict[str, Any]:
    """The usage of a request. The cost is always present, known or not: it marks the end."""
    cached = {"cacheWrites": usage.cache_writes, "cacheReads": usage.cache_reads}
    return {
        "tokensIn": usage.tokens_in,
        "tokensOut": usage.tokens_out,
        **(cached if any(cached.values()) else {}),
        "cost": usage.cost,
    }


_json = json.JSONEncoder(ensure_ascii=False).encode


_LOOP_CONTINUES = (
    Asked,
    TextStreamed,
    ThinkingStreamed,
    CallStreamed,
    AssistantSpoke,
    RequestFailed,
    Pausing,
    CompletionOffered,
    Condensed,
)
"""In addition to facts that close everything."""


def settles(fact: Fact, question: Message) -> bool:
    """Whether this fact cannot happen while the question is open."""
    match fact:
        case ToolStarted(call_id=call_id) | ToolFinished(call_id=call_id):
            return call_id == question.call_id
        case _:
            return isinstance(fact, _LOOP_CONTINUES)


def is_worth_showing(fact: ToolFinished, asked: Message | None) -> bool:
    """Whether to show the user how a call ended. Users know what they denied."""
    match fact.ending:
        case Ending.FAILED | Ending.MISTAKEN | Ending.UNKNOWN:
            return bool(fact.text)
        case Ending.DENIED:
            return bool(fact.text) and not (asked and asked.ask_id)
        case _:
            return False
