"""The rows of a session as they come over the wire, each told once: words as they are spoken,
what a command prints line by line, anything else when it is whole."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rookery.core.message import Message
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.plain.transcript_text import as_text, passages, undone

_BEFORE = Message(ts=0, type="say", say="checkpoint_saved")
"""A row that is never shown. What comes after another row is not the prompt."""
_SPOKEN = ("text", "completion_result")
_PRINTED = ("reasoning", "command_output")
_UNSETTLED = re.compile(
    "[\r\u200d\ufe0f\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
)
"""Characters that may look different with the next one, as a joined emoji does."""


class Transcript:
    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._told: dict[int, int] = {}
        """Of each row that was begun to be told, how much of its text was."""
        self._over: set[int] = set()
        self._undone: set[int] = set()
        """Of which it was told that they came to nothing."""
        self._unended: int | None = None
        """The row that the line belongs to which is not at its end."""
        self._earlier = 0
        self.rests = False
        """Nothing more comes before somebody answers, as far as the rows tell."""

    def take(self, news: Mapping[str, Any]) -> None:
        """What a notification says is new."""
        change = news["change"]
        self._earlier = news.get("earlier", 0)
        for ts in change.get("removed", ()):
            self._rows.pop(ts, None)
        for row in change.get("added", ()):
            self._rows[row["ts"]] = row
        for new in change.get("changed", ()):
            if row := self._rows.get(new["ts"]):
                self._rows[new["ts"]] = _changed(row, new)
        parts = change.get("parts", {})
        if "open_ask" in parts or "closed" in parts:
            self.rests = parts.get("open_ask") is not None or bool(parts.get("closed"))

    def fresh(self, paint: Paint, *, to_the_end: bool = False) -> Iterator[str]:
        """What was not told yet, to be printed one after the other: as far as it is there, or all
        of it and the end of the line."""
        for place, ts in enumerate(sorted(self._rows)):
            row = self._rows[ts]
            if ts in self._over:
                yield from self._late_outcome(row, paint)
                continue
            whole = to_the_end or not row.get("partial", False)
            is_prompt = place == 0 and not self._earlier
            if row.get("say") in _SPOKEN and not is_prompt:
                yield from self._words_of(row, paint, whole=whole)
            elif row.get("say") in _PRINTED:
                yield from self._lines_of(row, paint, whole=whole)
            elif whole:
                yield from self._all_of(row, paint, is_prompt=is_prompt)
            if not whole:
                return
            self._over.add(ts)
        if to_the_end:
            yield from self._end_line()

    def _all_of(self, row: Mapping[str, Any], paint: Paint, *, is_prompt: bool) -> Iterator[str]:
        before, message = [] if is_prompt else [_BEFORE], _row(row)
        if undone(message):
            self._undone.add(message.ts)
        for each in as_text(passages([*before, message]), paint):
            yield from self._end_line()
            yield f"\n{each}\n"

    def _late_outcome(self, row: Mapping[str, Any], paint: Paint) -> Iterator[str]:
        """Of a call that was told when it was asked for."""
        if row["ts"] in self._undone or not (became := undone(_row(row))):
            return
        self._undone.add(row["ts"])
        yield from self._end_line()
        title = harmless_line(row.get("title") or row.get("text") or "")
        yield "\n" + paint.red(f"✗ {became}: {title}") + "\n"

    def _words_of(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        """As they are spoken, so that a line may be told in pieces."""
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        told = self._told.get(ts, 0)
        upto = len(text) if whole else _settled(text)
        if upto > told:
            if not told:
                yield from self._end_line()
                yield f"\n{paint.green('✔')} " if row.get("say") == "completion_result" else "\n"
            self._told[ts], self._unended = upto, ts
            yield harmless(text[told:upto])
        if whole and self._unended == ts:
            yield from self._end_line()

    def _lines_of(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        told = self._told.get(ts, 0)
        upto = len(text) if whole else text.rfind("\n") + 1
        if upto <= told:
            return
        if not told:
            yield from self._end_line()
            yield "\n"
        self._told[ts] = upto
        for line in harmless(text[told:upto]).removesuffix("\n").split("\n"):
            yield paint.dim(f"  {line}") + "\n"

    def _end_line(self) -> Iterator[str]:
        if self._unended is not None:
            self._unended = None
            yield "\n"


def _settled(text: str) -> int:
    """How much of a text that grows looks as it will."""
    end = len(text)
    while end and _UNSETTLED.match(text[end - 1]):
        end -= 1
    return end


def _changed(row: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    told = {**row, **{name: new[name] for name in new if name not in ("append", "drop")}}
    if "append" in new:
        text = row.get("text") or ""
        told["text"] = text[: len(text) - new.get("drop", 0)] + new["append"]
    return told


def _row(told: Mapping[str, Any]) -> Message:
    """As much of a row as a reader is shown."""
    names = ("say", "ask", "partial", "answered", "outcome", "ask_id", "call_id", "title", "diff")
    known = {name: told[name] for name in names if name in told}
    return Message(ts=told["ts"], type=told["type"], content=told.get("text"), **known)
