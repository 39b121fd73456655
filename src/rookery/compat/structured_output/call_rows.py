"""The rows of text and tool calls in structured output.

A call and its result have the same `id`. A call that is never finished, because its answer broke
off or the user changed course, is closed too, with the reason instead of a result.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from rookery.core.asks import AskKind
from rookery.core.blocks import Block, Text, Thinking, ToolCall
from rookery.core.facts import Asked, CallStreamed, Ending, ToolFinished, ToolStarted
from rookery.core.folds.argument_reader import ArgumentReader
from rookery.core.message import COMMAND_TOOL
from rookery.core.replies import NEVER_RUN
from rookery.core.text.characters import whole
from rookery.core.tool_traits import SPEAKING, traits_of

Output: TypeAlias = dict[str, Any]
Speaker: TypeAlias = Literal["assistant", "thinking"]


def output(**fields: Any) -> Output:
    """Build an output event without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def readable(text: str) -> str:
    """Escape what could break a line or cannot be encoded."""
    return whole(text).translate(_ODD)


_ODD = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Characters that JSON need not escape, but that terminals or line readers interpret."""
compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Ids:
    """Ids for rows: the `ts` of the event, or the next free number if it makes several rows."""

    def __init__(self) -> None:
        self._last = 0

    def mint(self, ts: int) -> int:
        self._last = max(ts, self._last + 1)
        return self._last


class _SpokenText(Struct):
    speaker: Speaker
    pieces: list[str] = field(default_factory=list)
    id: int | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Speech:
    """The model's text and thinking. `latest` is its last text, in the row `latest_id`."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._rows: list[_SpokenText] = []
        self._open: _SpokenText | None = None
        self.latest = ""
        self.latest_id: int | None = None

    def add(self, speaker: Speaker, ts: int, text: str) -> Iterator[Output]:
        if not text:
            return
        words = self._open
        if words is None or words.speaker != speaker:
            words = self._open = _SpokenText(speaker)
            self._rows.append(words)
        words.pieces.append(text)
        if words.id is None:
            text = words.text
            if not text.strip():
                return  # blank blocks are not recorded
            words.id = self._ids.mint(ts)
        yield output(type=speaker, id=words.id, content=text)

    def pause(self) -> None:
        """Start another block with the next text."""
        self._open = None

    def close(self, ts: int, blocks: Iterable[Block] = ()) -> Iterator[Output]:
        """Close all rows, corrected and completed by the recorded answer."""
        streamed = [words for words in self._rows if words.id is not None]
        self._rows, self._open = [], None
        for words in _on_record(streamed, [*_spoken(blocks)]):
            if words.id is None:
                words.id = self._ids.mint(ts)
            if words.speaker == "assistant":
                self.latest, self.latest_id = words.text, words.id
            yield output(type=words.speaker, id=words.id, content=words.text, done=True)


def _spoken(blocks: Iterable[Block]) -> Iterator[_SpokenText]:
    for block in blocks:
        match block:
            case Text(text=text) if text.strip():
                yield _SpokenText("assistant", [text])
            case Thinking(text=text) if text.strip():
                yield _SpokenText("thinking", [text])
            case _:
                pass


def _on_record(streamed: list[_SpokenText], spoken: list[_SpokenText]) -> list[_SpokenText]:
    """Return the final rows. Rows that were streamed in full stay as they are; otherwise each
    block is one row, and the streamed ones keep their ids."""
    if not spoken or all(
        _text_of(streamed, speaker) == _text_of(spoken, speaker)
        for speaker in ("assistant", "thinking")
    ):
        return streamed
    left = list(streamed)
    for words in spoken:
        pending = next((row for row in left if row.speaker == words.speaker), None)
        if pending:
            left.remove(pending)
            words.id = pending.id
    return left + spoken


def _text_of(rows: list[_SpokenText], speaker: str) -> str:
    """Join a speaker's text without whitespace, because blank blocks are not recorded."""
    return "".join("".join(words.text.split()) for words in rows if words.speaker == speaker)


UNKNOWN_TOOL = "unknown_tool"
SERVER_TOOL = "mcp_server"
"""The name under which all calls of MCP tools are reported."""
UNFINISHED = "The run ended before this call finished."


class _StreamedCall:
    """A call whose arguments are still streamed."""

    def __init__(self) -> None:
        self.name = ""
        self.id: int | None = None
        self._pieces: list[str] = []
        self._sent = 0
        self._reader = ArgumentReader()
        self._line_sent = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str, name: str) -> None:
        self.name = name or self.name
        self._pieces.append(piece)

    def new_text(self) -> str:
        """Return what arrived since the last call: a command's line, or JSON text."""
        pieces = self._pieces[self._sent :]
        self._sent = len(self._pieces)
        if self.name != COMMAND_TOOL:
            return "".join(pieces)
        for piece in pieces:
            self._reader.feed(piece)
        line = str(self._reader.known().get("command", ""))
        new_text = line[self._line_sent :]
        self._line_sent = max(len(line), self._line_sent)
        return new_text


class _CallRow(Struct):
    name: str = UNKNOWN_TOOL
    id: int | None = None
    input: Output = field(default_factory=dict)
    announced: bool = False
    started: bool = False
    streamed: list[str] = field(default_factory=list)

    @property
    def speaks(self) -> bool:
        return self.name in SPEAKING and self.id is None

    @property
    def subtype(self) -> str:
        return _subtype(self.name)


def _subtype(name: str) -> str:
    return "mcp" if name == SERVER_TOOL else traits_of(name).kind


class CallRows:
    def __init__(self, ids: Ids, *, stream: bool) -> None:
        self._ids = ids
        self._stream = stream
        self._streamed: dict[int, _StreamedCall] = {}
        self._calls: dict[str, _CallRow] = {}
        self._finished: set[str] = set()

    def add(self, ts: int, piece: CallStreamed) -> Iterator[Output]:
        call = self._streamed.setdefault(piece.index, _StreamedCall())
        call.add(piece.arguments, piece.name)
        if not call.name or call.name in SPEAKING:
            return
        new_text = call.new_text()
        if call.id is not None and not new_text:
            return
        call.id = call.id or self._ids.mint(ts)
        name = _shown_name(call.name)
        line = new_text if name == COMMAND_TOOL else ""
        yield output(
            type="tool_use",
            subtype=_subtype(name),
            id=call.id,
            content=new_text or None,
            tool_use=output(name=name, input={"command": line} if line else None),
        )

    def take(self, ts: int, calls: Iterable[ToolCall]) -> Iterator[Output]:
        """Take the calls of the recorded answer; other streamed calls are dropped."""
        arrived = list(self._streamed.values())
        for call in calls:
            pending = arrived.pop(0) if arrived and arrived[0].name in ("", call.name) else None
            self._calls[call.id] = _call_row(call, pending or _StreamedCall())
            self._finished.discard(call.id)
        self._streamed = dict(enumerate(arrived))
        yield from self.break_off(ts)

    def break_off(self, ts: int) -> Iterator[Output]:
        """Close the calls that were still streamed."""
        broken = [call for call in self._streamed.values() if call.id is not None]
        self._streamed = {}
        for call in broken:
            yield from self._drop(ts, _CallRow(_shown_name(call.name), call.id, {"raw": call.text}))

    def ask(self, ts: int, question: Asked) -> Iterator[Output]:
        call = self._calls.setdefault(question.call_id, _CallRow())
        call.input = _input(question.ask, question.text) or call.input
        if call.name == UNKNOWN_TOOL:
            call.name = _name_in(question)
        call.name = _shown_name(call.name, question.ask)
        yield from self._announce(ts, call)

    def id_of(self, call_id: str) -> int | None:
        return self._calls[call_id].id

    def start(self, ts: int, started: ToolStarted) -> Iterator[Output]:
        call = self._calls.setdefault(started.call_id, _CallRow())
        call.name, call.started = _shown_name(started.tool, started.ask), True
        call.input = _input(started.ask, started.text) or call.input
        if not call.speaks:
            yield from self._announce(ts, call)

    def add_output(self, ts: int, call_id: str, text: str) -> Iterator[Output]:
        call = self._calls.get(call_id)
        if call is None or call.speaks or not text:
            return
        yield from self._announce(ts, call)
        call.streamed.append(text)
        yield _result(call, output(name=call.name, output=text))

    def finish(self, ts: int, end: ToolFinished) -> Iterator[Output]:
        if end.call_id in self._finished:
            return
        self._finished.add(end.call_id)
        call = self._calls.pop(end.call_id, None) or _CallRow()
        if call.speaks and end.ending is Ending.DONE:
            return
        yield from self._announce(ts, call)
        is_done = end.ending is Ending.DONE
        text = end.text if is_done and call.name != COMMAND_TOOL else ""
        result = output(
            name=call.name,
            output=self._output_left(call, text) or None,
            error=None if is_done else end.text,
            exitCode=end.exit_code,
        )
        yield _result(call, result, done=True)

    def drop_all(self, ts: int) -> Iterator[Output]:
        """Close everything that is open and will not be finished."""
        yield from self.break_off(ts)
        dropped, self._calls = self._calls, {}
        self._finished |= dropped.keys()
        for call in dropped.values():
            if not call.speaks:
                yield from self._drop(ts, call)

    def go_back(self) -> None:
        """Forget which calls are finished, because a rewind can reopen them."""
        self._finished.clear()

    def reannounce(self) -> None:
        """Announce all open calls again, because nothing was written so far."""
        for call in self._calls.values():
            call.announced = False

    def _announce(self, ts: int, call: _CallRow) -> Iterator[Output]:
        call.id = call.id or self._ids.mint(ts)
        if not call.announced:
            call.announced = True
            yield output(
                type="tool_use",
                subtype=call.subtype,
                id=call.id,
                tool_use={"name": call.name, "input": _shown_input(call)},
                done=True,
            )

    def _drop(self, ts: int, call: _CallRow) -> Iterator[Output]:
        yield from self._announce(ts, call)
        reason = UNFINISHED if call.started else NEVER_RUN
        left = self._output_left(call, "") or None
        yield _result(call, output(name=call.name, output=left, error=reason), done=True)

    def _output_left(self, call: _CallRow, text: str) -> str:
        """Return the output for the closing event; in `stream-json` only what was not streamed.

        For a command the model gets a report, not the output; for other tools its text may be cut.
        In these cases the streamed text is the output.
        """
        streamed = "".join(call.streamed)
        whole = text if text.startswith(streamed) else streamed
        return whole.removeprefix(streamed) if self._stream else whole


def _call_row(call: ToolCall, pending: _StreamedCall) -> _CallRow:
    known = dict(call.arguments)
    if call.problem and not known and pending.text:
        known = {"raw": pending.text}
    return _CallRow(_shown_name(call.name or UNKNOWN_TOOL), pending.id, known)


def _input(ask: AskKind, text: str) -> Output:
    """Return the input of a call from the text that clients are shown."""
    if ask is AskKind.COMMAND:
        return {"command": text}
    try:
        payload = json.loads(text or "{}")
    except ValueError:
        return {"raw": text}
    return payload if isinstance(payload, dict) else {"raw": text}


def _name_in(question: Asked) -> str:
    if question.ask is AskKind.COMMAND:
        return COMMAND_TOOL
    return str(_input(question.ask, question.text).get("tool", UNKNOWN_TOOL))


def _shown_name(name: str, ask: AskKind = AskKind.TOOL) -> str:
    on_server = traits_of(name).kind == "mcp" or name.startswith(_SERVER_PREFIX)
    return SERVER_TOOL if on_server or ask is AskKind.USE_MCP_SERVER else name


_SERVER_PREFIX = "mcp--"


def _shown_input(call: _CallRow) -> Output:
    """Return the input; for an MCP tool, whose input can be anything, as text."""
    if call.name != SERVER_TOOL or call.input.keys() == {"raw"}:
        return call.input
    return {"raw": json.dumps(call.input, ensure_ascii=False)}


def _result(call: _CallRow, result: Output, done: bool | None = None) -> Output:
    return output(
        type="tool_result", subtype=call.subtype, id=call.id, tool_result=result, done=done
    )
