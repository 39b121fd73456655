"""A sign-in in the browser that ends with a visit to a page on this machine.

The page is served while a command waits. The first visit that the sign-in accepts ends the wait;
all others get 404. Without a browser on this machine the user pastes the address of that page.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import ByteStream, Listener, SocketAttribute, SocketStream
from msgspec import Struct, field

from rookery import NAME
from rookery.errors import SettingsError

PATIENCE = 300.0
"""Seconds until a sign-in times out."""
REMINDER = 60.0
"""Seconds between two lines about the time left."""
REQUEST_SECONDS = 10.0
LARGEST = 65_536
"""Bytes that are read of a request or a pasted line."""
LONGEST_CODE = 2048
TIMED_OUT = "The sign-in timed out."


class Callback(Struct, frozen=True):
    """What a visit brought: a code, or the problem that ends the sign-in."""

    code: str = ""
    problem: str = ""


class CallbackReader(Protocol):
    """Both return None for a visit or a text that does not belong to the sign-in."""

    def visited(self, target: str) -> Callback | None:
        """Read the path and query of a visit."""
        ...

    def pasted(self, text: str) -> Callback | None: ...


async def open_listener(port: int = 0) -> Listener[SocketStream]:
    """Listen on this machine only. Raises `SettingsError`."""
    try:
        return await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as error:
        raise SettingsError(f"Cannot listen on localhost for the sign-in: {error}.") from error


def port_of(listener: Listener[SocketStream]) -> int:
    return listener.extra(SocketAttribute.local_port)


async def wait_for_callback(
    listener: Listener[SocketStream],
    page: str,
    reader: CallbackReader,
    tell: Callable[[str], None],
    *,
    typed: int | None,
    patience: float = PATIENCE,
) -> Callback:
    """Show and open the page, and wait until the browser or the user brings the code. `typed` is
    the file that the user types into, if any."""
    tell(f"Open this address to sign in:\n\n  {page}\n")
    waiting = _Receiver(reader, tell)
    with anyio.move_on_after(patience):
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, waiting.answer)
            if typed is not None:
                group.start_soon(waiting.read_pasted, typed)
                group.start_soon(waiting.remind, patience)
            group.start_soon(open_browser, page, os.environ)
            await waiting.ended.wait()
            group.cancel_scope.cancel()
    return waiting.result or Callback(problem=TIMED_OUT)


def target_of(address: str) -> str:
    """Path and query of an address."""
    return address[address.find("/", address.find("://") + 3) :]


def is_code(text: str) -> bool:
    return (
        0 < len(text) <= LONGEST_CODE and text.isascii() and text.isprintable() and " " not in text
    )


class _Receiver(Struct):
    """Waits for the code from the browser or the keyboard. The first one counts."""

    reader: CallbackReader
    tell: Callable[[str], None]
    result: Callback | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)

    async def answer(self, stream: ByteStream) -> None:
        """Answer one request of the browser."""
        with anyio.move_on_after(REQUEST_SECONDS):
            try:
                async with stream:
                    await stream.send(self._response_to(await _target(stream)))
            except (OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                pass

    async def read_pasted(self, typed: int) -> None:
        self.tell(
            "You can open it on another machine. The last page will not load there: copy its\n"
            "address, which begins with http://, and paste it here. Ctrl-C cancels."
        )
        while True:
            await anyio.wait_readable(typed)
            line = os.read(typed, LARGEST)
            if not line:
                self._end(Callback(problem="The sign-in was cancelled."))
                return
            text = line.decode(errors="replace").strip()
            if found := self.reader.pasted(text):
                self._end(found)
            elif text:
                self.tell("That is not the address of this sign-in. Paste the whole address.")

    async def remind(self, patience: float) -> None:
        while patience > REMINDER:
            await anyio.sleep(REMINDER)
            patience -= REMINDER
            self.tell(f"Waiting for the sign-in: {patience:.0f} seconds left.")

    def _response_to(self, target: str) -> bytes:
        found = None if self.ended.is_set() else self.reader.visited(target)
        if found is None:
            return _response("404 Not Found", "Not found.")
        self._end(found)
        if found.problem:
            return _response("200 OK", f"Not signed in. Go back to {NAME}.")
        return _response("200 OK", f"Signed in. Go back to {NAME}; you can close this page.")

    def _end(self, result: Callback) -> None:
        if not self.ended.is_set():
            self.result = result
            self.ended.set()


async def _target(stream: ByteStream) -> str:
    """Path and query of a GET request; empty for anything else."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < LARGEST:
        read += await stream.receive()
    method, _, rest = read.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return rest.rpartition(" ")[0] if method == "GET" else ""


def _response(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


async def open_browser(address: str, environ: Mapping[str, str]) -> None:
    """Open the address if there is a graphical browser here. One in the terminal would take it
    over, and one at the other end of SSH would be slow."""
    graphical = sys.platform == "darwin" or environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    if graphical and not environ.get("SSH_CONNECTION"):
        import webbrowser

        await anyio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)
