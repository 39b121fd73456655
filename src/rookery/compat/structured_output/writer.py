"""Writes a run as JSON for programs: a line per event, or one object at the end."""

import io
import json
import os
from collections.abc import Iterable
from typing import Any, Protocol, TextIO

from rookery.compat.structured_output.output_events import StructuredOutput
from rookery.core.facts import Event
from rookery.core.text.characters import whole

_ODD = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""What JSON lets through as it is, and what a terminal may obey or take for the end of a line."""


class ReaderLeft(BrokenPipeError):
    """Whoever read the output has closed it. There is nobody left to tell, and no error."""


class Sink(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...


class JsonWriter:
    """Writes JSON and nothing else, always as UTF-8, and so that it can be read at once."""

    def __init__(self, out: Sink) -> None:
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(encoding="utf-8", errors="strict", newline="\n")
        self._out = out

    def tell(self, outputs: Iterable[dict[str, Any]]) -> None:
        """A compact line for each."""
        for output in outputs:
            self._write(json.dumps(output, ensure_ascii=False, separators=(",", ":")))

    def conclude(self, output: dict[str, Any]) -> None:
        """One object that is also for people to read."""
        self._write(json.dumps(output, ensure_ascii=False, indent=2))

    def _write(self, text: str) -> None:
        try:
            self._out.write(_readable(text) + "\n")
            self._out.flush()
        except ConnectionError as error:
            self.give_up()
            raise ReaderLeft from error

    def give_up(self) -> None:
        """Let what is still buffered go nowhere, or Python complains when it exits."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)


class JsonOutput:
    """A display for programs: a line for each event, or one object at the end."""

    def __init__(
        self,
        out: TextIO,
        *,
        stream: bool,
        session_id: str,
        automatic: bool = False,
        after: int = 0,
    ) -> None:
        self._writer = JsonWriter(out)
        self._stream = stream
        self._told = StructuredOutput(
            session_id=session_id, stream=stream, automatic=automatic, after=after
        )
        self._kept: list[dict[str, Any]] = []

    def begin(self) -> None:
        self._tell([self._told.begin()])

    def show(self, event: Event) -> None:
        self._tell(self._told.see(event))

    def show_of_child(self, task_id: str, event: Event) -> None:
        """What a child does is told by its own session; here its result and its cost are."""
        self._told.see_of_child(event)

    def end(self, success: bool, code: str | None = None, reason: str = "") -> None:
        """Write the result. `code` and `reason` say why there is no success."""
        code = None if success else code or "task_failed"
        self._tell(self._told.settle(code, reason))
        result = self._told.result(success, code, reason)
        if self._stream:
            self._tell([result])
            return
        shown = {name: result[name] for name in _SUMMARY if name in result}
        self._writer.conclude({**shown, "events": self._kept})

    def _tell(self, outputs: list[dict[str, Any]]) -> None:
        if self._stream:
            self._writer.tell(outputs)
        else:
            self._kept += outputs


_SUMMARY = (
    "type",
    "taskId",
    "success",
    "code",
    "error",
    "content",
    "cost",
    "governance",
    "permission_denials",
)


def _readable(text: str) -> str:
    """JSON text on what every reader takes for one line, in characters that can be encoded."""
    return whole(text).translate(_ODD)
