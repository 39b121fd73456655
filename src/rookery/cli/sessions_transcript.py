"""The rows of a session as they come over the wire, each told once: a text line by line while it
grows, anything else when it is whole."""

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.clients.terminal_text import Paint, harmless
from rookery.clients.transcript_text import as_text, passages
from rookery.core.message import Message

_BEFORE = Message(ts=0, type="say", say="checkpoint_saved")
"""A row that is never shown. What comes after another row is not the prompt."""


class Transcript:
    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._told: dict[int, int] = {}
        """Of each row that was begun to be told, how much of its text was."""
        self._over: set[int] = set()
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
        """What was not told yet, as far as it is whole; or all there is."""
        for place, ts in enumerate(sorted(self._rows)):
            if ts in self._over:
                continue
            row = self._rows[ts]
            whole = to_the_end or not row.get("partial", False)
            is_prompt = place == 0 and not self._earlier
            if row.get("say") == "text" and not is_prompt:
                yield from self._lines_of(row, whole=whole)
            elif whole:
                before = [] if is_prompt else [_BEFORE]
                yield from (f"\n{each}" for each in as_text(passages([*before, _row(row)]), paint))
            if not whole:
                return
            self._over.add(ts)

    def _lines_of(self, row: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
        text = (row.get("text") or "").strip("\n")
        told = self._told.get(row["ts"], 0)
        upto = len(text) if whole else text.rfind("\n") + 1
        if upto <= told:
            return
        self._told[row["ts"]] = upto
        begins = "" if told else "\n"
        yield begins + harmless(text[told:upto]).removesuffix("\n")


def _changed(row: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    told = {**row, **{name: new[name] for name in new if name not in ("append", "drop")}}
    if "append" in new:
        text = row.get("text") or ""
        told["text"] = text[: len(text) - new.get("drop", 0)] + new["append"]
    return told


def _row(told: Mapping[str, Any]) -> Message:
    """As much of a row as a reader is shown."""
    names = ("say", "ask", "partial", "answered", "call_id", "title", "diff")
    known = {name: told[name] for name in names if name in told}
    return Message(ts=told["ts"], type=told["type"], content=told.get("text"), **known)
