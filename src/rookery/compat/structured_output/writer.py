"""Writes a run as JSON for programs: one line per event, or one object at the end."""

import io
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO, TypeAlias

from msgspec import Struct

from rookery.compat.structured_output.call_rows import compact, readable
from rookery.compat.structured_output.output_events import StructuredOutput, init
from rookery.core.facts import Event


class ReaderLeft(BrokenPipeError):
    """The reader closed the output. This is not an error."""


class EncodedLines(Struct, frozen=True):
    """Lines that are JSON already, in pieces, without the last line end."""

    pieces: Sequence[bytes]


Line: TypeAlias = dict[str, Any] | EncodedLines


class Sink(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def fileno(self) -> int: ...


class JsonWriter:
    """Writes JSON as UTF-8, and flushes after each value."""

    def __init__(self, out: Sink) -> None:
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(encoding="utf-8", errors="strict", newline="\n")
        self._out = out

    def write(self, outputs: Iterable[dict[str, Any]]) -> None:
        """Write one compact line for each event."""
        for output in outputs:
            self._write(compact(output))

    def write_summary(self, output: dict[str, Any]) -> None:
        """Write one indented object."""
        self._write(json.dumps(output, ensure_ascii=False, indent=2))

    def end_line(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        try:
            self._out.write(readable(text) + "\n")
            self._out.flush()
        except ConnectionError as error:
            self.discard()
            raise ReaderLeft from error

    def discard(self) -> None:
        """Discard buffered output, or Python would report an error at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)


class JsonOutput:
    """A display that writes one line per event, or one object at the end."""

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
        self._session_id = session_id
        self._output = StructuredOutput(
            session_id=session_id, stream=stream, automatic=automatic, after=after
        )
        self._kept: list[dict[str, Any]] = []

    def begin(self) -> None:
        self._emit([init(self._session_id)])

    def resume(self, stored: Sequence[Event]) -> None:
        """Take over what earlier runs stored."""
        self._output.resume(stored)

    def show(self, event: Event, child: str = "") -> None:
        """Write an event. Of a sub-task, only count the usage: its own output has its rows."""
        if child:
            self._output.see_of_child(event)
        else:
            self._emit(self._output.see(event))

    def end(self, success: bool, code: str | None = None, reason: str = "") -> None:
        """Write the result. `code` and `reason` say why the run was not successful."""
        code = None if success else code or "task_failed"
        self._emit(self._output.settle(code, reason))
        result = self._output.result(success, code, reason)
        if self._stream:
            self._emit([result])
            return
        shown = {name: result[name] for name in _SUMMARY if name in result}
        self._writer.write_summary({**shown, "events": self._kept})

    def _emit(self, outputs: list[dict[str, Any]]) -> None:
        if self._stream:
            self._writer.write(outputs)
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
