"""The rows of the structured output: how they are spelled and named, and those made of words.

A row is named by its `id`: the `ts` of whatever made it. Its parts come first, each holding
only what is new, and exactly one event with `done` closes it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from rookery.core.blocks import Block, Text, Thinking

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


class _Words(Struct):
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
        self._rows: list[_Words] = []
        self._open: _Words | None = None
        self.latest = ""
        self.latest_id: int | None = None

    def hear(self, speaker: Speaker, ts: int, text: str) -> Iterator[Output]:
        if not text:
            return
        words = self._open
        if words is None or words.speaker != speaker:
            words = self._open = _Words(speaker)
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


def _spoken(blocks: Iterable[Block]) -> Iterator[_Words]:
    for block in blocks:
        match block:
            case Text(text=text) if text.strip():
                yield _Words("assistant", [text])
            case Thinking(text=text) if text.strip():
                yield _Words("thinking", [text])
            case _:
                pass


def _on_record(streamed: list[_Words], spoken: list[_Words]) -> list[_Words]:
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


def _text_of(rows: list[_Words], speaker: str) -> str:
    """What a speaker said in all; blanks do not count, since blocks of nothing else are dropped."""
    return "".join("".join(words.text.split()) for words in rows if words.speaker == speaker)
