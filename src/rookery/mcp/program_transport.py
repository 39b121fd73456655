"""The way to a server that is a program, with a bound on everything it may send.

The SDK's own reads lines of any length, and does not know why a server has ended.
"""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from rookery.core.limits import MIB
from rookery.core.secret_mask import Hiding
from rookery.mcp.failure import Failure
from rookery.mcp.flood_limit import Flood
from rookery.mcp.received import Fate, Heard
from rookery.mcp.server_process import ServerProcess
from rookery.mcp.visible_text import visible_line

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

LONGEST_LINE = 4 * MIB
LAST_WORDS = 0.5
"""Seconds in which a server that has ended may still be heard, and the other way round."""
WAITING_MESSAGES = 100
"""Messages that wait for a server to read them before whoever sends one waits too."""
TAIL_SHOWN = 500
MARK = b'"jsonrpc"'
"""Stands in every message, and in little else."""


@asynccontextmanager
async def to_program(
    start: Callable[[], ServerProcess], fate: Fate
) -> AsyncGenerator["TransportStreams"]:
    """To a server that is a program. Leaving the context ends it."""
    from mcp.shared.message import SessionMessage

    process = start()
    heard, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, said = anyio.create_memory_object_stream[SessionMessage](WAITING_MESSAGES)
    silent, ended = anyio.Event(), anyio.Event()

    async def listen() -> None:
        try:
            await _listen(process, heard)
        except Failure as failure:
            fate.seal(str(failure))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is over, and with it this connection
        silent.set()
        with anyio.move_on_after(LAST_WORDS):
            await ended.wait()
            return  # whoever watches says how it ended
        _give_up(fate, heard, f"It closed its output.{last_words(process)}")

    async def watch() -> None:
        await process.watch()
        ended.set()
        with anyio.move_on_after(LAST_WORDS):
            await silent.wait()
        _give_up(fate, heard, f"{_how_it_ended(process.ended)}{last_words(process)}")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(process.drain)
            group.start_soon(_speak, process, said)
            group.start_soon(watch)
            yield Heard(inbox, fate, process.server), outbox
            group.cancel_scope.cancel()
    finally:
        for stream in (heard, inbox, outbox, said):
            stream.close()
        with anyio.CancelScope(shield=True):
            await process.end()
        process.close()


def last_words(process: ServerProcess) -> str:
    """The last lines of standard error, if there are any."""
    hide = Hiding(process.server.secrets)
    lines = hide(process.tail.decode("utf-8", "replace")).split("\n")
    said = " / ".join(" ".join(line.split()) for line in lines[-8:] if line.strip())
    return f" It last wrote: {visible_line(said[-TAIL_SHOWN:], TAIL_SHOWN)}" if said else ""


def _give_up(
    fate: Fate, heard: "MemoryObjectSendStream[SessionMessage | Exception]", reason: str
) -> None:
    fate.seal(reason)
    heard.close()


async def _listen(
    process: ServerProcess, heard: "MemoryObjectSendStream[SessionMessage | Exception]"
) -> None:
    """Pass every message on, and what is wrong with one that cannot be understood. Other lines
    are left out; too much of anything is the end."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    flood = Flood()
    unfinished = bytearray()
    while data := await process.read():
        unfinished += data
        *lines, rest = unfinished.split(b"\n") if b"\n" in data else (unfinished,)
        unfinished = rest
        if len(unfinished) > LONGEST_LINE:
            raise Failure(f"It sent a line of more than {LONGEST_LINE // MIB} MiB.")
        for line in lines:
            flood.add(len(line))
            try:
                message = jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
            except ValueError as error:
                if MARK in line:
                    await heard.send(error)
                continue
            await heard.send(SessionMessage(message))


async def _speak(process: ServerProcess, said: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async for message in said:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await process.write(text.encode() + b"\n")
        except OSError:
            return  # it no longer reads; whoever watches it will see why


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "It was killed."
    code = os.waitstatus_to_exitcode(status)
    return f"It ended with exit code {code}." if code >= 0 else f"Signal {-code} ended it."
