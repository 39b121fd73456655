"""Extracts the text of documents in a separate process that can be killed."""

import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
import msgspec
from anyio.abc import Process
from msgspec import Struct
from msgspec.structs import fields

from rookery.core.limits import MIB
from rookery.tools.file_sections import DOCUMENT_BYTES, DocumentKind

_WORKER = Path(__file__).with_name("document_worker.py")
_SENTENCE = 1024
_CRASHED = "The reader of such documents crashed on it."


class DocumentBounds(Struct, frozen=True, kw_only=True):
    """Limits for a document. Beyond them it is refused or shown in part."""

    input_bytes: int = DOCUMENT_BYTES
    expanded_bytes: int = 200 * MIB
    ratio: int = 100
    entries: int = 10_000
    text_bytes: int = 10 * MIB
    memory_bytes: int = 1024 * MIB
    seconds: float = 20.0


BOUNDS = DocumentBounds()


class DocumentText(Struct, frozen=True, kw_only=True):
    """The text, and a sentence about what is missing."""

    text: str
    problem: str = ""


async def document_text(
    kind: DocumentKind, data: bytes, bounds: DocumentBounds = BOUNDS
) -> DocumentText:
    if kind is DocumentKind.COMPOUND:
        return DocumentText(text="", problem="It is protected by a password, or in an old format.")
    if len(data) > bounds.input_bytes:
        most = bounds.input_bytes // MIB
        return DocumentText(text="", problem=f"It is larger than {most} MiB, too large to read.")
    printed = bytearray()
    with anyio.move_on_after(bounds.seconds):
        try:
            await _listen(kind, data, bounds, printed)
        except OSError as error:
            return DocumentText(text="", problem=f"Its reader did not start: {error.strerror}.")
        return _parsed(printed, missing=_CRASHED)
    return _parsed(printed, missing=f"Reading it was stopped after {bounds.seconds:g} seconds.")


async def _listen(
    kind: DocumentKind, data: bytes, bounds: DocumentBounds, printed: bytearray
) -> None:
    """Exiting early kills the worker."""
    said = {field.name: getattr(bounds, field.name) for field in fields(bounds)}
    options = [str(kind), msgspec.json.encode(said).decode()]
    command = [sys.executable, "-I", "-P", "-B", str(_WORKER), *options]
    with anyio.CancelScope(shield=True):  # one that is cancelled while it starts is not awaited
        worker = await anyio.open_process(command, stderr=DEVNULL, cwd="/", env={})
    async with worker, anyio.create_task_group() as tasks:
        tasks.start_soon(_feed, worker, data)
        assert worker.stdout is not None
        async for chunk in worker.stdout:
            printed += chunk
            if len(printed) > bounds.text_bytes + _SENTENCE:
                worker.kill()


async def _feed(worker: Process, data: bytes) -> None:
    assert worker.stdin is not None
    with suppress(anyio.BrokenResourceError):  # it has died; its silence will be noticed
        await worker.stdin.send(data)
    await worker.stdin.aclose()


def _parsed(printed: bytearray, *, missing: str) -> DocumentText:
    text, finished, problem = bytes(printed).partition(b"\0")
    return DocumentText(
        text=text.decode("utf-8", "ignore"),
        problem=problem.decode("utf-8", "ignore") if finished else missing,
    )
