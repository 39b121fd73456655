"""The rows of tool calls in the structured output: the call being made, and its result.

Both carry the same `id`. A call that nothing will come of any more, because its answer broke
off or the user changed course, is closed all the same, with the reason in place of a result.
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
from rookery.core.tool_traits import SPEAKING, traits_of

Output: TypeAlias = dict[str, Any]
Speaker: TypeAlias = Literal["assistant", "thinking"]


def output(**fields: Any) -> Output:
    """An output event; a field without a value is left out."""
    return {name: value for name, value in fields.items() if value is not None}


class Ids:
    """Names for rows: a row's `ts`, or the next free number if one event makes several rows."""

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
    """What the model says and thinks. `latest` is what it said last, in the row `latest_id`."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._rows: list[_SpokenText] = []
        self._open: _SpokenText | None = None
        self.latest = ""
        self.latest_id: int | None = None

    def hear(self, speaker: Speaker, ts: int, text: str) -> Iterator[Output]:
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
                return  # an answer on record has no block of blanks
            words.id = self._ids.mint(ts)
        yield output(type=speaker, id=words.id, content=text)

    def pause(self) -> None:
        """Something else came: the words after it are another block."""
        self._open = None

    def close(self, ts: int, blocks: Iterable[Block] = ()) -> Iterator[Output]:
        """Close all rows, corrected and completed by the answer that is on record."""
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
    """The rows as they end. Rows that were streamed in full stay as they were cut; otherwise
    each block is one row, and those that had begun to stream keep their ids.
    """
    if not spoken or all(
        _text_of(streamed, speaker) == _text_of(spoken, speaker)
        for speaker in ("assistant", "thinking")
    ):
        return streamed
    left = list(streamed)
    for words in spoken:
        begun = next((row for row in left if row.speaker == words.speaker), None)
        if begun:
            left.remove(begun)
            words.id = begun.id
    return left + spoken


def _text_of(rows: list[_SpokenText], speaker: str) -> str:
    """What a speaker said in all; blanks do not count, since blocks of nothing else are dropped."""
    return "".join("".join(words.text.split()) for words in rows if words.speaker == speaker)


UNKNOWN_TOOL = "unknown_tool"
SERVER_TOOL = "mcp_server"
"""What all calls of tools on MCP servers go by."""
UNFINISHED = "The run ended before this call finished."


class _Arriving:
    """A call whose arguments are still being streamed."""

    def __init__(self) -> None:
        self.name = ""
        self.id: int | None = None
        self._pieces: list[str] = []
        self._told = 0
        self._reader = ArgumentReader()
        self._line_told = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str, name: str) -> None:
        self.name = name or self.name
        self._pieces.append(piece)

    def news(self) -> str:
        """What has come since the last news: of a command its line, of other calls JSON text."""
        pieces = self._pieces[self._told :]
        self._told = len(self._pieces)
        if self.name != COMMAND_TOOL:
            return "".join(pieces)
        for piece in pieces:
            self._reader.feed(piece)
        line = str(self._reader.known().get("command", ""))
        news = line[self._line_told :]
        self._line_told = max(len(line), self._line_told)
        return news


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
        self._arriving: dict[int, _Arriving] = {}
        self._calls: dict[str, _CallRow] = {}
        self._finished: set[str] = set()

    def hear(self, ts: int, piece: CallStreamed) -> Iterator[Output]:
        call = self._arriving.setdefault(piece.index, _Arriving())
        call.add(piece.arguments, piece.name)
        if not call.name or call.name in SPEAKING:
            return
        news = call.news()
        if call.id is not None and not news:
            return
        call.id = call.id or self._ids.mint(ts)
        name = _told_name(call.name)
        line = news if name == COMMAND_TOOL else ""
        yield output(
            type="tool_use",
            subtype=_subtype(name),
            id=call.id,
            content=news or None,
            tool_use=output(name=name, input={"command": line} if line else None),
        )

    def take(self, ts: int, calls: Iterable[ToolCall]) -> Iterator[Output]:
        """The answer is on record: these are its calls, and no other will come of it."""
        arrived = list(self._arriving.values())
        for call in calls:
            begun = arrived.pop(0) if arrived and arrived[0].name in ("", call.name) else None
            self._calls[call.id] = _called(call, begun or _Arriving())
            self._finished.discard(call.id)
        self._arriving = dict(enumerate(arrived))
        yield from self.break_off(ts)

    def break_off(self, ts: int) -> Iterator[Output]:
        """What was still arriving will never be a call."""
        broken = [call for call in self._arriving.values() if call.id is not None]
        self._arriving = {}
        for call in broken:
            yield from self._drop(ts, _CallRow(_told_name(call.name), call.id, {"raw": call.text}))

    def ask(self, ts: int, question: Asked) -> Iterator[Output]:
        call = self._calls.setdefault(question.call_id, _CallRow())
        call.input = _input(question.ask, question.text) or call.input
        if call.name == UNKNOWN_TOOL:
            call.name = _name_in(question)
        call.name = _told_name(call.name, question.ask)
        yield from self._announce(ts, call)

    def id_of(self, call_id: str) -> int | None:
        return self._calls[call_id].id

    def start(self, ts: int, started: ToolStarted) -> Iterator[Output]:
        call = self._calls.setdefault(started.call_id, _CallRow())
        call.name, call.started = _told_name(started.tool, started.ask), True
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
        """Nobody will finish what is open."""
        yield from self.break_off(ts)
        dropped, self._calls = self._calls, {}
        self._finished |= dropped.keys()
        for call in dropped.values():
            if not call.speaks:
                yield from self._drop(ts, call)

    def go_back(self) -> None:
        """A rewind may bring finished calls back to life."""
        self._finished.clear()

    def forget_telling(self) -> None:
        """Nothing told so far has reached the reader."""
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
                tool_use={"name": call.name, "input": _told_input(call)},
                done=True,
            )

    def _drop(self, ts: int, call: _CallRow) -> Iterator[Output]:
        yield from self._announce(ts, call)
        reason = UNFINISHED if call.started else NEVER_RUN
        left = self._output_left(call, "") or None
        yield _result(call, output(name=call.name, output=left, error=reason), done=True)

    def _output_left(self, call: _CallRow, text: str) -> str:
        """What the closing event has to give: in `stream-json` only what was not streamed.

        What the model is told of a command is a report about it, not its output; what it is
        told of another tool may be cut. Then what was streamed is the output.
        """
        streamed = "".join(call.streamed)
        whole = text if text.startswith(streamed) else streamed
        return whole.removeprefix(streamed) if self._stream else whole


def _called(call: ToolCall, begun: _Arriving) -> _CallRow:
    known = dict(call.arguments)
    if call.problem and not known and begun.text:
        known = {"raw": begun.text}
    return _CallRow(_told_name(call.name or UNKNOWN_TOOL), begun.id, known)


def _input(ask: AskKind, text: str) -> Output:
    """The whole input of a call, from what clients are shown of it."""
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


def _told_name(name: str, ask: AskKind = AskKind.TOOL) -> str:
    on_server = traits_of(name).kind == "mcp" or name.startswith(_SERVER_PREFIX)
    return SERVER_TOOL if on_server or ask is AskKind.USE_MCP_SERVER else name


_SERVER_PREFIX = "mcp--"


def _told_input(call: _CallRow) -> Output:
    """The whole input; of a call to an MCP server, which may hold anything, its text."""
    if call.name != SERVER_TOOL or call.input.keys() == {"raw"}:
        return call.input
    return {"raw": json.dumps(call.input, ensure_ascii=False)}


def _result(call: _CallRow, result: Output, done: bool | None = None) -> Output:
    return output(
        type="tool_result", subtype=call.subtype, id=call.id, tool_result=result, done=done
    )
